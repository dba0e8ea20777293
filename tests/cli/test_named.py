# SPDX-License-Identifier: Apache-2.0
"""Named cells: create, exec, attach, logs, ps, signal, ls, inspect, rm, prune."""

import os
import signal
import subprocess
from pathlib import Path

from conftest import RUN_KEYS, command_line, descendants, rest_of, wait_until


def guest_pid(cell, name):
    return cell.ok("inspect", "--json", name).json["guest_pid"]


def test_create_then_exec_from_elsewhere(cell):
    assert cell.ok("create", "web").text == "web\n"
    assert cell.ok("exec", "web", "--", "echo", "hello").text == "hello\n"
    assert cell.names() == ["web"]
    cell.ok("rm", "web")
    assert cell.names() == []


def test_create_without_a_name_makes_one_up(cell):
    name = cell.ok("create").text.strip()
    assert name and name in cell.names()
    o = cell.ok("create", "--json").json
    assert o["name"] in cell.names() and o["backend"]
    cell.ok("rm", name, o["name"])


def test_a_name_is_taken_once(cell, web):
    cell.fails("create", "web", says=["web"])
    assert cell.ok("exec", "web", "--", "echo", "unharmed").text == "unharmed\n"


def test_a_bad_name_is_refused(cell):
    for name in ("../x", "a/b", ".x", "-", "A b", "x" * 64):
        r = cell("create", "--", name)
        assert r.code == 125, r
        assert "letter or digit" in r.errors, "it says what a name may be"


def test_state_is_kept_between_commands(cell, web):
    cell.ok("exec", "web", "--", "sh", "-c", "echo kept > file")
    assert cell.ok("exec", "web", "--", "cat", "file").text == "kept\n"


def test_exec_json_has_the_shape_of_run(cell, web):
    r = cell("exec", "--json", "web", "--", "sh", "-c", "echo out; exit 4")
    assert r.code == 4
    assert RUN_KEYS <= set(r.json)
    assert r.json["stdout"] == "out\n"


def test_exec_options(cell, web):
    (cell.workspace / "sub").mkdir()
    assert cell.ok("exec", "--cwd", "sub", "web", "--", "pwd").text.endswith("/sub\n")
    assert cell.ok("exec", "--env", "A=b c", "web", "--", "sh", "-c", "echo $A").text == "b c\n"
    assert cell("exec", "--timeout", "300ms", "web", "--", "sleep", "300").code == 124
    assert cell.ok("exec", "-i", "web", "--", "cat", stdin=b"in\n").text == "in\n"
    out = cell.ok("exec", "--env-from", "all", "web", "--", "env", env={"FOO": "bar", "MY_TOKEN": "hidden"}).text
    assert "FOO=bar\n" in out and "hidden" not in out
    if os.geteuid() == 0:
        assert cell.ok("exec", "--user", "nobody", "web", "--", "id", "-u").text == "65534\n"


def test_an_id_is_used_once(cell, web):
    cell.ok("exec", "--id", "once", "web", "--", "sh", "-c", "echo x >> ran")
    cell.fails("exec", "--id", "once", "web", "--", "sh", "-c", "echo x >> ran", says=["once"])
    assert (cell.workspace / "ran").read_text() == "x\n"


def test_an_id_says_what_it_may_be(cell, web):
    for bad in ("", "-x", "..", "a/b", b"\xff", "a" * 64):
        cell.fails("exec", "--id", bad, "web", "--", "touch", "ran", says=["1 to 63 letters"])
    assert not (cell.workspace / "ran").exists()
    assert cell.ok("exec", "-d", "--id", "a" * 63, "web", "--", "true").text == "a" * 63 + "\n"


def test_an_automatic_id_passes_by_one_that_was_given(cell, web):
    cell.ok("exec", "--id", "e1", "web", "--", "echo", "given")
    made = cell.ok("exec", "-d", "web", "--", "echo", "made").text.strip()
    assert made != "e1"
    cell.fails("exec", "--id", made, "web", "--", "true", says=["was used before", "hint: "])
    assert cell.ok("logs", "web", "e1").text == "given\n"


def test_an_id_without_a_letter_means_no_command(cell, web):
    """A variable without a value in a script, and one command that runs."""
    ident = cell.ok("exec", "-d", "web", "--", "sleep", "1000").text.strip()
    for verb in ("signal", "attach", "logs"):
        cell.fails(verb, "web", "", says=["no command with the id ''"])
    assert cell.ps("web")[ident]["state"] == "running"
    cell.ok("signal", "web", ident[:1])  # a beginning is enough


