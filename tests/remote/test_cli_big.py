# SPDX-License-Identifier: Apache-2.0
import pytest
from conftest import CELL_PLAIN
from test_big import *  # noqa: F403


@pytest.fixture
def cell(cell):
    """A sanitizer's own memory is many times ours: here client and server without one."""
    cell.stop()
    cell.program = cell.server_program = CELL_PLAIN
    cell.start()
    return cell
