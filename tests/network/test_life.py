# SPDX-License-Identifier: Apache-2.0
"""How open networks begin and end: nothing of them may stay on the host, whoever is killed when."""

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from conftest import CELL, CLEAN, PORT, PUBLIC, PYTHON, eventually, in_namespace, interfaces, leftovers

SEND = ("import socket\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\nprint('go',flush=True)\n"
    "while True:\n try: s.sendto(b'x'*1000,('203.0.113.10',7777))\n except OSError: pass\n")


def is_running(pid):
    """Ended is ended, also when whoever adopted it has not looked yet."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def begin(user, *more, command=("sh", "-c", "echo go; sleep 1000")):
    p = user.start("run", "--network", "open", *more, "--", *command)
    line = p.stdout.readline()
    assert line == "go\n", line + p.stderr.read()
    return p


def end(p):
    p.kill()
    p.communicate()


def is_clean(world):
    return leftovers(world) == CLEAN


def test_there_is_something_to_be_left(world, user):
    """The control of all others here."""
    p = begin(user)
    try:
        found = leftovers(world)
        if user.is_root:
            assert found["interfaces"]
            assert found["tables"] == ["table inet cell"]
            assert found["forwarding"] == "1"
        else:
            assert any(b"pasta" in command for _, command in found["processes"])
            assert any(b"cell-net" in command for _, command in found["processes"])
            assert not found["interfaces"]
            assert not found["tables"]
    finally:
        end(p)


def test_nothing_is_left_after_a_cell(world, user):
    user.cell("run", "--network", "open", "--", "true")
    eventually(lambda: is_clean(world), lambda: f"left: {leftovers(world)}")


def test_nothing_is_left_when_the_client_is_killed(world, user):
    p = begin(user)
    p.send_signal(signal.SIGKILL)
    p.communicate()
    eventually(lambda: not interfaces_of_cells(world) and not in_namespace(world.host), "something is left")


def interfaces_of_cells(world):
    return [name for name in interfaces(world.host) if name.startswith("cell-")]


def children(pid):
    return [int(x) for x in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def launcher_of(p):
    for pid in [p.pid, *children(p.pid)]:
        for child in children(pid):
            if Path(f"/proc/{child}/comm").read_text().strip() == "cell-launcher":
                return child
    raise AssertionError("no launcher")


def test_nothing_is_left_when_the_launcher_is_killed(world, user):
    p = begin(user)
    os.kill(launcher_of(p), signal.SIGKILL)
    p.communicate(timeout=60)
    # what the kernel does not take back by itself, the next command does
    user.cell("run", "--", "true")
    eventually(lambda: is_clean(world), lambda: f"left: {leftovers(world)}")


def test_nothing_is_left_when_the_launcher_is_killed_while_pasta_starts(world, user):
    """The cell's first process is there and waits for a network: with the launcher gone, nobody would ever tell it."""
    if user.is_root:
        pytest.skip("pasta is for those without root")
    slow = user.tmp / "slow"
    slow.mkdir()
    (slow / "pasta").write_text("#!/bin/sh\nexec sleep 1000\n")
    (slow / "pasta").chmod(0o755)
    slow.chmod(0o755)
    path, user.env["PATH"] = user.env["PATH"], f"{slow}:{user.env['PATH']}"
    p = user.start("run", "--network", "open", "--", "true")
    user.env["PATH"] = path
    try:
        eventually(lambda: [c for _, c in in_namespace(world.host) if c.startswith(b"sleep 1000")], "pasta is not asked for")
        launcher = launcher_of(p)
        waiting = children(launcher)
        assert waiting, "no first process waits"
        os.kill(launcher, signal.SIGKILL)
        eventually(lambda: not [pid for pid in waiting if is_running(pid)], "the first process is left")
    finally:
        end(p)
    eventually(lambda: is_clean(world), lambda: f"left: {leftovers(world)}")


@pytest.mark.parametrize("whom", [b"cell-net", b"pasta"])
def test_keeper_and_pasta_end_together(world, user, whom):
    if user.is_root:
        pytest.skip("pasta is for those without root")
    p = begin(user)
    for pid, command in in_namespace(world.host):
        if whom in command.split(b" ")[0]:
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: not [c for _, c in in_namespace(world.host) if b"pasta" in c or b"cell-net" in c],
        "one of the two is left")
    end(p)
    eventually(lambda: is_clean(world), lambda: f"left: {leftovers(world)}")


def test_a_named_cell_keeps_its_network_without_a_client(world, user):
    user.cell("create", "--network", "open", "-w", user.work, "kept")
    try:
        r = user.cell("exec", "kept", "--", PYTHON, "reach.py", "tcp", PUBLIC, PORT)
        assert r.stdout == "reached\n"
    finally:
        user.cell("rm", "--force", "kept")
    eventually(lambda: is_clean(world), lambda: f"left: {leftovers(world)}")


