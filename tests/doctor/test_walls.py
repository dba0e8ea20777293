# SPDX-License-Identifier: Apache-2.0
"""doctor lists each wall of the jail, and names what keeps it from holding, with the one command that lifts it.

What is in the way is really put in the way, in namespaces that end with the test.
"""

import os
import re
import shutil
from pathlib import Path

import pytest

from conftest import CELL

# The program without sanitizers: those need a /proc of their own.
PLAIN = Path(os.environ.get("CELL_BIN_PLAIN", CELL)).resolve()
UNDER_FILTER = CELL.parent / "tests" / "seccomp" / "under_filter"
WALLS = ["ids", "privileges", "processes", "kill", "files", "workspace", "images", "/proc", "devices", "syscalls", "landlock", "network",
    "ipc", "limits", "disk", "time", "deadline"]


def in_mounts(script):
    """A command that runs what is behind it in a mount namespace changed by the script."""
    return ["unshare", "--mount", "--propagation", "private", "sh", "-euc", script + '\nexec "$@"', "sh"]


def need_unshare():
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("needs root and unshare(1)")


def test_each_wall_is_listed_with_how_it_is_provided(jail):
    walls = jail.doctor()["walls"]
    names = [w["name"] for w in walls]
    assert [n for n in names if n in WALLS] == WALLS, names
    for w in walls:
        assert set(w) == {"name", "status", "how", "better", "fix"}, w
        assert w["how"] and w["status"] in ("ok", "warn"), w
        assert (w["status"] == "ok" or w["better"]) and (w["better"] or not w["fix"]), w
    text = jail("doctor").out
    for w in walls:
        assert w["name"] in text and w["how"] in text


def test_the_walls_are_told_as_they_are(jail):
    walls = {w["name"]: w["how"] for w in jail.doctor()["walls"]}
    status = jail.ok("run", "--", "cat", "/proc/self/status", "/proc/self/uid_map").out
    outside = int(re.search(r"^\s*1000\s+(\d+)\s+1$", status, re.M)[1])
    found = re.search(r"from (0x[0-9a-f]+)", walls["ids"])
    if found:
        assert outside >= int(found[1], 16)
    else:
        assert not jail.is_rootful and "yours outside" in walls["ids"]
    assert "Seccomp:\t2" in status and "profile default" in walls["syscalls"]
    lacks = {lack["capability"] for lack in jail.doctor()["lacks"]}
    for controller, capability in (("memory", "limits.memory"), ("cpu", "limits.cpus"), ("pids", "limits.pids")):
        assert (controller in walls["limits"]) == (capability not in lacks), walls["limits"]


def test_other_back_ends_have_a_list_too(root_jail):
    d = root_jail("doctor", "--json").json
    assert all(isinstance(b["walls"], list) for b in d["backends"])


def blocked(jail, reason, fix, **kwargs):
    """run and doctor name the same blocker; nothing falls back to weaker walls."""
    r = jail("run", "--", "echo", "ran", program=PLAIN, **kwargs)
    assert r.code == 125 and r.out == "" and reason in r.err and fix in r.err, r
    told = jail.doctor(program=PLAIN, **kwargs)
    assert not told["usable"] and reason in told["reason"] and fix in told["fix"], told
    assert told["walls"] == []


def test_no_user_namespaces_left(root_jail):
    need_unshare()
    prefix = ["unshare", "--user", "--map-root-user", "sh", "-euc", 'echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"', "sh"]
    control = ["unshare", "--user", "--map-root-user"]
    root_jail.ok("run", "--", "true", program=PLAIN, prefix=control)
    blocked(root_jail, "user.max_user_namespaces is 0 or used up", "sysctl -w user.max_user_namespaces=", prefix=prefix)


