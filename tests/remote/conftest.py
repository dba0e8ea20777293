# SPDX-License-Identifier: Apache-2.0
"""The command line as a client: the tests of tests/cli with the cells of a server, but those of exclusions.py, and tests of what only a client
has. The server has the test's state directory and, being on the same machine, the same files: CELL_SERVER_PATHS says that paths are meant there. So a
test sees what it would see without a server.
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import exclusions
import pytest

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "cli"))
for name in ("test_big", "test_cleanup", "test_code", "test_cp", "test_deps", "test_errors", "test_files", "test_named", "test_repl", "test_run", "test_terminal"):
    pytest.register_assert_rewrite(name)


def load_cli_conftest():
    spec = importlib.util.spec_from_file_location("cli_conftest", HERE.parent / "cli" / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Its tests say "from conftest import ...": all of it is here too.
globals().update({k: v for k, v in vars(load_cli_conftest()).items() if not k.startswith("__")})


class ServedCell(Cell):  # noqa: F821
    """The same command, and a server that it uses."""

    server_program = CELL  # noqa: F821
    settings = {"CELL_SERVER_MIN_TIER": "0"}  # the tests' back end has no walls to speak of

    def __init__(self, directory):
        super().__init__(directory)
        self.here = dict(self.env)
        self.log = self.dir / "server.log"
        self.server = None
        self.address = f"unix:{self.dir}/s"
        self.env |= {"CELL_SERVER": self.address, "CELL_TOKEN": self.make_token("--role", "admin"), "CELL_SERVER_PATHS": "1",
                     "CELL_WORKSPACE": str(self.workspace)}
        self.start()

    def make_token(self, *args):
        """As the server's owner does it, on its machine."""
        made = subprocess.run([CELL, "--json", "token", "create", *args], env=self.here, check=True, capture_output=True)  # noqa: F821
        return json.loads(made.stdout)["token"]

    def start(self, *args, **settings):
        with self.log.open("ab") as log:
            at = log.tell()
            self.server = subprocess.Popen([self.server_program, "serve", "--listen", self.address, *args],  # noqa: F821
                                           env=self.here | self.settings | settings, cwd=self.dir, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(lambda: b"event=listening" in self.log.read_bytes()[at:] or self.server.poll() is not None, what="its start")  # noqa: F821
        assert self.server.poll() is None, self.log.read_text()

    def stop(self):
        self.server.terminate()
        assert self.server.wait(30) == 0, self.log.read_text()

    def kill_server(self):
        self.server.kill()
        self.server.wait()

    def sessions(self):
        return self.names()

    def tidy(self):
        if self.server.poll() is not None:
            return
        super().tidy()
        self.stop()
        text = self.log.read_text(errors="replace")
        for bad in ("ERROR: AddressSanitizer", "runtime error:", "ERROR: LeakSanitizer"):
            assert bad not in text, text


def pytest_collection_modifyitems(items):
    for item in items:
        why = exclusions.reason(item.function.__module__, item.originalname)
        if why:
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture
def cell():
    with clean_room(ServedCell) as c:  # noqa: F821
        yield c
