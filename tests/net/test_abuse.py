# SPDX-License-Identifier: Apache-2.0
"""What hostile peers send: every probe ends in a 4xx (or 5xx) and a closed connection, or in a closed connection;
the server goes on, spends nothing on it, and a well-behaved neighbour is answered (the positive control)."""

import resource
import socket
import time

import pytest

HOST = "Host: x\r\n"
SMUGGLED = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"

PROBES = {
    "both lengths": f"POST /echo HTTP/1.1\r\n{HOST}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "both lengths, other order": f"POST /echo HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "two lengths": f"POST /echo HTTP/1.1\r\n{HOST}Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    "two equal lengths": f"POST /echo HTTP/1.1\r\n{HOST}Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd",
    "a list of lengths": f"POST /echo HTTP/1.1\r\n{HOST}Content-Length: 4, 4\r\n\r\nabcd",
    "a signed length": f"POST /echo HTTP/1.1\r\n{HOST}Content-Length: +4\r\n\r\nabcd",
    "a negative length": f"POST /echo HTTP/1.1\r\n{HOST}Content-Length: -1\r\n\r\n",
    "a hexadecimal length": f"POST /echo HTTP/1.1\r\n{HOST}Content-Length: 0x4\r\n\r\nabcd",
    "an empty length": f"POST /echo HTTP/1.1\r\n{HOST}Content-Length:\r\n\r\n",
    "a length beyond 64 bits": f"POST /echo HTTP/1.1\r\n{HOST}Content-Length: 99999999999999999999\r\n\r\n",
    "a length with a blank": f"POST /echo HTTP/1.1\r\n{HOST}Content-Length: 1 2\r\n\r\nab",
    "two encodings": f"POST /echo HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked not last": f"POST /echo HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "identity": f"POST /echo HTTP/1.1\r\n{HOST}Transfer-Encoding: identity\r\n\r\n",
    "xchunked": f"POST /echo HTTP/1.1\r\n{HOST}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "quoted chunked": f'POST /echo HTTP/1.1\r\n{HOST}Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n',
    "chunked with a vertical tab": f"POST /echo HTTP/1.1\r\n{HOST}Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "chunked in HTTP/1.0": f"POST /echo HTTP/1.0\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a blank before the colon": f"POST /echo HTTP/1.1\r\n{HOST}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "a tab before the colon": f"POST /echo HTTP/1.1\r\n{HOST}Content-Length\t: 4\r\n\r\nabcd",
    "a folded header": f"GET / HTTP/1.1\r\n{HOST}X: a\r\n b\r\n\r\n",
    "a folded encoding": f"POST /echo HTTP/1.1\r\n{HOST}Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a first line that is folded": f"GET / HTTP/1.1\r\n {HOST}\r\n",
    "bare LF": "GET / HTTP/1.1\nHost: x\n\n",
    "one bare LF": f"GET / HTTP/1.1\r\n{HOST}X: a\nY: b\r\n\r\n",
    "LF at the end": f"GET / HTTP/1.1\r\n{HOST}\n",
    "bare CR": f"GET / HTTP/1.1\r\n{HOST}X: a\rY: b\r\n\r\n",
    "a NUL in a value": f"GET / HTTP/1.1\r\n{HOST}X: a\0b\r\n\r\n",
    "a NUL in a name": f"GET / HTTP/1.1\r\n{HOST}X\0: a\r\n\r\n",
    "no colon": f"GET / HTTP/1.1\r\n{HOST}nonsense\r\n\r\n",
    "an empty name": f"GET / HTTP/1.1\r\n{HOST}: a\r\n\r\n",
    "a name with brackets": f"GET / HTTP/1.1\r\n{HOST}X(y): a\r\n\r\n",
    "no host": "GET / HTTP/1.1\r\n\r\n",
    "two hosts": f"GET / HTTP/1.1\r\n{HOST}{HOST}\r\n",
    "a host with a blank": "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
    "a host with a path": "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "two authorizations": f"GET / HTTP/1.1\r\n{HOST}Authorization: a\r\nauthorization: b\r\n\r\n",
    "two spaces": f"GET  / HTTP/1.1\r\n{HOST}\r\n",
    "a tab in the request line": f"GET\t/ HTTP/1.1\r\n{HOST}\r\n",
    "a trailing space": f"GET / HTTP/1.1 \r\n{HOST}\r\n",
    "a space in the target": f"GET /a b HTTP/1.1\r\n{HOST}\r\n",
    "HTTP/0.9": "GET /\r\n\r\n",
    "HTTP/1.2": f"GET / HTTP/1.2\r\n{HOST}\r\n",
    "HTTP/2.0": f"GET / HTTP/2.0\r\n{HOST}\r\n",
    "http/1.1 in small letters": f"GET / http/1.1\r\n{HOST}\r\n",
    "HTTP/1.1x": f"GET / HTTP/1.1x\r\n{HOST}\r\n",
    "the preface of HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "an unknown method": f"BREW / HTTP/1.1\r\n{HOST}\r\n",
    "a small method": f"get / HTTP/1.1\r\n{HOST}\r\n",
    "TRACE": f"TRACE / HTTP/1.1\r\n{HOST}\r\n",
    "CONNECT": f"CONNECT x:443 HTTP/1.1\r\n{HOST}\r\n",
    "a relative target": f"GET foo HTTP/1.1\r\n{HOST}\r\n",
    "an asterisk for GET": f"GET * HTTP/1.1\r\n{HOST}\r\n",
    "another scheme": f"GET ftp://x/ HTTP/1.1\r\n{HOST}\r\n",
    "a user in the target": f"GET http://a@b/ HTTP/1.1\r\n{HOST}\r\n",
    "a fragment": f"GET /#a HTTP/1.1\r\n{HOST}\r\n",
    "a broken escape": f"GET /%zz HTTP/1.1\r\n{HOST}\r\n",
    "a short escape": f"GET /%a HTTP/1.1\r\n{HOST}\r\n",
    "an escaped NUL": f"GET /%00 HTTP/1.1\r\n{HOST}\r\n",
    "an escaped NUL in the query": f"GET /?a=%00 HTTP/1.1\r\n{HOST}\r\n",
    "an escaped line end in the path": f"GET /%0d%0aX HTTP/1.1\r\n{HOST}\r\n",
    "dots": f"GET /a/../b HTTP/1.1\r\n{HOST}\r\n",
    "escaped dots": f"GET /a/%2e%2E/b HTTP/1.1\r\n{HOST}\r\n",
    "an 8-bit target": f"GET /\xff HTTP/1.1\r\n{HOST}\r\n",
    "an empty line, then nothing known": "\r\n\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    "TLS": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + "x" * 100 + "\r\n\r\n",
    "noise": "\x80\x81\x82\n\n\n",
}

