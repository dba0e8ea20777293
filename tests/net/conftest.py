# SPDX-License-Identifier: Apache-2.0
"""What the tests of src/net share: the echo server (both builds), raw connections, frames of a WebSocket.

The server is tests/net/net_echo.c; each test starts its own, with the limits it needs. What a sanitizer has to
say is in its standard error, and its exit status says that it ended in order.
"""

import itertools
import os
import socket
import ssl
import struct
import subprocess
import threading
import time
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent.parent
BUILDS = {"asan": TOP / "build-asan", "plain": TOP / "build"}
if other := os.environ.get("CELL_TEST_NET_BUILD"):  # by hand, as with -Db_sanitize=thread
    BUILDS = {"other": TOP / other}
WAIT_S = 30  # for what must happen; never what is measured


class Reply:
    def __init__(self, status, headers, body, head):
        self.status, self.headers, self.body, self.head = status, headers, body, head

    def __repr__(self):
        return f"<{self.status} {self.headers} {self.body[:200]!r}>"


class Conn:
    """A raw connection that can read whole answers."""

    def __init__(self, sock):
        self.sock, self.rest = sock, b""
        sock.settimeout(WAIT_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data.encode("latin-1") if isinstance(data, str) else data)

    def read(self, n=65536):
        """Some bytes; b"" at the end, also when it was a reset."""
        try:
            return self.sock.recv(n)
        except (ConnectionResetError, BrokenPipeError, ssl.SSLError):
            return b""

    def need(self, n):
        while len(self.rest) < n:
            more = self.read()
            if not more:
                raise EOFError(f"ended after {self.rest!r}")
            self.rest += more
        data, self.rest = self.rest[:n], self.rest[n:]
        return data

    def until(self, mark):
        while mark not in self.rest:
            more = self.read()
            if not more:
                raise EOFError(f"ended after {self.rest[:500]!r}")
            self.rest += more
        data, _, self.rest = self.rest.partition(mark)
        return data

    def all(self):
        """Everything up to the end."""
        data, self.rest = self.rest, b""
        while more := self.read():
            data += more
        return data

    def is_closed(self):
        return self.all() == b""

    def head(self):
        text = self.until(b"\r\n\r\n").decode("latin-1")
        first, *lines = text.split("\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers.setdefault(name.lower(), value.strip())
        return Reply(int(first.split()[1]), headers, b"", text)

    def reply(self, is_head=False):
        r = self.head()
        if is_head or r.status in (100, 101, 204, 304):
            return r
        if r.headers.get("transfer-encoding") == "chunked":
            while size := int(self.until(b"\r\n"), 16):
                r.body += self.need(size)
                assert self.need(2) == b"\r\n"
            assert self.need(2) == b"\r\n"
        elif "content-length" in r.headers:
            r.body = self.need(int(r.headers["content-length"]))
        else:
            r.body = self.all()
        return r

    def get(self, target="/", method="GET", headers="", body=b""):
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        self.send(f"{method} {target} HTTP/1.1\r\nHost: x\r\n{length}{headers}\r\n".encode() + body)
        return self.reply(method == "HEAD")

    # --- WebSocket ---

    KEY = "dGhlIHNhbXBsZSBub25jZQ=="

    def upgrade(self, target="/ws", headers=""):
        return self.get(target, headers=f"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {self.KEY}\r\n{headers}")

    def frame(self, opcode, payload=b"", fin=True, mask=b"\x01\x02\x03\x04", rsv=0, length=None):
        n = len(payload) if length is None else length
        first = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
        flag = 0x80 if mask else 0
        if n < 126:
            head = bytes([flag | n])
        elif n < 65536:
            head = bytes([flag | 126]) + struct.pack(">H", n)
        else:
            head = bytes([flag | 127]) + struct.pack(">Q", n)
        if mask:
            payload = bytes(b ^ mask[i % 4] for i, b in enumerate(payload))
        self.send(first + head + (mask or b"") + payload)

    def read_frame(self):
        first, second = self.need(2)
        n = second & 0x7F
        assert not second & 0x80, "a server masks nothing"
        if n == 126:
            n = struct.unpack(">H", self.need(2))[0]
        elif n == 127:
            n = struct.unpack(">Q", self.need(8))[0]
        return first & 15, self.need(n)

    def close_code(self):
        """The code of the close frame that comes, after whatever else."""
        while True:
            opcode, payload = self.read_frame()
            if opcode == 8:
                return struct.unpack(">H", payload[:2])[0] if payload else None


class Server:
    def __init__(self, build, tmp, args, fds=None, **popen):
        self.tmp = tmp
        self.errors = open(tmp / "server.err", "w+b")
        self.process = subprocess.Popen([str(build / "tests/net/net_echo"), *map(str, args)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.errors, **popen)
        self.addresses = []
        for line in self.process.stdout:
            if line.strip() == b"ready":
                break
            self.addresses.append(line.decode().strip())
        else:
            self.process.wait()
            raise RuntimeError(self.stderr())

    def stderr(self):
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")

    @property
    def url(self):
        return self.addresses[0]

    @property
    def port(self):
        return int(self.url.rpartition(":")[2])

    def connect(self):
        if self.url.startswith("unix:"):
            s = socket.socket(socket.AF_UNIX)
            s.connect(self.url[5:])
        else:
            s = socket.create_connection(("127.0.0.1", self.port), WAIT_S)
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Conn(s)

    def connect_tls(self, ca, name="localhost"):
        context = ssl.create_default_context(cafile=ca)
        context.set_alpn_protocols(["http/1.1"])
        s = socket.create_connection(("127.0.0.1", self.port), WAIT_S)
        return Conn(context.wrap_socket(s, server_hostname=name))

    def ask(self, data):
        """Sends bytes on a connection of their own; its first answer, None when it is only closed."""
        with self.connect() as c:
            c.send(data)
            try:
                return c.reply()
            except EOFError:
                return None

    def stats(self):
        for _ in range(100):  # it may be refusing connections just now
            with self.connect() as c:
                try:
                    if (r := c.get("/stats")).status == 200:
                        break
                except (EOFError, OSError):
                    pass
            time.sleep(0.05)
        return {k: int(v) for k, v in (p.split("=") for p in r.body.decode().split())}

    def until(self, condition, what):
        """Waits for something about the statistics."""
        end = time.monotonic() + WAIT_S
        while not condition(self.stats()):
            assert time.monotonic() < end, f"{what}: {self.stats()}"
            time.sleep(0.02)

    def memory(self):
        """Resident bytes."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def cpu_s(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        if self.process.poll() is None:
            self.process.stdin.close()
        try:
            self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.process.stdout.close()


@pytest.fixture(params=list(BUILDS))
def build(request):
    path = BUILDS[request.param]
    assert (path / "tests/net/net_echo").exists(), f"{path} is not built"
    return path


@pytest.fixture
def start(build, tmp_path):
    """start(--option, value ...): a server; checked at the end."""
    servers, numbers = [], itertools.count()

    def begin(*args, **more):
        if "--tcp" not in args and "--unix" not in args and "--fds" not in args:
            args = ("--tcp", "127.0.0.1", 0, *args)
        directory = tmp_path / f"server{next(numbers)}"
        directory.mkdir()
        s = Server(build, directory, args, **more)
        servers.append(s)
        return s

    yield begin
    for s in servers:
        s.stop()
        assert s.process.returncode == 0, s.stderr()
        assert s.stderr() == ""


@pytest.fixture
def server(start):
    return start()


@pytest.fixture
def client(build):
    """client(URL, verb ...): what net_client printed, as lines."""

    def run(*args):
        p = subprocess.run([str(build / "tests/net/net_client"), *map(str, args)], capture_output=True, timeout=120,
            check=False)
        assert p.stderr == b"", p.stderr.decode()
        return p.stdout.decode(errors="replace").split("\n")

    return run


def make_certificate(directory, name="localhost"):
    directory.mkdir(exist_ok=True)
    cert, key = directory / "cert.pem", directory / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1", "-days", "30", "-keyout", key,
        "-out", cert], check=True, capture_output=True)
    return cert, key


def in_threads(fn, items):
    """fn(item) for all at once; the results in order."""
    results, errors = [None] * len(items), []

    def one(i):
        try:
            results[i] = fn(items[i])
        except Exception as e:  # noqa: BLE001
            errors.append(e)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(items))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
    return results
