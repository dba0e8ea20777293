# SPDX-License-Identifier: Apache-2.0
"""Nothing piles up and nothing is left: loops, many at once, kill -9 at any moment."""

import os
import random
import signal
import time

from conftest import command_line, descendants, wait_until


def cell_directories(cell):
    directory = cell.state / "cells"
    return [p.name for p in directory.iterdir()] if directory.is_dir() else []


def test_a_hundred_runs_leave_nothing(cell):
    for n in range(100):
        assert cell("run", "--", "sh", "-c", f"exit {n % 7}").code == n % 7
    assert cell_directories(cell) == []
    assert not [p for p in descendants() if str(cell.dir) in command_line(p)]


def test_twenty_at_once(cell):
    children = [cell.popen("run", "--", "sh", "-c", f"echo {n}; sleep 0.2; exit {n}") for n in range(20)]
    for n, child in enumerate(children):
        out, err = child.communicate(timeout=60)
        assert (out, child.returncode) == (f"{n}\n".encode(), n), err
    assert cell_directories(cell) == []


def test_a_run_that_is_killed_leaves_no_process(cell):
    child = cell.popen("run", "--", "sh", "-c", "(setsid sleep 300.75 &); echo up; sleep 300.75")
    assert child.stdout.readline() == b"up\n"
    assert [p for p in descendants() if "300.75" in command_line(p)]
    child.kill()
    child.wait(30)
    cell.ok("ls")
    wait_until(lambda: not [p for p in descendants() if "300.75" in command_line(p)])
    cell.ok("prune")
    assert cell_directories(cell) == []


def test_runs_killed_at_any_moment_are_cleaned_up(cell):
    moments = random.Random(1)
    for _ in range(15):
        child = cell.popen("run", "--", "sh", "-c", "sleep 300.875")
        time.sleep(moments.random() * 0.08)
        child.kill()
        child.wait(30)
    cell.ok("run", "--", "true")
    wait_until(lambda: not [p for p in descendants() if "300.875" in command_line(p)])
    cell.ok("prune")
    assert cell_directories(cell) == []


def test_creates_killed_at_any_moment_are_cleaned_up(cell):
    moments = random.Random(2)
    for n in range(15):
        child = cell.popen("create", f"c{n}")
        time.sleep(moments.random() * 0.05)
        child.kill()
        child.wait(30)
    cell.ok("prune")
    for name in cell.names():
        cell.ok("rm", "-f", name)
    assert cell_directories(cell) == []
    wait_until(lambda: not descendants())


def test_prune_does_not_take_a_running_cell_away(cell):
    child = cell.popen("run", "--", "sh", "-c", "echo up; while [ ! -e stop ]; do sleep 0.02; done; echo end")
    assert child.stdout.readline() == b"up\n"
    assert len(cell_directories(cell)) <= 1
    for _ in range(3):
        cell.ok("prune")
    cell.put("stop")
    assert child.communicate(timeout=30)[0] == b"end\n"
    assert child.returncode == 0


def test_an_ephemeral_cell_shows_up_while_it_runs(cell):
    child = cell.popen("run", "--", "sh", "-c", "echo up; sleep 300")
    assert child.stdout.readline() == b"up\n"
    assert len(cell.names()) == 1
    assert cell.ok("ls", "-q").text == ""
    child.send_signal(signal.SIGTERM)
    assert child.wait(30) == 143
    assert cell.names() == []


def test_the_state_directory_is_private(cell, web):
    for path in [cell.state, *cell.state.rglob("*")]:
        if path.is_dir():
            assert os.stat(path).st_mode & 0o077 == 0, path
