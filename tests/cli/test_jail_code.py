# SPDX-License-Identifier: Apache-2.0
"""Code in a jail, where little of the host's /etc is: libraries that need some of it."""

import base64
import subprocess

import pytest

from jail_modes import jail  # noqa: F401


def has_module(name):
    return subprocess.run(["/usr/bin/python3", "-c", f"import {name}"], env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=False).returncode == 0


def test_matplotlib_and_pandas_without_a_line_of_set_up(jail):
    if not has_module("matplotlib") or not has_module("pandas"):
        pytest.skip("python3-matplotlib and python3-pandas are not installed")
    shown = jail.ok("code", "--json", "-c", "import matplotlib.pyplot as plt\nplt.plot([1, 4, 9]); None").json["results"]
    assert base64.b64decode(shown[0]["data"]["image/png"]).startswith(b"\x89PNG\r\n"), shown
    table = jail.ok("code", "--json", "-c", "import pandas\npandas.DataFrame({'a': [1, 2]})").json["results"][-1]["data"]
    assert "<table" in table["text/html"] and "application/vnd.dataresource+json" in table
