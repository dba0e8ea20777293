# SPDX-License-Identifier: Apache-2.0
"""A full disk: errors that say so, nothing lost, and it goes on when there is room again. The state directory is a small tmpfs."""

import contextlib
import os
import subprocess
import time

import pytest
from harness import Server
from world import World

SIZE = 12 << 20


@pytest.fixture
def small(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    state = tmp_path / "server" / "state"
    state.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0700", "tmpfs", state], check=True)
    s = Server(tmp_path / "server")
    s.start()
    yield s
    (s.state / "filler").unlink(missing_ok=True)
    try:
        s.clean_up()
    finally:
        if s.process:
            s.kill()
        for p in (s.state / "cells").glob("*"):
            s.cell("rm", "-f", p.name, check=False)
        subprocess.run(["umount", "-l", state], check=True)


def fill(server):
    """Every byte of it."""
    with (server.state / "filler").open("ab", buffering=0) as f:
        for size in (65536, 4096, 512, 1):
            with contextlib.suppress(OSError):
                while True:
                    f.write(b"x" * size)


def make_room(server):
    (server.state / "filler").unlink()


def numbers(events):
    return [int(n) for n in "".join(e["data"] for e in events if e["type"] == "stdout").split()]


def test_a_full_disk_holds_commands_back_and_loses_nothing(small):
    s = small.client().session()
    exec_id = s.background("sleep 0.5; i=0; while [ $i -lt 60000 ]; do echo $i; i=$((i+1)); done; echo 60000")
    fill(small)
    time.sleep(1)
    assert "spool.failed" in small.log()  # it did come to that
    # whatever needs to be written down is refused, and the answer says why
    a = s.client.post("/v1/sessions", {})
    assert a.status in (507, 500, 503), a
    assert a.json["message"], a
    # what needs no disk works
    assert s.get().status == 200
    make_room(small)
    events = list(s.follow(exec_id))
    assert numbers(events) == list(range(60001))
    assert events[-1]["exit_code"] == 0
    assert s.run("echo again")["stdout"] == "again\n"
    small.cell("audit", "verify")


def test_a_server_killed_with_a_full_disk_comes_back(small):
    s = small.client().session()
    s.put("kept", b"kept")
    exec_id = s.background("sleep 0.3; i=0; while [ $i -lt 30000 ]; do echo $i; i=$((i+1)); done")
    fill(small)
    time.sleep(0.5)
    small.kill()
    make_room(small)
    small.start()
    s.client.connection = None
    events = list(s.follow(exec_id))
    assert numbers(events) == list(range(30000))
    assert s.read("kept").body == b"kept"
    small.cell("audit", "verify")
    rows = World.rows(type("W", (), {"server": small}))
    assert rows[s.id][0] == "ready"
