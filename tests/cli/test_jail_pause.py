# SPDX-License-Identifier: Apache-2.0
"""Jails that stand still: nothing of them runs, whatever their processes are about, and they end like others."""

import errno
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import command_line, descendants, wait_until
from jail_modes import jail, root_jail, user_jail  # noqa: F401

COUNT = "i=0; while :; do i=$((i+1)); echo $i > n.new; mv n.new n; done"


@pytest.fixture
def counting(root_jail, tmp_path):
    """A cell whose workspace is ours to look at, with something that counts in it."""
    if not root_jail.has("pause"):
        pytest.skip("no cgroup2 here")
    tmp_path.chmod(0o777)
    root_jail.ok("create", "box", "--workspace", str(tmp_path))
    root_jail.ok("exec", "-d", "box", "--", "sh", "-c", COUNT)
    wait_until(lambda: (tmp_path / "n").exists(), what="the count to begin")
    root_jail.count = lambda: int((tmp_path / "n").read_text())
    return root_jail


def state_of(c, name="box"):
    return c.ok("inspect", name, "--json").json["state"]


def guest_of(c):
    return int(c.ok("inspect", "box", "--json").json["guest_pid"])


def group_of(pid):
    return next(line.split(":", 2)[2] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines() if line.startswith("0::"))


def cgroup2():
    return [words[1] for words in map(str.split, Path("/proc/mounts").read_text().splitlines()) if words[2] == "cgroup2"]


