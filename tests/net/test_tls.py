# SPDX-License-Identifier: Apache-2.0
"""TLS: certificates and their reload, bad ones, what else arrives at such a port; and our client against all of it."""

import shutil
import socket
import ssl
import threading

import pytest

from conftest import Conn, make_certificate


@pytest.fixture
def cert(tmp_path):
    return make_certificate(tmp_path / "tls")


def test_https(start, cert):
    s = start("--tls", *cert)
    assert s.url.startswith("https://")
    with s.connect_tls(cert[0]) as c:
        assert c.sock.selected_alpn_protocol() == "http/1.1"
        assert "tls=1" in c.get("/show").body.decode()
        body = bytes(range(256)) * 8000
        assert c.get("/echo?max=9999999", "POST", body=body).body == body
        assert len(c.get("/big?n=3000000").body) == 3000000
        assert len(c.get("/stream?n=3000000&size=5000").body) == 3000000
        for _ in range(100):
            assert c.get("/").body == b"hello\n"


def test_wss(start, cert):
    s = start("--tls", *cert)
    with s.connect_tls(cert[0]) as c:
        assert c.upgrade().status == 101
        for size in (1, 1000, 70000, 1 << 20):
            c.frame(2, b"s" * size)
            assert c.read_frame() == (2, b"s" * size)


def test_old_versions_are_refused(start, cert):
    s = start("--tls", *cert)
    context = ssl.create_default_context(cafile=cert[0])
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with socket.create_connection(("127.0.0.1", s.port)) as raw, pytest.raises((ssl.SSLError, OSError)):
        context.wrap_socket(raw, server_hostname="localhost")
    with s.connect_tls(cert[0]) as c:
        assert c.get("/").status == 200


def test_reload(start, cert, tmp_path):
    s = start("--tls", *cert)
    with s.connect_tls(cert[0]) as old:
        first = old.sock.getpeercert(True)
        new = make_certificate(tmp_path / "new")
        shutil.copy(new[0], cert[0])
        shutil.copy(new[1], cert[1])
        assert old.get("/reload").body == b"reloaded"
        with s.connect_tls(new[0]) as c:
            assert c.sock.getpeercert(True) != first
            assert c.get("/").status == 200
            # what cannot be used leaves the old one in place
            cert[0].write_text("nonsense")
            r = c.get("/reload")
            assert r.status == 500 and b"read the certificate" in r.body
        assert old.get("/").status == 200
        with s.connect_tls(new[0]) as c:
            assert c.get("/").status == 200


def test_bad_certificates_are_clear_errors(start, cert, tmp_path):
    other = make_certificate(tmp_path / "other")
    for files, text in (((tmp_path / "no", cert[1]), "No such file"), ((cert[0], tmp_path / "no"), "No such file"),
            ((cert[0], other[1]), "private key"), ((cert[1], cert[1]), "read the certificate")):
        with pytest.raises(RuntimeError, match=text) as e:
            start("--tls", *files)
        assert "hint: " in str(e.value) and not str(e.value).endswith("hint: \n")


def test_plain_http_is_told_what_is_wrong(start, cert):
    s = start("--tls", *cert)
    with s.connect() as c:
        c.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        r = c.reply()
        assert r.status == 400 and b"https://" in r.body


def test_noise_and_silence_instead_of_a_handshake(start, cert):
    s = start("--tls", *cert, "--handshake_ms", 400)
    for data in (b"", b"\x16\x03\x01", b"\x00" * 500, b"\x16\x03\x01\xff\xff" + b"x" * 70000):
        with s.connect() as c:
            try:
                c.send(data)
            except OSError:
                pass
            assert len(c.all()) < 100  # at most an alert
    with s.connect_tls(cert[0]) as c:
        assert c.get("/").status == 200