def test_a_detached_command_goes_on(cell, web):
    ident = cell.ok("exec", "--detach", "web", "--", "sh", "-c",
        "echo one; while [ ! -e stop ]; do sleep 0.02; done; echo two; exit 6").text.strip()
    wait_until(lambda: cell.ok("logs", "web", ident).text == "one\n")
    assert cell.ps("web")[ident]["state"] == "running"
    follower = cell.popen("logs", "-f", "web", ident)
    attached = cell.popen("attach", "web", ident)
    cell.put("stop")
    assert follower.communicate(timeout=30)[0] == b"one\ntwo\n"
    assert attached.communicate(timeout=30)[0] == b"one\ntwo\n"
    assert follower.returncode == 0
    assert attached.returncode == 6
    assert ident not in cell.ps("web")
    info = cell.ps("web", "--all")[ident]
    assert (info["state"], info["exit_code"], info["stdout_bytes"]) == ("exited", 6, 8)
    assert cell.ok("logs", "--from", "4", "web", ident).text == "two\n"
    o = cell.ok("logs", "--json", "web", ident).json
    assert o["stdout"] == "one\ntwo\n"


def test_detach_in_json(cell, web):
    o = cell.ok("exec", "--detach", "--json", "web", "--", "sleep", "300").json
    assert o["id"] in cell.ps("web")
    assert o["cell"] == "web"


def test_logs_keep_streams_apart(cell, web):
    ident = cell.ok("exec", "-d", "web", "--", "sh", "-c", "echo out; echo err >&2").text.strip()
    wait_until(lambda: cell.ps("web", "-a")[ident]["state"] == "exited")
    r = cell.ok("logs", "web", ident)
    assert (r.out, r.err) == (b"out\n", b"err\n")
    r = cell.ok("logs", "--stdout", "web", ident)
    assert (r.out, r.err) == (b"out\n", b"")
    r = cell.ok("logs", "--stderr", "web", ident)
    assert (r.out, r.err) == (b"", b"err\n")


def test_looking_at_logs_does_not_disturb(cell, web):
    ident = cell.ok("exec", "-d", "web", "--", "sh", "-c", "echo up; sleep 300").text.strip()
    follower = cell.popen("logs", "-f", "web", ident)
    assert follower.stdout.readline() == b"up\n"
    follower.send_signal(signal.SIGINT)
    follower.wait(30)
    assert cell.ps("web")[ident]["state"] == "running"


def test_two_terminals_one_cell_and_the_first_is_killed(cell, web):
    first = cell.popen("exec", "--id", "job", "--detach", "web", "--", "sh", "-c",
        "i=0; while [ ! -e stop ]; do i=$((i+1)); echo line $i; sleep 0.02; done; echo end")
    first.wait(30)
    watcher = cell.popen("attach", "--no-stdin", "web", "job")
    assert watcher.stdout.readline() == b"line 1\n"
    second = cell.popen("logs", "-f", "web", "job")
    assert second.stdout.readline() == b"line 1\n"
    watcher.kill()
    watcher.wait(30)
    assert cell.ps("web")["job"]["state"] == "running"
    cell.put("stop")
    rest = rest_of(second).decode().splitlines()
    assert rest[-1] == "end"
    assert rest[:-1] == [f"line {n}" for n in range(2, len(rest) + 1)]
    again = cell.ok("logs", "web", "job").text.splitlines()
    assert again == ["line 1", *rest]


def test_killing_the_client_of_a_foreground_command_loses_no_output(cell, web):
    first = cell.popen("exec", "--id", "fg", "web", "--", "sh", "-c",
        "echo before; while [ ! -e stop ]; do sleep 0.02; done; echo after")
    assert first.stdout.readline() == b"before\n"
    second = cell.popen("logs", "-f", "web", "fg")
    assert second.stdout.readline() == b"before\n"
    first.kill()
    first.wait(30)
    cell.put("stop")
    assert rest_of(second) == b"after\n"


def test_ps_shapes(cell, web):
    ident = cell.ok("exec", "-d", "web", "--", "sleep", "300").text.strip()
    info = cell.ps("web")[ident]
    assert {"id", "command", "state", "pid", "started_unix_ms", "exit_code", "stdout_bytes", "stderr_bytes"} <= set(info)
    assert info["command"] == "sleep 300"
    text = cell.ok("ps", "web").text
    assert ident in text and "sleep 300" in text
    assert cell.ok("ps", "-q", "web").text == ident + "\n"
    assert ident in cell.ok("ps").text


def test_top_shows_what_cells_take(cell, web):
    cell.ok("exec", "-d", "web", "--", "sleep", "300")
    rows = {c["name"]: c for c in cell.ok("top", "--json").json["cells"]}
    assert rows["web"]["commands"] == 1 and rows["web"]["backend"] == "subprocess"
    assert rows["web"]["cpu_us"] is None  # without a pid namespace of its own nobody can tell
    assert "web" in cell.ok("top", "--once").text


def test_signals(cell, web):
    ident = cell.ok("exec", "-d", "web", "--", "sh", "-c",
        'trap "echo usr1" USR1; trap "exit 3" TERM; echo up; while :; do sleep 0.02; done').text.strip()
    wait_until(lambda: "up" in cell.ok("logs", "web", ident).text)
    cell.ok("signal", "-s", "USR1", "web", ident)
    wait_until(lambda: "usr1" in cell.ok("logs", "web", ident).text)
    o = cell.ok("signal", "--json", "web", ident).json
    assert o["sent"] == [ident]
    wait_until(lambda: cell.ps("web", "-a")[ident]["exit_code"] == 3)
    cell.fails("signal", "web", "no-such-id", says=["no-such-id"])
    cell.fails("signal", "-s", "NOPE", "web", ident, says=["NOPE", "hint:"])


