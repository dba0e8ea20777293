# SPDX-License-Identifier: Apache-2.0
"""Programs that listen in a cell, reached through the server."""

import base64
import hashlib
import http.client
import json
import os
import socket
import time

import pytest
from conftest import PATIENCE_S

# Tells what it was sent, byte for byte; some paths do special things.
PROGRAM = r'''
import base64, hashlib, json, socket, sys, threading
def serve(s):
    f = s.makefile("rwb")
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        c = f.read(1)
        if not c: return
        head += c
    lines = head.decode("latin-1").split("\r\n")
    target = lines[0].split(" ")[1]
    fields = dict((l.split(": ", 1)[0].lower(), l.split(": ", 1)[1]) for l in lines[1:] if l)
    def say(x): f.write(x); f.flush()
    if target == "/mute":
        return
    if target == "/stuck":
        threading.Event().wait()
    if target == "/garbage":
        say(b"NOT HTTP AT ALL\r\n\r\n"); return
    if target == "/both":
        say(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"); return
    if target in ("/204", "/304"):
        say(b"HTTP/1.1 " + target[1:].encode() + b" Odd\r\nContent-Length: 3\r\nX-A: b\r\n\r\nabc"); return
    if target == "/204chunked":
        say(b"HTTP/1.1 204 Odd\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n3\r\nabc\r\n0\r\n\r\n"); return
    if target == "/body":
        say(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-A: b\r\n\r\nabc"); return
    if target == "/short":
        say(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"); return
    if target == "/closed":
        say(b"HTTP/1.0 200 OK\r\nX-A: b\r\n\r\nuntil the end"); return
    if target == "/continue":
        say(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Made\r\nContent-Length: 2\r\n\r\nok"); return
    if target == "/evil":
        say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nStrict-Transport-Security: max-age=9\r\nClear-Site-Data: *\r\nSet-Cookie: a=b\r\n"
            b"Access-Control-Allow-Origin: *\r\nX-Mine: yes\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-Request-Id: forged\r\n\r\nok"); return
    if target.startswith("/big"):
        say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i in range(int(target[4:])):
            say(b"10000\r\n" + bytes([i % 251]) * 65536 + b"\r\n")
        say(b"0\r\n\r\n"); return
    if fields.get("upgrade") == "websocket":
        key = base64.b64encode(hashlib.sha1((fields["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
        say(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + key + b"\r\n\r\nhello")
        while True:
            b = s.recv(65536)
            if not b: break
            s.sendall(b)
        say(b"bye"); return
    if "transfer-encoding" in fields:
        body = b""
        while True:
            n = int(f.readline(), 16)
            body += f.read(n); f.read(2)
            if not n: break
    else:
        body = f.read(int(fields.get("content-length", 0)))
    text = json.dumps({"line": lines[0], "fields": fields, "length": len(body), "sha": hashlib.sha256(body).hexdigest()}).encode()
    if lines[0].startswith("HEAD"):
        say(b"HTTP/1.1 200 OK\r\nContent-Length: 77\r\nX-A: b\r\n\r\n"); return
    say(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
def one(s):
    try: serve(s)
    finally:
        try: s.shutdown(socket.SHUT_WR)
        except OSError: pass
        s.close()
family = socket.AF_INET6 if sys.argv[1] == "::1" else socket.AF_INET
l = socket.socket(family); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.bind((sys.argv[1], int(sys.argv[2]))); l.listen(64)
print("ready", flush=True)
while True:
    s, _ = l.accept()
    threading.Thread(target=one, args=(s,), daemon=True).start()
'''


def listen(session, address="127.0.0.1", port=8080):
    assert session.put("program.py", PROGRAM.encode()).status == 200
    started = session.background(f"exec python3 program.py {address} {port}")
    for e in session.follow(started):
        if e["type"] == "stdout" and "ready" in e["data"]:
            return session
        assert e["type"] in ("started", "stdout", "stderr"), e
    raise AssertionError("the program ended")


@pytest.fixture(scope="module")
def busy(shared):
    s = listen(shared.client().session())
    yield s
    s.end()


def ask(session, method, path, body=None, headers=None, port=8080):
    return session.client.call(method, f"{session.path}/ports/{port}{path}", body, headers)


