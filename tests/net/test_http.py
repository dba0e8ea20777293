# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 as it should be: requests, bodies, answers, keep-alive, pipelining, streams, drain."""

import gzip
import os
import signal
import socket
import stat
import time

import pytest

from conftest import Conn, in_threads

HELLO = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def test_a_request_is_answered(server):
    with server.connect() as c:
        r = c.get("/")
    assert (r.status, r.body) == (200, b"hello\n")
    assert len(r.headers["x-request-id"]) == 32
    assert r.headers["date"].endswith("GMT") and r.headers["server"] == "net_echo"
    assert "connection" not in r.headers


def test_head_has_the_length_and_no_body(server):
    with server.connect() as c:
        r = c.get("/", method="HEAD")
        assert r.headers["content-length"] == "6"
        assert c.get("/").body == b"hello\n"


def test_path_and_query_are_decoded(server):
    with server.connect() as c:
        text = c.get("/show?a=1&b=x%20y+z&c&%c3%a4=%2F&a=2").body.decode()
        assert "query a=1\nquery b=x y z\nquery c=\nquery ä=/\nquery a=2\n" in text
        c.send("GET /%73how HTTP/1.1\r\nHost: x\r\n\r\n")
        text = c.reply().body.decode()
        assert "path=/show\nraw_path=/%73how\n" in text


def test_absolute_targets_are_taken_and_their_host_counts(server):
    with server.connect() as c:
        c.send("GET http://there:81/show?q=1 HTTP/1.1\r\nHost: other\r\n\r\n")
        text = c.reply().body.decode()
        assert "host=there:81\n" in text and "path=/show\n" in text and "query q=1" in text
        c.send("GET http://there HTTP/1.1\r\nHost: other\r\n\r\n")
        assert c.reply().body == b"hello\n"
        c.send("GET http://there?x HTTP/1.1\r\nHost: other\r\n\r\n")
        assert c.reply().body == b"hello\n"


