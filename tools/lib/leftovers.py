# SPDX-License-Identifier: Apache-2.0
"""Finds what tests leave behind: processes (we are the subreaper, so orphans become ours) and mounts."""

import ctypes
import os
import re
import signal
import time

PR_SET_CHILD_SUBREAPER = 36


def become_subreaper():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def _parents():
    """pid -> (ppid, state) of every process."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as f:
                    fields = f.read().rpartition(b")")[2].split()
            except OSError:
                continue
            found[int(name)] = (int(fields[1]), fields[0].decode())
    return found


def _reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0] > 0:
            pass
    except ChildProcessError:
        pass


def descendants():
    """Our live descendants. Call it when no program of ours is meant to be running."""
    _reap()
    parents = _parents()
    ours, grew = {os.getpid()}, True
    while grew:
        more = {p for p, (parent, _) in parents.items() if parent in ours} - ours
        ours |= more
        grew = bool(more)
    return sorted(p for p in ours - {os.getpid()} if parents[p][1] != "Z")


def describe(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            words = f.read().replace(b"\0", b" ").decode(errors="backslashreplace").strip()
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="backslashreplace") as f:
            return f"process {pid}: {words or '[' + f.read().strip() + ']'}"[:300]
    except OSError:
        return f"process {pid}"


def processes(grace_s=3.0):
    """What still runs after a moment's grace, described."""
    deadline = time.monotonic() + grace_s
    while (left := descendants()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [describe(pid) for pid in left]


def kill_all():
    for _ in range(100):
        left = descendants()
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)


def mounts(directory):
    """Mount points below a directory, as bytes, deepest first."""
    below, found = os.fsencode(directory), []
    with open("/proc/self/mountinfo", "rb") as f:
        for line in f:
            escaped = line.split()[4]
            where = re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), escaped)
            if where == below or where.startswith(below + b"/"):
                found.append(where)
    return sorted(found, key=len, reverse=True)


def unmount(paths):
    libc = ctypes.CDLL(None, use_errno=True)
    mnt_detach = 2
    for path in paths:
        libc.umount2(path, mnt_detach)