def test_what_listens_is_listed(busy):
    ports = busy.get("/ports").json["ports"]
    assert [p for p in ports if p["port"] == 8080 and p["address"] == "127.0.0.1"], ports


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_every_method_arrives_with_path_and_query_as_sent(busy, method):
    a = ask(busy, method, "/a%2Fb//c;x=1/%7Euser?q=1&q=%20+%26", b"body" if method in ("POST", "PUT", "PATCH") else None)
    assert a.status == 200, a
    assert a.json["line"] == f"{method} /a%2Fb//c;x=1/%7Euser?q=1&q=%20+%26 HTTP/1.1"
    assert a.json["length"] == (4 if method in ("POST", "PUT", "PATCH") else 0)


@pytest.mark.parametrize(("method", "path", "status", "body"), [
    ("GET", "/204", 204, b""), ("GET", "/204chunked", 204, b""), ("GET", "/304", 304, b""), ("HEAD", "/body", 200, b""),
    ("GET", "/body", 200, b"abc")])
def test_a_body_where_none_can_be_is_left_out(busy, method, path, status, body):
    """Programs do send one. The answer is whole without it, and the client's connection goes on."""
    connection = busy.client.connect()
    for _ in range(2):
        connection.request(method, f"{busy.path}/ports/8080{path}", headers=busy.client.headers())
        a = connection.getresponse()
        assert (a.status, a.read(), a.headers["X-A"], a.will_close) == (status, body, "b", False)
    connection.close()


def test_head_has_the_length_and_no_body(busy):
    a = ask(busy, "HEAD", "/x")
    assert (a.status, a.body, a.headers["Content-Length"], a.headers["X-A"]) == (200, b"", "77", "b")
    assert ask(busy, "GET", "/x").status == 200


def test_credentials_stay_here_and_forwarding_is_told(busy):
    a = ask(busy, "GET", "/x", headers={"Idempotency-Key": "k-1", "X-Forwarded-For": "6.6.6.6", "Forwarded": "for=6.6.6.6", "X-Own": "1",
                                        "Connection": "X-Secret", "X-Secret": "2", "Keep-Alive": "9", "Cookie": "a=1; cell-port-c=1"})
    fields = a.json["fields"]
    for name in ("authorization", "idempotency-key", "forwarded", "x-secret", "keep-alive"):
        assert name not in fields, (name, fields)
    assert fields["x-own"] == "1" and fields["cookie"] == "c=1"
    assert fields["x-forwarded-for"] != "6.6.6.6"
    assert fields["x-forwarded-prefix"] == f"{busy.path}/ports/8080"
    assert fields["x-request-id"] == a.headers["X-Request-Id"]
    assert fields["host"] == "localhost:8080"


def test_a_large_body_goes_in_and_comes_out_whole(busy):
    body = os.urandom(5 << 20)
    a = ask(busy, "POST", "/up", body)
    assert (a.json["length"], a.json["sha"]) == (len(body), hashlib.sha256(body).hexdigest())
    pieces = [body[i:i + 70000] for i in range(0, len(body), 70000)]
    connection = busy.client.connect()
    connection.request("POST", f"{busy.path}/ports/8080/up", iter(pieces), busy.client.headers(), encode_chunked=True)
    got = json.loads(connection.getresponse().read())
    assert (got["length"], got["sha"]) == (len(body), hashlib.sha256(body).hexdigest())
    assert got["fields"]["transfer-encoding"] == "chunked" and "content-length" not in got["fields"]
    a = ask(busy, "GET", "/big100")
    assert a.body == b"".join(bytes([i % 251]) * 65536 for i in range(100))


def test_a_slow_reader_holds_the_program_back_and_not_the_others(busy):
    connection = busy.client.connect()
    connection.request("GET", f"{busy.path}/ports/8080/big600", headers=busy.client.headers())
    r = connection.getresponse()
    for _ in range(5):
        assert ask(busy, "GET", "/x").status == 200
        assert busy.run("echo still here")["stdout"] == "still here\n"
    assert len(r.read()) == 600 * 65536


def test_answers_that_end_with_the_connection_or_after_a_100(busy):
    a = ask(busy, "GET", "/closed")
    assert (a.status, a.body, a.headers["X-A"]) == (200, b"until the end", "b")
    a = ask(busy, "GET", "/continue")
    assert (a.status, a.body) == (201, b"ok")


