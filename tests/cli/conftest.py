# SPDX-License-Identifier: Apache-2.0
"""What the CLI tests share: the binary, a clean home for each test, and a look at what is left afterwards.

CELL_BIN names the binary (default build/cell), CELL_BIN_PLAIN one without sanitizers for the tests that
measure memory. Each test has a state directory, HOME, TMPDIR and a
workspace of its own; when it is over, any process, cell or file that is still there fails it.
"""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent.parent
CELL = Path(os.environ.get("CELL_BIN", TOP / "build" / "cell")).resolve()
CELL_PLAIN = Path(os.environ.get("CELL_BIN_PLAIN", CELL)).resolve()
PR_SET_CHILD_SUBREAPER = 36

RUN_KEYS = {
    "id", "backend", "exit_code", "signal", "timed_out", "truncated", "oom", "stdout", "stderr",
    "stdout_bytes", "stderr_bytes", "duration_ms", "usage",
}


def pytest_configure(config):
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise RuntimeError("cannot become a subreaper: what tests leave running would not be seen")


def processes():
    """pid -> (ppid, state) of every process."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                fields = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
                found[int(name)] = (int(fields[1]), fields[0].decode())
    return found


def descendants(pid=None):
    """Live descendants of a process, of ours by default."""
    top = pid or os.getpid()
    all_of_them = processes()
    ours, grew = {top}, True
    while grew:
        more = {p for p, (parent, _) in all_of_them.items() if parent in ours} - ours
        ours |= more
        grew = bool(more)
    return {p for p in ours - {top} if all_of_them[p][1] != "Z"}


def reap_orphans(known):
    """Collect what ended as our child without being a Popen of ours."""
    for pid, (parent, state) in processes().items():
        if parent == os.getpid() and state == "Z" and pid not in known:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def command_line(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def peak_rss(pid):
    """Peak memory of a process in bytes; 0 when it is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def wait_until(condition, seconds=20, what="the condition"):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} never came true"
        time.sleep(0.02)


def rest_of(child, seconds=30):
    """What a child still says, and its end. For one whose stdout was read from: communicate() would lose
    what readline() took in advance."""
    killer = threading.Timer(seconds, child.kill)
    killer.start()
    try:
        return child.stdout.read()
    finally:
        child.wait()
        killer.cancel()


class Result:
    """How a call of cell ended."""

    def __init__(self, args, code, out, err):
        self.args, self.code, self.out, self.err = args, code, out, err

    @property
    def text(self):
        return self.out.decode()

    @property
    def errors(self):
        return self.err.decode(errors="replace")

    @property
    def json(self):
        assert self.out.count(b"\n") >= 1, f"no JSON from {self.args}: {self.out!r} {self.err!r}"
        return json.loads(self.out)

    def __repr__(self):
        return f"cell {' '.join(map(str, self.args))} -> {self.code}\n{self.out[:2000]!r}\n{self.err[:2000]!r}"


class Cell:
    """The command, called with an environment that has nothing of the caller's."""

    def __init__(self, directory):
        self.program = CELL
        self.dir = Path(directory)
        self.workspace = self.dir / "ws"
        self.state = self.dir / "state"
        self.env = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "LANG": "C.UTF-8",
            "HOME": str(self.dir / "home"),
            "TMPDIR": str(self.dir / "tmp"),
            "XDG_RUNTIME_DIR": str(self.dir / "run"),
            "CELL_STATE_DIR": str(self.state),
            # The command line is tested over a back end that every machine has and that works in the current
            # directory; what each back end does is conformance's, what the jail keeps out is escape's.
            "CELL_BACKEND": "subprocess",
        }
        for name in ("ws", "home", "tmp", "run"):
            (self.dir / name).mkdir()
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
            if name in os.environ:
                self.env[name] = os.environ[name]
        self.children = []

    def popen(self, *args, env=None, cwd=None, **kwargs):
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        kwargs.setdefault("stdout", subprocess.PIPE)
        kwargs.setdefault("stderr", subprocess.PIPE)
        child = subprocess.Popen(
            [str(self.program), *map(os.fspath, map(lambda a: a if isinstance(a, (str, bytes, os.PathLike)) else str(a), args))],
            env={**self.env, **(env or {})}, cwd=cwd or self.workspace, **kwargs)
        self.children.append(child)
        return child

    def __call__(self, *args, stdin=None, env=None, cwd=None, timeout=60, **kwargs):
        if stdin is not None:
            kwargs["stdin"] = subprocess.PIPE
        child = self.popen(*args, env=env, cwd=cwd, **kwargs)
        try:
            out, err = child.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            out, err = child.communicate()
            pytest.fail(f"cell {args} did not end within {timeout} s: {out[-500:]!r} {err[-500:]!r}")
        return Result(args, child.returncode, out or b"", err or b"")

    def ok(self, *args, **kwargs):
        r = self(*args, **kwargs)
        assert r.code == 0, r
        return r

    def fails(self, *args, says=(), code=125, **kwargs):
        """Cell itself fails: exit 125, a message with these words, nothing on stdout."""
        r = self(*args, **kwargs)
        assert r.code == code, r
        assert r.errors.startswith("cell: "), r
        assert r.out == b"", r
        for word in says:
            assert word in r.errors, f"no '{word}' in the error: {r}"
        return r

    def create(self, name="web", *args):
        self.ok("create", *args, name)
        return name

    def put(self, name, content=b""):
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def names(self):
        return [c["name"] for c in self.ok("ls", "--all", "--json").json["cells"]]

    def ps(self, name, *args):
        return {c["id"]: c for c in self.ok("ps", "--json", *args, name).json["commands"]}

    def tidy(self):
        """Remove the cells a test made on purpose; nothing else may need it."""
        for child in self.children:
            if child.poll() is None:
                child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout, child.stderr):
                if pipe:
                    with contextlib.suppress(OSError):
                        pipe.close()
        if (self.state / "cells").is_dir() and any((self.state / "cells").iterdir()):
            self("rm", "-f", "--all")
            self("prune")


def what_is_left(c, before):
    left = []
    end = time.monotonic() + 8
    while True:
        reap_orphans({child.pid for child in c.children})
        running = descendants() - before
        if not running or time.monotonic() > end:
            break
        time.sleep(0.02)
    for pid in running:
        left.append(f"process {pid}: {command_line(pid)}")
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    for name in ("state/cells", "home", "tmp", "run"):
        directory = c.dir / name
        if directory.is_dir():
            left += [str(p) for p in directory.iterdir()]
    return left


@contextlib.contextmanager
def clean_room(kind):
    """A Cell of that kind in a directory of its own; fails when anything is left behind."""
    assert CELL.exists(), f"no {CELL}: build it, or set CELL_BIN"
    directory = tempfile.mkdtemp(prefix="ct-", dir="/tmp")  # short: sockets have short names
    os.chmod(directory, 0o755)
    before = descendants()
    c = kind(directory)
    try:
        yield c
        c.tidy()
        left = what_is_left(c, before)
        assert not left, "left behind: " + "; ".join(left)
    finally:
        c.tidy()
        what_is_left(c, before)
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def cell():
    """cell(...) runs the command; it fails the test when anything is left behind."""
    with clean_room(Cell) as c:
        yield c


@pytest.fixture
def web(cell):
    """A named cell called web."""
    return cell.create("web")