def test_slow_tls_reader(start, cert):
    """Partial writes inside TLS records."""
    s = start("--tls", *cert)
    with s.connect_tls(cert[0]) as c:
        c.send("GET /big?n=20000000 HTTP/1.1\r\nHost: x\r\n\r\n")
        r = c.head()
        left = int(r.headers["content-length"])
        data = c.need(left)
        assert data == (b"abcdefghijklmnopqrstuvwxyz" * (left // 26 + 1))[:left]


# --- our client ---


def test_client_over_everything(start, client, cert, tmp_path):
    plain, path, tls = start(), tmp_path / "sock", start("--tls", *cert)
    start("--unix", path, "0600")
    for url, options in ((plain.url, ()), (f"unix:{path}", ()), (f"https://localhost:{tls.port}", ("--ca", cert[0])),
            (tls.url, ("--ca", cert[0])), (tls.url, ("--insecure",))):
        status, request_id, body = client(*options, url, "call", "GET", "/")[:3]
        assert (status, body) == ("200", "hello") and len(request_id) == 32
        assert client(*options, url, "call", "POST", "/echo", "some body")[2] == "some body"
        assert client(*options, url, "many", "/", 200) == ["200", ""]
        assert client(*options, url, "upload", "PUT", "/count", 3000000)[2] == "3000000"
        assert client(*options, url, "upload", "PUT", "/count", 3000000, "chunked")[2] == "3000000"
        assert client(*options, url, "upload", "PUT", "/count", 100000, "expect")[2] == "100000"
        assert client(*options, url, "ws", "/ws", "one", "big:900000", "three") == [
            "1 3 one", "1 900000 " + "b" * 40, "1 5 three", "closed 1000 '' ESHUTDOWN", ""]


def test_client_errors(start, client, cert, tmp_path):
    tls = start("--tls", *cert)
    plain = start()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    assert client(f"http://127.0.0.1:{port}", "call", "GET", "/")[0].startswith("error ECONNREFUSED: connect to")
    assert client(f"unix:{tmp_path}/none", "call", "GET", "/")[0].startswith("error ENOENT: connect to")
    assert client("http://no.such.host.invalid", "call", "GET", "/")[0].startswith("error ENOENT: find the address")
    assert "certificate is not accepted" in client(tls.url, "call", "GET", "/")[0]
    other = make_certificate(tmp_path / "other", "elsewhere")
    wrong = start("--tls", *other)
    assert "certificate is not accepted" in client("--ca", other[0], f"https://localhost:{wrong.port}", "call", "GET", "/")[0]
    assert client("--insecure", f"https://127.0.0.1:{plain.port}", "call", "GET", "/")[0].startswith("error EPROTO")
    assert client("--timeout", 300, plain.url, "call", "GET", "/hold")[0].startswith("error ETIMEDOUT")
    assert client(plain.url, "call", "GET", "/abort")[0].startswith("error ECONNRESET")
    assert client(plain.url, "ws", "/nowhere", "x")[0] == "refused 404"
    assert client("ftp://x", "call", "GET", "/")[0].startswith("error EINVAL")
    assert client(plain.url, "ws", "/ws?max=10", "12345678901")[0].startswith("closed 1009")
    assert client(plain.url, "ws", "/ws", "close")[-2] == "closed 4001 'as you wish' ESHUTDOWN"


def test_client_hears_an_early_answer(start, client):
    """The server refuses a large upload before it has read it."""
    s = start("--body_bytes", 1000)
    lines = client(s.url, "upload", "PUT", "/count", 100000000)
    assert lines[0] == "413"


def serve_once(listener, answer, times=1):
    for _ in range(times):
        sock, _ = listener.accept()
        with Conn(sock) as c:
            c.until(b"\r\n\r\n")
            c.send(answer)


ANSWERS = {
    "a body until the end": (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", "200"),
    "interim answers": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "200"),
    "a short body": (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "error EPROTO"),
    "a short chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", "error EPROTO"),
    "a bad chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "error EPROTO"),
    "two lengths": (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "error EPROTO"),
    "another protocol": (b"SSH-2.0-OpenSSH\r\n", "error EPROTO"),
    "headers without end": (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100000, "error EPROTO"),
    "a huge body": (b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n" + b"x" * 20000000, "error EMSGSIZE"),
    "nothing": (b"", "error ECONNRESET"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_client_with_strange_servers(client, name):
    answer, expected = ANSWERS[name]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def run():
            try:
                serve_once(listener, answer)
            except OSError:
                pass

        t = threading.Thread(target=run)
        t.start()
        lines = client(f"http://127.0.0.1:{listener.getsockname()[1]}", "call", "GET", "/")
        t.join()
    assert lines[0].startswith(expected), lines


def test_client_opens_a_stale_connection_again(start, client):
    s = start("--requests", 7)
    assert client(s.url, "many", "/", 50) == ["50", ""]
    s = start("--idle_ms", 20)
    assert client(s.url, "many", "/work?ms=1", 100) == ["100", ""]