def test_a_cell_does_not_speak_for_the_origin(busy):
    a = ask(busy, "GET", "/evil")
    assert a.headers["X-Mine"] == "yes"
    for name in ("Strict-Transport-Security", "Clear-Site-Data", "Access-Control-Allow-Origin", "X-Hop"):
        assert name not in a.headers, name
    assert a.headers.get_all("X-Request-Id") != ["forged"] and len(a.headers.get_all("X-Request-Id")) == 1
    assert a.headers["Content-Security-Policy"].startswith("sandbox")


def test_cookies_of_a_program_come_back_to_it_and_no_others(busy):
    """As a client that keeps cookies has it: by name and path."""
    a = ask(busy, "GET", "/evil")
    assert a.headers.get_all("Set-Cookie") == [f"cell-port-a=b; Path={busy.path}/ports/8080/"]
    kept = a.headers["Set-Cookie"].split(";")[0]
    seen = ask(busy, "GET", "/x", headers={"Cookie": f"dashboard=secret; {kept}; _proxy=secret"}).json["fields"]
    assert seen["cookie"] == "a=b"
    assert "cookie" not in ask(busy, "GET", "/x", headers={"Cookie": "dashboard=secret"}).json["fields"]


@pytest.mark.parametrize(("path", "word"), [("/garbage", "no proper HTTP"), ("/both", "no proper HTTP"), ("/mute", "without an answer")])
def test_no_proper_answer_is_502(busy, path, word):
    a = ask(busy, "GET", path)
    assert a.status == 502 and word in a.json["message"], a


def test_an_answer_cut_short_is_not_taken_for_whole(busy):
    with pytest.raises((http.client.IncompleteRead, http.client.RemoteDisconnected, ConnectionResetError)):
        connection = busy.client.connect()
        connection.request("GET", f"{busy.path}/ports/8080/short", headers=busy.client.headers())
        connection.getresponse().read()


def test_nothing_listens_there(busy):
    a = ask(busy, "GET", "/", port=9)
    assert (a.status, a.json["code"]) == (502, "backend") or a.status == 502, a
    assert "port 9" in a.json["message"] and a.json["hint"]
    for bad in ("0", "65536", "x", "-1", "80a"):
        assert ask(busy, "GET", "/", port=bad).status == 400, bad


def test_ipv6_loopback_too(shared):
    s = shared.client().session()
    try:
        listen(s, "::1", 8081)
    except AssertionError:
        s.end()
        pytest.skip("no IPv6 in this cell")
    assert ask(s, "GET", "/six", port=8081).json["line"] == "GET /six HTTP/1.1"
    s.end()


def test_a_port_of_the_server_is_not_a_port_of_the_cell(busy, shared):
    """What listens on the server's own loopback is not reached; the same request from here is."""
    with socket.create_connection(("127.0.0.1", shared.port), 5):
        pass
    assert ask(busy, "GET", "/healthz", port=shared.port).status == 502


def test_another_tenant_sees_nothing_there(busy, shared):
    a = shared.client(shared.make_token("--tenant", "else")).get(f"{busy.path}/ports/8080/x")
    assert a.status == 404
    a = shared.client(shared.make_token("--role", "read-only")).get(f"{busy.path}/ports/8080/x")
    assert a.status == 403
    connection = shared.connect()
    connection.request("GET", f"{busy.path}/ports/8080/x")
    assert connection.getresponse().status == 401


def raw(shared, text, token):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(PATIENCE_S)
    s.connect(shared.socket)
    s.sendall(text.replace("\n", "\r\n").replace("TOKEN", token).encode())
    return s


def read_to(s, mark):
    got = b""
    while mark not in got:
        b = s.recv(65536)
        if not b:
            break
        got += b
    return got


def test_a_websocket_goes_through_both_ways(busy, shared):
    key = base64.b64encode(os.urandom(16)).decode()
    s = raw(shared, f"GET {busy.path}/ports/8080/ws HTTP/1.1\nHost: x\nAuthorization: Bearer TOKEN\nConnection: Upgrade\nUpgrade: websocket\n"
            f"Sec-WebSocket-Version: 13\nSec-WebSocket-Key: {key}\n\n", shared.admin)
    want = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
    got = read_to(s, b"hello")
    assert got.startswith(b"HTTP/1.1 101") and want in got, got
    blob = os.urandom(1 << 20)
    s.sendall(blob[:1000])
    back = b""
    while len(back) < 1000:
        back += s.recv(65536)
    assert back == blob[:1000]
    s.shutdown(socket.SHUT_WR)
    assert read_to(s, b"bye").endswith(b"bye")
    assert s.recv(1) == b""


