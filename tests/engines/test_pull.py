# SPDX-License-Identifier: Apache-2.0
"""Images from a real registry that wants a password, by each engine: policy, logins, helpers, digests, progress."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import CELL
from engines import root_archive

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lib"))
from registries import Image, Registry, digest  # noqa: E402

# containerd has tests of its own: it speaks another API
pytestmark = pytest.mark.parametrize("engine", ["docker", "podman"], indirect=True)


@pytest.fixture(scope="module")
def registry(engine):
    with Registry(engine.registry_port) as made:
        yield made


def image_of(more=2, size=1 << 20, config=None):
    return Image(base=root_archive(), more=more, size=size, config=config)


@pytest.fixture
def image(registry, engine):
    """One that the engine has not got, and its name."""
    made = image_of()
    made.name = registry.push(made, f"team/i{os.urandom(4).hex()}")
    yield made
    engine.ask("DELETE", f"/v1.41/images/{made.name}?force=1")


def log_in(cell, registry, entry=None, **more):
    path = cell.dir / "home" / ".docker"
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps({"auths": {registry.host: {"auth": registry.login} if entry is None else entry}} | more))


def test_without_a_login_it_is_denied_and_told(cell, registry, image):
    err = cell.fails("--", "true", image=image.name)
    assert f"pull image '{image.name}'" in err and "log in" in err, err
    log_in(cell, registry, {"auth": "YW5uOndyb25n"})  # ann:wrong
    err = cell.fails("--", "true", image=image.name)
    assert "log in" in err and "wrong" not in err, err
    r = cell.run("--json", "--", "true", image=image.name)
    assert json.loads(r.out)["error"]["code"] == "denied", r.out


def test_the_login_of_docker_s_configuration_is_used(cell, registry, image):
    log_in(cell, registry)
    r = cell.run("--", "sh", "-c", "echo $FROM_IMAGE; ls /random-1", image=image.name)
    assert (r.code, r.out) == (0, "yes\n/random-1\n"), r.err


@pytest.mark.parametrize("key", ["credHelpers", "credsStore"])
def test_a_helper_is_asked(cell, registry, image, key):
    helper = cell.dir / "docker-credential-celltest"
    helper.write_text(f'#!/bin/sh\n[ "$1" = get ] && [ "$(cat)" = {registry.host} ] || exit 1\n'
        f'printf \'{{"Username":"{registry.user}","Secret":"{registry.password}"}}\'\n')
    helper.chmod(0o755)
    cell.env["PATH"] += f":{cell.dir}"
    log_in(cell, registry, {}, **{key: {registry.host: "celltest"} if key == "credHelpers" else "celltest"})
    r = cell.run("--", "echo", "pulled", image=image.name)
    assert (r.code, r.out) == (0, "pulled\n"), r.err


def test_a_helper_that_is_not_there_is_told(cell, registry, image):
    log_in(cell, registry, {}, credHelpers={registry.host: "not-there"})
    err = cell.fails("--", "true", image=image.name)
    assert "docker-credential-not-there" in err and "log in" in err


def test_podman_s_own_login_file(cell, registry, image):
    if cell.backend != "podman":
        pytest.skip("Podman's alone")
    path = cell.dir / "auth.json"
    path.write_text(json.dumps({"auths": {registry.host: {"auth": registry.login}}}))
    r = cell.run("--", "echo", "pulled", image=image.name, env={"REGISTRY_AUTH_FILE": str(path)})
    assert (r.code, r.out) == (0, "pulled\n"), r.err


def test_the_policy_decides_when_it_is_fetched(cell, registry, engine):
    log_in(cell, registry)
    first, second = (image_of(1, 10, {"Env": [f"N={n}"]}) for n in ("first", "second"))
    name = registry.push(first, "team/policy")
    assert "has no image" in cell.fails("--pull", "never", "--", "true", image=name)

    def run(when):
        r = cell.run("--pull", when, "--", "sh", "-c", "echo $N", image=name)
        assert r.code == 0, r.err
        return r.out

    assert run("missing") == "first\n"
    registry.push(second, "team/policy")
    assert run("missing") == "first\n" and run("never") == "first\n"
    assert run("always") == "second\n"
    assert run("missing") == "second\n"
    engine.ask("DELETE", f"/v1.41/images/{name}?force=1")


def test_by_digest_and_the_digest_is_in_the_record(cell, registry, image):
    log_in(cell, registry)
    exact = image.name.rpartition(":")[0] + "@" + digest(image.manifest)
    cell.ok("create", "exact", "--backend", cell.backend, "--image", exact)
    told = json.loads(cell.ok("inspect", "exact", "--json"))
    assert told["image_digest"] == exact, told
    assert re.fullmatch("sha256:[0-9a-f]{64}", told["image"])
    cell.ok("rm", "exact")
    wrong = image.name.rpartition(":")[0] + "@sha256:" + "1" * 64
    r = cell.run("--json", "--", "true", image=wrong)
    error = json.loads(r.out)["error"]
    assert error["code"] == "not_found" and "1" * 64 in error["message"], error


def test_a_tag_and_a_repository_that_are_not_there(cell, registry, image):
    log_in(cell, registry)
    for name in (image.name.rpartition(":")[0] + ":9.9", f"{registry.host}/team/nobody:1"):
        r = cell.run("--json", "--", "true", image=name)
        error = json.loads(r.out)["error"]
        assert error["code"] == "not_found" and name in error["message"] and error["hint"], error


def test_what_is_fetched_is_told_with_verbose(cell, registry, image):
    log_in(cell, registry)
    r = cell.run("--verbose", "--", "true", image=image.name)
    assert r.code == 0, r.err
    lines = [line for line in r.err.splitlines() if f"pull {image.name}" in line]
    assert len(lines) >= 3, r.err
    counts = [re.search(r"\((.*), (\d+) of (\d+) layers\)", line).groups() for line in lines]
    if cell.backend == "docker":
        assert counts[-1][1:] == ("3", "3"), lines
    assert "pull" not in cell.run("--", "true", image=image.name).err


def test_a_terminal_shows_how_far_it_is(cell, registry, engine):
    log_in(cell, registry)
    big = image_of(3, 24 << 20)
    name = registry.push(big, "team/big")
    ours, theirs = pty.openpty()
    child = subprocess.Popen([CELL, "run", "--backend", cell.backend, "--image", name, "--", "true"], env=cell.env | {"TERM": "xterm"},
        cwd=cell.workspace, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown, end = b"", time.monotonic() + 120
    while time.monotonic() < end:
        if select.select([ours], [], [], 1)[0]:
            try:
                shown += os.read(ours, 4096)
            except OSError:
                break
        elif child.poll() is not None:
            break
    os.close(ours)
    assert child.wait() == 0, shown
    assert b"layers of" in shown and b"/s" in shown, shown
    assert shown.rstrip().endswith(b"\x1b[K"), shown  # wiped
    engine.ask("DELETE", f"/v1.41/images/{name}?force=1")


def test_a_registry_that_is_away_is_told(cell):
    r = cell.run("--json", "--", "true", image="127.0.0.1:9/nobody:1")
    error = json.loads(r.out)["error"]
    assert error["code"] == "backend" and "127.0.0.1:9" in error["message"] and error["hint"], error
