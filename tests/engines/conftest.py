# SPDX-License-Identifier: Apache-2.0
"""Engines for the tests, one of each kind for the whole run, and the command line with an environment of its own."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from engines import KINDS, Missing  # noqa: E402

TOP = Path(__file__).resolve().parent.parent.parent
CELL = Path(os.environ.get("CELL_BIN", TOP / "build" / "cell")).resolve()


class Cell:
    """The command, with directories of its own and an engine's address in its environment."""

    def __init__(self, backend, env, uid=None):
        self.as_user = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
        self.dir = Path(tempfile.mkdtemp(prefix="cg-", dir="/tmp"))
        os.chmod(self.dir, 0o755)
        self.backend = backend
        self.env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8"} | env
        for name, variable in (("state", "CELL_STATE_DIR"), ("home", "HOME"), ("tmp", "TMPDIR"), ("ws", None)):
            (self.dir / name).mkdir()
            if variable:
                self.env[variable] = str(self.dir / name)
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
            if name in os.environ:
                self.env[name] = os.environ[name]
        self.workspace = self.dir / "ws"
        for path in (self.dir, *self.dir.iterdir()) if uid is not None else ():
            os.chown(path, uid, uid)

    def start(self, *args, **kwargs):
        return subprocess.Popen([str(CELL), *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, cwd=self.workspace, text=True, env=self.env | kwargs.pop("env", {}),
            **self.as_user, **kwargs)

    def __call__(self, *args, timeout=180, **kwargs):
        child = self.start(*args, **kwargs)
        try:
            child.out, child.err = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            pytest.fail(f"cell {args} did not end within {timeout} s")
        child.code = child.returncode
        return child

    def ok(self, *args, **kwargs):
        r = self(*args, **kwargs)
        assert r.code == 0, (args, r.code, r.out, r.err)
        return r.out

    def run(self, *args, image="cell-test", **kwargs):
        """`cell run` in a container; args: options, then "--", then the command."""
        return self("run", "--backend", self.backend, *(("--image", image) if image else ()), *args, **kwargs)

    def fails(self, *args, **kwargs):
        """It must fail with a message and a hint, and leave no cell."""
        r = self.run(*args, **kwargs)
        assert r.code != 0, (r.out, r.err)
        assert json.loads(self.ok("ls", "--json"))["cells"] == [], r.err
        return r.err

    def remove(self):
        left = json.loads(self.ok("ls", "--json"))["cells"]
        for c in left:
            self("rm", c["name"])
        shutil.rmtree(self.dir, ignore_errors=True)
        return [c["name"] for c in left]


def wait_for(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.05)


@contextlib.contextmanager
def skipped_without():
    """What is needed and missing is the reason of a skip."""
    try:
        yield
    except Missing as why:
        pytest.skip(str(why))


@contextlib.contextmanager
def started(make, *options, before=None):
    """An engine of this kind with the image of the tests. before: called with it when it does not run yet."""
    with skipped_without():
        made = make(*options)
    if before:
        before(made)
    with made:
        made.load_image()
        yield made


@pytest.fixture(scope="session", params=list(KINDS))
def engine(request):
    """An engine of each kind."""
    with started(KINDS[request.param]) as made:
        yield made


@pytest.fixture
def cell(engine):
    """The command line beside an engine; no container and no cell may be left."""
    c = Cell(engine.backend, engine.env, engine.uid)
    yield c
    cells = c.remove()
    try:
        wait_for(lambda: not engine.containers(), "no container is left")
    finally:
        engine.remove_containers()  # or the next test would be blamed
    assert not cells


@pytest.fixture
def alone():
    """The command line without an engine: give it an address in env."""
    c = Cell("docker", {})
    yield c
    assert not c.remove()
