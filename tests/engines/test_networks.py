# SPDX-License-Identifier: Apache-2.0
"""Networks of the engines, by name, by default and none, with somebody to talk to on the other side; and GPUs, which there are none of."""

import ctypes
import json
import os
import socket
import subprocess
import threading

import pytest
from conftest import Cell, started, wait_for
from engines import KINDS, Docker

CLONE_NEWNET = 0x40000000
by_each = pytest.mark.parametrize("engine", ["docker", "podman"], indirect=True, scope="module")


@pytest.fixture(scope="module", autouse=True)
def apart():
    """A network of our own: engines turn on forwarding and leave rules behind, and the machine's is nobody's to change."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/net", "rb") as before:
        assert libc.unshare(CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        try:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            yield
        finally:
            assert libc.setns(before.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())


@pytest.fixture(scope="module")
def engine(request, apart):
    """Engines in it, instead of those of the whole run."""
    with started(KINDS[request.param]) as made:
        yield made


class Greeter:
    """Says hello to whoever connects to this address."""

    def __init__(self, address):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.IPPROTO_IP, 15, 1)  # IP_FREEBIND: the bridge may have no carrier yet
        self.socket.bind((address, 0))
        self.socket.listen()
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                connection.sendall(b"hello\n")

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def talk(address, port):
    return ("--", "sh", "-c", f"ls /sys/class/net; busybox nc -w 5 {address} {port} </dev/null || echo alone")


@pytest.fixture
def network(engine):
    name, subnet = f"cell{os.urandom(3).hex()}", "10.213.7" if engine.backend == "docker" else "10.213.8"
    status, text = engine.ask("POST", "/v1.41/networks/create", json.dumps({"Name": name, "Driver": "bridge", "Internal": True,
        "IPAM": {"Config": [{"Subnet": f"{subnet}.0/24", "Gateway": f"{subnet}.1"}]}}))
    assert status == 201, text
    yield name, f"{subnet}.1"
    assert engine.ask("DELETE", f"/v1.41/networks/{name}")[0] in (200, 204)


@by_each
def test_a_network_by_its_name_and_none(cell, network):
    name, gateway = network
    greeter = Greeter(gateway)
    try:
        # whether the gateway is an address of this machine is the engine's choice for a closed network
        r = cell.run("--network-name", name, "--", "ls", "/sys/class/net")
        assert r.out.split() == ["eth0", "lo"], (r.out, r.err)
        if cell.backend == "docker":
            r = cell.run("--network-name", name, *talk(gateway, greeter.port))
            assert r.out.split() == ["eth0", "lo", "hello"], (r.out, r.err)
        for args in ((), ("--network", "none")):
            r = cell.run(*args, *talk(gateway, greeter.port))
            assert r.out.split() == ["lo", "alone"], (r.out, r.err)
    finally:
        greeter.close()
    assert "no-such" in cell.fails("--network-name", "no-such", "--", "true")


@by_each
def test_an_engine_without_a_default_network_says_so(cell):
    if cell.backend != "docker":
        pytest.skip("the tests' Podman has one")
    err = cell.fails("--network", "open", "--", "true")
    assert "no default network" in err and "--network-name" in err


def test_the_default_network(tmp_path):
    bridge, address = f"cb{os.urandom(3).hex()}", "10.213.9.1"
    subprocess.run(["ip", "link", "add", bridge, "type", "bridge"], check=True)
    try:
        subprocess.run(["ip", "addr", "add", f"{address}/24", "dev", bridge], check=True)
        subprocess.run(["ip", "link", "set", bridge, "up"], check=True)
        with started(Docker, "--bridge", bridge) as engine:
            cell, greeter = Cell("docker", engine.env), Greeter(address)
            r = cell.run("--network", "open", *talk(address, greeter.port))
            assert r.out.split() == ["eth0", "lo", "hello"], (r.out, r.err)
            r = cell.run(*talk(address, greeter.port))
            assert r.out.split() == ["lo", "alone"], (r.out, r.err)
            greeter.close()
            assert not cell.remove()
            wait_for(lambda: not engine.containers(), "no container is left")
    finally:
        subprocess.run(["ip", "link", "del", bridge], check=True)


@by_each
def test_gpus_that_are_not_there_are_told(cell):
    """That one is given is not tested: it takes a machine with one."""
    err = cell.fails("--gpus", "1", "--", "true")
    assert "gpu" in err.lower() and "hint" in err, err
