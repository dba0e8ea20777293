# SPDX-License-Identifier: Apache-2.0
"""cell in a terminal: -t, Ctrl-C, sizes, what is put back, colours, the progress bar."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import pytest
from conftest import CELL, command_line, descendants, wait_until


class Terminal:
    """A command in a pseudo-terminal of its own, as a user's would be."""

    def __init__(self, cell, *args, rows=24, cols=80, env=None):
        self.master, slave = pty.openpty()
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.seen = b""

        def lead():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.child = cell.popen(*args, stdin=slave, stdout=slave, stderr=slave, preexec_fn=lead,
            env={"TERM": "xterm", **(env or {})})

    def read_some(self, seconds):
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return False
        try:
            self.seen += os.read(self.master, 65536)
        except OSError:
            return False
        return True

    def expect(self, text, seconds=30):
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < end, f"never saw {text!r}: {self.seen[-2000:]!r}"
            self.read_some(0.1)
        before, _, self.seen = self.seen.partition(text)
        return before

    def send(self, data):
        os.write(self.master, data)

    def resize(self, rows, cols):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def end(self, seconds=30):
        """Wait for it; the exit code. Output is read meanwhile, so that nobody blocks."""
        end = time.monotonic() + seconds
        while self.child.poll() is None:
            assert time.monotonic() < end, f"it never ended: {self.seen[-2000:]!r}"
            self.read_some(0.05)
        while self.read_some(0.1):
            pass
        return self.child.returncode

    def is_restored(self):
        return termios.tcgetattr(self.slave) == self.before

    def close(self):
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal(cell):
    opened = []

    def make(*args, **kwargs):
        opened.append(Terminal(cell, *args, **kwargs))
        return opened[-1]

    yield make
    for t in opened:
        if t.child.poll() is None:
            t.child.kill()
            t.child.wait()
        t.close()


def test_a_terminal_inside(terminal):
    t = terminal("run", "-t", "--", "sh", "-c", "test -t 0 && test -t 1 && stty size; exit 5", rows=33, cols=101)
    t.expect(b"33 101")
    assert t.end() == 5
    assert t.is_restored()


def test_resizes_are_passed_on(terminal):
    t = terminal("run", "-t", "--", "sh", "-c", 'trap "stty size" WINCH; echo up; while :; do sleep 0.05; done')
    t.expect(b"up")
    t.resize(40, 120)
    t.expect(b"40 120")
    t.send(b"\x03")
    t.end()
    assert t.is_restored()


def test_ctrl_c_reaches_the_command_in_its_terminal(terminal):
    t = terminal("run", "-t", "--", "sh", "-c", 'trap "echo got int; exit 9" INT; echo up; while :; do sleep 0.05; done')
    t.expect(b"up")
    t.send(b"\x03")
    t.expect(b"got int")
    assert t.end() == 9
    assert t.is_restored()


def test_a_shell_can_be_used(terminal):
    t = terminal("shell", "--program", "sh")
    t.send(b"echo $((6 * 7)) here\n")
    t.expect(b"42 here")
    t.send(b"exit 4\n")
    assert t.end() == 4
    assert t.is_restored()


def test_ctrl_c_without_a_terminal_inside_ends_the_command_and_cleans_up(terminal):
    t = terminal("run", "--", "sh", "-c", "echo up; exec sleep 300.5")
    t.expect(b"up")
    t.send(b"\x03")
    assert t.end() == 130
    wait_until(lambda: not [p for p in descendants() if command_line(p).strip() == "sleep 300.5"])
    assert t.is_restored()


def test_a_second_ctrl_c_kills(terminal):
    t = terminal("run", "--", "sh", "-c", 'trap "" INT TERM; echo up; while :; do sleep 300.625; done')
    t.expect(b"up")
    t.send(b"\x03")
    time.sleep(0.3)
    t.send(b"\x03")
    assert t.end() in (130, 137)
    wait_until(lambda: not [p for p in descendants() if "300.625" in command_line(p)])


