# SPDX-License-Identifier: Apache-2.0
"""Scratch space in memory and on disk: sizes hold, and nothing of it outlives its cell, however that ends."""

import os
import signal
from pathlib import Path

import pytest
from conftest import command_line, descendants, processes, wait_until
from jail_modes import USER, jail, root_jail, user_jail  # noqa: F401

FILL = "dd if=/dev/zero of=/tmp/big bs=64k count=400 2>&1; ls -s --block-size=1 /tmp/big | cut -d' ' -f1"
MAKE_FILES = """
import errno
n = 0
try:
    while n < 4000:
        open(f"/tmp/f{n}", "w").close()
        n += 1
except OSError as e:
    print(errno.errorcode[e.errno])
print(n)
"""


def loops(c):
    """Loop devices that hold a file of this test's."""
    found = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            if str(c.dir) in backing.read_text():
                found.append(backing.parent.parent.name)
        except OSError:
            pass
    return found


def mounts_of(c, devices):
    return [line for line in Path("/proc/mounts").read_text().splitlines() if line.split()[0].split("/")[-1] in devices]


def needs_images(c):
    if not c.has("scratch.disk"):
        pytest.skip("no loop devices or no mkfs.ext4 here")


@pytest.mark.parametrize("scratch", ["memory", "disk"])
def test_a_full_disk_is_enospc_inside(root_jail, scratch):
    needs_images(root_jail)
    r = root_jail.sh(FILL, "--scratch", scratch, "--disk", "10m")
    assert "No space left on device" in r.text, r
    assert 8 << 20 <= int(r.text.split()[-1]) <= 10 << 20, r
    control = root_jail.sh(FILL, "--scratch", scratch, "--disk", "40m")
    assert "No space left" not in control.text and int(control.text.split()[-1]) >= 25 << 20, control


@pytest.mark.parametrize("scratch", ["memory", "disk"])
def test_too_many_files_are_enospc_inside(root_jail, scratch):
    needs_images(root_jail)
    options = ["--scratch", scratch, "--disk", "32m", "--inodes", "300"]
    errno, n = root_jail.ok("run", *options, "--", "python3", "-c", MAKE_FILES).text.split()
    assert errno == "ENOSPC" and 300 <= int(n) <= 600, (errno, n)  # a file system rounds up
    options[-1] = "9000"
    assert root_jail.ok("run", *options, "--", "python3", "-c", MAKE_FILES).text.split() == ["4000"]


def test_where_it_is_can_be_seen_inside(jail):
    if jail.is_root:
        needs_images(jail)
    kinds = {where: jail.ok("run", "--scratch", where, "--", "stat", "-f", "-c", "%T", "/tmp", "/home/cell", "/workspace",
                            "/dev/shm").text.split() for where in ("memory", "disk")}
    assert kinds["memory"] == ["tmpfs"] * 4
    assert "tmpfs" not in kinds["disk"][:3] and kinds["disk"][3] == "tmpfs", kinds


def test_the_scratch_space_is_nosuid_and_nodev_and_ones_own(jail):
    if jail.is_root:
        needs_images(jail)
    r = jail.sh("echo x > /tmp/f && stat -c '%U %a' /tmp/f /tmp && grep ' /tmp ' /proc/mounts", "--scratch", "disk")
    owner, tmp, mount = r.text.splitlines()
    assert owner.startswith("cell ") and tmp == "cell 1777", r
    assert "nosuid" in mount and "nodev" in mount, r


def test_an_image_is_changed_on_disk(jail):
    if jail.is_root:
        needs_images(jail)
    tree = jail.dir / "tree"
    (tree / "bin").mkdir(parents=True)
    (tree / "bin" / "busybox").write_bytes(Path("/bin/busybox").read_bytes())
    (tree / "bin" / "busybox").chmod(0o755)
    (tree / "etc").mkdir()
    (tree / "etc" / "motd").write_text("from below\n")
    if not jail.is_root:
        for path in [tree, *tree.rglob("*")]:
            os.chown(path, USER, USER)
    line = ("busybox rm /etc/motd && echo up > /etc/new && busybox cat /etc/new && busybox ls /etc && "
            "busybox stat -f -c %T /workspace")
    r = jail("run", "--root", tree, "--scratch", "disk", "--", "/bin/busybox", "sh", "-c", line)
    assert r.code == 0 and r.text.split()[:2] == ["up", "new"], r
    assert (tree / "etc" / "motd").read_text() == "from below\n" and not (tree / "etc" / "new").exists()


