# SPDX-License-Identifier: Apache-2.0
"""The conformance table: every result is in it, and nothing that did not run looks like a success."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

TOP = Path(os.environ.get("CELL_SOURCE", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(TOP / "tools/lib"))
from conformance import Table, letter, wrapped  # noqa: E402
from tap import Parser  # noqa: E402

OUTPUT = """\
# docker: left out: no engine; what would help: start one
# podman: left out: no engine; what would help: start one
1..5
ok 1 - jail: exec: a_command_runs
not ok 2 - jail: exec: another_runs
# why
ok 3 - jail: pty: a_terminal # SKIP the back end does not promise pty
ok 4 - jail, far: exec: a_command_runs
ok 5 - trace:local: exec: a_command_runs # SKIP no mkfifo here
"""


def table_of(*outputs):
    table = Table()
    for text, code, command in outputs:
        parser = Parser()
        for line in text.splitlines():
            parser.feed(line)
        parser.finish(code)
        table.take(SimpleNamespace(name="p", command=command, results=parser.results, notes=parser.notes))
    return table


def row(lines, name):
    return next(line.split(None, 1)[1] for line in lines if line.split()[:1] == [name])


def test_counts_reasons_and_what_was_left_out_are_all_told():
    table = table_of((OUTPUT, 1, ["/b/conformance"]))
    lines = table.lines()
    assert row(lines, "exec").split() == ["1", "1", "FAILED", "1", "0", "1-b"]
    assert row(lines, "pty").split() == ["0", "1-a", "not", "run", "not", "run"]
    assert row(lines, "all").split() == ["1/1/1", "1/0/0", "0/0/1"]
    assert "  a: lacks pty" in lines and "  b: no mkfifo here" in lines
    assert "  not run: docker, podman: no engine; what would help: start one" in lines
    text = table.markdown()
    assert "| group | jail | jail, far | trace:local |" in text
    assert "| exec | 1 1 FAILED | 1 | 0 1-b |" in text and "| docker, podman | no engine; what would help: start one |" in text


def test_what_ran_in_another_suite_is_not_told_to_be_missing():
    docker = "1..1\nok 1 - docker: exec: a_command_runs\n"
    table = table_of((OUTPUT, 1, ["/b/conformance"]), (docker, 0, ["with-engine", "docker", "/b/conformance", "--backend", "docker"]))
    assert list(table.missing()) == ["podman"]
    assert row(table.lines(), "all").split()[-1] == "1/0/0"


def test_a_program_that_was_skipped_or_died_is_told():
    skipped, died = "1..0 # SKIP podman is not installed\n", "1..2\nok 1 - oci: exec: a_command_runs\n"
    table = table_of((skipped, 0, ["with-engine", "podman", "/b/conformance", "--backend", "podman"]),
        (died, -9, ["/b/conformance", "--backend", "oci"]))
    assert table.missing()["podman"] == "podman is not installed"
    assert "SIGKILL" in table.missing()["the rest of oci"]


def test_other_programs_are_not_in_it():
    table = table_of(("1..1\nok 1 - a: b: c\n", 0, ["/b/escape"]))
    assert table.backends == []


def test_headings_and_letters():
    assert wrapped("jail as user without new syscalls") == ["jail as", "user", "without", "new", "syscalls"]
    assert [letter(i) for i in (0, 25, 26, 27)] == ["a", "z", "aa", "ab"]