def test_the_terminal_is_put_back_when_cell_is_terminated(terminal):
    t = terminal("run", "-t", "--", "sh", "-c", "echo up; exec sleep 300")
    t.expect(b"up")
    assert not t.is_restored()
    t.child.send_signal(signal.SIGTERM)
    t.end()
    assert t.is_restored()


def test_leaving_a_terminal_with_the_command_running(cell, web, terminal):
    t = terminal("exec", "-t", "--id", "stay", "web", "--", "sh", "-c", "echo up; read x; echo got $x; exit 3")
    t.expect(b"up")
    t.send(b"\x1d\x1d\x1d")
    t.end()
    assert t.is_restored()
    assert cell.ps("web")["stay"]["state"] == "running"
    again = terminal("attach", "web", "stay")
    again.expect(b"up")
    again.send(b"word\n")
    again.expect(b"got word")
    assert again.end() == 3
    assert again.is_restored()


def test_killing_the_terminal_s_client_loses_nothing(cell, web, terminal):
    t = terminal("exec", "-t", "--id", "kept", "web", "--", "sh", "-c", "echo up; read x; echo got $x")
    t.expect(b"up")
    t.child.kill()
    t.end()
    again = terminal("attach", "web", "kept")
    again.expect(b"up")
    again.send(b"more\n")
    again.expect(b"got more")
    assert again.end() == 0


def test_a_terminal_needs_one(cell):
    cell.fails("run", "-t", "--", "true", says=["terminal", "hint:"])


def test_colours_only_on_a_terminal_and_not_with_no_color(cell, terminal):
    assert b"\x1b[" not in cell.ok("backends").out
    t = terminal("backends")
    t.end()
    assert b"\x1b[" in t.seen
    t = terminal("backends", env={"NO_COLOR": "1"})
    t.end()
    assert b"\x1b[" not in t.seen and b"local" in t.seen
    t = terminal("backends", env={"TERM": "dumb"})
    t.end()
    assert b"\x1b[" not in t.seen


def test_control_sequences_of_a_command_do_not_reach_the_terminal_unasked(terminal):
    t = terminal("run", "--", "printf", r"\033]0;owned\007text\033[31m")
    t.end()
    assert b"text" in t.seen and b"\x1b]0;" not in t.seen
    t = terminal("run", "--raw", "--", "printf", r"\033]0;owned\007text")
    t.end()
    assert b"\x1b]0;owned" in t.seen


def test_a_long_copy_shows_progress_on_a_terminal_only(cell, web, terminal):
    big = cell.dir / "big"
    with open(big, "wb") as f:
        f.truncate(300_000_000)
    t = terminal("cp", big, "web:big")
    assert t.end(90) == 0
    assert b"%" in t.seen or b"big" in t.seen
    r = cell.ok("cp", big, "web:big2")
    assert (r.out, r.err) == (b"", b"")


def test_ctrl_c_ends_a_copy_and_leaves_no_half_file(cell, web, terminal):
    fifo = cell.dir / "fifo"
    os.mkfifo(fifo)
    t = terminal("cp", "-", "web:half")
    time.sleep(0.3)
    t.send(b"some text\n")
    time.sleep(0.2)
    t.send(b"\x03")
    time.sleep(0.3)
    if t.child.poll() is None:
        t.send(b"\x03")
    assert t.end() == 130
    wait_until(lambda: not (cell.workspace / "half").exists())


def test_cell_does_not_leave_its_stdin_nonblocking(cell):
    r, w = os.pipe()
    child = subprocess.Popen([str(CELL), "run", "--", "true"], stdin=r, env=cell.env, cwd=cell.workspace)
    child.wait(30)
    assert not fcntl.fcntl(r, fcntl.F_GETFL) & os.O_NONBLOCK
    os.close(r)
    os.close(w)