CHUNKS = {
    "a size that is no number": "xyz\r\nabc\r\n0\r\n\r\n",
    "an empty size": "\r\nabc\r\n0\r\n\r\n",
    "a negative size": "-1\r\nabc\r\n0\r\n\r\n",
    "a signed size": "+3\r\nabc\r\n0\r\n\r\n",
    "0x": "0x3\r\nabc\r\n0\r\n\r\n",
    "a size beyond 64 bits": "fffffffffffffffff\r\nabc\r\n",
    "a blank before the size": " 3\r\nabc\r\n0\r\n\r\n",
    "a size with bare LF": "3\nabc\r\n0\r\n\r\n",
    "data that is longer": "3\r\nabcd\r\n0\r\n\r\n",
    "data with bare LF behind it": "3\r\nabc\n0\r\n\r\n",
    "data without its end": "3\r\nabc0\r\n\r\n",
    "the last chunk with bare LF": "3\r\nabc\r\n0\n\n",
    "the end with bare LF": "3\r\nabc\r\n0\r\n\n",
    "an extension with a line end": "3;a=\"\n\"\r\nabc\r\n0\r\n\r\n",
    "an extension with bare CR": "3;a\rb\r\nabc\r\n0\r\n\r\n",
    "trailers": "3\r\nabc\r\n0\r\nX: y\r\n\r\n",
    "a trailer that would be a length": "3\r\nabc\r\n0\r\nContent-Length: 5\r\n\r\n",
}


