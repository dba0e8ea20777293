# SPDX-License-Identifier: Apache-2.0
"""What the API tests share: a live server for each test (or module) with a state directory of its own, and a client that speaks plain
HTTP. CELL_BIN names the program (default build/cell). When a test is over, everything it made is ended, and what is left fails it.
"""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

TOP = Path(__file__).resolve().parent.parent.parent
CELL = Path(os.environ.get("CELL_BIN", TOP / "build" / "cell")).resolve()
PATIENCE_S = 30


class Answer:
    """An answer read whole."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def lines(self):
        return [json.loads(line) for line in self.body.splitlines() if line]

    def __repr__(self):
        return f"{self.status} {dict(self.headers)} {self.body[:2000]!r}"


class Client:
    """Requests with one token over connections of its own; a connection is kept as HTTP allows."""

    def __init__(self, server, token):
        self.server, self.token = server, token
        self.connection = None

    def headers(self, more=None):
        head = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return {**head, **(more or {})}

    def connect(self):
        return self.server.connect()

    @staticmethod
    def target(path, query):
        return path + ("?" + urlencode(query, quote_via=quote) if query else "")

    def call(self, method, path, /, body=None, headers=None, **query):
        head = self.headers(headers)
        if body is not None and not isinstance(body, (bytes, str)) and not hasattr(body, "read"):
            body = json.dumps(body)
            head.setdefault("Content-Type", "application/json")
        for attempt in (1, 2):
            if self.connection is None:
                self.connection = self.connect()
            try:
                self.connection.request(method, self.target(path, query), body, head)
                r = self.connection.getresponse()
                return Answer(r.status, r.headers, r.read())
            except (http.client.HTTPException, OSError):
                self.connection.close()
                self.connection = None
                if attempt == 2:
                    raise
        return None

    def get(self, path, /, **query):
        return self.call("GET", path, **query)

    def post(self, path, /, body=None, headers=None, **query):
        return self.call("POST", path, {} if body is None else body, headers, **query)

    def delete(self, path, /, **query):
        return self.call("DELETE", path, **query)

    def stream(self, method, path, /, body=None, accept="application/x-ndjson", headers=None, **query):
        """The lines of a streamed answer as they come; the connection is its own."""
        connection = self.connect()
        head = self.headers({"Accept": accept, **(headers or {})})
        if body is not None:
            body = json.dumps(body)
        connection.request(method, self.target(path, query), body, head)
        r = connection.getresponse()
        assert r.status == 200, (r.status, r.read())
        return Stream(connection, r)

    # what most tests do

    def session(self, **spec):
        a = self.post("/v1/sessions", spec)
        assert a.status == 201, a
        return Session(self, a.json)

    def run(self, session, command, **more):
        a = self.post(f"/v1/sessions/{session}/exec", {"command": command, **more})
        assert a.status == 200, a
        return a.json


class Stream:
    def __init__(self, connection, response):
        self.connection, self.response = connection, response

    def __iter__(self):
        return self

    def __next__(self):
        while True:
            line = self.response.readline()
            if not line:
                raise StopIteration
            event = json.loads(line)
            if event.get("type") != "ping":
                return event

    def close(self):
        sock = self.connection.sock
        if sock:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self.response.close()
        self.connection.close()


class Session:
    """A session by its path."""

    def __init__(self, client, info):
        self.client, self.info, self.id = client, info, info["id"]
        self.path = f"/v1/sessions/{self.id}"

    def run(self, command, **more):
        return self.client.run(self.id, command, **more)

    def post(self, path, /, body=None, headers=None, **query):
        return self.client.post(self.path + path, body, headers, **query)

    def get(self, path="", /, **query):
        return self.client.get(self.path + path, **query)

    def put(self, path, body, /, **query):
        return self.client.call("PUT", self.path + "/files", body, path=path, **query)

    def read(self, path, headers=None):
        return self.client.call("GET", self.path + "/files", headers=headers, path=path)

    def background(self, command, **more):
        a = self.post("/exec", {"command": command, "background": True, **more})
        assert a.status == 202, a
        return a.json["id"]

    def follow(self, exec_id, **query):
        return self.client.stream("GET", f"{self.path}/execs/{exec_id}/output", **query)

    def end(self):
        a = self.client.delete(self.path)
        assert a.status in (204, 404), a


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Server:
    """cell serve on a unix socket and a loopback port, with a state directory that outlives its processes."""

    def __init__(self, directory, config=""):
        self.dir = Path(directory)
        self.socket = str(self.dir / "s")
        self.state = self.dir / "state"
        self.log_path = self.dir / "log"
        self.process = None
        self.port = None
        self.wrapper = []  # what the server is started with
        for name in ("home", "tmp", "run"):
            (self.dir / name).mkdir(parents=True, exist_ok=True)
        self.config = self.dir / "cell.yaml"
        self.config.write_text(config)
        self.env = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "LANG": "C.UTF-8",
            "HOME": str(self.dir / "home"),
            "TMPDIR": str(self.dir / "tmp"),
            "XDG_RUNTIME_DIR": str(self.dir / "run"),
            "CELL_STATE_DIR": str(self.state),
        }
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS"):
            if name in os.environ:
                self.env[name] = os.environ[name]
        self.admin = self.make_token("--role", "admin")

    def cell(self, *args, check=True):
        return subprocess.run([CELL, "--config", self.config, *args], env=self.env, capture_output=True, text=True, check=check, cwd=self.dir)

    def make_token(self, *args):
        return json.loads(self.cell("--json", "token", "create", *args).stdout)["token"]

    def start(self, *args):
        assert self.process is None
        with self.log_path.open("ab") as log:
            at = log.tell()
            self.process = subprocess.Popen(
                [*self.wrapper, CELL, "--config", self.config, "serve", "--listen", f"unix:{self.socket}", "--listen", "127.0.0.1:0", *args],
                env=self.env, stdout=log, stderr=log, cwd=self.dir)
        end = time.monotonic() + PATIENCE_S
        while True:
            text = self.log_path.read_bytes()[at:].decode(errors="replace")
            for line in text.splitlines():
                if "event=listening" in line and "127.0.0.1:" in line:
                    self.port = int(line.split("127.0.0.1:")[1].split()[0].strip('"'))
                    return self
            assert self.process.poll() is None, f"the server ended: {text}"
            assert time.monotonic() < end, f"the server does not listen: {text}"
            time.sleep(0.02)

    def connect(self, timeout=PATIENCE_S):
        return UnixConnection(self.socket, timeout)

    def connect_tcp(self, timeout=PATIENCE_S):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def client(self, token=""):
        return Client(self, token or self.admin)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE_S)
        self.process = None
        assert code == 0, self.log()

    def restart(self, is_killed=True):
        if is_killed:
            self.kill()
        else:
            self.stop()
        return self.start()

    def log(self):
        return self.log_path.read_text(errors="replace")

    def clean_up(self):
        """End every session, the server, and look for what is left."""
        if self.process is None:
            self.start()
        client = self.client()
        for s in client.get("/v1/sessions", limit=1000).json["sessions"]:
            client.delete(f"/v1/sessions/{s['id']}")
        self.stop()
        left = [p.name for p in (self.state / "cells").glob("*")] if (self.state / "cells").exists() else []
        assert not left, f"cells left behind: {left}\n{self.log()}"
        text = self.log()
        for bad in ("ERROR: AddressSanitizer", "runtime error:", "ERROR: LeakSanitizer", "WARNING: ThreadSanitizer"):
            assert bad not in text, text


@pytest.fixture
def make_server(tmp_path):
    made = []

    def make(config="", is_started=True, name="server"):
        s = Server(tmp_path / name, config)
        if is_started:
            s.start()
        made.append(s)
        return s

    yield make
    for s in made:
        s.clean_up()


@pytest.fixture
def server(make_server):
    return make_server()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One server for a module's tests that leave nothing behind."""
    s = Server(tmp_path_factory.mktemp("shared"))
    s.start()
    yield s
    s.clean_up()


@pytest.fixture
def client(shared):
    c = shared.client()
    before = {s["id"] for s in c.get("/v1/sessions", limit=1000).json["sessions"]}
    yield c
    for s in c.get("/v1/sessions", limit=1000).json["sessions"]:
        if s["id"] not in before:
            c.delete(f"/v1/sessions/{s['id']}")
