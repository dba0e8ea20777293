# SPDX-License-Identifier: Apache-2.0
"""cell run: streams, exit codes, JSON, deadlines, environment, stdin."""

import base64
import os
import signal
import subprocess
import time

import pytest
from conftest import RUN_KEYS, command_line, descendants, rest_of, wait_until

SECRETS = {"OPENAI_API_KEY": "sk-hidden", "DB_PASSWORD": "hidden-too", "FOO": "bar"}


def test_streams_stay_apart_and_the_exit_code_is_the_command_s(cell):
    r = cell("run", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (r.code, r.out, r.err) == (3, b"out\n", b"err\n")


def test_json_prints_one_object(cell):
    r = cell("run", "--json", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert r.code == 3
    assert r.err == b""
    o = r.json
    assert RUN_KEYS <= set(o)
    assert (o["stdout"], o["stderr"], o["exit_code"]) == ("out\n", "err\n", 3)
    assert (o["stdout_bytes"], o["stderr_bytes"]) == (4, 4)
    assert (o["signal"], o["timed_out"], o["truncated"], o["oom"]) == (None, False, False, False)
    assert isinstance(o["duration_ms"], int)
    assert set(o["usage"]) >= {"cpu_ms", "max_rss_bytes"}
    assert o["usage"]["max_rss_bytes"] > 0
    assert o["id"] and o["backend"]


def test_json_on_a_pipe_is_one_line(cell):
    assert cell.ok("run", "--json", "--", "true").out.count(b"\n") == 1


def test_bytes_that_are_not_utf8_come_through_json(cell):
    o = cell.ok("run", "--json", "--", "printf", r"\377\000\376").json
    assert base64.b64decode(o["stdout_base64"]) == b"\xff\x00\xfe"
    assert "stdout" not in o
    assert o["stderr"] == ""
    o = cell.ok("run", "--json", "--", "sh", "-c", r"printf 'a\000b\303\251'; printf '\200' >&2").json
    assert o["stdout"] == "a\0b\u00e9"
    assert base64.b64decode(o["stderr_base64"]) == b"\x80"


def test_bytes_come_through_plain(cell):
    every = bytes(range(256)) * 50
    assert cell.ok("run", "--", "cat", stdin=every).out == every


def test_a_deadline_ends_everything_and_keeps_the_output(cell):
    before = time.monotonic()
    r = cell("run", "--timeout", "1s", "--", "sh", "-c",
        'echo partial; (setsid sleep 300.125 &) ; trap "" TERM; sleep 300.125')
    assert r.code == 124
    assert r.out == b"partial\n"
    assert 1 <= time.monotonic() - before < 30
    assert not [p for p in descendants() if "300.125" in command_line(p)]


def test_a_deadline_in_json(cell):
    r = cell("run", "--json", "--timeout", "300ms", "--", "sh", "-c", "echo partial; sleep 300")
    assert r.code == 124
    o = r.json
    assert o["timed_out"] is True
    assert o["exit_code"] == 124
    assert o["stdout"] == "partial\n"
    assert o["duration_ms"] >= 300


def test_nothing_of_the_host_s_environment_passes_by_default(cell):
    out = cell.ok("run", "--", "env", env=SECRETS).text
    for name in SECRETS:
        assert f"{name}=" not in out
    assert "PATH=" in out and "HOME=" in out


def test_env_from_all_passes_everything_but_secrets(cell):
    out = cell.ok("run", "--env-from", "all", "--", "env", env=SECRETS).text
    assert "FOO=bar\n" in out
    assert "hidden" not in out


def test_env_from_core_passes_the_core(cell):
    out = cell.ok("run", "--env-from", "core", "--", "env", env={**SECRETS, "TZ": "Europe/Oslo"}).text
    assert "TZ=Europe/Oslo\n" in out
    assert "FOO=" not in out and "hidden" not in out


def test_a_secret_that_is_named_passes(cell):
    out = cell.ok("run", "--env", "DB_PASSWORD=x", "--", "env", env=SECRETS).text
    assert "DB_PASSWORD=x\n" in out
    out = cell.ok("run", "--env-from", "all", "--env", "DB_PASSWORD=x", "--", "env", env=SECRETS).text
    assert "DB_PASSWORD=x\n" in out and "hidden" not in out
    out = cell.ok("run", "--env", "OPENAI_API_KEY", "--", "env", env=SECRETS).text
    assert "OPENAI_API_KEY=sk-hidden\n" in out


def test_a_secret_is_not_on_any_command_line(cell):
    child = cell.popen("run", "--env", "DB_PASSWORD", "--", "sh", "-c", "echo up; sleep 300", env={"DB_PASSWORD": "s3cr3t-value"})
    assert child.stdout.readline() == b"up\n"
    lines = [command_line(p) for p in descendants()]
    child.send_signal(signal.SIGTERM)
    child.wait(30)
    assert any("sleep 300" in line for line in lines)
    assert not any("s3cr3t-value" in line for line in lines)


@pytest.mark.parametrize("command, code", [
    (["true"], 0),
    (["false"], 1),
    (["sh", "-c", "exit 255"], 255),
    (["no-such-program"], 127),
    (["./plain-file"], 126),
    (["sh", "-c", "kill -9 $$"], 137),
    (["sh", "-c", "kill -15 $$"], 143),
])
def test_exit_codes_are_a_shell_s(cell, command, code):
    cell.put("plain-file", "text")
    assert cell("run", "--", *command).code == code


def test_a_signal_is_told_in_json(cell):
    r = cell("run", "--json", "--", "sh", "-c", "kill -9 $$")
    assert (r.code, r.json["exit_code"], r.json["signal"]) == (137, 137, 9)


def test_a_program_that_is_not_there_is_named(cell):
    r = cell("run", "--", "no-such-program")
    assert b"no-such-program" in r.err


def test_options_behind_the_command_are_the_command_s(cell):
    assert cell.ok("run", "echo", "--json", "-x").text == "--json -x\n"
    assert cell.ok("run", "--", "printf", "%s", "--help").text == "--help"


def test_arguments_are_passed_as_bytes(cell):
    r = cell.ok("run", "--", "printf", "%s|", "", "a b", "$HOME", "*", "new\nline", b"\xff\xfe")
    assert r.out == b"|a b|$HOME|*|new\nline|\xff\xfe|"


def test_a_shell_line(cell):
    assert cell.ok("run", "--shell", "echo hello | wc -c").text.strip() == "6"


def test_stdin_that_is_empty_is_empty(cell):
    assert cell.ok("run", "--", "cat").out == b""


def test_stdin_that_nobody_reads_does_no_harm(cell):
    r = cell("run", "--", "sh", "-c", "exit 5", stdin=b"x" * 5_000_000)
    assert r.code == 5


def test_a_reader_that_goes_away_ends_the_command(cell):
    child = cell.popen("run", "--", "yes", stderr=subprocess.DEVNULL)
    assert child.stdout.read(10) == b"y\ny\ny\ny\ny\n"
    child.stdout.close()
    assert child.wait(30) in (141, 128 + signal.SIGPIPE, 125)


def test_output_is_cut_where_asked(cell):
    o = cell.ok("run", "--json", "--max-output", "1000", "--", "head", "-c", "5000", "/dev/zero").json
    assert o["truncated"] is True
    assert o["stdout_bytes"] == 5000
    assert len(o["stdout"]) == 1000


def test_merge_keeps_the_order(cell):
    r = cell.ok("run", "--merge", "--", "sh", "-c", "echo 1; echo 2 >&2; echo 3")
    assert (r.out, r.err) == (b"1\n2\n3\n", b"")


def test_the_directory_can_be_chosen(cell):
    (cell.workspace / "sub dir").mkdir()
    assert cell.ok("run", "--cwd", "sub dir", "--", "pwd").text.endswith("/sub dir\n")
    cell.fails("run", "--cwd", "no-such", "--", "true", says=["no-such"])


def test_the_workspace_can_be_chosen(cell):
    other = cell.dir / "other"
    other.mkdir()
    (other / "here").write_text("found")
    assert cell.ok("run", "-w", other, "--", "cat", "here").text == "found"
    cell.fails("run", "-w", cell.dir / "nowhere", "--", "true", says=["nowhere"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become someone else")
def test_another_user(cell):
    assert cell.ok("run", "--user", "nobody", "--", "id", "-u").text == "65534\n"
    assert cell.ok("run", "--user", "123:456", "--", "sh", "-c", "id -u; id -g").text == "123\n456\n"
    cell.fails("run", "--user", "no-such-user", "--", "true", says=["no-such-user"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_go_to_the_command(cell, number):
    child = cell.popen("run", "--", "sh", "-c",
        'trap "echo got it; exit 9" TERM INT HUP; echo up; while :; do sleep 0.05; done')
    assert child.stdout.readline() == b"up\n"
    child.send_signal(number)
    assert rest_of(child) == b"got it\n"
    assert child.returncode == 9


def test_output_comes_as_it_is_written(cell):
    child = cell.popen("run", "--", "sh", "-c", "echo first; read x; echo second $x", stdin=subprocess.PIPE)
    assert child.stdout.readline() == b"first\n"
    child.stdin.write(b"word\n")
    child.stdin.close()
    assert child.stdout.readline() == b"second word\n"
    assert child.wait(30) == 0


def test_a_command_may_leave_a_child_that_is_ended_with_the_cell(cell):
    cell.ok("run", "--", "sh", "-c", "sleep 300.25 & echo started")
    wait_until(lambda: not [p for p in descendants() if "300.25" in command_line(p)])


def test_verbose_names_the_walls(cell):
    r = cell.ok("run", "--verbose", "--", "true")
    assert "back end" in r.errors and "walls" in r.errors


def test_two_cells_at_once_do_not_meet(cell):
    a = cell.popen("run", "--", "sh", "-c", "echo $TMPDIR; sleep 0.3")
    b = cell.popen("run", "--", "sh", "-c", "echo $TMPDIR; sleep 0.3")
    first, second = a.communicate(timeout=30)[0], b.communicate(timeout=30)[0]
    assert (a.returncode, b.returncode) == (0, 0)
    if first.strip():
        assert first != second