def test_options_asterisk_reaches_the_handler(server):
    with server.connect() as c:
        c.send("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
        assert c.reply().status == 404


def test_a_request_id_can_be_set_and_headers_added_but_not_split(server):
    with server.connect() as c:
        r = c.get("/show?id=my-id.1&add=fine")
        assert r.headers["x-request-id"] == "my-id.1" and r.headers["x-added"] == "fine"
        r = c.get("/show?id=bad%0d%0aid&add=x%0d%0aEvil:1")
        assert len(r.headers["x-request-id"]) == 32
        assert "x-added" not in r.headers and "evil" not in r.headers


def test_a_thousand_requests_on_one_connection(server):
    with server.connect() as c:
        for _ in range(1000):
            assert c.get("/").body == b"hello\n"
    s = server.stats()
    assert s["requests"] == 1001 and s["accepted"] == 2 and s["finished"] == 1000


def test_http_1_0_closes_unless_asked(server):
    with server.connect() as c:
        c.send("GET / HTTP/1.0\r\n\r\n")
        r = c.reply()
        assert r.headers["connection"] == "close" and c.is_closed()
    with server.connect() as c:
        for _ in range(3):
            c.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            assert c.reply().headers["connection"] == "keep-alive"
    with server.connect() as c:
        c.send("GET /stream?n=5000 HTTP/1.0\r\n\r\n")
        r = c.reply()
        assert "transfer-encoding" not in r.headers and len(r.body) == 5000


def test_connection_close_is_honoured(server):
    with server.connect() as c:
        r = c.get("/", headers="Connection: close\r\n")
        assert r.headers["connection"] == "close" and c.is_closed()


def test_requests_a_connection_are_limited(start):
    with start("--requests", 3).connect() as c:
        assert "connection" not in c.get("/").headers
        assert "connection" not in c.get("/").headers
        assert c.get("/").headers["connection"] == "close"
        assert c.is_closed()


# --- bodies ---


@pytest.mark.parametrize("size", [0, 1, 1000, 65536, 1000000])
def test_bodies_come_back(server, size):
    body = os.urandom(size)
    with server.connect() as c:
        for _ in range(2):
            assert c.get("/echo", "POST", body=body).body == body


def test_chunked_bodies_come_back(server):
    body = b"".join(bytes([i % 256]) * (i % 50) for i in range(2000))
    with server.connect() as c:
        for step in (1, 7, 4000, 100000):
            c.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            data = b""
            for i in range(0, len(body), step):
                piece = body[i:i + step]
                data += b"%x;ext=1\r\n%s\r\n" % (len(piece), piece) if step > 1 else b"%X\r\n%s\r\n" % (len(piece), piece)
            c.send(data + b"0\r\n\r\n")
            assert c.reply().body == body


def test_a_request_in_single_bytes(server):
    data = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n" + HELLO.encode()
    with server.connect() as c:
        for i in range(len(data)):
            c.send(data[i:i + 1])
        assert c.reply().body == b"abcde"
        assert c.reply().body == b"hello\n"


def test_large_bodies_are_413(start):
    s = start("--body_bytes", 5000)
    with s.connect() as c:
        r = c.get("/echo?max=100", "POST", body=b"x" * 101)
        assert r.status == 413
    with s.connect() as c:
        assert c.get("/echo?max=100", "POST", body=b"x" * 100).status == 200
    # over the server's own limit it does not even begin
    r = s.ask("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5001\r\n\r\n")
    assert r.status == 413
    for length in (10**15, 10**17):
        assert s.ask(f"POST /count HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n").status == 413
    # chunked: counted
    with s.connect() as c:
        c.send("POST /echo?max=100 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" + "x" * 101 + "\r\n0\r\n\r\n")
        assert c.reply().status == 413
    with s.connect() as c:
        c.send("POST /echo?max=100 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n" + "x" * 100 + "\r\n0\r\n\r\n")
        assert c.reply().status == 200
    with s.connect() as c:
        c.send("POST /count?max=100 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" + "x" * 101 + "\r\n0\r\n\r\n")
        assert c.reply().status == 413


def test_expect_continue(server):
    head = "POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    with server.connect() as c:
        c.send(head.format("/echo"))
        assert c.head().status == 100
        c.send("12345")
        assert c.reply().body == b"12345"
        assert c.get("/").status == 200
    # refused without the body: no 100, and the connection ends, for nobody knows if the body comes
    with server.connect() as c:
        c.send(head.format("/nowhere"))
        r = c.reply()
        assert r.status == 404 and r.headers["connection"] == "close"
    assert server.ask("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: miracles\r\n\r\n").status == 417


def test_an_unread_body_is_passed_over_or_the_connection_closed(server):
    with server.connect() as c:
        c.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000 + HELLO.encode())
        assert c.reply().body == b"hello\n"
        assert c.reply().body == b"hello\n"
    with server.connect() as c:
        c.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n" + b"x" * 5000)
        r = c.reply()
        assert r.body == b"hello\n" and r.headers["connection"] == "close"
        assert c.is_closed()


