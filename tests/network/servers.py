# SPDX-License-Identifier: Apache-2.0
"""Runs in a network namespace of a test: answers TCP and UDP on every address it is given, and names.

    servers.py LOG PORT DNS_ADDRESS|- ADDRESS...

Each contact is a line of LOG, `tcp 10.1.2.3 from 198.51.100.2`, so that a packet that got somewhere is
seen even when no answer found its way back. Prints `ready` when it listens.
"""

import selectors
import socket
import struct
import sys

ANSWER = "203.0.113.10"


def listen(selector, kind, address, port, handler):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    s = socket.socket(family, kind)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    s.bind((address, port))
    if kind == socket.SOCK_STREAM:
        s.listen(64)
    s.setblocking(False)
    selector.register(s, selectors.EVENT_READ, (handler, address))


def dns_answer(query):
    """One A record for every question, none for other types."""
    end = 12
    while query[end]:
        end += query[end] + 1
    question, (kind,) = query[12:end + 5], struct.unpack(">H", query[end + 1:end + 3])
    count = 1 if kind == 1 else 0
    out = query[:2] + struct.pack(">HHHHH", 0x8180, 1, count, 0, 0) + question
    if count:
        out += b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) + socket.inet_aton(ANSWER)
    return out


def main():
    log = open(sys.argv[1], "a", buffering=1)
    port, dns = int(sys.argv[2]), sys.argv[3]
    selector = selectors.DefaultSelector()

    def tcp(s, address):
        connection, peer = s.accept()
        log.write(f"tcp {address} from {peer[0]}\n")
        connection.sendall(b"hello\n")
        connection.close()

    def udp(s, address):
        data, peer = s.recvfrom(65536)
        log.write(f"udp {address} from {peer[0]}\n")
        s.sendto(b"hello\n", peer)

    def dns_udp(s, address):
        data, peer = s.recvfrom(4096)
        log.write(f"dns-udp {address} from {peer[0]}\n")
        s.sendto(dns_answer(data), peer)

    def dns_tcp(s, address):
        connection, peer = s.accept()
        connection.settimeout(5)
        log.write(f"dns-tcp {address} from {peer[0]}\n")
        try:
            (n,) = struct.unpack(">H", connection.recv(2))
            answer = dns_answer(connection.recv(n))
            connection.sendall(struct.pack(">H", len(answer)) + answer)
        except (OSError, struct.error, IndexError):
            pass
        connection.close()

    for address in sys.argv[4:]:
        listen(selector, socket.SOCK_STREAM, address, port, tcp)
        listen(selector, socket.SOCK_DGRAM, address, port, udp)
    if dns != "-":
        listen(selector, socket.SOCK_DGRAM, dns, 53, dns_udp)
        listen(selector, socket.SOCK_STREAM, dns, 53, dns_tcp)
    print("ready", flush=True)
    while True:
        for key, _ in selector.select():
            handler, address = key.data
            try:
                handler(key.fileobj, address)
            except OSError:
                pass


main()
