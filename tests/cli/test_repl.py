# SPDX-License-Identifier: Apache-2.0
"""cell code at a terminal: typing, editing, history, completion, blocks, Ctrl-C, input()."""

import shutil
import stat

import pytest
from test_terminal import terminal  # noqa: F401

UP, DOWN, LEFT, HOME, END = b"\x1b[A", b"\x1b[B", b"\x1b[D", b"\x1b[H", b"\x1b[F"


@pytest.fixture
def repl(terminal, cell):  # noqa: F811
    def make(*args, **kwargs):
        t = terminal("code", *args, **{**kwargs, "env": {"NO_COLOR": "1", **kwargs.get("env", {})}})
        t.expect(b"Ctrl-D leaves")
        t.expect(b">>> ")
        return t

    yield make
    # what was typed is kept for the next time: that is not left behind, it is the user's
    history = cell.dir / "home" / ".local"
    if history.exists():
        shutil.rmtree(history)


def answer(t, text, reply, end=b"\r"):
    t.send(text + end)
    t.expect(b"\r\n" + reply)
    t.expect(b">>> ")


def test_values_are_kept_from_line_to_line(repl):
    t = repl()
    answer(t, b"x = 40", b"")
    answer(t, b"x + 2", b"42\r\n")
    answer(t, b"1/0", b"")
    answer(t, b"x", b"40\r\n")
    t.send(b"\x04")
    assert t.end() == 0
    assert t.is_restored()


def test_a_block_is_typed_with_indentation_and_ended_by_an_empty_line(repl):
    t = repl()
    t.send(b"def f(a):\r")
    t.expect(b"\r\n... ")
    t.send(b"return a * 2\r")  # indented for us
    t.expect(b"    return a * 2\r\n... ")
    answer(t, b"", b"")
    answer(t, b"f(21)", b"42\r\n")
    t.send(b"[1,\r")
    t.expect(b"[1,\r\n... ")
    t.send(b"2]\r")
    t.expect(b"[1, 2]\r\n")
    t.expect(b">>> ")
    t.send(b"\x04")
    assert t.end() == 0


def test_editing_and_history(repl):
    t = repl()
    answer(t, b"123", b"123\r\n")
    answer(t, UP, b"123\r\n")
    answer(t, b"24" + LEFT + b"0" + HOME + b"1" + END + b"5", b"12045\r\n")
    answer(t, b"'wrong'\x15'right'", b"'right'\r\n")
    answer(t, UP + UP + DOWN, b"'right'\r\n")
    answer(t, b"\x1204", b"12045\r\n")  # Ctrl-R
    answer(t, b"\x1b[200~y = 1\ny + 1\x1b[201~", b"2\r\n")  # pasted
    t.send(b"\x04")
    assert t.end() == 0


def test_what_is_typed_is_shown_in_any_script(repl):
    t = repl(env={"LC_ALL": "C.UTF-8"})
    t.send("len('né日本')".encode())
    t.expect("né日本')".encode())
    answer(t, b"", b"4\r\n")
    t.send(b"\x04")
    assert t.end() == 0


def test_history_is_there_the_next_time(repl, cell):
    t = repl()
    answer(t, b"'first'", b"'first'\r\n")
    t.send(b"\x04")
    assert t.end() == 0
    kept = cell.dir / "home" / ".local" / "state" / "cell" / "history-python"
    assert kept.read_text() == "'first'\n" and stat.S_IMODE(kept.stat().st_mode) == 0o600
    t = repl()
    answer(t, UP, b"'first'\r\n")
    t.send(b"\x04")
    assert t.end() == 0


def test_tab_completes(repl):
    t = repl()
    answer(t, b"a_long_name = 7", b"")
    t.send(b"a_lo\t")
    t.expect(b"a_long_name")
    answer(t, b"", b"7\r\n")
    answer(t, b"import collections", b"")
    t.send(b"collections.O\t")
    t.expect(b"OrderedDict")
    t.send(b"\x03")
    t.expect(b"\r\n")
    t.expect(b">>> ")
    t.send(b"\x04")
    assert t.end() == 0


def test_ctrl_c_interrupts_code_and_empties_the_line(repl):
    t = repl()
    answer(t, b"kept = 3", b"")
    t.send(b"import time; print('on', flush=True); time.sleep(600)\r")
    t.expect(b"\r\non\r\n")
    t.send(b"\x03")
    t.expect(b"KeyboardInterrupt")
    t.expect(b">>> ")
    t.send(b"never typed\x03")
    t.expect(b"never typed\r\n")
    t.expect(b">>> ")
    answer(t, b"kept", b"3\r\n")
    t.send(b"\x04")
    assert t.end() == 0
    assert t.is_restored()


def test_input_is_typed_and_a_password_is_not_shown(repl):
    t = repl()
    t.send(b"n = input('na' + 'me? ')\r")
    t.expect(b"name? ")
    answer(t, b"bob", b"")
    answer(t, b"n", b"'bob'\r\n")
    t.send(b"import getpass; p = getpass.getpass('sec' + 'ret? ')\r")
    t.expect(b"secret? ")
    t.send(b"hunter2\r")
    seen = t.expect(b"\r\n") + t.expect(b">>> ")
    assert b"hunter2" not in seen
    answer(t, b"len(p)", b"7\r\n")
    t.send(b"\x04")
    assert t.end() == 0


def test_exit_leaves(repl):
    t = repl()
    t.send(b"import sys; sys.exit(4)\r")
    assert t.end() == 4
    assert t.is_restored()


def test_a_session_of_its_own_and_going_on_after_a_file(repl, terminal, cell):  # noqa: F811
    t = repl("-s", "work")
    answer(t, b"x = 41", b"")
    t.send(b"\x04")
    assert t.end() == 0
    assert cell.ok("code", "-s", "work", "-c", "x + 1").text == "42\n"
    cell.put("a.py", "y = 5\n")
    t = repl("-i", "a.py")
    answer(t, b"y", b"5\r\n")
    t.send(b"\x04")
    assert t.end() == 0


def test_control_sequences_of_the_code_do_not_reach_the_terminal(repl):
    t = repl()
    t.send(b"print(chr(27) + ']0;title' + chr(7))\r")
    assert b"\x1b]0;" not in t.expect(b"title^G")
    t.expect(b">>> ")
    t.send(b"\x04")
    assert t.end() == 0


def test_a_picture_where_the_terminal_shows_them(repl):
    t = repl(env={"TERM_PROGRAM": "iTerm.app"})
    t.send(b"class P:\r")
    t.expect(b"\r\n... ")
    t.send(b"_repr_png_ = lambda self: b'\\x89PNG rest'\r")
    t.expect(b"rest'\r\n... ")
    answer(t, b"", b"")
    t.send(b"P()\r")
    t.expect(b"\x1b]1337;File=inline=1;size=9:iVBORyByZXN0\x07")
    t.expect(b">>> ")
    t.send(b"\x04")
    assert t.end() == 0
