# SPDX-License-Identifier: Apache-2.0
"""Containers by a runtime alone, each of them, made by root and by an ordinary user: what they are, what is left when somebody dies in
the middle, and what is said when it cannot be done."""

import json
import os
import signal
import socket
import subprocess
import tarfile
import time
from io import BytesIO
from pathlib import Path

import pytest
from conftest import CELL, Cell, skipped_without, wait_for
from engines import image_archive, need, root_archive

NOBODY = 65534
RUNTIMES = ("runc", "crun", "runsc")


def groups():
    return [p for pattern in ("cell-oci-*", "*/cell-oci-*") for p in Path("/sys/fs/cgroup").glob(pattern)]


def is_empty(group):
    try:
        return not (group / "cgroup.procs").read_text()
    except OSError:
        return False


def processes_of(directory):
    """Those that have something of it mounted, or in their command line: but for ours."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes()
            if f"{directory}/".encode() in words or f"{directory}/" in (entry / "mountinfo").read_text():
                found[int(entry.name)] = words.replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            pass
    return found


class OciCell(Cell):
    """The command with one runtime as its default, run by root or by nobody."""

    def __init__(self, runtime, is_user):
        super().__init__("oci", {"CELL_OCI_RUNTIME": runtime})
        self.runtime, self.is_user = runtime, is_user
        self.root = self.dir / "root"
        with tarfile.open(fileobj=BytesIO(root_archive())) as tar:
            tar.extractall(self.root)
        if is_user:
            for path in (self.dir, *self.dir.rglob("*")):
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)

    def start(self, *args, **kwargs):
        if self.is_user:
            kwargs = {"user": NOBODY, "group": NOBODY, "extra_groups": []} | kwargs
        return super().start(*args, **kwargs)

    def in_root(self, *args, **kwargs):
        return self.run("--root", self.root, *args, image=None, **kwargs)

    def cells(self):
        return json.loads(self.ok("ls", "--json"))["cells"]

    def is_clean(self):
        """After the next command nothing is left: no cell, directory, process, mount."""
        self.ok("prune")
        left = [*(self.dir / "state").glob("cells/*")]
        return not self.cells() and not left and not processes_of(self.dir / "state")


@pytest.fixture(params=[f"{runtime}{who}" for runtime in RUNTIMES for who in ("", " as user")])
def cell(request):
    runtime = request.param.split()[0]
    with skipped_without():
        need(runtime, "busybox")
    c = OciCell(runtime, request.param.endswith("user"))
    before = set(groups())
    yield c
    assert not c.remove()
    # others on this machine have some too: theirs have processes, or go
    left = [g for g in set(groups()) - before if is_empty(g)]
    wait_for(lambda: not any(g.exists() and is_empty(g) for g in left), "no cgroup is left")
    assert not processes_of(c.dir)
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        assert str(c.dir) not in f.read()


@pytest.fixture
def plain(request):
    """One is enough where the runtime does not matter."""
    c = OciCell("runc", False)
    yield c
    assert not c.remove()


def test_a_root_tree_and_an_archive_of_one_are_images(cell):
    assert cell.in_root("--", "cat", "/etc/os-release").out == 'PRETTY_NAME="Image of the tests"\n'
    archive = cell.dir / "root.tar"
    archive.write_bytes(root_archive())
    r = cell.run("--root", archive, "--", "sh", "-c", "touch /tmp/x && id -u", image=None)
    assert (r.code, r.out) == (0, "65532\n"), r.err


def test_what_an_image_says_is_taken_over_or_told(plain):
    archive = plain.dir / "says.tar"
    archive.write_bytes(image_archive("says", Entrypoint=["/bin/entry", "-x"], Cmd=["serve"], User="nobody", WorkingDir="/usr",
        Env=["FROM_IMAGE=yes"]))
    plain.ok("create", "one", "--backend", "oci", "--image", archive)
    assert plain.ok("exec", "one", "--", "sh", "-c", "echo $FROM_IMAGE; pwd; id -u") == "yes\n/usr\n65532\n"
    told = json.loads(plain.ok("inspect", "one", "--json"))
    assert (told["image_entrypoint"], told["image_cmd"], told["image_user"]) == ("/bin/entry -x", "serve", "nobody"), told
    plain.ok("rm", "one")


def test_the_socket_of_an_engine_voids_the_walls_and_is_said_so(plain):
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(f"{plain.dir}/docker.sock")
        r = plain.in_root("-v", f"{plain.dir}/docker.sock:/var/run/docker.sock", "--", "ls", "/var/run/docker.sock")
    assert r.out == "/var/run/docker.sock\n", r.err
    assert "no walls" in r.err and "root" in r.err
    assert "no walls" not in plain.in_root("--", "true").err


def test_a_device_and_the_whole_host_are_refused(plain):
    assert "device" in plain.fails("--root", plain.root, "-v", "/dev/null:/mnt", "--", "true", image=None)
    assert "whole root" in plain.fails("--root", plain.root, "-v", "/:/mnt", "--", "true", image=None)


def test_the_kernel_is_the_hosts_but_gvisors(cell):
    version = cell.in_root("--", "cat", "/proc/version").out
    assert (os.uname().release in version) == (cell.runtime != "runsc"), version


def test_there_are_no_privileges_and_a_filter(cell):
    out = cell.in_root("--", "grep", "-E", "^(Cap|NoNewPrivs|Seccomp:)", "/proc/self/status").out.split()
    words = dict(zip(out[::2], out[1::2], strict=True))
    assert {v for k, v in words.items() if k.startswith("Cap")} == {"0" * 16}, words
    assert words["Seccomp:"] == "2", words
    assert words.get("NoNewPrivs:", "1") == "1"  # gVisor does not tell


def test_a_filter_of_ones_own_is_in_force(cell):
    profile = cell.dir / "profile.json"
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}]}))
    profile.chmod(0o644)
    assert cell.in_root("--", "mkdir", "/tmp/x").code == 0
    assert cell.in_root("--seccomp", profile, "--", "mkdir", "/tmp/x").code != 0
    assert cell.in_root("--seccomp", "strict", "--", "mkdir", "/tmp/x").code == 0
    # upon what no filter opens
    assert cell.in_root("--seccomp", profile, "--", "grep", "Seccomp_filters", "/proc/self/status").out.split() in (
        ["Seccomp_filters:", "2"], [])  # gVisor does not tell
    assert "missing.json" in cell.fails("--root", cell.root, "--seccomp", cell.dir / "missing.json", "--", "true", image=None)


def test_keyrings_are_not_one_for_each_cell_of_a_user(cell):
    """Of which a user may have 200."""
    for name in ("one", "two", "three"):
        cell.ok("create", name, "--backend", "oci", "--root", cell.root)
    owner = NOBODY if cell.is_user else 0  # who alone is shown them
    shown = subprocess.run(["cat", "/proc/keys"], user=owner, capture_output=True, text=True, check=True).stdout
    cell.ok("rm", "one", "two", "three")
    keys = [line.split() for line in shown.splitlines()]
    found = {name for words in keys if words[5] == str(owner) for name in ("one", "two", "three") if f"cell-{name}-" in words[8]}
    assert not found or not cell.is_user, keys
    assert cell.is_user or cell.runtime == "runsc" or len(found) == 3, keys  # or this is not how they are named


# A keyring with the name of ours that everybody may find, held until stdin ends.
BAIT = """import ctypes, sys
keyctl = lambda *args: ctypes.CDLL(None).syscall(250, *args)
key = keyctl(1, b"cell")
assert key > 0 and keyctl(5, key, ctypes.c_uint(0x3f3f3f3f)) == 0
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the number of a system call")
def test_a_keyring_of_somebody_else_is_not_taken(cell):
    other = {"user": 4321, "group": 4321, "extra_groups": [], "text": True}
    with subprocess.Popen(["/usr/bin/python3", "-c", BAIT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **other) as bait:
        assert bait.stdout.readline() == "ready\n"
        cell.ok("create", "shy", "--backend", "oci", "--root", cell.root)
        keys = subprocess.run(["cat", "/proc/keys"], capture_output=True, check=True, **other).stdout
        cell.ok("rm", "shy")
        held = [line.split() for line in keys.splitlines() if line.split()[5] == "4321" and " cell:" in line]
        assert len(held) == 1 and int(held[0][2]) <= 4, keys  # a container's processes hold it dozens of times
        bait.stdin.close()


def test_what_is_written_does_not_reach_the_image(cell):
    r = cell.in_root("-u", "0:0", "--", "sh", "-c", "echo changed > /etc/os-release && cat /etc/os-release")
    assert r.out == "changed\n", r.err
    assert "Image of the tests" in (cell.root / "etc/os-release").read_text()


def test_files_in_the_workspace_stay_with_their_owner(cell):
    owner = NOBODY if cell.is_user else 4321
    os.chown(cell.workspace, owner, owner)
    r = cell.in_root("-w", cell.workspace, "--", "sh", "-c", "echo hi > made; cat made")
    assert (r.code, r.out) == (0, "hi\n"), r.err
    assert (cell.workspace / "made").stat().st_uid == owner


def test_a_user_of_the_image_is_found_by_name(cell):
    assert cell.in_root("-u", "nobody", "--", "id", "-u").out == "65534\n"
    assert cell.in_root("-u", "77:88", "--", "id", "-g").out == "88\n"
    err = cell.fails("--root", cell.root, "-u", "no-such-user", "--", "true", image=None)
    assert "no-such-user" in err and "/etc/passwd" in err


def test_the_disk_and_the_number_of_files_are_limited(cell):
    r = cell.in_root("--disk", "8m", "--", "sh", "-c", "dd if=/dev/zero of=/tmp/x bs=1M count=20 2>/dev/null; wc -c < /tmp/x")
    assert 4 << 20 <= int(r.out) <= 8 << 20, r.err
    r = cell.in_root("--inodes", "100", "--", "sh", "-c", "for i in $(seq 200); do touch /tmp/$i 2>/dev/null || break; done; ls /tmp | wc -l")
    assert 10 < int(r.out) < 100, r.err


def test_a_limit_that_cannot_be_held_is_refused_or_told(cell):
    """Without cgroups no memory; in gVisor no count of processes. With best effort the rest runs, and what is missing is said."""
    options = (["--memory", "64m"] if cell.is_user else []) + (["--pids", "50"] if cell.runtime == "runsc" else [])
    if not options:
        r = cell.in_root("--memory", "64m", "--pids", "50", "--", "sh", "-c",
            "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; "
            "cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max 2>/dev/null")
        assert r.out.split() == [str(64 << 20), "50"], (r.out, r.err)
        return
    assert "limits." in cell.fails("--root", cell.root, *options, "--", "true", image=None)
    r = cell.in_root(*options, "--limits", "best-effort", "--", "echo", "runs")
    assert r.out == "runs\n" and "limits." in r.err, r.err


def test_a_workspace_of_the_host_is_not_counted_and_both_limits_are_told(plain):
    workspace = plain.dir / "workspace"
    workspace.mkdir(exist_ok=True)
    options = ("--disk", "8m", "--inodes", "100", "--workspace", workspace)
    assert "uncounted" in plain.fails("--root", plain.root, *options, "--", "true", image=None)
    r = plain.in_root(*options, "--limits", "best-effort", "--", "true")
    assert "limits.disk is not enforced" in r.err and "limits.inodes is not enforced" in r.err, r.err


def test_a_named_cell_is_there_for_other_commands(cell):
    cell.ok("create", "kept", "--backend", "oci", "--root", cell.root)
    cell.ok("exec", "kept", "--", "sh", "-c", "echo 1 > /tmp/state")
    assert cell.ok("exec", "kept", "--", "cat", "/tmp/state") == "1\n"
    cell.ok("rm", "kept")


def test_the_image_of_a_living_cell_stays(cell):
    archive = cell.dir / "root.tar"
    archive.write_bytes(root_archive())
    cell.ok("image", "import", archive, "--name", "held")
    cell.ok("create", "holder", "--backend", "oci", "--image", "held")
    r = cell("image", "rm", "held")
    assert r.code != 0 and "in use" in r.err, r.err
    cell.ok("rm", "holder")
    cell.ok("image", "rm", "held")


def test_a_killed_command_leaves_nothing_after_prune(cell):
    child = cell.start("run", "--backend", "oci", "--root", cell.root, "--", "sh", "-c", "echo up; sleep 1000")
    assert child.stdout.readline() == "up\n"
    assert processes_of(cell.dir / "state"), "this is how the rest is looked for"
    child.kill()
    child.communicate()
    wait_for(cell.is_clean, "nothing is left")


@pytest.mark.parametrize("delay_ms", [5, 20, 40, 80, 160])
def test_a_maker_killed_at_any_moment_leaves_what_the_next_command_removes(cell, delay_ms):
    child = cell.start("create", "half", "--backend", "oci", "--root", cell.root)
    time.sleep(delay_ms / 1000)
    child.kill()
    child.communicate()
    cell("rm", "half")
    wait_for(cell.is_clean, "nothing is left")


def runtime_of(maker):
    """The pid of the runtime's own process, while it makes a container for this one."""
    while maker.poll() is None:
        try:
            children = Path(f"/proc/{maker.pid}/task/{maker.pid}/children").read_text().split()
            for pid in children:
                if b"\0run\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return int(pid)
        except OSError:
            pass
    return None


@pytest.mark.parametrize("delay_ms", [0, 15, 40])
def test_a_runtime_killed_in_the_middle_is_an_error_and_leaves_nothing(cell, delay_ms):
    for _ in range(20):  # a fast one may be gone before it is seen
        child = cell.start("create", "torn", "--backend", "oci", "--root", cell.root)
        pid = runtime_of(child)
        if pid:
            break
        child.communicate(timeout=120)
        cell.ok("rm", "torn")
    assert pid, "the runtime was never seen"
    time.sleep(delay_ms / 1000)
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    _, err = child.communicate(timeout=120)
    assert child.returncode == 0 or "killed" in err or "ended" in err, err
    cell("rm", "torn")
    wait_for(cell.is_clean, "nothing is left")


def test_a_remover_killed_in_the_middle_is_finished_by_the_next(cell):
    for delay_ms in (2, 10, 30):
        cell.ok("create", "going", "--backend", "oci", "--root", cell.root)
        child = cell.start("rm", "going")
        time.sleep(delay_ms / 1000)
        child.kill()
        child.communicate()
        cell("rm", "going")
        wait_for(cell.is_clean, "nothing is left")


def test_a_guest_that_was_killed_is_gone_and_removed(cell):
    cell.ok("create", "dead", "--backend", "oci", "--root", cell.root)
    record = json.loads((cell.dir / "state" / "cells" / "dead" / "cell.json").read_text())
    os.kill(int(record["notes"]["guest_pid"]), signal.SIGKILL)
    wait_for(lambda: cell("exec", "dead", "--", "true").code != 0, "it is gone")
    cell("rm", "dead")  # which any command may have done by now
    wait_for(cell.is_clean, "nothing is left")


def test_subordinate_ids_are_used_where_there_are_some():
    """newuidmap reads /etc/subuid: here one of a mount namespace of our own."""
    with skipped_without():
        need("runc", "busybox", "newuidmap", "newgidmap", "unshare", "setpriv")
    c = OciCell("runc", True)
    for name in ("subuid", "subgid"):
        (c.dir / name).write_text("nobody:300000:65536\n")

    def run(*args):
        script = f"mount --bind {c.dir}/subuid /etc/subuid && mount --bind {c.dir}/subgid /etc/subgid && exec \"$@\""
        return subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}",
            "--clear-groups", CELL, "run", "--backend", "oci", "--root", c.root, *args], env=c.env, text=True, capture_output=True,
            stdin=subprocess.DEVNULL, check=False, timeout=120, cwd=c.workspace)

    show = ["--", "sh", "-c", "id -u; cat /proc/self/uid_map; touch /tmp/x $HOME/x x && echo writes"]
    r = run(*show)
    assert r.stdout.split() == ["65532", "0", str(NOBODY), "1", "1", "300000", "65536", "writes"], r.stderr
    # files of the user are the user's: its own id, alone
    r = run("-w", c.workspace, *show)
    assert r.stdout.split() == ["65532", "65532", "0", "1", "writes"], r.stderr
    assert (c.workspace / "x").stat().st_uid == NOBODY
    # and without the range it is that one anyway
    assert c.in_root(*show).out.split() == ["65532", "65532", "0", "1", "writes"]
    assert not c.remove()


