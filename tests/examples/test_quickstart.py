# SPDX-License-Identifier: Apache-2.0
"""The example program compiles as it stands against the built library, and does what it says."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent.parent
# As its users do: against a library without sanitizers.
BUILD = Path(os.environ.get("CELL_BIN_PLAIN", TOP / "build" / "cell")).resolve().parent

WANT = [
    "stdout: hello from the cell", "stderr: a complaint", "exit code: 3", "heard: one", "heard: two",
    "content: debug = false", "file: app.conf, 14 bytes", "refused: denied",
]


@pytest.fixture(scope="module")
def program():
    library = BUILD / "src" / "core" / "shared"
    assert (library / "libcell.so").exists(), f"no libcell.so in {library}: build it first"
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory) / "quickstart"
        command = ["cc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", f"-I{TOP / 'include'}",
            str(TOP / "examples" / "quickstart.c"), "-o", str(target), f"-L{library}", f"-Wl,-rpath,{library}", "-lcell"]
        r = subprocess.run(command, capture_output=True, check=False, text=True)
        assert r.returncode == 0, r.stderr
        yield target


def run(program, *args):
    with tempfile.TemporaryDirectory(prefix="cq-", dir="/tmp") as directory:
        env = {"PATH": os.environ["PATH"], "HOME": directory, "CELL_STATE_DIR": f"{directory}/state"}
        r = subprocess.run([program, *args], capture_output=True, check=False, text=True, timeout=60, env=env)
        left = list(Path(directory, "state", "cells").glob("*"))
        assert not left
        return r


def test_it_runs(program):
    r = run(program)
    assert r.returncode == 0, r
    for line in WANT:
        assert line in r.stdout, r
    assert r.stderr == ""


@pytest.mark.parametrize("backend", ["jail", "local", "subprocess"])
def test_it_runs_on_each_back_end(program, backend):
    r = run(program, backend)
    assert r.returncode == 0, r
    assert f"a cell of back end {backend}" in r.stdout


def test_it_says_what_is_wrong(program):
    r = run(program, "no-such-back-end")
    assert r.returncode == 1
    assert "no-such-back-end" in r.stderr and "not_found" in r.stderr


def test_it_compiles_as_cpp_includes(program):
    source = "#include <cell/cell.h>\n#include <cell/config.h>\nint main() { return cell_version() == 0; }\n"
    r = subprocess.run(["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{TOP / 'include'}",
        "-x", "c++", "-"], input=source, capture_output=True, check=False, text=True)
    assert r.returncode == 0, r.stderr