def test_both_directions_at_once(server):
    total, got = 3_000_000, 0
    with server.connect() as c:
        c.send("POST /duplex HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert c.head().status == 200
        sent = 0
        while got < total:
            if sent < total:
                c.send(b"2710\r\n" + b"d" * 10000 + b"\r\n")
                sent += 10000
                if sent == total:
                    c.send("0\r\n\r\n")
            size = int(c.until(b"\r\n"), 16)
            assert c.need(size) == b"d" * size and c.need(2) == b"\r\n"
            got += size
        assert c.need(5) == b"0\r\n\r\n"


def test_a_paused_body_holds_the_sender_back(start):
    """The client sends and does not read: what the server keeps stays bounded, and nothing is lost."""
    s = start("--queued_bytes", 65536)
    with s.connect() as c:
        c.send("POST /duplex HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        c.sock.settimeout(1)
        chunk, sent = b"10000\r\n" + b"p" * 65536 + b"\r\n", 0
        before = s.memory()
        pending = b""
        try:
            while sent < 400:
                pending = chunk
                while pending:
                    pending = pending[c.sock.send(pending):]
                sent += 1
        except TimeoutError:
            pass
        assert sent < 400, "nothing held it back"
        assert s.memory() - before < 64 << 20
        c.sock.settimeout(30)
        result = []

        def read_all():
            result.append(c.reply())

        def finish():
            c.sock.sendall(pending + b"0\r\n\r\n")

        in_threads(lambda f: f(), [read_all, finish])
        assert len(result[0].body) == 65536 * (sent + 1)


# --- answers ---


@pytest.mark.parametrize("query", ["n=1", "n=70000", "n=3000000", "n=3000000&copy=1"])
def test_whole_answers_of_any_size(server, query):
    with server.connect() as c:
        for _ in range(2):
            n = int(query[2:].split("&")[0])
            assert c.get(f"/big?{query}").body == (b"abcdefghijklmnopqrstuvwxyz" * (n // 26 + 1))[:n]


def test_streams(server):
    with server.connect() as c:
        for n, size in ((0, 10), (10, 1), (100000, 10), (5000000, 60000)):
            r = c.get(f"/stream?n={n}&size={size}")
            assert r.headers["transfer-encoding"] == "chunked" and len(r.body) == n
            r = c.get(f"/stream?n={n}&size={size}&length=1")
            assert r.headers["content-length"] == str(n) and len(r.body) == n
        assert c.get("/stream?n=10", method="HEAD").body == b""
        assert c.get("/").body == b"hello\n"


def test_an_aborted_answer_is_cut(server):
    assert server.ask("GET /abort HTTP/1.1\r\nHost: x\r\n\r\n") is None


def test_server_sent_events(server):
    with server.connect() as c:
        assert c.get("/sse").body == b"id: 1\nevent: greeting\ndata: hello\ndata: world\n\n: beat\n\n"


def test_no_content(server):
    with server.connect() as c:
        r = c.get("/empty")
        assert r.status == 204 and "content-length" not in r.headers
        assert c.get("/").status == 200


def test_gzip_where_it_pays(server):
    with server.connect() as c:
        r = c.get("/big?n=5000", headers="Accept-Encoding: br, gzip;q=0.5\r\n")
        assert r.headers["content-encoding"] == "gzip" and r.headers["vary"] == "Accept-Encoding"
        assert len(gzip.decompress(r.body)) == 5000 and len(r.body) < 500
        for target, accept in (("/big?n=5000", "identity"), ("/big?n=5000", "gzip;q=0"), ("/big?n=500", "gzip"),
                ("/stream?n=5000", "gzip")):
            assert "content-encoding" not in c.get(target, headers=f"Accept-Encoding: {accept}\r\n").headers


def test_no_cors_unless_asked(start):
    origin = "Origin: https://app.example\r\n"
    with start().connect() as c:
        r = c.get("/", headers=origin)
        assert not any("access-control" in h for h in r.headers)
        assert "origin_ok=0" in c.get("/show", headers=origin).body.decode()
        assert "origin_ok=1" in c.get("/show", headers="Origin: http://x\r\n").body.decode()
    with start("--cors", "https://app.example").connect() as c:
        assert c.get("/", headers=origin).headers["access-control-allow-origin"] == "https://app.example"
        assert "origin_ok=1" in c.get("/show", headers=origin).body.decode()
        r = c.get("/", "OPTIONS", origin + "Access-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: authorization\r\n")
        assert r.status == 204 and r.headers["access-control-allow-headers"] == "authorization"
        other = c.get("/", headers="Origin: https://evil.example\r\n")
        assert not any("access-control" in h for h in other.headers)


# --- pipelining ---


def test_pipelined_answers_keep_their_order(server):
    with server.connect() as c:
        targets = [f"/show?i={i}" if i % 3 else f"/work?ms=5&i={i}" for i in range(200)]
        c.send("".join(f"GET {t} HTTP/1.1\r\nHost: x\r\n\r\n" for t in targets))
        for i, t in enumerate(targets):
            body = c.reply().body.decode()
            assert body == "worked" if t.startswith("/work") else f"query i={i}\n" in body


def test_pipelining_without_end_is_bounded(start):
    """A client that only sends is not read for ever."""
    s = start("--pipelined_bytes", 65536)
    with s.connect() as c:
        before = s.memory()
        c.sock.settimeout(1)
        data, sent = HELLO.encode() * 1000, 0
        c.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            while sent < 100 << 20:
                sent += c.sock.send(data)
        except TimeoutError:
            pass
        assert sent < 100 << 20
        assert s.memory() - before < 32 << 20


# --- threads ---


def test_work_beyond_the_queue_is_refused(start):
    s = start("--workers", 1, "--queue", 2)
    conns = [s.connect() for _ in range(8)]
    for c in conns:
        c.send("GET /work?ms=300 HTTP/1.1\r\nHost: x\r\n\r\n")
    replies = [c.reply() for c in conns]
    statuses = sorted(r.status for r in replies)
    assert statuses.count(503) == 5 and statuses.count(200) == 3
    assert all(r.headers.get("retry-after") == "1" for r in replies if r.status == 503)
    for c in conns:
        c.close()


def test_a_client_that_leaves_while_a_thread_works_for_it(server):
    for _ in range(20):
        c = server.connect()
        c.send("GET /work?ms=20 HTTP/1.1\r\nHost: x\r\n\r\n")
        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        c.close()
    server.until(lambda s: s["exchanges"] == 1 and s["connections"] == 1, "all have ended")


# --- peers that leave ---


def test_half_closed_requests_are_answered(server):
    with server.connect() as c:
        c.send(HELLO)
        c.sock.shutdown(socket.SHUT_WR)
        assert c.reply().body == b"hello\n"
        assert c.is_closed()
    with server.connect() as c:
        c.send("GET /work?ms=50 HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
        c.sock.shutdown(socket.SHUT_WR)
        assert [c.reply().body for _ in range(3)] == [b"worked"] * 3
        assert c.is_closed()
    with server.connect() as c:
        c.send("GET /hold?half=1 HTTP/1.1\r\nHost: x\r\n\r\n")
        c.sock.shutdown(socket.SHUT_WR)
        assert c.reply().body == b"held half closed"


def test_a_body_that_ends_too_soon_is_an_error(server):
    for head in ("Content-Length: 10", "Transfer-Encoding: chunked"):
        with server.connect() as c:
            c.send(f"POST /echo HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n5\r\nab")
            c.sock.shutdown(socket.SHUT_WR)
            assert c.reply().status == 400
            assert c.is_closed()


def test_a_peer_that_goes_away_is_noticed(server):
    c = server.connect()
    c.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n")
    assert c.head().status == 200
    c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    c.close()
    server.until(lambda s: s["gone"] == 1, "told")
    c = server.connect()
    c.send("GET /stream?n=100000000&size=60000 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert c.head().status == 200
    c.close()
    server.until(lambda s: s["connections"] == 1, "closed")


# --- where it listens ---


def test_unix_socket(start, tmp_path):
    path = tmp_path / "s"
    s = start("--unix", path, "0600")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and s.url == f"unix:{path}"
    with s.connect() as c:
        text = c.get("/show").body.decode()
        assert f"unix=1 loopback=1 tls=0 uid={os.getuid()} pid={os.getpid()}" in text
    with pytest.raises(RuntimeError, match="another server listens there"):
        start("--unix", path, "0600")
    s.process.kill()
    s.process.wait()
    s.process.returncode = 0
    assert path.exists()
    again = start("--unix", path, "0660")
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    with again.connect() as c:
        assert c.get("/").status == 200
    again.stop()
    assert not path.exists()
    path.write_text("precious")
    with pytest.raises(RuntimeError, match="it is no socket"):
        start("--unix", path, "0600")
    assert path.read_text() == "precious"


def test_the_abstract_umask_does_not_weaken_the_mode(start, tmp_path):
    old = os.umask(0)
    try:
        start("--unix", tmp_path / "s", "0600")
        assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600
    finally:
        os.umask(old)


def test_ipv6_and_all_addresses(start):
    s = start("--tcp", "::1", 0)
    with Conn(socket.create_connection(("::1", s.port))) as c:
        assert "peer=::1 unix=0 loopback=1" in c.get("/show").body.decode()
    s = start("--tcp", "*", 0)
    for host in ("127.0.0.1", "::1"):
        with Conn(socket.create_connection((host, s.port))) as c:
            assert f"peer={host} unix=0 loopback=1" in c.get("/show").body.decode()


def test_a_taken_port_is_a_clear_error(start):
    s = start()
    with pytest.raises(RuntimeError, match="another program has this port"):
        start("--tcp", "127.0.0.1", s.port)
    with pytest.raises(RuntimeError, match="no such address"):
        start("--tcp", "192.0.2.1", 0)


def test_sockets_of_systemd(start):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # A shell stands between: the descriptor must be 3 and LISTEN_PID the server's own.
        fd = listener.fileno()

        def prepare():
            os.dup2(fd, 3, inheritable=True)
            os.environ["LISTEN_PID"] = str(os.getpid())
            os.environ["LISTEN_FDS"] = "1"

        s = start("--fds", preexec_fn=prepare, pass_fds=(fd, 3) if fd != 3 else (3,), env=None)
        with s.connect() as c:
            assert c.get("/").body == b"hello\n"


# --- the end ---


def test_drain_finishes_what_runs(start):
    s = start()
    idle, busy, stream = s.connect(), s.connect(), s.connect()
    assert idle.get("/").status == 200
    busy.send("GET /work?ms=300 HTTP/1.1\r\nHost: x\r\n\r\n")
    stream.send("GET /hold?drain=1 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert stream.head().status == 200
    s.until(lambda st: st["exchanges"] == 3, "both run")
    s.process.send_signal(signal.SIGTERM)
    assert idle.is_closed()
    r = busy.reply()
    assert r.body == b"worked" and r.headers["connection"] == "close" and busy.is_closed()
    assert stream.all().endswith(b"8\r\ndraining\r\n0\r\n\r\n")
    with pytest.raises(OSError):
        s.connect()
    assert s.process.wait(30) == 0
    for c in (idle, busy, stream):
        c.close()


def test_drain_has_a_deadline(start):
    s = start()
    with s.connect() as c:
        c.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n")
        assert c.head().status == 200
        s.process.send_signal(signal.SIGTERM)
        start_s = time.monotonic()
        assert s.process.wait(30) == 0
        assert time.monotonic() - start_s > 1.5  # it was given its two seconds
        assert not c.all().endswith(b"0\r\n\r\n")


def test_many_connections_at_once(server):
    def one(_):
        with server.connect() as c:
            return [c.get("/work?ms=1").body for _ in range(5)]

    assert in_threads(one, list(range(100))) == [[b"worked"] * 5] * 100


def test_memory_is_flat_over_many_requests(start, build):
    s = start()
    with s.connect() as c:
        batch = (HELLO * 500).encode()

        def burst(times):
            for _ in range(times):
                c.send(batch)
                for _ in range(500):
                    assert c.reply().status == 200

        burst(4)
        before = s.memory()
        burst(20)
        assert s.memory() - before < 4 << 20