def test_without_root_a_size_on_disk_is_refused_or_reported(user_jail):
    for limit in (["--disk", "10m"], ["--inodes", "100"]):
        user_jail.fails("run", "--scratch", "disk", *limit, "--", "true", says=["without root", "--scratch memory"])
        r = user_jail.ok("--json", "run", "--scratch", "disk", *limit, "--limits", "best-effort", "--", "true").json
        assert r["degraded"] == ["limits." + limit[0][2:]]
        r = user_jail.ok("run", "--scratch", "disk", *limit, "--limits", "best-effort", "--", "true")
        assert "limits." + limit[0][2:] in r.errors


def test_what_cannot_be_had_is_said_at_once(root_jail):
    needs_images(root_jail)
    root_jail.fails("run", "--scratch", "disk", "--disk", "900t", "--", "true", says=["No space left", "--disk"])
    root_jail.fails("run", "--scratch", "disk", "--disk", "100k", "--", "true", says=["256k"])
    root_jail.fails("run", "--scratch", "disk", "--disk", "1m", "--inodes", "100000", "--", "true", says=["--inodes"])
    root_jail.fails("run", "--backend", "subprocess", "--scratch", "disk", "--", "true", says=["scratch.disk"])


def test_a_disk_that_is_memory_is_none(root_jail):
    needs_images(root_jail)
    state = Path(f"/dev/shm/cell-test-{os.getpid()}")
    try:
        root_jail.fails("run", "--scratch", "disk", "--", "true", env={"CELL_STATE_DIR": str(state)},
                        says=["itself in memory", "CELL_STATE_DIR"])
    finally:
        for path in sorted(state.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        state.rmdir()


def test_nothing_is_left_when_a_cell_ends(root_jail):
    needs_images(root_jail)
    root_jail.ok("create", "--scratch", "disk", "--disk", "10m", "web")
    devices = loops(root_jail)
    assert len(devices) == 1, "the control: while it lives there is one"
    assert not mounts_of(root_jail, devices), "its mount is not the host's"
    assert root_jail.ok("exec", "web", "--", "sh", "-c", "echo kept > /tmp/f; cat /tmp/f").text == "kept\n"
    assert root_jail.ok("exec", "web", "--", "cat", "/tmp/f").text == "kept\n"
    root_jail.ok("rm", "-f", "web")
    wait_until(lambda: not loops(root_jail), what="the loop device is free")


def end_of(c, role, child):
    """The process that is to be killed."""
    if role == "client":
        return child.pid
    wanted = {"launcher": "cell-launcher", "guest": "cell-guest:"}[role]
    found = {p for p in descendants() if command_line(p).startswith(wanted)}
    parents = processes()
    found = [p for p in found if parents[p][0] not in found]  # its keepers have its name
    assert len(found) == 1, f"{role}: {[(p, command_line(p)) for p in descendants()]}"
    return found[0]


@pytest.mark.parametrize("role", ["client", "launcher", "guest"])
def test_nothing_is_left_after_kill_9(jail, role):
    if jail.is_root:
        needs_images(jail)
    child = jail.popen("run", "--scratch", "disk", "--", "sh", "-c", "echo up > /tmp/f; echo ready; exec sleep 600")
    assert child.stdout.readline() == b"ready\n"
    if jail.is_root:
        assert len(loops(jail)) == 1, "the control"
    else:
        assert list((jail.state / "cells").glob("*/scratch/tmp/f")), "the control"
    os.kill(end_of(jail, role, child), signal.SIGKILL)
    child.wait(timeout=60)
    wait_until(lambda: not loops(jail), what="the loop device is free")
    jail.ok("prune")
    assert not list((jail.state / "cells").iterdir())


def test_nothing_is_left_of_a_named_cell_whose_guest_was_killed(jail):
    if jail.is_root:
        needs_images(jail)
    jail.ok("create", "--scratch", "disk", "web")
    guest = end_of(jail, "guest", None)
    os.kill(guest, signal.SIGKILL)
    wait_until(lambda: guest not in descendants(), what="the guest is gone")  # its mounts go before it does
    wait_until(lambda: not loops(jail), what="the loop device is free")
    jail.ok("prune")
    assert not list((jail.state / "cells").iterdir())