def has_ended(pid):
    """A zombie has: nobody may have asked for its status."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def removed(group):
    """A zombie may be in it for a moment."""
    try:
        group.rmdir()
    except OSError as e:
        return e.errno == errno.ENOENT
    return True


def test_it_stands_still_and_goes_on(counting):
    counting.ok("pause", "box")
    assert state_of(counting) == "paused"
    before = counting.count()
    time.sleep(0.2)
    assert counting.count() == before
    r = counting("exec", "box", "--", "true")
    assert r.code != 0 and "paused" in r.err.decode() and "cell resume box" in r.err.decode()
    counting.ok("pause", "box")  # it is so already
    counting.ok("resume", "box")
    wait_until(lambda: counting.count() > before, what="the count to go on")
    assert state_of(counting) == "ready"
    counting.ok("resume", "box")


def test_top_shows_it(counting):
    counting.ok("pause", "box")
    assert [(c["name"], c["is_paused"], c["commands"]) for c in counting.ok("top", "--json").json["cells"]] == [("box", True, None)]
    row = counting.ok("top", "--once").text.splitlines()[1]
    assert row.startswith("box ") and row.rstrip().endswith("paused"), row
    counting.ok("resume", "box")
    assert [(c["is_paused"], c["commands"]) for c in counting.ok("top", "--json").json["cells"]] == [(False, 1)]


def test_a_throttled_one_too(root_jail):
    if not root_jail.has("pause") or not root_jail.has("limits.cpus"):
        pytest.skip("no cgroup2, or no limits here")
    root_jail.ok("create", "box", "--cpus", "0.05", "--pids", "32")
    root_jail.ok("exec", "-d", "box", "--", "sh", "-c", "for i in 1 2 3 4 5 6; do while :; do :; done & done; wait")
    root_jail.ok("pause", "box")
    root_jail.ok("resume", "box")
    assert root_jail.ok("exec", "box", "--", "echo", "here").text == "here\n"


def test_a_paused_one_is_removed_with_its_group(counting):
    pid = guest_of(counting)
    group = group_of(pid)
    counting.ok("pause", "box")
    counting.ok("rm", "box")
    assert has_ended(pid)
    assert not any((Path(m) / group.strip("/")).exists() for m in cgroup2())


def test_one_that_was_killed_while_it_stood_still_is_gone(counting):
    counting.ok("pause", "box")
    pid = guest_of(counting)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: has_ended(pid), what="its end")
    assert state_of(counting) == "dead"
    counting.ok("prune")
    assert "box" not in counting.ok("ls").text


def test_what_is_overdue_ends_when_it_goes_on(root_jail):
    if not root_jail.has("pause"):
        pytest.skip("no cgroup2 here")
    root_jail.ok("create", "box")
    running = root_jail.popen("exec", "--timeout", "3", "box", "--", "sh", "-c", "echo on; sleep 1000")
    wait_until(lambda: "sleep" in root_jail.ok("ps", "box").text, what="the command to run")
    root_jail.ok("pause", "box")
    root_jail.ok("resume", "box")
    assert running.wait(60) == 124
    running.communicate()


def launcher_of(child):
    return next((pid for pid in descendants(child.pid) if command_line(pid).startswith("cell-launcher")), None)


def sleeps(pid):
    """It waits, and not just for a moment."""
    def look():
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return fields[0], fields[11], fields[12]

    first = look()
    time.sleep(0.1)
    return first[0] == "S" and look() == first


def pause_without_an_answer(c):
    """A `cell pause` that has asked its launcher, which is stopped: both."""
    c.ok("create", "box")
    pausing = c.popen("pause", *["box"] * 5000)
    wait_until(lambda: launcher_of(pausing) and state_of(c) == "paused", what="a launcher at work")
    launcher = launcher_of(pausing)
    os.kill(launcher, signal.SIGSTOP)
    wait_until(lambda: sleeps(pausing.pid), what="a question without an answer")
    return pausing, launcher


def test_what_a_killed_pause_asked_for_does_not_come_later(root_jail):
    if not root_jail.has("pause"):
        pytest.skip("no cgroup2 here")
    pausing, launcher = pause_without_an_answer(root_jail)
    pausing.kill()
    pausing.communicate()
    resuming = root_jail.popen("resume", "box")
    time.sleep(0.3)  # it would be done by now, if it did not wait
    os.kill(launcher, signal.SIGCONT)
    wait_until(lambda: has_ended(launcher), what="the end of the launcher")
    assert resuming.wait(60) == 0
    assert root_jail.ok("exec", "box", "--", "echo", "here").text == "here\n"
    assert state_of(root_jail) == "ready"


def test_one_that_ends_while_it_is_paused_is_gone(root_jail):
    if not root_jail.has("pause"):
        pytest.skip("no cgroup2 here")
    pausing, launcher = pause_without_an_answer(root_jail)
    pid = guest_of(root_jail)
    group = next(p for p in (Path(m) / group_of(pid).strip("/") for m in cgroup2()) if p.exists())
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: has_ended(pid), what="its end")
    wait_until(lambda: removed(group), what="the end of its group")  # as by whoever removes the cell
    os.kill(launcher, signal.SIGCONT)
    said = pausing.communicate(timeout=60)[1].decode()
    assert pausing.returncode != 0 and "its guest has died" in said and "cell prune" in said
    assert "cgroup" not in said  # what was found missing is no reason to give


def test_one_without_a_name_says_why_not(root_jail):
    if not root_jail.has("pause"):
        pytest.skip("no cgroup2 here")
    running = root_jail.popen("run", "--", "sh", "-c", "echo on; read x; echo off", stdin=subprocess.PIPE)
    assert running.stdout.readline() == b"on\n"
    (name,) = root_jail.names()
    root_jail.fails("pause", name, says=["without a name", "cell create"])
    root_jail.ok("resume", name)
    assert state_of(root_jail, name) == "ready"
    assert running.communicate(b"\n")[0] == b"off\n"


def test_without_a_group_there_is_a_reason(user_jail):
    if user_jail.has("pause"):
        pytest.skip("this user has groups")
    user_jail.ok("create", "box")
    r = user_jail("pause", "box")
    assert r.code != 0 and "does not promise pause" in r.err.decode()
    assert user_jail.ok("exec", "box", "--", "echo", "alive").text == "alive\n"
