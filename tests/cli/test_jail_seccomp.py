# SPDX-License-Identifier: Apache-2.0
"""Syscall filters a spec can ask for: built-in profiles and a user's own JSON, as root and as a user."""

import json

import pytest
from jail_modes import jail  # noqa: F401

TRACE_A_CHILD = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
pid = os.fork()
if pid == 0:
    r = libc.ptrace(0, 0, 0, 0)  # PTRACE_TRACEME
    if r < 0:
        os._exit(ctypes.get_errno())
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(0)
_, status = os.waitpid(pid, 0)
if os.WIFSTOPPED(status):
    print("traced")
    libc.ptrace(7, pid, 0, 0)  # PTRACE_CONT
    os.waitpid(pid, 0)
else:
    print("errno", os.WEXITSTATUS(status))
"""
SPLICE = """
import os
a, b = os.pipe()
os.write(b, b"x")
fd = os.open("/tmp/f", os.O_CREAT | os.O_RDWR)
try:
    os.splice(a, fd, 1)
    print("spliced")
except OSError as e:
    print("errno", e.errno)
"""
ALLOW_ALL = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []}


def profile(jail, content, name="filter.json"):
    return jail.put(name, content if isinstance(content, str) else json.dumps(content))


def python(jail, code, *options):
    return jail.ok("run", *options, "--", "python3", "-c", code).text.strip()


def test_strict_refuses_what_the_default_lets_through(jail):
    assert python(jail, TRACE_A_CHILD) == "traced"
    assert python(jail, TRACE_A_CHILD, "--seccomp", "strict") == "errno 1"
    assert python(jail, SPLICE, "--seccomp", "default") == "spliced"
    assert python(jail, SPLICE, "--seccomp", "strict") == "errno 22"


def test_plain_work_goes_on_under_strict(jail):
    r = jail.sh("echo a > f && sort f && ls / >/dev/null && python3 -c 'print(sum(range(10)))'", "--seccomp", "strict")
    assert r.code == 0 and r.text.split() == ["a", "45"], r


def test_debug_lets_a_debugger_work(jail):
    r = jail.sh("strace -o /tmp/trace true && grep -c execve /tmp/trace", "--seccomp", "debug")
    assert r.code == 0 and int(r.text) >= 1, r
    # kcmp is a debugger's: only there
    kcmp = ("import ctypes, os; l = ctypes.CDLL(None, use_errno=True); "
            "print(l.syscall({'x86_64': 312}.get(os.uname().machine, 272), os.getpid(), os.getpid(), 0, 0, 0))")
    assert python(jail, kcmp, "--seccomp", "debug") == "0"
    assert python(jail, kcmp) == "-1"


def test_a_profile_of_ones_own_gives_the_errno_it_says(jail):
    rule = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 95}
    path = profile(jail, {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]})
    mkdir = "import os\ntry:\n os.mkdir('/tmp/d'); print('made')\nexcept OSError as e: print(e.errno)"
    assert python(jail, mkdir) == "made"
    assert python(jail, mkdir, "--seccomp", path) == "95"
    assert python(jail, mkdir, "--seccomp", "filter.json") == "95", "relative to where we are"


def test_a_profile_of_ones_own_from_a_configuration_file(jail):
    rule = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 95}
    profile(jail, {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}, "own.json")
    config = jail.put("cell.yaml", "seccomp: ./own.json\n")
    r = jail("--config", config, "run", "--", "mkdir", "/tmp/d", cwd="/")
    assert r.code == 1 and "not supported" in r.errors, r
    jail.put("cell.yaml", "seccomp: strict\n")
    assert jail.ok("--config", config, "run", "--", "true").code == 0


def test_the_other_walls_stand_under_a_profile_that_allows_everything(jail):
    path = profile(jail, ALLOW_ALL)
    status = dict(line.split(":\t", 1) for line in
                  jail.ok("run", "--seccomp", path, "--", "cat", "/proc/self/status").text.splitlines() if ":\t" in line)
    assert all(int(status[c], 16) == 0 for c in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")), status
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    for attempt in ("unshare -U true", "unshare -m true", "unshare -n true", "mount -t tmpfs x /tmp", "chroot / true",
                    "mknod /tmp/n c 1 3", "cat /proc/1/environ", f"cat {path}", "echo 1 > /proc/sys/kernel/core_pattern",
                    "python3 -c 'import os; os.setuid(0)'", "hostname x"):
        r = jail.sh(attempt, "--seccomp", path)
        assert r.code != 0, f"{attempt}: {r}"


@pytest.mark.parametrize("text, words", [
    ("{,", ["line 1, column 2"]),
    ('{"defaultAction": "SCMP_ACT_ALOW"}', ["SCMP_ACT_ALOW", "hint: there are"]),
    ('{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir"], "action": "SCMP_ACT_ERRNO", "errnoRet": "x"}]}',
     ["syscalls[0]", "errnoRet"]),
    ('{"defaultAction": "SCMP_ACT_ERRNO"}', ["refuses 'read'", "guest", "hint:"]),
    ("", ["filter.json"]),
])
def test_a_bad_profile_is_refused_with_its_place(jail, text, words):
    path = profile(jail, text)
    jail.fails("run", "--seccomp", path, "--", "true", says=[str(path), *words])


def test_a_profile_that_is_no_file_is_refused(jail):
    jail.fails("run", "--seccomp", "strikt", "--", "true", says=["strikt", "strict"])
    jail.fails("run", "--seccomp", "/dev/zero", "--", "true", says=["no file"])
    jail.put("big.json", b" " * (1100 * 1024))
    jail.fails("run", "--seccomp", "big.json", "--", "true", says=["more than"])


def test_a_back_end_without_filters_refuses_one(jail):
    r = jail.fails("run", "--backend", "subprocess", "--seccomp", "strict", "--", "true", says=["syscall-filter", "jail"])
    assert "seccomp: strict" in r.errors
