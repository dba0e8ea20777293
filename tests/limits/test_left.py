# SPDX-License-Identifier: Apache-2.0
"""What a launcher that was killed could not take back, the next one does when it ends."""

import fcntl
import glob
import os
import signal
import time
from pathlib import Path


def launcher_of(child):
    for pid in Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split():
        if Path(f"/proc/{pid}/comm").read_text().strip() == "cell-launcher":
            return int(pid)
    raise AssertionError("no launcher")


def group_of(launcher):
    """The number of a cell of this launcher's and the directories of its groups."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        for pid in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
            lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
            paths = {p for _, _, p in (line.split(":", 2) for line in lines) if "/cell/" in p}
            if paths:
                path = paths.pop()
                return path.rsplit("/", 1)[1], [p for top in ("", "*/") for p in glob.glob(f"/sys/fs/cgroup/{top}{path[1:]}")]
        time.sleep(0.02)
    raise AssertionError("no group")


def is_held(number):
    """By somebody else, who took it meanwhile."""
    try:
        with open(f"/run/cell/{number}", "rb") as f:
            fcntl.flock(f, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True


def test_groups_of_killed_launchers_are_swept(root_jail):
    root_jail.need("limits.memory")
    left = []
    children = [root_jail.start("run", "--memory", "64m", "--", "sh", "-c", "echo on; sleep 1000") for _ in range(3)]
    for child in children:
        assert child.stdout.readline() == "on\n", child.stderr.read()
        left.append((launcher_of(child), *group_of(launcher_of(child))))
    for child, (launcher, _, groups) in zip(children, left):
        assert groups
        os.kill(launcher, signal.SIGKILL)
        child.communicate(timeout=60)
    # the control: somebody has to take them back
    assert any(os.path.exists(g) for _, _, groups in left for g in groups)
    end = time.monotonic() + 20
    while True:
        root_jail.ok("run", "--", "true")
        wrong = [(n, groups) for _, n, groups in left if not is_held(n) and (os.path.exists(f"/run/cell/{n}") or any(map(os.path.exists, groups)))]
        if not wrong:
            break
        assert time.monotonic() < end, wrong
        time.sleep(0.1)