def test_a_syscall_filter_that_forbids_namespaces(jail):
    if not UNDER_FILTER.exists():
        pytest.skip(f"no {UNDER_FILTER}")
    jail.ok("run", "--", "true", program=PLAIN, prefix=[UNDER_FILTER, "none"])
    blocked(jail, "syscall filter", "seccomp=unconfined", prefix=[UNDER_FILTER, "default"])


def test_no_proc(jail):
    need_unshare()
    if jail.changes_user:
        drop = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        jail.is_rootful = True  # unshare first, then the user
        blocked(jail, "/proc is not mounted here", "mount -t proc proc /proc", prefix=[*in_mounts("mount -t tmpfs none /proc"), *drop])
    else:
        blocked(jail, "/proc is not mounted here", "mount -t proc proc /proc", prefix=in_mounts("mount -t tmpfs none /proc"))


def test_in_a_chroot(root_jail):
    need_unshare()
    tree = root_jail.dir / "tree"
    for name in ("proc", "dev", "run", "tmp", "top"):
        (tree / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64", "usr", "etc"):
        there = Path("/", name)
        if there.is_symlink():
            (tree / name).symlink_to(os.readlink(there))
        elif there.is_dir():
            (tree / name).mkdir()
    script = (f"cd {tree}; for d in usr etc dev bin sbin lib lib64; do [ -L $d ] || [ ! -d $d ] || mount --rbind /$d $d; done; "
        f"mount -t proc proc proc; mount --bind {PLAIN.parent} top")
    prefix = [*in_mounts(script), "chroot", tree, "env", "CELL_STATE_DIR=/tmp/state"]
    r = root_jail("run", "--", "echo", "ran", prefix=prefix, program=f"/top/{PLAIN.name}")
    assert r.code == 125 and "we are in a chroot" in r.err and "pivot_root" in r.err, r


def test_in_a_cell_there_is_no_second_one(jail):
    jail.ok("run", "-v", f"{PLAIN.parent}:/b:ro", "--", f"/b/{PLAIN.name}", "run", "--backend", "subprocess", "--", "true")
    r = jail("run", "-v", f"{PLAIN.parent}:/b:ro", "--", f"/b/{PLAIN.name}", "run", "--", "echo", "ran")
    assert r.code == 125 and r.out == "" and "syscall filter" in r.err, r


def test_cgroups_that_cannot_be_written(root_jail):
    need_unshare()
    root_jail.need("limits.memory")
    prefix = in_mounts("grep ' - cgroup' /proc/self/mountinfo | while read -r a b c d at rest; do mount -o remount,bind,ro \"$at\"; done")
    r = root_jail("run", "--memory", "64m", "--", "true", prefix=prefix)
    assert r.code == 125 and "read-only" in r.err and "remount,rw" in r.err, r
    r = root_jail("run", "--json", "--limits", "best-effort", "--memory", "64m", "--", "true", prefix=prefix)
    assert (r.code, r.json["degraded"]) == (0, ["limits.memory"]), r
    limits = next(w for w in root_jail.doctor(prefix=prefix)["walls"] if w["name"] == "limits")
    assert limits["status"] == "warn" and "RLIMIT_NPROC" in limits["how"] and "remount,rw" in limits["fix"], limits
    root_jail.ok("run", "--memory", "64m", "--", "true")


def test_a_masked_proc_is_named(root_jail):
    """As in an unprivileged container: a part of /proc is covered, so the kernel gives no whole one."""
    need_unshare()
    prefix = ["unshare", "--user", "--map-root-user", *in_mounts("mount -t tmpfs none /proc/sys/fs")]
    jail = root_jail.doctor(prefix=prefix)
    if jail["usable"]:  # a kernel that gives at least the processes
        proc = next(w for w in jail["walls"] if w["name"] == "/proc")
        assert "subset=pid" in proc["how"] and "systempaths=unconfined" in proc["fix"], proc
        root_jail.ok("run", "--", "ls", "/proc/self/status", prefix=prefix)
    else:
        blocked(root_jail, "parts of the /proc around us are covered", "systempaths=unconfined", prefix=prefix)
