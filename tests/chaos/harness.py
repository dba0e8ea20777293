# SPDX-License-Identifier: Apache-2.0
"""The server, client and session of the API's tests, for suites besides it."""

import importlib.util
from pathlib import Path

_path = Path(__file__).resolve().parent.parent / "api" / "conftest.py"
_spec = importlib.util.spec_from_file_location("api_harness", _path)
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)

Server, Client, Answer, CELL, TOP, PATIENCE_S = (
    _module.Server, _module.Client, _module.Answer, _module.CELL, _module.TOP, _module.PATIENCE_S)