def test_what_cannot_be_done_is_told(plain):
    assert "needs an image or a root tree" in plain.fails("--", "true", image=None)
    err = plain.fails("--root", plain.root, "--runtime", "no-such-runtime", "--", "true", image=None)
    assert "no-such-runtime" in err and "install" in err
    err = plain.fails("--root", plain.root, "--", "true", image=None, env={"CELL_OCI_RUNTIME": "/no/such"})
    assert "/no/such" in err
    assert "no image 'missing'" in plain.fails("--", "true", image="missing")
    assert "sha256:" + "0" * 64 in plain.fails("--", "true", image="sha256:" + "0" * 64)
    bad = plain.dir / "bad.tar"
    bad.write_bytes(b"\x1f\x8b no archive at all")
    assert "bad.tar" in plain.fails("--root", bad, "--", "true", image=None)


@pytest.mark.parametrize("script, said", [("exit 3", "said nothing"), ("kill -9 $$", "signal 9"), ("exit 0", "guest")])
def test_a_runtime_that_fails_is_told(plain, script, said):
    broken = plain.dir / "broken-runtime"
    broken.write_text(f"#!/bin/sh\n{script}\n")
    broken.chmod(0o755)
    err = plain.fails("--root", plain.root, "--runtime", broken, "--", "true", image=None)
    assert said in err, err


def test_a_full_disk_is_told(plain):
    small = plain.dir / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k,mode=700", "none", small], check=True)
    try:
        r = plain.in_root("--", "true", env={"CELL_STATE_DIR": str(small)})
        assert r.code != 0 and "space" in r.err.lower(), r.err
        assert not list((small / "cells").iterdir())
    finally:
        subprocess.run(["umount", small], check=True)


def test_walls_are_told_by_doctor(cell):
    d = json.loads(cell("doctor", "--json").out)
    b = next(b for b in d["backends"] if b["name"] == "oci")
    assert b["usable"], b
    walls = {w["name"]: w for w in b["walls"]}
    assert ("gVisor" in walls["kernel"]["how"]) == (cell.runtime == "runsc")
    assert ("user namespace" in walls["ids"]["how"]) == cell.is_user
