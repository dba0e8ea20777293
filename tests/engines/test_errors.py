# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with an engine, done to a real one: stopped, full, without the image, and back again."""

import json
import os
import subprocess

import pytest
from conftest import Cell, started, wait_for
from engines import KINDS


@pytest.fixture(params=["docker", "podman"])
def own(request):
    """An engine to be ill-treated, on a disk of 48 MiB."""

    def give_disk(made):
        (made.dir / "data").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "none", made.dir / "data"], check=True)

    with started(KINDS[request.param], before=give_disk) as made:
        yield made


def error_of(cell, *args):
    r = cell(*args)
    assert r.code != 0, (r.out, r.err)
    error = json.loads(r.out)["error"]
    assert error["message"] and error["hint"], error
    return error


def test_a_stopped_engine_is_told_and_comes_back(own):
    cell = Cell(own.backend, own.env)
    run = ("run", "--backend", own.backend, "--image", "cell-test", "--json", "--", "echo", "hi")
    assert json.loads(cell.ok(*run))["stdout"] == "hi\n"
    cell.ok("create", "named", "--backend", own.backend, "--image", "cell-test")
    own.kill()
    error = error_of(cell, *run)
    assert error["code"] in ("backend", "not_supported") and "no" in error["message"] and "engine answers" in error["message"], error
    assert "start" in error["hint"], error
    # it is not the default any more, and says why
    told = next(b for b in json.loads(cell.ok("backends", "--json"))["backends"] if b["name"] == own.backend)
    assert not told["usable"] and "engine answers" in told["reason"], told
    for verb in (("pause", "named"), ("snapshot", "save", "named", "x"), ("rm", "named")):
        error = error_of(cell, *verb, "--json")
        assert "engine answers" in error["message"], error
    own.start()
    cell("rm", "named")
    cell.ok("prune")
    assert json.loads(cell.ok(*run))["stdout"] == "hi\n"
    assert not cell.remove()
    wait_for(lambda: not own.containers(), "no container is left")


def fill(path):
    with open(path / "fill", "wb", buffering=0) as f:
        try:
            while True:
                f.write(bytes(1 << 16))
        except OSError:
            pass
    with open(path / "fill-more", "wb", buffering=0) as f:  # the last pages
        try:
            while True:
                f.write(bytes(512))
        except OSError:
            pass


def test_holes_that_would_fill_the_engine_s_disk_are_not_begun(own):
    """Saved, they would be zeros: the engine would write until its disk is full, which others need."""
    cell = Cell(own.backend, own.env)
    cell.ok("create", "named", "--backend", own.backend, "--image", "cell-test", "-u", "0:0")
    cell.ok("exec", "named", "--", "dd", "if=/dev/null", "of=/etc/sparse", "bs=1M", "seek=400", "count=0")
    error = error_of(cell, "snapshot", "save", "named", "x", "--json")
    assert error["code"] == "no_space" and "400 MiB" in error["message"], error
    assert json.loads(cell.ok("snapshot", "ls", "--json"))["snapshots"] == []
    cell.ok("rm", "named")
    assert not cell.remove()


def test_a_full_disk_is_told_and_nothing_is_left(own):
    cell = Cell(own.backend, own.env)
    run = ("run", "--backend", own.backend, "--image", "cell-test", "--json", "--", "echo", "hi")
    cell.ok("create", "named", "--backend", own.backend, "--image", "cell-test", "-u", "0:0")
    before = own.containers()
    fill(own.dir / "data")
    error = error_of(cell, *run)
    assert error["code"] == "no_space" and "space" in error["hint"], error
    error = error_of(cell, "snapshot", "save", "named", "x", "--json")
    assert error["code"] == "no_space", error
    assert json.loads(cell.ok("snapshot", "ls", "--json"))["snapshots"] == []
    assert os.listdir(cell.dir / "state" / "snapshots") == []
    for name in ("fill", "fill-more"):
        (own.dir / "data" / name).unlink()
    wait_for(lambda: own.containers() == before, "what was begun is gone")
    assert json.loads(cell.ok(*run))["stdout"] == "hi\n"
    cell.ok("rm", "named")
    cell.ok("prune")
    assert not cell.remove()