@pytest.fixture
def shared(start):
    return start()


def check_refused(server, data):
    with server.connect() as c:
        c.send(data)
        c.send(SMUGGLED)
        first = c.reply()
        assert 400 <= first.status < 506 and first.status != 404, first
        assert first.headers["connection"] == "close" and "x-request-id" in first.headers
        assert c.is_closed(), "what follows a bad request must not be read as one"


def test_probes(shared):
    """All in one server: it outlives each of them."""
    for name, data in PROBES.items():
        try:
            check_refused(shared, data)
        except (AssertionError, EOFError) as e:
            pytest.fail(f"{name}: {e}")
    with shared.connect() as c:
        assert c.get("/").body == b"hello\n"
    assert shared.stats()["exchanges"] == 1


def test_bad_chunks(shared):
    head = f"POST /echo HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n"
    with shared.connect() as c:  # the control
        c.send(head + "3\r\nabc\r\n0\r\n\r\n" + SMUGGLED)
        assert c.reply().body == b"abc" and c.reply().status == 404
    for name, data in CHUNKS.items():
        try:
            check_refused(shared, head + data)
        except (AssertionError, EOFError) as e:
            pytest.fail(f"{name}: {e}")
    assert shared.stats()["exchanges"] == 1


def test_bad_chunks_in_single_bytes(shared):
    head = f"POST /echo HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n"
    for name, data in CHUNKS.items():
        with shared.connect() as c:
            try:
                for b in (head + data).encode("latin-1"):
                    c.send(bytes([b]))
            except OSError:
                pass  # refused in the middle
            assert c.reply().status == 400, name
            assert c.is_closed(), name


def test_huge_heads(start):
    s = start("--head_bytes", 8192, "--target_bytes", 1000, "--headers", 20)
    r = s.ask(f"GET / HTTP/1.1\r\n{HOST}X: {'a' * 9000}\r\n\r\n")
    assert r.status == 431
    r = s.ask(f"GET / HTTP/1.1\r\n{HOST}" + "".join(f"X{i}: y\r\n" for i in range(20)) + "\r\n")
    assert r.status == 431
    r = s.ask(f"GET / HTTP/1.1\r\n{HOST}" + "".join(f"X{i}: y\r\n" for i in range(19)) + "\r\n")
    assert r.status == 200
    assert s.ask(f"GET /{'a' * 2000} HTTP/1.1\r\n{HOST}\r\n").status == 414
    assert s.ask(f"GET /{'a' * 20000}").status == 414
    assert s.ask(f"GET /{'a' * 900} HTTP/1.1\r\n{HOST}\r\n").status == 404


def test_a_head_without_end(start):
    s = start()
    before = s.memory()
    with s.connect() as c:
        c.send(f"GET / HTTP/1.1\r\n{HOST}")
        try:
            for i in range(200000):
                c.send(f"X-{i}: {'y' * 1000}\r\n")
        except OSError:
            pass
        else:
            pytest.fail("it was read for ever")
    assert s.memory() - before < 16 << 20
    assert s.stats()["refused"] == 1


def test_slow_heads_are_cut(start):
    """Many that send a byte now and then; one that behaves is answered meanwhile."""
    s = start("--head_ms", 600)
    slow = [s.connect() for _ in range(50)]
    silent = s.connect()
    for c in slow:
        c.send("GET / HT")
    ended = set()
    for i in range(100):
        for k, c in enumerate(slow):
            if k not in ended:
                try:
                    c.send("T"[:1] if i else "TP/1.1\r\nX: ")
                except OSError:
                    ended.add(k)
        with s.connect() as c:
            assert c.get("/").status == 200
        if len(ended) == len(slow):
            break
        time.sleep(0.05)
    for c in slow:
        try:
            data = c.all()
        except OSError:
            data = b""
        assert data.startswith(b"HTTP/1.1 408") or data == b""
        c.close()
    assert silent.all() == b"", "nothing was asked, nothing is answered"
    silent.close()
    s.until(lambda st: st["connections"] == 1, "all slow ones are gone")


