# SPDX-License-Identifier: Apache-2.0
"""Snapshots of a server's tenants: whose they are, how many and how large they may be, and what is left when something goes wrong."""

import json
import os
import signal
import subprocess
import threading

import pytest
from conftest import CELL, wait_for
from engines import UnixConnection

pytestmark = pytest.mark.parametrize("engine", ["docker", "podman"], indirect=True)

CONFIG = """
server:
  quotas: {snapshots: 2}
  tenants: {small: {snapshots: 10, storage: 8m}}
"""


class Tenant:
    def __init__(self, server, name, role="user"):
        self.server = server
        made = server.cell.ok("token", "create", "--tenant", name, "--role", role, "--json")
        self.token = json.loads(made)["token"]

    def __call__(self, method, path, body=None):
        connection = UnixConnection(self.server.socket)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), {"Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None
        finally:
            connection.close()

    def session(self, **spec):
        status, s = self("POST", "/v1/sessions", {"backend": self.server.cell.backend, "image": "cell-test", **spec} if "from" not in spec else spec)
        assert status == 201, s
        return s["id"]

    def run(self, session, command):
        status, r = self("POST", f"/v1/sessions/{session}/exec", {"command": command})
        assert status == 200 and r["exit_code"] == 0, r
        return r["stdout"]

    def save(self, session, name):
        return self("POST", f"/v1/sessions/{session}/snapshots", {"name": name})

    def names(self):
        status, all_ = self("GET", "/v1/snapshots")
        assert status == 200, all_
        return [s["name"] for s in all_["snapshots"]]

    def end(self, *sessions):
        for s in sessions:
            assert self("DELETE", f"/v1/sessions/{s}")[0] == 204


class Server:
    def __init__(self, cell):
        self.cell, self.socket, self.config = cell, cell.dir / "s", cell.dir / "cell.yaml"
        self.config.write_text(CONFIG)
        self.process = None
        self.admin = Tenant(self, "default", "admin")
        self.start()

    def start(self):
        with open(self.cell.dir / "log", "ab") as log:
            self.process = subprocess.Popen([CELL, "--config", self.config, "serve", "--listen", f"unix:{self.socket}"], env=self.cell.env,
                cwd=self.cell.dir, stdout=log, stderr=log)

        def answers():
            assert self.process.poll() is None, (self.cell.dir / "log").read_text()
            try:
                return self.admin("GET", "/v1/sessions")[0] == 200
            except OSError:
                return False

        wait_for(answers, "the server answers")

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None

    def left(self):
        """Names of directories of snapshots, half ones too."""
        path = self.cell.dir / "state" / "snapshots"
        return sorted(os.listdir(path)) if path.exists() else []


@pytest.fixture
def server(cell, engine):
    s = Server(cell)
    yield s
    if not s.process:
        s.start()
    for session in s.admin("GET", "/v1/sessions?limit=1000")[1]["sessions"]:
        s.admin("DELETE", f"/v1/sessions/{session['id']}")
    s.process.send_signal(signal.SIGTERM)
    assert s.process.wait(60) == 0
    for path in s.left():
        cell.ok("snapshot", "rm", path.replace("~", "/"))
    wait_for(lambda: cell("prune").code == 0 and engine.snapshot_images() == [], "no image is left")


def test_a_tenant_s_snapshots_are_its_own(server, engine):
    acme, other = Tenant(server, "acme"), Tenant(server, "other")
    mine, theirs = acme.session(), other.session()
    acme.run(mine, "echo secret > f")
    assert acme.save(mine, "x")[0] == 201
    assert (acme.names(), other.names()) == (["x"], [])
    # nobody saves, begins with or removes what is not theirs; a name of one's own is another snapshot
    status, answer = other.save(mine, "stolen")
    assert status == 404, answer
    for name, want in (("x", 404), ("acme/x", 400), ("acme~x", 400), ("../snapshots/acme~x", 400)):
        status, answer = other("POST", "/v1/sessions", {"from": name})
        assert status == want and "secret" not in json.dumps(answer), answer
        assert other("DELETE", "/v1/snapshots/" + name.replace("/", "%2F"))[0] == want
        assert want == 404 or other.save(theirs, name)[0] == 400
    assert other.save(theirs, "x")[0] == 201
    again = other.session(**{"from": "x"})
    assert other.run(again, "ls") == ""
    other.end(theirs, again)
    assert other("DELETE", "/v1/snapshots/x")[0] == 204
    assert acme.names() == ["x"]
    again = acme.session(**{"from": "x"})
    assert acme.run(again, "cat f") == "secret\n"
    # what an admin saves belongs to whose the session is
    assert server.admin.save(mine, "for-them")[0] == 201
    assert acme.names() == ["for-them", "x"] and server.admin.names() == []
    acme.end(mine, again)


def test_a_name_is_taken_once(server, engine):
    acme = Tenant(server, "acme")
    s = acme.session()
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(acme.save(s, "x"))) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(status for status, _ in answers) == [201, 409], answers
    status, answer = acme.save(s, "x")
    assert status == 409 and answer["code"] == "exists" and "remove it" in answer["hint"]
    assert server.left() == ["acme~x"] and len(engine.snapshot_images()) == 1
    # what did not become one counts for nothing
    assert acme.save(s, "y")[0] == 201
    acme.end(s)


