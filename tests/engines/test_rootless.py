# SPDX-License-Identifier: Apache-2.0
"""Podman of an ordinary user: the command is run as that user, and nobody is root."""

import json
import os

import pytest
from conftest import started
from engines import RootlessPodman


@pytest.fixture(scope="module")
def engine():
    with started(RootlessPodman) as made:
        yield made


def test_it_is_an_ordinary_user_s(cell, engine):
    told = next(b for b in json.loads(cell("doctor", "--json").out)["backends"] if b["name"] == "podman")
    assert told["usable"], told
    assert any(w["name"] == "ids" and "ordinary user" in w["how"] for w in told["walls"]), told
    assert os.stat(engine.socket).st_uid == engine.uid


def test_a_command_runs_as_somebody_who_is_nobody_outside(cell, engine):
    cell.ok("create", "who", "--backend", "podman", "--image", "cell-test")
    assert cell.ok("exec", "who", "--", "id", "-u") == "65532\n"
    pid = json.loads(cell.ok("inspect", "who", "--json"))["guest_pid"]
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        outside = int(next(line for line in f if line.startswith("Uid:")).split()[1])
    assert 300000 <= outside < 300000 + 65536
    cell.ok("rm", "who")


def test_files_of_the_workspace_are_the_user_s(cell, engine):
    (cell.workspace / "in").write_text("42\n")
    r = cell.run("-w", cell.workspace, "--", "sh", "-c", "cat in; echo made > out; id -u")
    assert (r.code, r.out) == (0, "42\n0\n"), r.err
    assert (cell.workspace / "out").stat().st_uid == engine.uid
    other = cell.dir / "other"
    other.mkdir()  # root's
    err = cell.fails("-w", other, "--", "true")
    assert "not yours" in err and "of your own" in err


def test_root_in_the_cell_cannot_read_root_s_files(cell):
    secret = cell.dir / "secret"
    secret.write_text("root's\n")
    secret.chmod(0o600)
    os.chown(secret, 0, 0)
    (cell.dir / "open").write_text("everybody's\n")
    r = cell.run("-u", "0:0", "-v", f"{cell.dir}:/d:ro", "--", "sh", "-c", "cat /d/open; cat /d/secret || echo denied")
    assert r.out == "everybody's\ndenied\n", r.err


def test_what_needs_cgroups_is_told(cell):
    told = next(b for b in json.loads(cell.ok("backends", "--json"))["backends"] if b["name"] == "podman")
    if "limits.memory" in told["capabilities"]:
        pytest.skip("cgroup v2 is delegated here: limits hold")
    err = cell.fails("--memory", "64m", "--", "true")
    assert "limits.memory" in err and "cgroup v2" in err
    r = cell.run("--memory", "64m", "--limits", "best-effort", "--", "echo", "all the same")
    assert r.out == "all the same\n" and "limits.memory is not enforced" in r.err


def test_a_snapshot_of_it(cell):
    cell.ok("create", "one", "--backend", "podman", "--image", "cell-test")
    cell.ok("exec", "one", "--", "sh", "-c", "echo ws > w; echo home > $HOME/h")
    cell.ok("snapshot", "save", "one", "saved")
    assert cell("run", "--from", "saved", "--", "sh", "-c", "cat w $HOME/h").out == "ws\nhome\n"
    cell.ok("rm", "one")
    cell.ok("snapshot", "rm", "saved")


def test_pausing_is_told_where_it_cannot_be(cell):
    cell.ok("create", "one", "--backend", "podman", "--image", "cell-test")
    r = cell("pause", "one", "--json")
    if r.code == 0:
        cell.ok("resume", "one")
    else:
        error = json.loads(r.out)["error"]
        assert error["code"] == "not_supported" and "pause" in error["message"], error
    assert cell.ok("exec", "one", "--", "echo", "alive") == "alive\n"
    cell.ok("rm", "one")
