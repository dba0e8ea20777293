# SPDX-License-Identifier: Apache-2.0
"""WebSockets, tunnels, and what is done to them."""

import base64
import hashlib
import os
import socket
import struct
import time

import pytest

from conftest import in_threads


@pytest.fixture
def ws(server):
    c = server.connect()
    assert c.upgrade().status == 101
    yield c
    c.close()


def test_the_handshake(server):
    with server.connect() as c:
        r = c.upgrade(headers="Sec-WebSocket-Protocol: other, echo.v1\r\n")
        wanted = base64.b64encode(hashlib.sha1(c.KEY.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode()
        assert r.status == 101 and r.headers["sec-websocket-accept"] == wanted
        assert r.headers["upgrade"] == "websocket" and r.headers["connection"] == "Upgrade"
        assert r.headers["sec-websocket-protocol"] == "echo.v1" and "x-request-id" in r.headers


@pytest.mark.parametrize("headers, status", [
    ("Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 12\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", 426),
    ("Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n", 400),
    ("Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n", 400),
    ("Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", 400),
    ("Upgrade: h2c\r\nConnection: Upgrade\r\n", 400),
    ("Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
     "Origin: https://evil.example\r\n", 403),
])
def test_refused_handshakes_leave_the_connection_usable(server, headers, status):
    with server.connect() as c:
        r = c.get("/ws", headers=headers)
        assert r.status == status
        assert r.headers.get("sec-websocket-version") == ("13" if status == 426 else None)
        assert c.get("/").body == b"hello\n"


def test_an_ignored_upgrade_is_an_ordinary_request(server):
    with server.connect() as c:
        for _ in range(2):
            assert c.get("/", headers="Connection: Upgrade\r\nUpgrade: websocket\r\n").body == b"hello\n"


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 1 << 20])
def test_messages_come_back(ws, size):
    for opcode, data in ((2, os.urandom(size)), (1, b"t" * size)):
        ws.frame(opcode, data)
        assert ws.read_frame() == (opcode, data)


def test_fragments_are_joined_and_pings_answered_between(ws):
    ws.frame(1, "ä".encode()[:1], fin=False)
    ws.frame(9, b"are you there")
    ws.frame(0, "ä".encode()[1:], fin=False)
    ws.frame(0, b"", fin=False)
    ws.frame(0, b"!")
    assert ws.read_frame() == (10, b"are you there")
    assert ws.read_frame() == (1, "ä!".encode())


def test_frames_in_single_bytes(ws):
    class Slow:
        data = b""

    real, Slow.data = ws.send, b""
    ws.send = lambda d: setattr(Slow, "data", Slow.data + d)
    ws.frame(1, b"hello", fin=False)
    ws.frame(0, b"x" * 300)
    ws.send = real
    for b in Slow.data:
        ws.send(bytes([b]))
    assert ws.read_frame() == (1, b"hello" + b"x" * 300)


def test_bytes_behind_the_handshake_are_not_lost(server):
    with server.connect() as c:
        c.send(f"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {c.KEY}\r\n\r\n".encode() + b"\x81\x85\0\0\0\0early")
        assert c.reply().status == 101
        assert c.read_frame() == (1, b"early")


def test_closing_both_ways(server, ws):
    ws.frame(8, struct.pack(">H", 1001) + b"bye")
    assert ws.close_code() == 1001
    assert ws.is_closed()
    server.until(lambda s: s["ws_closed"] == 1 and s["ws_code"] == 1001, "told")
    with server.connect() as c:
        assert c.upgrade().status == 101
        c.frame(1, b"close")
        assert c.read_frame() == (8, struct.pack(">H", 4001) + b"as you wish")
        c.frame(1, b"too late")
        c.frame(8, struct.pack(">H", 4001))
        assert c.is_closed()
    server.until(lambda s: s["ws_closed"] == 2 and s["ws_code"] == 4001, "told")


def test_a_peer_that_vanishes(server):
    c = server.connect()
    assert c.upgrade().status == 101
    c.close()
    server.until(lambda s: s["ws_closed"] == 1 and s["ws_code"] == 1006, "told")


ABUSE = {
    "no mask": (1002, lambda c: c.frame(1, b"x", mask=None)),
    "a reserved bit": (1002, lambda c: c.frame(1, b"x", rsv=4)),
    "a reserved opcode": (1002, lambda c: c.frame(3, b"x")),
    "a reserved control opcode": (1002, lambda c: c.frame(11, b"x")),
    "a continuation of nothing": (1002, lambda c: c.frame(0, b"x")),
    "a message inside a message": (1002, lambda c: (c.frame(1, b"a", fin=False), c.frame(1, b"b"))),
    "a fragmented ping": (1002, lambda c: c.frame(9, b"x", fin=False)),
    "a long ping": (1002, lambda c: c.frame(9, b"x" * 126)),
    "a length that is too long for itself": (1002, lambda c: c.send(b"\x81\xfe\x00\x05\0\0\0\0hello")),
    "a 64-bit length that is too long for itself": (1002, lambda c: c.send(b"\x81\xff" + struct.pack(">Q", 5) + b"\0\0\0\0hello")),
    "a length of 2^63": (1002, lambda c: c.send(b"\x82\xff" + struct.pack(">Q", 1 << 63) + b"\0\0\0\0")),
    "an announced terabyte": (1009, lambda c: c.send(b"\x82\xff" + struct.pack(">Q", 1 << 40) + b"\0\0\0\0")),
    "one byte too much": (1009, lambda c: c.send(b"\x82\xff" + struct.pack(">Q", (1 << 20) + 1) + b"\0\0\0\0")),
    "text that is no UTF-8": (1007, lambda c: c.frame(1, b"\xff\xfe")),
    "overlong UTF-8": (1007, lambda c: c.frame(1, b"\xc0\xaf")),
    "a surrogate": (1007, lambda c: c.frame(1, b"\xed\xa0\x80")),
    "half a character": (1007, lambda c: c.frame(1, b"\xe2\x82")),
    "a close frame of one byte": (1002, lambda c: c.frame(8, b"x")),
    "a forbidden close code": (1002, lambda c: c.frame(8, struct.pack(">H", 1005))),
    "a close code of 0": (1002, lambda c: c.frame(8, b"\0\0")),
    "a close reason that is no UTF-8": (1007, lambda c: c.frame(8, struct.pack(">H", 1000) + b"\xff")),
}