def test_their_number_has_a_quota(server, engine):
    acme, other = Tenant(server, "acme"), Tenant(server, "other")
    s, t = acme.session(), other.session()
    answers = []
    threads = [threading.Thread(target=lambda i=i: answers.append(acme.save(s, f"x{i}"))) for i in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(status for status, _ in answers) == [201, 201, 429, 429, 429], answers
    error = next(a for status, a in answers if status == 429)
    assert error["code"] == "limit" and "2 of 'snapshots'" in error["message"] and "remove a snapshot" in error["hint"]
    assert other.save(t, "theirs")[0] == 201  # another's is another's
    # counted again after a crash, and when one is gone, by whatever way
    server.kill()
    server.start()
    wait_for(lambda: acme("GET", f"/v1/sessions/{s}")[1]["state"] == "ready", "the session is there again")
    assert acme.save(s, "more")[0] == 429
    first, second = acme.names()
    assert acme("DELETE", f"/v1/snapshots/{first}")[0] == 204
    assert acme.save(s, "more")[0] == 201
    assert acme.save(s, "even-more")[0] == 429
    server.cell.ok("snapshot", "rm", f"acme/{second}")
    assert acme.save(s, "even-more")[0] == 201
    assert len(server.left()) == 3 == len(engine.snapshot_images())
    acme.end(s)
    other.end(t)


def test_what_they_take_counts_as_storage(server, engine):
    small = Tenant(server, "small")
    s = small.session()
    small.run(s, "dd if=/dev/urandom of=a bs=1M count=5")
    assert small.save(s, "five")[0] == 201
    (saved,) = small("GET", "/v1/snapshots")[1]["snapshots"]
    assert 5 << 20 <= saved["size_bytes"] < 6 << 20
    status, answer = small.save(s, "ten")
    assert status == 429 and answer["code"] == "limit" and "left for it" in answer["message"], answer
    assert server.left() == ["small~five"] and len(engine.snapshot_images()) == 1
    # zeros take nothing
    small.run(s, "rm a; dd if=/dev/null of=z bs=1M seek=100 count=0")
    assert small.save(s, "zeros")[0] == 201
    assert small("DELETE", "/v1/snapshots/five")[0] == 204
    small.run(s, "dd if=/dev/urandom of=a bs=1M count=5")
    assert small.save(s, "again")[0] == 201
    small.end(s)


@pytest.mark.parametrize("phase", ["snapshot", "parts"])
def test_a_server_killed_while_it_saves_leaves_nothing_half(server, engine, cell, phase):
    acme = Tenant(server, "acme")
    s = acme.session()
    acme.run(s, "dd if=/dev/urandom of=noise bs=1M count=1; dd if=/dev/null of=long bs=1M seek=20480 count=0")
    state = cell.dir / "state" / "snapshots"

    def is_at_it():
        half = list(state.glob(".new-*")) if state.exists() else []
        return half and (phase == "snapshot" or (half[0] / "workspace.tar").exists())

    def save():
        try:
            acme.save(s, "x")
        except OSError:
            pass  # it is killed

    thread = threading.Thread(target=save)
    thread.start()
    wait_for(is_at_it, "it is being saved")
    server.kill()
    thread.join()
    assert any(name.startswith(".new-") for name in server.left())
    server.start()
    wait_for(lambda: server.left() == [], "the next server has removed it")
    wait_for(lambda: acme("GET", f"/v1/sessions/{s}")[1]["state"] == "ready", "the session is there again")
    assert acme.names() == []
    # and it holds no place
    acme.run(s, "rm long")
    assert acme.save(s, "x")[0] == 201 and acme.save(s, "y")[0] == 201
    assert len(server.left()) == 2
    acme.end(s)
