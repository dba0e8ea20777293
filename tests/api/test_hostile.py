# SPDX-License-Identifier: Apache-2.0
"""Everything at once, in the middle, and against each other: nobody is left waiting, nothing is half, the server goes on."""

import base64
import http.client
import json
import os
import socket
import threading
import time

from conftest import PATIENCE_S
from test_ports import listen


def wait_for(what, patience=PATIENCE_S):
    end = time.monotonic() + patience
    while not what():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def raw(server):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(PATIENCE_S)
    sock.connect(server.socket)
    return sock


def head(session, method, path, *fields):
    lines = [f"{method} {session.path}{path} HTTP/1.1", "Host: x", *(f"{k}: {v}" for k, v in session.client.headers().items()), *fields]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def until_closed(sock, what):
    """Everything that comes; a connection that is cut has an end, too."""
    got = b""
    while True:
        try:
            more = sock.recv(65536)
        except ConnectionResetError:
            return got
        except TimeoutError as e:
            raise AssertionError(f"left waiting: {what}: {got[-300:]}") from e
        if not more:
            return got
        got += more


WEBSOCKET = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + base64.b64encode(b"0" * 16).decode())


def test_a_session_that_ends_lets_go_of_everybody(make_server):
    """A wait, streams, a watch, uploads, a writer, WebSockets and connections to a port are under way; then four end the session at once."""
    server = make_server()
    s = listen(server.client().session())
    other = server.client().session()
    stuck = s.background("cat > /dev/null", stdin=True)
    body = json.dumps({"command": "sleep 600"})
    long_body = json.dumps({"command": "while :; do echo x; sleep 0.01; done"})
    requests = [
        head(s, "POST", "/exec", f"Content-Length: {len(body)}", "Connection: close") + body.encode(),
        head(s, "POST", "/exec", "Accept: application/x-ndjson", f"Content-Length: {len(long_body)}", "Connection: close") + long_body.encode(),
        head(s, "GET", f"/execs/{stuck}/output", "Accept: text/event-stream", "Connection: close"),
        head(s, "GET", f"/execs/{stuck}/ws", *WEBSOCKET),
        head(s, "GET", "/files/watch?path=.", "Connection: close"),
        head(s, "PUT", "/files?path=half", "Content-Length: 1000000", "Connection: close") + b"x" * 1000,
        head(s, "PUT", "/files/tar?path=tree", "Content-Length: 1000000", "Connection: close") + b"x" * 100,
        head(s, "POST", f"/execs/{stuck}/stdin", "Content-Length: 1000000", "Connection: close") + b"x" * 1000,
        head(s, "GET", "/ports/8080/stuck", "Connection: close"),
        head(s, "GET", "/ports/8080/", *WEBSOCKET),
    ]
    socks = [raw(server) for _ in requests]
    for sock, text in zip(socks, requests):
        sock.sendall(text)
    for sock, text in zip(socks, requests):
        if b"Upgrade:" in text:
            assert sock.recv(12) == b"HTTP/1.1 101"
    wait_for(lambda: s.get().json["execs_running"] >= 4)
    results = []
    ending = [threading.Thread(target=lambda: results.append(server.client().delete(s.path).status)) for _ in range(4)]
    for t in ending:
        t.start()
    for t in ending:
        t.join(PATIENCE_S)
        assert not t.is_alive()
    assert set(results) <= {204, 404} and 204 in results, results
    for i, sock in enumerate(socks):
        got = until_closed(sock, requests[i][:90])
        assert got or requests[i].startswith((b"PUT", b"POST")), requests[i][:80]
        assert b" 500 " not in got[:40], got[:300]
        sock.close()
    assert server.client().get(s.path).status == 404
    assert other.run("echo on")["stdout"] == "on\n"


def test_an_upload_is_whole_or_not_there(server):
    """The server is killed in its middle."""
    s = server.client().session()
    assert s.put("kept", b"old").status == 200
    for name in ("kept", "new"):
        sock = raw(server)
        sock.sendall(head(s, "PUT", f"/files?path={name}", "Content-Length: 3000000") + b"n" * 2000000)
        s.run("true")  # it has begun, or not: either will do
        server.restart()
        s.client.connection = None
        sock.close()
    wait_for(lambda: s.run("ls -A")["stdout"] == "kept\n")
    assert s.read("kept").body == b"old"


def test_one_key_for_two_requests_at_once(server):
    """Twenty of each: one of the two is done, once; who sent the other is told."""
    s = server.client().session()
    answers = []

    def send(text):
        a = server.client().call("POST", f"{s.path}/exec", {"command": f"echo {text} >> ran; sleep 0.2; echo {text}"}, {"Idempotency-Key": "k"})
        answers.append((text, a.status, a.json.get("stdout")))

    threads = [threading.Thread(target=send, args=(word,)) for word in ("a", "b") for _ in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(PATIENCE_S)
    ran = s.run("cat ran")["stdout"].strip()
    assert ran in ("a", "b"), ran
    assert len(answers) == 40
    for text, status, out in answers:
        assert (status, out) == (200, f"{ran}\n") if text == ran else status == 409, (text, status, out, ran)


def test_a_client_that_goes_at_any_byte_harms_nobody(server):
    s = server.client().session()
    body = json.dumps({"command": "echo hello"}).encode()
    whole = head(s, "POST", "/exec", f"Content-Length: {len(body)}") + body
    for cut in range(0, len(whole) + 1, 7):
        sock = raw(server)
        sock.sendall(whole[:cut])
        sock.close()
    socket_of = raw(server)
    for i in range(len(whole)):
        socket_of.sendall(whole[i:i + 1])
    r = http.client.HTTPResponse(socket_of)
    r.begin()
    assert r.status == 200 and json.loads(r.read())["stdout"] == "hello\n"
    socket_of.close()
    before = len(os.listdir(f"/proc/{server.process.pid}/fd"))
    wait_for(lambda: len(os.listdir(f"/proc/{server.process.pid}/fd")) <= before)
    assert s.run("echo on")["stdout"] == "on\n"


def test_uploads_that_stall_are_in_nobodys_way(server):
    s = server.client().session()
    socks = [raw(server) for _ in range(40)]
    for i, sock in enumerate(socks):
        sock.sendall(head(s, "PUT", f"/files?path=stalled{i}", "Content-Length: 1000000") + b"x" * 1000)
    other = server.client().session()
    assert other.get("/files/stat", path=".").status == 200
    assert other.put("mine", b"1").status == 200 and other.read("mine").body == b"1"
    for sock in socks:
        sock.close()
    wait_for(lambda: not [f for f in s.get("/files/list", path=".").json["entries"] if f["path"].startswith("stalled")])


def test_transfers_count_as_streams_of_a_tenant(make_server):
    server = make_server("server: {quotas: {streams: 2}}\n")
    s = server.client().session()
    socks = [raw(server) for _ in range(2)]
    for i, sock in enumerate(socks):
        sock.sendall(head(s, "PUT", f"/files?path=stalled{i}", "Content-Length: 1000000") + b"x" * 1000)
    wait_for(lambda: b"\ncell_streams 2\n" in server.client().get("/metrics").body)
    assert s.put("more", b"1").status == 429
    assert s.get("/files/stat", path=".").status == 200
    for sock in socks:
        sock.close()
    wait_for(lambda: s.put("more", b"1").status == 200)
