# SPDX-License-Identifier: Apache-2.0
"""Many sessions, many streams, many requests. Run when named: `make test SUITES=load`. LOAD_SESSIONS (1000), LOAD_REQUESTS (100000).

Times are printed, not judged: `make bench PARTS=serve` judges. Runs the plain build: a sanitizer's memory says nothing.
"""

import concurrent.futures
import http.client
import json
import os
import resource
import selectors
import socket
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "chaos"))
os.environ["CELL_BIN"] = os.environ.get("CELL_BIN_PLAIN", os.environ.get("CELL_BIN", str(Path(__file__).resolve().parents[2] / "build" / "cell")))
from harness import Server  # noqa: E402

SESSIONS = int(os.environ.get("LOAD_SESSIONS", "1000"))
REQUESTS = int(os.environ.get("LOAD_REQUESTS", "100000"))
STREAMS_EACH = 2
THREADS = 8


@pytest.fixture
def server(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    s = Server(tmp_path / "server")
    s.start()
    yield s
    s.clean_up()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def resident_kib(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError(pid)


def spread(server, n, fn):
    """fn(client, number) for all numbers, on a few threads with a client each."""
    def some(first):
        client = server.client()
        return [fn(client, i) for i in range(first, n, THREADS)]

    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        return [x for part in pool.map(some, range(THREADS)) for x in part]


def timed(what, fn):
    start = time.monotonic()
    r = fn()
    print(f"{what}: {time.monotonic() - start:.2f} s", flush=True)
    return r


def create(client, _):
    a = client.post("/v1/sessions", {"idle_timeout": 0})
    assert a.status == 201, a
    return a.json["id"]


def delete_all(server):
    ids = [s["id"] for s in server.client().get("/v1/sessions", limit=1000).json["sessions"]]
    spread(server, len(ids), lambda c, i: c.delete(f"/v1/sessions/{ids[i]}"))


class Follower:
    """One stream over a socket of its own; numbers are checked as they come."""

    def __init__(self, server, session, exec_id, head):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(server.socket)
        lines = "".join(f"{k}: {v}\r\n" for k, v in head.items())
        self.sock.sendall(f"GET /v1/sessions/{session}/execs/{exec_id}/output HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode())
        self.sock.setblocking(False)
        self.rest, self.text, self.end = b"", "", None

    def read(self):
        """False: it is over."""
        try:
            data = self.sock.recv(65536)
        except BlockingIOError:
            return True
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"{"):  # chunk heads are not
                e = json.loads(line)
                if e["type"] == "stdout":
                    assert e["offset"] == len(self.text), e
                    self.text += e["data"]
                elif e["type"] == "exit":
                    self.end = e
        return bool(data) and self.end is None


def test_many_sessions_with_streams(server):
    n, numbers = SESSIONS, 10
    ids = timed(f"{n} sessions made", lambda: spread(server, n, create))
    print(f"server: {resident_kib(server.process.pid)} KiB", flush=True)
    command = f"sleep 10; i=0; while [ $i -lt {numbers} ]; do echo $i; i=$((i+1)); sleep 2; done"

    def begin(client, i):
        a = client.post(f"/v1/sessions/{ids[i]}/exec", {"command": command, "background": True})
        assert a.status == 202, a
        return i, a.json["id"]

    execs = timed("a command in each started", lambda: spread(server, n, begin))
    head = server.client().headers({"Accept": "application/x-ndjson"})
    sel, followers = selectors.DefaultSelector(), []

    def attach():
        for i, x in execs * STREAMS_EACH:
            f = Follower(server, ids[i], x, head)
            followers.append(f)
            sel.register(f.sock, selectors.EVENT_READ, f)

    timed(f"{n * STREAMS_EACH} streams attached", attach)
    cheap = server.client()
    slowest, end = 0.0, time.monotonic() + 600
    left = len(followers)
    while left:
        assert time.monotonic() < end, f"{left} streams have not ended"
        for key, _ in sel.select(1):
            if not key.data.read():
                sel.unregister(key.data.sock)
                key.data.sock.close()
                left -= 1
        start = time.monotonic()
        assert cheap.get(f"/v1/sessions/{ids[0]}").status == 200
        slowest = max(slowest, time.monotonic() - start)
    print(f"server: {resident_kib(server.process.pid)} KiB; the slowest of the cheap calls meanwhile: {slowest * 1000:.0f} ms", flush=True)
    want = "".join(f"{i}\n" for i in range(numbers))
    assert all(f.text == want and f.end["exit_code"] == 0 for f in followers)
    server.kill()
    timed(f"{n} cells taken over by the next server", server.start)
    states = {}
    for s in server.client().get("/v1/sessions", limit=1000).json["sessions"]:
        states[s["state"]] = states.get(s["state"], 0) + 1
    assert states == {"ready": min(n, 1000)}
    timed("all deleted", lambda: delete_all(server))


def test_memory_is_flat_over_many_requests(server):
    s = server.client().session()

    def ask(client, i):
        if i % 50 == 0:
            a = client.post(f"{s.path}/exec", {"argv": ["true"]})
        elif i % 10 == 0:
            a = client.call("PUT", f"{s.path}/files", b"x" * 1000, path=f"f{i % 7}")
        elif i % 10 == 1:
            a = client.get("/v1/sessions", limit=5)
        elif i % 10 == 2:
            a = client.get(f"/v1/sessions/none{i}")
            assert a.status == 404
            return
        else:
            a = client.get(s.path)
        assert a.status // 100 == 2, a

    spread(server, REQUESTS // 10, ask)
    before = resident_kib(server.process.pid)
    timed(f"{REQUESTS} requests", lambda: spread(server, REQUESTS, ask))
    after = resident_kib(server.process.pid)
    print(f"server: {before} KiB before, {after} KiB after", flush=True)
    assert after < before + 4096, (before, after)


def test_connections_that_come_and_go_leave_nothing(server):
    pid = server.process.pid
    fds = len(os.listdir(f"/proc/{pid}/fd"))
    for _ in range(20):
        many = [server.connect() for _ in range(200)]
        for c in many:
            c.request("GET", "/healthz")
        for c in many[::2]:
            c.close()
        for c in many[1::2]:
            try:
                assert c.getresponse().status == 200
            except http.client.HTTPException as e:
                raise AssertionError(e) from e
            c.close()
    end = time.monotonic() + 20
    while len(os.listdir(f"/proc/{pid}/fd")) > fds + 4:
        assert time.monotonic() < end
        time.sleep(0.1)