def test_slow_bodies_are_cut(start):
    s = start("--progress_ms", 400)
    with s.connect() as c:
        c.send(f"POST /echo HTTP/1.1\r\n{HOST}Content-Length: 100\r\n\r\nabc")
        assert c.reply().status == 408
        assert c.is_closed()


def test_answers_nobody_takes_are_given_up(start):
    s = start("--progress_ms", 400)
    with s.connect() as c:
        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.send("GET /big?n=50000000 HTTP/1.1\r\nHost: x\r\n\r\n")
        s.until(lambda st: st["connections"] == 1, "it was closed")


def test_idle_connections_are_closed(start):
    s = start("--idle_ms", 300)
    with s.connect() as c:
        assert c.get("/").status == 200
        assert c.is_closed()


def test_too_many_connections_of_one_peer(start):
    s = start("--connections_per_peer", 5)
    conns = [s.connect() for _ in range(5)]
    for c in conns:
        assert c.get("/").status == 200
    with s.connect() as c:
        assert c.reply().status == 503
        assert c.is_closed()
    conns[0].close()
    end = time.monotonic() + 30
    while True:
        with s.connect() as c:
            try:
                c.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                if c.reply().status == 200:
                    break
            except OSError:
                pass
        assert time.monotonic() < end
        time.sleep(0.05)
    for c in conns:
        c.close()


def test_connections_in_total_wait_their_turn(start):
    s = start("--connections", 3)
    first = [s.connect() for _ in range(3)]
    for c in first:
        assert c.get("/").status == 200
    with s.connect() as c:
        c.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        c.sock.settimeout(0.5)
        with pytest.raises(TimeoutError):
            c.sock.recv(1)
        c.sock.settimeout(30)
        first[0].close()
        assert c.reply().status == 200
    for c in first:
        c.close()


def test_out_of_descriptors_it_neither_spins_nor_dies(start):
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))

    s = start(preexec_fn=few)
    conns = []
    for _ in range(100):
        c = s.connect()
        conns.append(c)
    served = [c for c in conns[:10] if c.get("/").status == 200]
    assert len(served) == 10
    before = s.cpu_s()
    time.sleep(1.5)
    assert s.cpu_s() - before < 0.75, "it spins"
    refused = 0
    for c in conns[60:]:
        c.sock.settimeout(0.5)
        try:
            refused += b"503" in c.sock.recv(100)
        except OSError:
            pass
    assert refused > 0
    for c in conns:
        c.close()
    s.until(lambda st: st["connections"] == 1, "room again")
    assert s.stats()["pauses"] > 0


def test_chunk_extensions_without_end(start):
    s = start()
    with s.connect() as c:
        c.send(f"POST /count HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n1;")
        with pytest.raises(OSError):
            for _ in range(5000):
                c.send("x" * 10000)
                time.sleep(0)
    assert s.memory() < 400 << 20


def test_garbage_from_many_at_once(start):
    import random

    s, rng = start(), random.Random(4)
    pieces = [*PROBES.values(), *CHUNKS.values(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\r\n", "\0", "a" * 3000]
    for _ in range(200):
        with s.connect() as c:
            try:
                for _ in range(rng.randrange(1, 6)):
                    data = rng.choice(pieces)
                    c.send(data[:rng.randrange(len(data) + 1)] if rng.random() < 0.5 else data)
                if rng.random() < 0.5:
                    c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            except OSError:
                pass
    s.until(lambda st: st["connections"] == 1 and st["exchanges"] == 1, "nothing is left")
