# SPDX-License-Identifier: Apache-2.0
"""What suites over the jail share: cells made as root and as an ordinary user.

`jail` is a callable like the command line, with the back end jail, once as root (rootful) and once as nobody
(rootless). A test that leaves a cell behind fails.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent
CELL = Path(os.environ.get("CELL_BIN", TOP / "build" / "cell")).resolve()
NOBODY = 65534


class Ended:
    """How a call of cell ended."""

    def __init__(self, args, code, out, err, seconds):
        self.args, self.code, self.out, self.err, self.seconds = args, code, out, err, seconds

    @property
    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"cell {' '.join(map(str, self.args))} -> {self.code} after {self.seconds:.2f} s\n{self.out[-3000:]}\n{self.err[-3000:]}"


class Jail:
    """The command, with an environment of its own, as root or as an ordinary user."""

    def __init__(self, directory, is_rootful):
        self.dir, self.is_rootful = Path(directory), is_rootful
        self.env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8", "CELL_BACKEND": "jail"}
        for name, variable in (("state", "CELL_STATE_DIR"), ("home", "HOME"), ("tmp", "TMPDIR"), ("ws", None)):
            path = self.dir / name
            path.mkdir()
            if variable:
                self.env[variable] = str(path)
            if self.changes_user:
                os.chown(path, NOBODY, NOBODY)
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
            if name in os.environ:
                self.env[name] = os.environ[name]
        self.workspace = self.dir / "ws"

    @property
    def changes_user(self):
        return not self.is_rootful and os.geteuid() == 0

    def put(self, name, text):
        path = self.workspace / name
        path.write_text(text)
        if self.changes_user:
            os.chown(path, NOBODY, NOBODY)
        return path

    def start(self, *args, prefix=(), program=CELL, **kwargs):
        """prefix: a command that runs the command behind it."""
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        if self.changes_user:
            kwargs |= {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        kwargs.setdefault("env", self.env)
        return subprocess.Popen([*map(str, prefix), str(program), *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            cwd=self.workspace, text=True, **kwargs)

    def __call__(self, *args, stdin=None, timeout=120, **kwargs):
        begin = time.monotonic()
        kwargs["stdin"] = subprocess.PIPE if stdin is not None else subprocess.DEVNULL
        child = self.start(*args, **kwargs)
        try:
            out, err = child.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            out, err = child.communicate()
            pytest.fail(f"cell {args} did not end within {timeout} s: {out[-500:]!r} {err[-500:]!r}")
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        return Ended(args, child.returncode, out, err, time.monotonic() - begin)

    def ok(self, *args, **kwargs):
        r = self(*args, **kwargs)
        assert r.code == 0, r
        return r

    def doctor(self, **kwargs):
        """What doctor says of the jail."""
        d = json.loads(self("doctor", "--json", **kwargs).out)
        return next(b for b in d["backends"] if b["name"] == "jail")

    def lacks(self):
        backend = self.doctor()
        assert backend["usable"], backend
        return {lack["capability"]: lack for lack in backend["lacks"]}

    def need(self, capability):
        """Skip, with its reason, a test of what this machine cannot have."""
        lack = self.lacks().get(capability)
        if lack:
            pytest.skip(f"no {capability} here: {lack['reason']}")


def make_jail(is_rootful):
    if is_rootful and os.geteuid() != 0:
        pytest.skip("needs root")
    directory = tempfile.mkdtemp(prefix="cj-", dir="/tmp")  # short: sockets have short names
    os.chmod(directory, 0o755)
    return Jail(directory, is_rootful)


@pytest.fixture(params=["rootful", "rootless"])
def jail(request):
    j = make_jail(request.param == "rootful")
    try:
        yield j
        left = list((j.dir / "state").glob("cells/*"))
        assert not left, f"left behind: {left}"
    finally:
        shutil.rmtree(j.dir, ignore_errors=True)


@pytest.fixture
def root_jail():
    j = make_jail(True)
    try:
        yield j
    finally:
        shutil.rmtree(j.dir, ignore_errors=True)


@pytest.fixture
def user_jail():
    j = make_jail(False)
    try:
        yield j
    finally:
        shutil.rmtree(j.dir, ignore_errors=True)
