# SPDX-License-Identifier: Apache-2.0
"""The project of docs/moving-up.md in containers of the image `base`: all that can be seen is what `local` gives."""

import os
import sys
from pathlib import Path

import base_image
import pytest
from conftest import CELL, skipped_without
from engines import Oci

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lib"))
from moving_up import STEPS, results  # noqa: E402

ENV = {k: v for k, v in os.environ.items() if k in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS")}


@pytest.fixture(scope="module")
def local():
    return results(CELL, "local", ENV)


def check(backend, env, local):
    other = results(CELL, backend, ENV | env | {"CELL_IMAGE": base_image.NAME})
    for what in [*STEPS, "files", "left"]:
        assert other[what] == local[what], what


@pytest.mark.slow(900)
def test_an_engine_gives_the_same(engine, local):
    with skipped_without():
        env = engine.env | base_image.give(engine)
    check(engine.backend, env, local)
    assert engine.containers() == []


@pytest.mark.slow(900)
@pytest.mark.parametrize("backend", ["oci", "jail"])
def test_what_takes_images_of_cells_store_gives_the_same(backend, local):
    with skipped_without(), Oci() as none:  # which would leave its directory
        env = base_image.give(none)
    check(backend, env, local)