def test_a_named_cell_whose_first_process_is_killed_leaves_nothing(world, user):
    user.cell("create", "--network", "open", "kept")
    try:
        for guest in guests_of(user):
            os.kill(guest, signal.SIGKILL)
        eventually(lambda: not interfaces_of_cells(world) and not in_namespace(world.host), "something is left")
    finally:
        user.cell("rm", "--force", "kept", check=False)
    eventually(lambda: is_clean(world), lambda: f"left: {leftovers(world)}")


def guests_of(user):
    """Guests carry the device and inode of their cell's directory in their name."""
    titles = set()
    for directory, _, _ in os.walk(user.tmp / "state"):
        st = os.stat(directory)
        titles.add(f"cell-guest:kept:{st.st_dev:x}.{st.st_ino:x}".encode())
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")[0] in titles:
                found.append(int(name))
        except OSError:
            pass
    assert found, "no guest"
    return found


def test_a_cell_may_end_while_it_sends(world, user):
    p = begin(user, "--timeout", "2s", command=(PYTHON, "-c", SEND))
    p.communicate(timeout=60)
    eventually(lambda: is_clean(world), lambda: f"left: {leftovers(world)}")


def test_twenty_at_once(world, user):
    results = []

    def one():
        r = user.cell("run", "--network", "open", "-w", user.work, "--", PYTHON, "reach.py", "tcp", PUBLIC, PORT,
            check=False)
        results.append((r.returncode, r.stdout, r.stderr))

    threads = [threading.Thread(target=one) for _ in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [r for r in results if r[0] != 0 or r[1] != "reached\n"] == []
    eventually(lambda: is_clean(world), lambda: f"left: {leftovers(world)}")


def test_forwarding_that_was_on_stays_on(world, user):
    world.host("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
    try:
        assert user.reach("tcp", PUBLIC) if (user.work / "reach.py").exists() else False
        assert world.host("cat", "/proc/sys/net/ipv4/ip_forward").stdout == "1\n"
        assert world.host("cat", "/proc/sys/net/ipv4/conf/uplink/forwarding").stdout == "1\n"
    finally:
        world.host("sh", "-c", "echo 0 > /proc/sys/net/ipv4/ip_forward")


def test_forwarding_is_taken_back_from_many_interfaces(world, user):
    if not user.is_root:
        pytest.skip("nothing is passed on without root")
    names = [f"many-{n}" for n in range(300)]
    script = "\n".join(f"link add {n} type veth peer name {n}p" for n in names)
    world.host("sh", "-c", f"ip -batch - <<'END'\n{script}\nEND")
    on = "cat /proc/sys/net/ipv4/conf/many-*/forwarding | grep -c 1 || true"
    try:
        p = begin(user)
        try:
            assert world.host("sh", "-c", on).stdout.strip() == "600"  # the control
        finally:
            end(p)
        user.cell("run", "--", "true")
        eventually(lambda: is_clean(world), lambda: f"left: {leftovers(world)}")
        assert world.host("sh", "-c", on).stdout.strip() == "0"
    finally:
        script = "\n".join(f"link del {n}" for n in names)
        world.host("sh", "-c", f"ip -batch - <<'END'\n{script}\nEND")


def test_interfaces_may_come_and_go_meanwhile(world, user):
    if not user.is_root:
        pytest.skip("nothing of the host's interfaces is touched without root")
    churn = "while :; do for n in 1 2 3 4 5 6; do ip link add come-$n type veth peer name go-$n; done; " \
        "for n in 1 2 3 4 5 6; do ip link del come-$n; done; done"
    other = subprocess.Popen(world.host.command("sh", "-c", churn), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True)
    try:
        for _ in range(15):
            r = user.cell("run", "--network", "open", "--", "true", check=False)
            assert r.returncode == 0, r.stderr
    finally:
        os.killpg(other.pid, signal.SIGKILL)
        other.wait()
        for n in range(1, 7):
            world.host("ip", "link", "del", f"come-{n}", check=False)
    eventually(lambda: is_clean(world), lambda: f"left: {leftovers(world)}")


def test_strangers_get_nothing_passed_on(world, user):
    """While a cell is open the host passes packets on, for cells only."""
    if not user.is_root:
        pytest.skip("the host passes nothing on without root")
    world.host("ip", "link", "add", "other", "type", "veth", "peer", "name", "other-end")
    world.host("sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/other/disable_ipv6")  # it talks by itself
    world.host("ip", "link", "set", "other-end", "up")
    world.host("ip", "addr", "add", "10.77.0.1/24", "dev", "other")
    world.host("ip", "link", "set", "other", "up")
    world.internet("ip", "route", "add", "10.77.0.0/24", "via", "198.51.100.2")

    p = begin(user)
    try:
        world.host("ip", "neigh", "replace", "10.77.0.9", "lladdr", "02:00:00:00:00:09", "dev", "other", "nud", "permanent")
        before = packets(world)
        for _ in range(3):
            world.internet(PYTHON, "-c", "import socket;socket.socket(socket.AF_INET,socket.SOCK_DGRAM).sendto(b'x',('10.77.0.9',9))")
        assert packets(world) == before
        # the control: without that chain they come through
        world.host("nft", "flush", "chain", "inet", "cell", "strangers")
        world.internet(PYTHON, "-c", "import socket;socket.socket(socket.AF_INET,socket.SOCK_DGRAM).sendto(b'x',('10.77.0.9',9))")
        assert packets(world) > before
    finally:
        end(p)
        world.host("ip", "link", "del", "other")
        world.internet("ip", "route", "del", "10.77.0.0/24", check=False)
    user.cell("run", "--", "true")
    eventually(lambda: is_clean(world), lambda: f"left: {leftovers(world)}")


def packets(world):
    """Sent by the interface `other`."""
    for line in world.host("cat", "/proc/self/net/dev").stdout.splitlines():
        if line.strip().startswith("other:"):
            return int(line.partition(":")[2].split()[9])
    raise AssertionError("no counter")


def test_a_cell_cannot_fill_the_hosts_table_of_connections(world, user):
    if not user.is_root:
        pytest.skip("pasta has no part in that table")
    code = ("import socket\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n"
        "for p in range(20000,40000):\n s.sendto(b'x',('203.0.113.10',p))\nprint('go',flush=True)\nimport time;time.sleep(1000)\n")
    p = begin(user, command=(PYTHON, "-c", code))
    try:
        count = int(world.host("cat", "/proc/sys/net/netfilter/nf_conntrack_count").stdout)
        assert 8000 < count < 8500
        # and the host's own connections are made all the same
        assert world.host(PYTHON, user.work / "reach.py", "tcp", PUBLIC, PORT).stdout == "reached\n"
    finally:
        end(p)
    user.cell("run", "--", "true")


def test_another_firewall_that_drops_is_named(world, user):
    if not user.is_root:
        pytest.skip("nothing is passed on without root")
    world.host("nft", "add table ip filter; add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }")
    try:
        r = user.cell("run", "--network", "open", "--", "true", check=False)
        assert r.returncode != 0
        assert "filter FORWARD" in r.stderr
        assert "iptables -I" in r.stderr
        world.host("nft", 'add rule ip filter FORWARD iifname "cell-*" accept; '
            'add rule ip filter FORWARD oifname "cell-*" ct state established,related accept')
        assert user.reach("tcp", PUBLIC)
    finally:
        world.host("nft", "delete table ip filter")
    eventually(lambda: is_clean(world), lambda: f"left: {leftovers(world)}")


def test_pasta_missing_is_said(world, user):
    if user.is_root:
        pytest.skip("pasta is for those without root")
    r = user.outside("env", "PATH=/nowhere", CELL, "run", "--network", "open", "--", "true", check=False)
    assert r.returncode != 0
    assert "passt" in r.stderr


def test_an_image_gets_its_resolver_too(world, user):
    root = user.tmp / "root"
    for name in ("bin", "etc", "usr", "tmp", "proc", "dev", "lib", "lib64"):
        (root / name).mkdir(parents=True, exist_ok=True)
    busybox = next((p for p in ("/bin/busybox", "/usr/bin/busybox") if os.access(p, os.X_OK)), None)
    if not busybox or "dynamic" in subprocess.run(["file", "-L", busybox], capture_output=True, text=True, check=False).stdout:
        pytest.skip("no static busybox")
    subprocess.run(["cp", busybox, root / "bin" / "busybox"], check=True)
    (root / "bin" / "sh").symlink_to("busybox")
    (root / "bin" / "cat").symlink_to("busybox")
    (root / "etc" / "resolv.conf").symlink_to("../run/nowhere/resolv.conf")
    subprocess.run(["chown", "-R", f"{user.uid}:{user.uid}", root], check=True)
    r = user.cell("run", "--root", root, "--network", "open", "--", "cat", "/etc/resolv.conf")
    assert "nameserver 10.53.53.53" in r.stdout
    assert os.path.islink(root / "etc" / "resolv.conf")


def test_a_mark_goes_with_its_namespace(world, user):
    """A container that was killed takes its rules with it, and cannot take back the file that speaks of them."""
    if not user.is_root:
        pytest.skip("marks are root's")
    if os.stat("/proc/self/ns/pid").st_ino != 0xEFFFFFFC:
        pytest.skip("only who sees every process of the machine can tell that a namespace is nobody's")
    own = os.readlink("/proc/self/ns/net")
    holder = subprocess.Popen(["unshare", "--net", "sleep", "1000"])
    try:
        eventually(lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != own, "unshare makes no namespace")
        mark = Path(f"/run/cell/network.{os.stat(f'/proc/{holder.pid}/ns/net').st_ino}")
        user.cell("run", "--", "true")
        mark.touch(0o600)
        user.cell("run", "--", "true")
        assert mark.exists()
    finally:
        holder.kill()
        holder.wait()

    def is_gone():
        user.cell("run", "--", "true")
        return not mark.exists()

    eventually(is_gone, f"{mark} is still there")
