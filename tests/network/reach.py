# SPDX-License-Identifier: Apache-2.0
"""Runs in a cell, and outside for the controls: tries to reach something.

    reach.py HOW ADDRESS PORT      how: tcp udp tcp-bound udp-bound udp-routed tcp-mapped name-tcp name-udp

Exit 0: it answered. 1: it did not; the reason is printed.
"""

import socket
import struct
import sys

TIMEOUT_S = 3
SO_BINDTODEVICE = 25


def interface():
    """The one that is not the loopback."""
    return next(name for _, name in socket.if_nameindex() if name != "lo").encode()


def dns_question(name):
    labels = b"".join(bytes([len(x)]) + x.encode() for x in name.split(".")) + b"\0"
    return struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + struct.pack(">HH", 1, 1)


def main():
    how, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if how.startswith("name"):
        kind = socket.SOCK_STREAM if how == "name-tcp" else socket.SOCK_DGRAM
        address = socket.getaddrinfo(address, port, socket.AF_INET, kind)[0][4][0]
        how = how[5:]
    if how.startswith("dns"):
        s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if how == "dns-tcp" else socket.SOCK_DGRAM)
        s.settimeout(TIMEOUT_S)
        s.connect((address, port))
        question = dns_question("www.example.org")
        s.sendall(struct.pack(">H", len(question)) + question if how == "dns-tcp" else question)
        assert s.recv(512)
        return
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    if how == "tcp-mapped":
        family, address, how = socket.AF_INET6, "::ffff:" + address, "tcp"
    s = socket.socket(family, socket.SOCK_STREAM if how.startswith("tcp") else socket.SOCK_DGRAM)
    s.settimeout(TIMEOUT_S)
    if how.endswith("-bound"):
        s.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, interface())
    if how == "udp-routed":  # strictly by way of the public server, to the address given
        hop = socket.inet_aton("203.0.113.10")
        s.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, bytes([131, 7, 4]) + hop + b"\0")
    if how.startswith("tcp"):
        s.connect((address, port))
    else:
        s.sendto(b"x", (address, port))
    assert s.recv(16), "closed at once"


try:
    main()
except (OSError, AssertionError, StopIteration) as e:
    print(f"{type(e).__name__}: {e}")
    sys.exit(1)
print("reached")