def test_signal_tree_reaches_everything(cell, web):
    ident = cell.ok("exec", "-d", "web", "--", "sh", "-c", "(setsid sleep 300.375 &); sleep 300.375").text.strip()
    wait_until(lambda: len([p for p in descendants() if "sleep 300.375" == command_line(p).strip()]) == 2)
    cell.ok("signal", "-s", "KILL", "--tree", "web", ident)
    wait_until(lambda: not [p for p in descendants() if "sleep 300.375" == command_line(p).strip()])


def test_ls_and_inspect(cell):
    cell.create("one", "--label", "team=blue")
    cell.create("two")
    assert sorted(cell.names()) == ["one", "two"]
    assert cell.ok("ls", "-q").text.split() == ["one", "two"]
    assert cell.ok("ls", "-q", "--label", "team=blue").text == "one\n"
    entry = {c["name"]: c for c in cell.ok("ls", "--json").json["cells"]}["one"]
    assert entry["state"] == "ready" and entry["labels"] == ["team=blue"]
    o = cell.ok("inspect", "--json", "one").json
    assert o["name"] == "one" and o["workspace"] == str(cell.workspace)
    assert o["platform"]["os"] == "Linux" and "exec" in o["capabilities"]
    assert "platform" in cell.ok("inspect", "one").text
    cell.fails("inspect", "three", says=["three", "hint:"])


def test_rm_spares_a_busy_cell_unless_forced(cell, web):
    cell.ok("exec", "-d", "web", "--", "sleep", "300")
    cell.fails("rm", "web", says=["web", "hint:"])
    assert cell.names() == ["web"]
    cell.ok("rm", "-f", "web")
    assert cell.names() == []
    cell.fails("rm", "web", says=["web"])
    cell.ok("rm", "-f", "web")


def test_rm_json(cell, web):
    assert cell.ok("rm", "--json", "web").json["removed"] == ["web"]


def test_the_workspace_stays(cell, web):
    cell.ok("exec", "web", "--", "sh", "-c", "echo x > stays")
    cell.ok("rm", "web")
    assert (cell.workspace / "stays").read_text() == "x\n"


def test_a_dead_guest_is_said_and_cleaned_up(cell, web):
    os.kill(guest_pid(cell, "web"), signal.SIGKILL)
    wait_until(lambda: {c["name"]: c["state"] for c in cell.ok("ls", "--json").json["cells"]}.get("web") in ("dead", None))
    r = cell("exec", "web", "--", "true")
    assert r.code == 125 and "web" in r.errors, r
    cell.ok("prune")
    assert cell.names() == []
    cell.create("web")


def test_prune_tells_what_it_removed_and_spares_the_living(cell):
    cell.create("dead")
    cell.create("alive")
    os.kill(guest_pid(cell, "dead"), signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{guest_pid(cell, 'alive')}/x").exists())
    removed = cell.ok("prune", "--json").json["removed"]
    assert [r["name"] if isinstance(r, dict) else r for r in removed] in (["dead"], [])
    assert cell.names() == ["alive"]
    assert cell.ok("exec", "alive", "--", "echo", "x").text == "x\n"


def test_shell_reads_commands_from_a_pipe(cell, web):
    assert cell("shell", "web", stdin=b"echo from the shell\nexit 7\n").code == 7
    r = cell("shell", stdin=b"echo fresh\n")
    assert (r.code, r.out) == (0, b"fresh\n")


def test_many_clients_at_once(cell, web):
    children = [cell.popen("exec", "web", "--", "sh", "-c", f"echo {n}; exit {n}") for n in range(20)]
    for n, child in enumerate(children):
        out, _ = child.communicate(timeout=60)
        assert (out, child.returncode) == (f"{n}\n".encode(), n)


def test_attach_takes_over_stdin(cell, web):
    first = cell.popen("exec", "-i", "--id", "talk", "web", "--", "cat", stdin=subprocess.PIPE)
    first.stdin.write(b"one\n")
    first.stdin.flush()
    assert first.stdout.readline() == b"one\n"
    r = cell("attach", "web", "talk", stdin=b"two\n")
    assert r.out == b"one\ntwo\n"
    assert rest_of(first) == b"two\n"


def test_the_state_directory_can_be_given(cell):
    other = cell.dir / "elsewhere"
    cell.ok("--state-dir", other, "create", "there")
    assert cell.names() == []
    assert cell.ok("exec", "--state-dir", other, "there", "--", "echo", "x").text == "x\n"
    cell.ok("rm", "--state-dir", other, "there")
    assert not list((other / "cells").iterdir())
