# SPDX-License-Identifier: Apache-2.0
"""The audit log after kills, and after somebody changed one byte of it."""

import json
import subprocess

import pytest
from harness import CELL, Server


def verify(server):
    return subprocess.run([CELL, "--config", server.config, "audit", "verify"], env=server.env, capture_output=True, text=True, check=False)


@pytest.fixture
def server(tmp_path):
    s = Server(tmp_path / "server")
    s.start()
    yield s
    s.clean_up()


def test_one_changed_byte_is_found_and_its_record_named(server):
    s = server.client().session()
    for i in range(5):
        assert s.run(f"echo {i}")["exit_code"] == 0
        server.restart()
        s.client.connection = None
    s.end()
    server.stop()
    r = verify(server)
    assert r.returncode == 0, r
    log = sorted((server.state / "server" / "audit").glob("audit-*.jsonl"))[0]
    lines = log.read_bytes().splitlines(keepends=True)
    for at in (0, len(lines) // 2, len(lines) - 1):
        seq = json.loads(lines[at])["seq"]
        changed = bytearray(lines[at])
        where = changed.index(b"action") + 12
        changed[where] ^= 1
        log.write_bytes(b"".join([*lines[:at], bytes(changed), *lines[at + 1:]]))
        r = verify(server)
        assert r.returncode != 0, r
        assert str(seq) in r.stdout + r.stderr, (seq, r)
    log.write_bytes(b"".join(lines))
    assert verify(server).returncode == 0


def test_every_command_is_on_record_with_its_result(server):
    """Also those that ended while no server was there, or in the moment it died."""
    s = server.client().session()
    ids = []
    for i in range(12):
        ids.append(s.background(f"sleep 0.0{i % 7}; echo {i}"))
        if i % 3 == 2:
            server.restart()
            s.client.connection = None
    for i in ids:
        list(s.follow(i))
    server.stop()
    found = {i: [] for i in ids}
    for log in (server.state / "server" / "audit").glob("audit-*.jsonl"):
        for line in log.read_text().splitlines():
            r = json.loads(line)
            if r.get("exec") in found and r["action"] == "exec.start":
                found[r["exec"]].append(r["kind"])
    assert all(sorted(kinds) == ["intent", "result"] for kinds in found.values()), found
