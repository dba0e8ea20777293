# SPDX-License-Identifier: Apache-2.0
"""Limits hold for the whole cell, are told in the result, and touch nobody else."""

import json
import pathlib
import re

import pytest

MIB = 1 << 20
EATERS = {
    "one process": ("python3", "-c", "x = bytearray(1 << 30)"),
    "many small ones": ("python3", "-c", "import os, time\nfor i in range(40):\n if os.fork() == 0: break\nx = bytearray(8 << 20)\ntime.sleep(60)"),
    "/dev/shm": ("python3", "-c", "f = open('/dev/shm/x', 'wb')\nwhile True: f.write(b'x' * (1 << 20)); f.flush()"),
    "/tmp": ("python3", "-c", "f = open('/tmp/x', 'wb')\nwhile True: f.write(b'x' * (1 << 20)); f.flush()"),
    "a memfd": ("python3", "-c", "import os\nf = os.memfd_create('x')\nwhile True: os.write(f, b'x' * (1 << 20))"),
}


@pytest.fixture
def neighbour(root_jail):
    """A cell that uses memory of its own all the while; it must not notice anything."""
    child = root_jail.start("run", "--memory", "64m", "--", "python3", "-c",
        "import sys\nx = bytearray(24 << 20)\nprint('on', flush=True)\nsys.stdin.read()\nprint(len(x))", stdin=-1)
    assert child.stdout.readline() == "on\n", child.stderr.read()
    yield child
    out, err = child.communicate("", timeout=60)
    assert (out, child.returncode) == (f"{24 * MIB}\n", 0), err


@pytest.mark.parametrize("what", EATERS)
def test_out_of_memory_takes_the_whole_cell_and_nobody_else(root_jail, neighbour, what):
    root_jail.need("limits.memory")
    r = root_jail("run", "--json", "--memory", "64m", "--", *EATERS[what])
    d = r.json
    assert (r.code, d["exit_code"], d["signal"], d["oom"]) == (137, 137, 9, True), r
    assert d["timed_out"] is False and neighbour.poll() is None, r


def test_without_the_limit_the_same_fits(root_jail):
    """The positive control: it is the limit that ends it."""
    r = root_jail("run", "--json", "--", "python3", "-c", "x = bytearray(100 << 20); print(len(x))")
    assert (r.code, r.json["oom"], r.json["stdout"]) == (0, False, f"{100 * MIB}\n"), r


def test_out_of_memory_leaves_no_survivor(root_jail):
    """On cgroup v1 the kernel picks one process; the others of the cell must not live on."""
    root_jail.need("limits.memory")
    root_jail.ok("create", "--memory", "64m", "web")
    try:
        other = root_jail.ok("exec", "--detach", "web", "--", "sleep", "1000").out.strip()
        r = root_jail("exec", "--json", "web", "--", *EATERS["one process"])
        assert (r.code, r.json["oom"]) == (137, True), r
        states = {c["id"]: c for c in root_jail.ok("ps", "--json", "web").json["commands"]}
        assert states.get(other, {"state": "exited"})["state"] == "exited", states
        assert root_jail.ok("exec", "web", "--", "echo", "usable").out == "usable\n"
    finally:
        root_jail("rm", "-f", "web")


COUNT = "import os\nn = 0\ntry:\n while n < 500:\n  if os.fork() == 0: os.kill(os.getpid(), 19)\n  n += 1\nexcept OSError: pass\nprint(n)"


def test_the_number_of_processes_is_limited(jail):
    jail.need("limits.pids")
    free = jail("run", "--json", "--", "python3", "-c", COUNT)
    held = jail("run", "--json", "--pids", 64, "--", "python3", "-c", COUNT)
    assert free.json["stdout"] == "500\n", free
    assert 32 <= int(held.json["stdout"]) < 64, held


def test_the_disk_is_limited(jail):
    fill = "i=0; while head -c 1048576 /dev/zero >>x; do i=$((i+1)); [ $i -lt 30 ] || break; done; echo $i"
    free = jail("run", "--json", "--", "sh", "-c", fill)
    assert free.json["stdout"] == "30\n", free
    for where in ("/workspace", "/tmp", "/dev/shm", "/home/cell"):
        r = jail("run", "--json", "--disk", "10m", "--", "sh", "-c", f"cd {where}; {fill}")
        assert "No space left on device" in r.json["stderr"], r
        assert 8 <= int(r.json["stdout"]) <= 10, r


SPIN = """
import os, time
def used():
    t = os.times()
    return t.children_user + t.children_system
begin, kids = time.monotonic(), []
for i in range(8):
    pid = os.fork()
    if pid == 0:
        while True: pass
    kids.append(pid)
time.sleep(5)
for pid in kids: os.kill(pid, 9)
wall = time.monotonic() - begin
for pid in kids: os.wait()
print(used() / wall)
"""


def test_eight_spinners_stay_within_half_a_cpu(root_jail):
    """By CPU time used over time elapsed: how much a busy machine leaves for it does not matter."""
    root_jail.need("limits.cpus")
    def share(seconds, *options):
        code = SPIN.replace("sleep(5)", f"sleep({seconds})")
        return float(root_jail.ok("run", *options, "--", "python3", "-c", code).out)
    assert share(5, "--cpus", "0.5") <= 0.55
    # the control, with a share that is above the limit on the busiest of machines
    assert share(4, "--cpus", "0.03") <= 0.04
    assert share(4) > 0.04


def groups_of(pid):
    return dict(re.findall(r"^\d+:([^:]*):(.*)$", pathlib.Path(f"/proc/{pid}/cgroup").read_text(), re.M))


def test_the_weight_of_io_is_set(root_jail):
    root_jail.need("limits.io")
    root_jail.ok("create", "--io-weight", 50, "web")
    try:
        pid = root_jail.ok("inspect", "--json", "web").json["guest_pid"]
        groups = groups_of(pid)
        at = pathlib.Path("/sys/fs/cgroup/blkio" + groups["blkio"]) if "blkio" in groups else pathlib.Path("/sys/fs/cgroup" + groups[""])
        values = [f.read_text() for f in (at / "blkio.bfq.weight", at / "blkio.weight", at / "io.weight", at / "io.bfq.weight") if f.exists()]
        assert any(re.search(r"\b50\b", v) for v in values), (groups, values)
    finally:
        root_jail("rm", "-f", "web")


@pytest.mark.parametrize("option", [("--memory", "64m", "limits.memory"), ("--cpus", "0.5", "limits.cpus")])
def test_what_cannot_be_enforced_is_refused_or_reported(user_jail, option):
    name, value, capability = option
    lack = user_jail.lacks().get(capability)
    if not lack:
        assert user_jail("run", name, value, "--", "true").code == 0
        pytest.skip(f"{capability} can be enforced without root here")
    r = user_jail("run", name, value, "--", "true")
    assert r.code == 125 and capability in r.err and "hint" in r.err, r
    assert "Delegate=" in lack["fix"], lack
    r = user_jail("run", "--json", "--limits", "best-effort", name, value, "--", "echo", "ran")
    assert (r.code, r.json["stdout"], r.json["degraded"]) == (0, "ran\n", [capability]), r
    r = user_jail("run", "--limits", "best-effort", name, value, "--", "echo", "ran")
    assert (r.code, r.out) == (0, "ran\n") and capability in r.err, r
    full = user_jail("run", "--json", "--limits", "best-effort", "--pids", 64, "--", "true")
    assert "degraded" not in json.loads(full.out), full