def test_abuse_is_closed_with_the_right_code(server):
    for name, (code, attack) in ABUSE.items():
        with server.connect() as c:
            assert c.upgrade().status == 101
            c.frame(1, b"before")  # the control
            assert c.read_frame() == (1, b"before")
            attack(c)
            assert c.close_code() == code, name
            assert c.is_closed(), name
    server.until(lambda s: s["ws_closed"] == len(ABUSE) and s["exchanges"] == 1, "all ended")


def test_a_flood_of_fragments_is_bounded(server):
    before = server.memory()
    with server.connect() as c:
        assert c.upgrade().status == 101
        c.frame(2, b"x", fin=False)
        one = b"\x00\x81\0\0\0\0y"  # a continuation with one byte
        try:
            for _ in range(1100):
                c.send(one * 1000)
            code = c.close_code()
        except OSError:
            code = 1009  # it closed while we were sending
        assert code == 1009
    assert server.memory() - before < 48 << 20


def test_a_flood_of_pings_is_bounded(server):
    """Pings whose answers are not read: the server neither keeps them nor stops."""
    before = server.memory()
    with server.connect() as c:
        assert c.upgrade().status == 101
        c.sock.settimeout(2)
        ping = (b"\x89\xfd\0\0\0\0" + b"p" * 125) * 500
        sent = 0
        try:
            while sent < 60 << 20:
                sent += c.sock.send(ping)
        except (TimeoutError, OSError):
            pass
        assert server.memory() - before < 48 << 20
        with server.connect() as other:
            assert other.get("/").status == 200


def test_messages_nobody_reads_hold_the_sender_back(start):
    s = start("--queued_bytes", 65536)
    before = s.memory()
    with s.connect() as c:
        assert c.upgrade().status == 101
        c.sock.settimeout(1)
        frame, sent = b"\x82\xfe\xff\xff\0\0\0\0" + b"m" * 65535, 0
        try:
            while sent < 100 << 20:
                sent += c.sock.send(frame)
        except TimeoutError:
            pass
        assert sent < 100 << 20, "nothing held it back"
        assert s.memory() - before < 48 << 20
        c.sock.settimeout(30)
        rest = frame[sent % len(frame):] if sent % len(frame) else b""
        count = (sent + len(rest)) // len(frame)

        def read_all():
            for _ in range(count):
                assert c.read_frame() == (2, b"m" * 65535)

        in_threads(lambda f: f(), [read_all, lambda: c.sock.sendall(rest)])


def test_pings_and_their_deadline(server):
    with server.connect() as c:
        assert c.upgrade("/ws?ping=100&pong=300").status == 101
        assert c.read_frame() == (9, b"")
        c.frame(10)
        assert c.read_frame() == (9, b"")
        start_s = time.monotonic()
        assert c.is_closed() and time.monotonic() - start_s < 20
    server.until(lambda s: s["ws_code"] == 1006, "told")


def test_a_draining_server_says_so(start):
    s = start()
    with s.connect() as c:
        assert c.upgrade().status == 101
        s.process.terminate()
        assert c.close_code() == 1001
        c.frame(8, struct.pack(">H", 1001))
        assert s.process.wait(30) == 0


# --- tunnels ---


def test_a_tunnel_after_101(server):
    with server.connect() as c:
        c.send("GET /tunnel HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: bytes\r\n\r\nfirst")
        r = c.reply()
        assert r.status == 101 and r.headers["upgrade"] == "bytes"
        assert c.need(5) == b"first"
        data = os.urandom(3_000_000)
        result = in_threads(lambda f: f(), [lambda: c.sock.sendall(data), lambda: c.need(len(data))])
        assert result[1] == data
        c.sock.shutdown(socket.SHUT_WR)  # cat ends, and with it the other direction
        assert c.is_closed()
    server.until(lambda s: s["relayed"] == 1 and s["exchanges"] == 1, "ended")


def test_a_tunnel_without_the_headers_is_refused(server):
    with server.connect() as c:
        assert c.get("/tunnel").status == 400


def test_bodies_as_a_tunnel(server):
    with server.connect() as c:
        c.send("POST /pipe HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        assert c.head().status == 200
        assert c.until(b"\r\n") == b"5" and c.need(7) == b"hello\r\n"
        c.send("0\r\n\r\n")
        assert c.need(5) == b"0\r\n\r\n"


def test_an_idle_tunnel_ends(server):
    with server.connect() as c:
        c.send("GET /tunnel?idle=200 HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: bytes\r\n\r\n")
        assert c.reply().status == 101
        assert c.is_closed()
    server.until(lambda s: s["relayed"] == 1, "ended")


def test_a_tunnel_whose_client_vanishes(server):
    c = server.connect()
    c.send("GET /tunnel HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: bytes\r\n\r\n")
    assert c.reply().status == 101
    c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    c.close()
    server.until(lambda s: s["relayed"] == 1 and s["connections"] == 1, "ended")
