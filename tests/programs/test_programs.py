# SPDX-License-Identifier: Apache-2.0
"""Real programs in the finished jail with its default profile, as root and as a user. Nothing is fetched.

Each task of tasks/ runs outside first: where that fails too, or its tool is not there, it is skipped and says
why. The same tasks run under the syscall filters alone in tests/seccomp.
"""

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

TASKS = sorted((Path(__file__).parent / "tasks").glob("*.sh"))
IN_CELL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin"
OFFLINE = {
    "npm_config_offline": "true", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "GO111MODULE": "on", "GOPROXY": "off",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1", "CARGO_NET_OFFLINE": "true", "GIT_CONFIG_NOSYSTEM": "1", "PIP_NO_INDEX": "1",
}


def needs_of(task):
    line = next(line for line in task.read_text().splitlines() if line.startswith("# needs: "))
    return line.removeprefix("# needs: ").split()


@functools.cache
def rust():
    """Where rustup keeps its toolchain: no part of /usr, so it is mounted."""
    if shutil.which("cargo", path=IN_CELL_PATH) or not shutil.which("rustc"):
        return None
    r = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=False)
    return r.stdout.strip() if r.returncode == 0 else None


def path_for(tools, inside):
    return ("/toolchain/bin" if inside else f"{rust()}/bin") + ":" + IN_CELL_PATH if "cargo" in tools and rust() else IN_CELL_PATH


@functools.cache
def works_outside(task):
    """The positive control, once. None, or why not."""
    tools = needs_of(task)
    path = path_for(tools, False)
    missing = [tool for tool in tools if not shutil.which(tool, path=path)]
    if missing:
        return "not installed: " + " ".join(missing)
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as work:
        r = subprocess.run(["sh", "-eu", str(task)], cwd=work, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=300, env={"PATH": path, "HOME": home, "LANG": "C.UTF-8", **OFFLINE})
    return None if r.returncode == 0 else "fails outside too: " + (r.stderr.strip().splitlines() or ["?"])[-1][:120]


@pytest.mark.slow(900)  # compilers, on a busy machine
@pytest.mark.parametrize("task", TASKS, ids=lambda t: t.stem)
def test_it_works_in_a_cell(jail, task):
    why_not = works_outside(task)
    if why_not:
        pytest.skip(why_not)
    tools, options = needs_of(task), []
    if "cargo" in tools and rust():
        if not jail.is_rootful and jail.changes_user and not Path(rust()).is_relative_to("/usr"):
            pytest.skip(f"the toolchain is in {rust()}, which is root's own")
        options += ["-v", f"{rust()}:/toolchain:ro"]
    for name, value in {**OFFLINE, "PATH": path_for(tools, True)}.items():
        options += ["-e", f"{name}={value}"]
    r = jail("run", "--json", *options, "--", "sh", "-eu", "-c", task.read_text(), timeout=300)
    assert r.code == 0, r.json["stdout"][-2000:] + r.json["stderr"][-4000:]


def test_the_walls_are_up(jail):
    """Without this nothing here would prove anything."""
    status = jail.ok("run", "--", "cat", "/proc/self/status").out
    for line in ("Seccomp:\t2", "NoNewPrivs:\t1", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000"):
        assert line in status


def test_a_program_reads_what_is_piped_in(jail):
    text = "".join(f"{i}\n" for i in range(200000))
    assert jail.ok("run", "--", "sort", "-rn", stdin=text).out.splitlines()[0] == "199999"
    assert jail.ok("run", "--", "python3", "-c", "import sys; print(sum(map(int, sys.stdin)))", stdin=text).out == f"{sum(range(200000))}\n"


def test_a_build_in_a_mounted_workspace_belongs_to_its_owner(jail):
    if not shutil.which("gcc"):
        pytest.skip("not installed: gcc")
    jail.put("a.c", "int main(void) { return 7; }\n")
    assert jail("run", "-w", jail.workspace, "--", "sh", "-c", "gcc a.c -o a && ./a").code == 7
    made = (jail.workspace / "a").stat()
    assert made.st_uid == jail.workspace.stat().st_uid
    assert os.access(jail.workspace / "a", os.X_OK)


def test_threads_of_python_share_the_machine(jail):
    code = ("import threading\nn = [0]\nl = threading.Lock()\n"
        "def f():\n for i in range(2000):\n  with l: n[0] += 1\n"
        "ts = [threading.Thread(target=f) for i in range(32)]\n[t.start() for t in ts]\n[t.join() for t in ts]\nprint(n[0])")
    assert jail.ok("run", "--", "python3", "-c", code).out == "64000\n"
