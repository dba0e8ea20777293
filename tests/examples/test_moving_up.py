# SPDX-License-Identifier: Apache-2.0
"""The same project and the same cell.yaml on each back end of this machine; tests/engines has the containers."""

import os
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "tests" / "lib"))
from moving_up import STEPS, results  # noqa: E402

CELL = Path(os.environ.get("CELL_BIN", TOP / "build" / "cell")).resolve()
ENV = {k: v for k, v in os.environ.items() if k in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS")}


@pytest.fixture(scope="module")
def local():
    return results(CELL, "local", ENV)


def test_the_results_are_those_of_the_page(local):
    assert local["the analysis"]["exit"] == 0, local["the analysis"]
    page = (TOP / "docs" / "moving-up.md").read_text()
    assert local["the analysis"]["stdout"] in page
    assert set(local["files"]) == {"analyse.py", "broken.csv", "sales.csv", "report/summary.json", "report/months.csv", "report/months.svg"}
    assert local["a file of it"]["stdout"].encode() == local["files"]["report/months.csv"]
    assert local["code that remembers"]["stdout"] == "142\n"
    assert local["left"] == []


@pytest.mark.parametrize("step, code", [("a step that fails", 1), ("one that is killed", 137), ("one that takes too long", 124),
    ("one that is not there", 127), ("both streams and the exit", 3), ("one it has not", 125), ("what is gone", 125)])
def test_what_fails_fails_as_it_should(local, step, code):
    assert local[step]["exit"] == code, local[step]


@pytest.mark.slow(180)
@pytest.mark.parametrize("backend", ["subprocess", "jail"])
def test_another_back_end_gives_the_same(local, backend):
    other = results(CELL, backend, ENV)
    for what in [*STEPS, "files", "left"]:
        assert other[what] == local[what], what
