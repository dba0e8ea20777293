# SPDX-License-Identifier: Apache-2.0
"""Drivers for the tests: of their own, ended with all they started when the test is over."""

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from driver import Driver

PYTHON = os.environ.get("CELL_TEST_PYTHON", "/usr/bin/python3")


def other_pythons():
    """Interpreters of other versions on this machine, 3.8 and later: {version: program}."""
    home = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    found = {}
    for program in [*Path("/usr/bin").glob("python3.*"), *Path("/usr/local/bin").glob("python3.*"), *home.glob(".pyenv/versions/*/bin/python3")]:
        if not program.name.replace("python3", "").lstrip(".").isdigit() and program.name != "python3":
            continue
        said = subprocess.run([program, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True)
        version = said.stdout.strip()
        if said.returncode == 0 and tuple(map(int, version.split("."))) >= (3, 8):
            found.setdefault(version, str(program))
    return found


@pytest.fixture
def start(tmp_path):
    """Starts drivers: start(env=..., ...)."""
    made = []

    def make(**how):
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8", "HOME": str(tmp_path), **how.pop("env", {})}
        how.setdefault("cwd", tmp_path)
        made.append(Driver(how.pop("python", PYTHON), env=env, **how))
        return made[-1]

    yield make
    for driver in made:
        driver.close()


@pytest.fixture
def d(start):
    return start()
