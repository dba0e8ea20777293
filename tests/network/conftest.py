# SPDX-License-Identifier: Apache-2.0
"""A small internet of network namespaces: `internet` with servers on public and private addresses, `host` behind
it, in which Cell runs. Nothing of the machine's own network is touched or used.

CELL_BIN names the binary (default build/cell). Needs root, ip(8) and nft(8); the tests without root run Cell as
uid 65534 and need pasta too.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
CELL = Path(os.environ.get("CELL_BIN", TOP / "build" / "cell")).resolve()
PYTHON = "/usr/bin/python3"
NOBODY = 65534
PORT = 7777

PUBLIC, PUBLIC6 = "203.0.113.10", "2001:db8:ffff::10"
OWN, OWN_OTHER, OWN6 = "198.51.100.2", "203.0.113.77", "2001:db8:1::2"  # of the host
RESOLVER = "10.53.53.53"
CLOSED = ["10.1.2.3", "10.255.0.1", "172.16.9.9", "192.168.7.7", "169.254.169.254", "169.254.170.2", "100.64.1.1",
    "100.100.100.200", "168.63.129.16", "192.0.0.192", "198.19.255.1"]
CLOSED6 = ["fd00:ec2::254", "fd00:1::1", "64:ff9b::a01:203", "2002:a01:203::1"]


def run(*command, check=True, **options):
    r = subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=120, check=False, **options)
    assert not check or r.returncode == 0, f"{command}: {r.stdout}{r.stderr}"
    return r


class Place:
    """A network namespace (and a mount namespace), held by a process of ours."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "-n", "-m", "--propagation", "private", "sh", "-c", "echo; exec sleep infinity"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.holder.stdout.read(1)
        self.servers = []
        self("ip", "link", "set", "lo", "up")

    def command(self, *command):
        return ["nsenter", "-t", str(self.holder.pid), "-n", "-m", "--", *[str(c) for c in command]]

    def __call__(self, *command, **options):
        return run(*self.command(*command), **options)

    def serve(self, log, dns, *addresses):
        p = subprocess.Popen(self.command(PYTHON, HERE / "servers.py", log, PORT, dns, *addresses), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, text=True)
        self.servers.append(p)
        assert p.stdout.readline() == "ready\n", "the servers do not start"

    def end(self):
        for p in [*self.servers, self.holder]:
            p.kill()
            p.wait()
            p.stdout.close()


class World:
    def __init__(self, tmp):
        self.tmp = tmp
        self.log = tmp / "contacts"
        self.log.touch()
        self.internet, self.host = Place(), Place()
        self.build()

    def build(self):
        host, net = self.host, self.internet
        net("ip", "link", "add", "up0", "type", "veth", "peer", "name", "uplink", "netns", host.holder.pid)
        net("ip", "addr", "add", "198.51.100.1/24", "dev", "up0")
        net("ip", "-6", "addr", "add", "2001:db8:1::1/64", "dev", "up0", "nodad")
        net("ip", "link", "set", "up0", "up")
        host("ip", "addr", "add", f"{OWN}/24", "dev", "uplink")
        host("ip", "-6", "addr", "add", f"{OWN6}/64", "dev", "uplink", "nodad")
        host("sh", "-c", "echo 0 > /proc/sys/net/ipv4/ip_forward")  # a new namespace may have what the machine's own has
        host("ip", "link", "set", "uplink", "up")
        host("ip", "route", "add", "default", "via", "198.51.100.1")
        host("ip", "-6", "route", "add", "default", "via", "2001:db8:1::1")
        host("ip", "addr", "add", f"{OWN_OTHER}/32", "dev", "lo")
        for address in [PUBLIC, RESOLVER, *CLOSED]:
            net("ip", "addr", "add", f"{address}/32", "dev", "lo")
        for address in [PUBLIC6, *CLOSED6]:
            net("ip", "-6", "addr", "add", f"{address}/128", "dev", "lo", "nodad")
        net("sh", "-c", "for f in /proc/sys/net/ipv4/conf/*/accept_source_route; do echo 1 > $f; done; "
            "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet")
        net.serve(self.log, RESOLVER, PUBLIC, RESOLVER, *CLOSED, PUBLIC6, *CLOSED6)
        host.serve(self.log, "-", "127.0.0.1", "::1", OWN, OWN_OTHER, OWN6)
        self.set_resolver(RESOLVER)
        # as it is on most machines: everybody may have an interface of their own in a namespace of their own
        tun = self.tmp / "tun"
        os.mknod(tun, 0o020666, os.makedev(10, 200))
        tun.chmod(0o666)
        host("mount", "--bind", tun, "/dev/net/tun")

    def set_resolver(self, *addresses):
        text = "".join(f"nameserver {a}\n" for a in addresses)
        path = self.tmp / "resolv.conf"
        is_new = not path.exists()
        path.write_text(text)
        path.chmod(0o644)
        if is_new:
            self.host("mount", "--bind", path, "/etc/resolv.conf")

    def contacts(self):
        return self.log.read_text().splitlines()

    def end(self):
        self.host.end()
        self.internet.end()


