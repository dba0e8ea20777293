# SPDX-License-Identifier: Apache-2.0
"""The test driver: nothing that goes wrong passes for success."""

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

import pytest

TOP = Path(os.environ.get("CELL_SOURCE", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(TOP / "tools/lib"))
from tap import FAIL, PASS, SKIP, Parser  # noqa: E402


def load_driver():
    loader = importlib.machinery.SourceFileLoader("run_tests", str(TOP / "tools/run-tests"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_tests", loader))
    loader.exec_module(module)
    return module


def statuses(text, code=0):
    parser = Parser()
    for line in text.splitlines():
        parser.feed(line)
    parser.finish(code)
    return [r.status for r in parser.results]


@pytest.mark.parametrize(
    "text, code, want",
    [
        ("1..2\nok 1 - a\nok 2 - b", 0, [PASS, PASS]),
        ("ok 1 - a\n1..1", 0, [PASS]),
        ("1..2\nok 1 - a\nnot ok 2 - b\n# why", 1, [PASS, FAIL]),
        ("1..1\nok 1 - a # SKIP no root", 0, [SKIP]),
        ("1..1\nnot ok 1 - a # TODO later", 0, [SKIP]),
        ("1..0 # SKIP nothing here", 0, [SKIP]),
        ("1..2\nok 1 - a", 0, [PASS, FAIL]),
        ("1..1\nok 1 - a\nok 2 - b", 0, [PASS, PASS, FAIL]),
        ("ok 1 - a", 0, [PASS, FAIL]),
        ("", 0, [FAIL]),
        ("1..0", 0, [FAIL]),
        ("1..1\nok 1 - a", 1, [PASS, FAIL]),
        ("1..1\nok 1 - a", 23, [PASS, FAIL]),
        ("1..1\nok 1 - a", -11, [PASS, FAIL]),
        ("1..1\nnot ok 1 - a", 0, [FAIL, FAIL]),
        ("1..2\nok 1 - a\nBail out! no disk", 1, [PASS, FAIL]),
    ],
)
def test_tap_is_read_and_what_is_missing_fails(text, code, want):
    assert statuses(text, code) == want


def test_the_reason_of_a_skip_and_the_output_of_a_failure_are_kept():
    parser = Parser()
    for line in ["1..2", "ok 1 - a # SKIP needs root", "not ok 2 - b", "# line 1", "stray"]:
        parser.feed(line)
    assert parser.results[0].reason == "needs root"
    assert parser.results[1].detail == ["line 1", "stray"]


@pytest.fixture
def run(tmp_path):
    driver = load_driver()

    def run_script(script, protocol="tap", timeout_s=20):
        program = driver.Program("s", "p", ["sh", "-c", script], protocol, timeout_s)
        driver.run(program, driver.Screen(False), dict(os.environ), tmp_path, 1.0)
        return program.results

    return run_script


def test_a_program_that_passes_passes(run):
    assert [r.status for r in run("echo 1..1; echo ok 1 - a")] == [PASS]


def test_a_program_that_crashes_fails_with_what_it_wrote(run):
    results = run("echo 1..2; echo ok 1 - a; echo at the end >&2; kill -SEGV $$")
    assert [r.status for r in results] == [PASS, FAIL]
    assert "killed by SIGSEGV" in results[1].detail
    assert "at the end" in results[1].detail


def test_a_program_past_its_time_is_killed_and_fails(run):
    results = run("echo 1..1; echo ok 1 - a; sleep 100", timeout_s=0.5)
    assert results[-1].status == FAIL
    assert any("took longer" in line for line in results[-1].detail)


def test_a_program_that_is_not_there_fails(tmp_path):
    driver = load_driver()
    program = driver.Program("s", "p", ["/no/such/program"])
    driver.run(program, driver.Screen(False), {}, tmp_path, 1.0)
    assert [r.status for r in program.results] == [FAIL]


@pytest.mark.parametrize("script, want", [("exit 0", PASS), ("exit 1", FAIL), ("echo why; exit 77", SKIP), ("kill -9 $$", FAIL)])
def test_a_program_without_tap_is_judged_by_its_exit(run, script, want):
    assert [r.status for r in run(script, "exitcode")] == [want]


DRIVE = """
import sys
sys.path.insert(0, {lib!r})
import leftovers, subprocess, pathlib
leftovers.become_subreaper()
subprocess.run(["sh", "-c", {script!r}])
print(leftovers.processes(grace_s=0.3))
leftovers.kill_all()
print(leftovers.processes(grace_s=0))
"""


@pytest.mark.parametrize("script, is_left", [("(setsid sleep 77 &)", True), ("sleep 0", False), ("(setsid sleep 0.1 &)", False)])
def test_an_orphan_of_a_test_is_found_and_ended(script, is_left):
    import subprocess

    text = DRIVE.format(lib=str(TOP / "tools/lib"), script=script)
    out = subprocess.run(["/usr/bin/python3", "-B", "-c", text], capture_output=True, text=True, check=True).stdout
    before, after = out.splitlines()
    assert ("sleep 77" in before) == is_left
    assert after == "[]"