def test_an_upgrade_that_is_refused_is_an_ordinary_answer(busy, shared):
    s = raw(shared, f"GET {busy.path}/ports/8080/x HTTP/1.1\nHost: x\nAuthorization: Bearer TOKEN\nConnection: Upgrade, close\nUpgrade: other\n\n", shared.admin)
    assert read_to(s, b'"sha"').startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("head", ["Content-Length: 3\nTransfer-Encoding: chunked\n", "Content-Length: 3\nContent-Length: 4\n", "Transfer-Encoding: chunked, x\n",
                                  "X: a\n b\n", "X : a\n"])
def test_smuggling_does_not_reach_the_cell(busy, shared, head):
    s = raw(shared, f"POST {busy.path}/ports/8080/x HTTP/1.1\nHost: x\nAuthorization: Bearer TOKEN\n{head}\nabc", shared.admin)
    got = read_to(s, b"\r\n\r\n")
    assert got.split(b" ")[1][:1] in (b"4", b"5") and not got.startswith(b"HTTP/1.1 502"), got


def test_a_client_that_goes_away_closes_the_connection_in_the_cell(busy, shared):
    def connections():
        return busy.run("cat /proc/net/tcp | awk '$4 == \"01\"' | wc -l")["stdout"].strip()
    before = connections()
    s = raw(shared, f"GET {busy.path}/ports/8080/ws HTTP/1.1\nHost: x\nAuthorization: Bearer TOKEN\nConnection: Upgrade\nUpgrade: websocket\n"
            "Sec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n\n", shared.admin)
    assert b"hello" in read_to(s, b"hello")
    assert connections() != before
    s.close()
    end = time.monotonic() + PATIENCE_S
    while connections() != before:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_session_that_ends_ends_its_connections(shared):
    s = listen(shared.client().session())
    c = raw(shared, f"GET {s.path}/ports/8080/ws HTTP/1.1\nHost: x\nAuthorization: Bearer TOKEN\nConnection: Upgrade\nUpgrade: websocket\n"
            "Sec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n\n", shared.admin)
    assert b"hello" in read_to(c, b"hello")
    s.end()
    assert c.recv(1) == b""


def test_policy_and_audit_know_of_it(make_server):
    server = make_server("server:\n  policy:\n    rules:\n      - {name: no-ports, effect: deny, action: port.connect, tenant: closed}\n")
    a, b = (server.client(server.make_token("--tenant", t)) for t in ("closed", "open"))
    for client, status in ((a, 403), (b, 502)):
        s = client.session()
        assert ask(s, "GET", "/").status == status
        s.end()
    records = server.client().get("/v1/audit", action="port.connect").lines
    assert {r["kind"] for r in records} == {"intent", "result"}, records
    assert "no-ports" in json.dumps(records)


def test_a_program_that_does_not_answer_is_504(make_server):
    server = make_server("server: {port_timeout: 1s}\n")
    s = listen(server.client().session())
    a = ask(s, "GET", "/stuck")
    assert a.status == 504 and a.json["hint"], a
    assert ask(s, "GET", "/x").status == 200


def test_an_open_connection_is_use_of_the_session(make_server):
    server = make_server()
    s = server.client().session(idle_timeout="2s")
    assert s.put("program.py", PROGRAM.encode()).status == 200
    s.run("setsid python3 program.py 127.0.0.1 8080 > said 2>&1 < /dev/null & until grep -q ready said; do sleep 0.05; done")
    c = raw(server, f"GET {s.path}/ports/8080/ws HTTP/1.1\nHost: x\nAuthorization: Bearer TOKEN\nConnection: Upgrade\nUpgrade: websocket\n"
            "Sec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n\n", server.admin)
    assert b"hello" in read_to(c, b"hello")
    time.sleep(4)
    c.sendall(b"still")
    assert c.recv(5) == b"still"
    c.close()
    end = time.monotonic() + PATIENCE_S
    while s.get().status != 404:
        assert time.monotonic() < end
        time.sleep(0.3)