class User:
    """Cell as root or as nobody, in the host of the world."""

    def __init__(self, world, tmp, uid):
        self.world, self.uid, self.tmp = world, uid, tmp
        self.work = tmp / "work"
        self.work.mkdir()
        shutil.copy(HERE / "reach.py", self.work)
        (tmp / "state").mkdir()
        for path in (tmp, self.work, tmp / "state"):
            os.chown(path, uid, uid)
        self.env = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(tmp), "TMPDIR": str(tmp),
            "CELL_STATE_DIR": str(tmp / "state"), "CELL_CONFIG_DIR": str(tmp)}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
            if name in os.environ:
                self.env[name] = os.environ[name]

    @property
    def is_root(self):
        return self.uid == 0

    def command(self, *arguments):
        drop = [] if self.is_root else ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"]
        return self.world.host.command(*drop, *arguments)

    def outside(self, *arguments, **options):
        return run(*self.command(*arguments), env=self.env, cwd="/", **options)

    def cell(self, *arguments, **options):
        return self.outside(CELL, *arguments, **options)

    def reach(self, how, address, *flags, port=PORT):
        """From a new open cell: did it answer?"""
        r = self.cell("run", "--network", "open", *flags, "-w", self.work, "--", PYTHON, "reach.py", how, address, port,
            check=False)
        assert r.stdout.startswith("reached") or r.returncode == 1, f"no cell: {r.stdout}{r.stderr}"
        assert r.returncode in (0, 1), r.stderr
        return r.returncode == 0

    def start(self, *arguments):
        return subprocess.Popen(self.command(CELL, *arguments), env=self.env, cwd="/", stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def need(program):
    if not shutil.which(program, path="/usr/sbin:/sbin:/usr/bin:/bin"):
        pytest.skip(f"there is no {program} here: tools/setup test")


def interfaces(place):
    text = place("ip", "-o", "link").stdout
    return [line.split(": ")[1].split("@")[0] for line in text.splitlines()]


def eventually(condition, what, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what() if callable(what) else what
        time.sleep(0.05)


def in_namespace(place):
    """Processes whose network is this place's, and not its holder or servers."""
    wanted, known = os.readlink(f"/proc/{place.holder.pid}/ns/net"), {p.pid for p in [*place.servers, place.holder]}
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in known:
            try:
                if os.readlink(f"/proc/{name}/ns/net") == wanted:
                    found.append((int(name), Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ")))
            except OSError:
                pass
    return found


def leftovers(world):
    host = world.host
    tables = host("nft", "list", "tables").stdout.split("\n")
    return {
        "interfaces": [name for name in interfaces(host) if name.startswith("cell-")],
        "tables": [line for line in tables if line],
        "processes": in_namespace(host),
        "forwarding": host("cat", "/proc/sys/net/ipv4/conf/uplink/forwarding").stdout.strip(),
        "marks": [name for name in (os.listdir("/run/cell") if os.path.isdir("/run/cell") else [])
            if name == f"network.{os.stat(f'/proc/{host.holder.pid}/ns/net').st_ino}"],
    }


CLEAN = {"interfaces": [], "tables": [], "processes": [], "forwarding": "0", "marks": []}


@pytest.fixture(scope="session")
def world():
    if os.geteuid() != 0:
        pytest.skip("needs root to make a network of its own")
    for program in ("ip", "nft", "unshare", "nsenter", "setpriv"):
        need(program)
    tmp = Path(tempfile.mkdtemp(prefix="cell-net.", dir="/tmp"))
    tmp.chmod(0o755)
    w = World(tmp)
    yield w
    w.end()
    shutil.rmtree(tmp)


@pytest.fixture(params=["root", "rootless"])
def user(request, world):
    if request.param == "rootless":
        need("pasta")
    tmp = Path(tempfile.mkdtemp(prefix="user.", dir=world.tmp))
    u = User(world, tmp, 0 if request.param == "root" else NOBODY)
    yield u
    eventually(lambda: leftovers(world) == CLEAN, lambda: f"left: {leftovers(world)}")
