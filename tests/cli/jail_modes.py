# SPDX-License-Identifier: Apache-2.0
"""The jail as root and as an ordinary user: a fixture for tests of what a spec can ask of it."""

import contextlib
import os
import shutil
import socket

import pytest

from conftest import Cell, clean_room


def own_id():
    """An id nobody has, and no other test that runs now: the directory of its slots, /tmp/cell-ID, is removed after each test."""
    for number in range(61234, 61299):
        with contextlib.suppress(OSError):
            HELD.bind(f"\0cell-test-user-{number}")
            return number
    raise RuntimeError("too many tests at once")


HELD = socket.socket(socket.AF_UNIX)  # its name is free again when we end
USER = own_id()


class Jail(Cell):
    """The command over the jail; `mode` says as whom."""

    def __init__(self, directory, mode):
        super().__init__(directory)
        self.mode = mode
        del self.env["CELL_BACKEND"]
        self.env["CELL_BACKEND"] = "jail"
        if not self.is_root:
            for path in [self.dir, *self.dir.iterdir()]:
                os.chown(path, USER, USER)

    @property
    def is_root(self):
        return self.mode == "root"

    def popen(self, *args, **kwargs):
        if not self.is_root:
            kwargs = {"user": USER, "group": USER, "extra_groups": [], **kwargs}
        return super().popen(*args, **kwargs)

    def sh(self, line, *options, **kwargs):
        """Run a line in a fresh cell."""
        return self("run", *options, "--", "sh", "-c", line, **kwargs)

    def has(self, capability):
        info = next(b for b in self.ok("backends", "--json").json["backends"] if b["name"] == "jail")
        assert info["usable"], f"no jail here as {self.mode}: {info['reason']}; {info['fix']}"
        return capability in info["capabilities"]


@contextlib.contextmanager
def a_jail(mode):
    if mode == "root" and os.geteuid() != 0:
        pytest.skip("needs root")
    if mode == "user" and os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    try:
        with clean_room(lambda directory: Jail(directory, mode)) as c:
            yield c
    finally:
        if mode == "user":
            shutil.rmtree(f"/tmp/cell-{USER}", ignore_errors=True)


@pytest.fixture(params=["root", "user"])
def jail(request):
    with a_jail(request.param) as c:
        yield c


@pytest.fixture
def root_jail():
    with a_jail("root") as c:
        yield c


@pytest.fixture
def user_jail():
    with a_jail("user") as c:
        yield c
