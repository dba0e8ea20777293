# SPDX-License-Identifier: Apache-2.0
"""Packages behind walls: a jail's environment is a read-only mount of files that all cells share, and no way from one to another."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from jail_modes import USER, jail  # noqa: F401

sys.path.append(str(Path(__file__).resolve().parent.parent / "lib"))
from wheels import Index, make_tgz, make_wheel, wheel_name  # noqa: E402

PYTHON = "/usr/bin/python3"
pytestmark = pytest.mark.skipif(not Path(PYTHON).exists(), reason="no python3 for cells to use")


@pytest.fixture
def wheels(jail):  # noqa: F811
    path = jail.dir / "wheels"
    path.mkdir()
    make_wheel(path, "one", scripts=["one = one:main"])
    make_wheel(path, "two")
    for p in [path, *path.iterdir()]:
        p.chmod(0o755)
    return path


def python(jail, code, name="web"):  # noqa: F811
    return jail.ok("exec", name, "--", "python3", "-c", code).text.strip()


def test_packages_come_without_a_network_and_go_with_the_cell(jail, wheels):  # noqa: F811
    with Index(wheels) as index:
        jail.create("web", "--network", "none", "--index", index.url)
        jail.ok("deps", "add", "web", "one")
    assert python(jail, "import one, sys; print(one.version, one.__file__, sys.executable)") == (
        "1.0 /opt/cell/env/current/lib/python3.%d/site-packages/one.py /opt/cell/env/current/bin/python3"
        % int(python(jail, "import sys; print(sys.version_info[1])")))
    assert jail.ok("exec", "web", "--", "one").text == "one 1.0\n"


ATTEMPTS = """
import os, one, ctypes
path, site = one.__file__, os.path.dirname(one.__file__)
libc = ctypes.CDLL(None, use_errno=True)
def tried(name, fn):
    try:
        r = fn()
        print(name, "DONE" if r in (None, 0) or hasattr(r, "close") else "refused")
    except OSError as e:
        print(name, "refused")
tried("write", lambda: open(path, "w"))
tried("append", lambda: open(path, "a"))
tried("chmod", lambda: os.chmod(path, 0o777))
tried("utime", lambda: os.utime(path))
tried("unlink", lambda: os.unlink(path))
tried("new", lambda: open(site + "/evil.py", "w"))
tried("rename", lambda: os.rename(path, site + "/x.py"))
tried("link", lambda: os.link(path, "/tmp/linked"))
tried("xattr", lambda: os.setxattr(path, "user.x", b"1"))
tried("through fd", lambda: open("/proc/self/fd/%d" % os.open(path, os.O_RDONLY), "w"))
tried("current", lambda: os.unlink("/opt/cell/env/current"))
tried("remount", lambda: -libc.mount(b"none", b"/opt/cell/env", None, 32 | 4096, None) and 1)
tried("umount", lambda: -libc.umount2(b"/opt/cell/env", 2) and 1)
tried("cover", lambda: -libc.mount(b"tmpfs", b"/opt/cell/env", b"tmpfs", 0, None) and 1)
tried("control", lambda: open("/tmp/control", "w"))
"""


def test_nothing_in_the_cell_can_change_its_environment_or_what_is_shared(jail, wheels):  # noqa: F811
    for name in ("web", "other"):
        jail.create(name, "--find-links", wheels)
        jail.ok("deps", "add", name, "one")
    result = dict(line.rsplit(" ", 1) for line in python(jail, ATTEMPTS).splitlines())
    assert result.pop("control") == "DONE"
    assert len(result) == 14
    assert set(result.values()) == {"refused"}, result
    # both see the very same file, and it is unharmed
    inode = "import os, one; print(os.stat(one.__file__).st_ino, os.stat(one.__file__).st_nlink)"
    assert python(jail, inode) == python(jail, inode, "other")
    assert int(python(jail, inode).split()[1]) == 3
    assert python(jail, "import one; print(one.version)", "other") == "1.0"


def test_a_cell_sees_its_own_packages_and_neither_the_cache_nor_anothers(jail, wheels):  # noqa: F811
    jail.create("web", "--find-links", wheels)
    jail.create("other", "--find-links", wheels)
    jail.ok("deps", "add", "web", "one")
    jail.ok("deps", "add", "other", "two")
    assert jail("exec", "web", "--", "python3", "-c", "import two").code == 1
    found = jail.ok("exec", "web", "--", "sh", "-c", "find / -name 'two.py' -o -name 'manifest.json' -path '*trees*' 2>/dev/null; true").text
    assert found == ""
    assert "one.py" in jail.ok("exec", "web", "--", "sh", "-c", "find / -name one.py 2>/dev/null; true").text  # the search works
    assert str(jail.state) not in jail.ok("exec", "web", "--", "env").text


WAYS = {"magic": "%pip install --no-index ./one-1.0-py3-none-any.whl",
        "bang": "!pip install --no-index ./one-1.0-py3-none-any.whl",
        "subprocess": "import subprocess, sys\nr = subprocess.run([sys.executable, '-m', 'pip', 'install', '--no-index', './one-1.0-py3-none-any.whl'],"
                      " capture_output=True, text=True)\nprint(r.stdout, r.stderr)\nassert r.returncode == 0, 'pip failed'"}


def has_pip():
    return subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not has_pip(), reason="the system's Python has no pip")
@pytest.mark.parametrize("way", WAYS)
def test_code_installs_a_wheel_for_its_session(jail, wheels, way):  # noqa: F811
    """With the real pip, from a file of the workspace: there at once, for what the session starts too, and gone with it."""
    make_wheel(jail.workspace, "one", scripts=["one = one:main"])
    (jail.workspace / wheel_name("one")).chmod(0o644)
    options = ["--find-links", wheels, "--workspace", jail.workspace]
    jail.create("web", *options)
    step = lambda code, name="web": jail("code", "--json", "-s", name, "-c", code, timeout=120).json  # noqa: E731
    assert step("import one")["error"]["name"] == "ModuleNotFoundError"
    r = step(WAYS[way] + "\nimport one\none.main()")
    assert r["error"] is None and "Successfully installed one-1.0" in r["stdout"] and r["stdout"].endswith("one 1.0\n"), r
    r = step("import one, subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import one; one.main()'])\none.version")
    assert (r["value"], r["stdout"]) == ("'1.0'", "one 1.0\n"), r
    jail.create("other", *options)
    assert step("import one", "other")["error"]["name"] == "ModuleNotFoundError", "another session has nothing of it"
    jail.ok("rm", "-f", "web")
    jail.create("web", *options)
    assert step("import one")["error"]["name"] == "ModuleNotFoundError", "it went with the session"


@pytest.mark.parametrize("way", WAYS)
def test_code_may_not_install_where_it_is_forbidden(jail, wheels, way):  # noqa: F811
    make_wheel(jail.workspace, "one")
    (jail.workspace / wheel_name("one")).chmod(0o644)
    jail.create("web", "--no-runtime-deps", "--find-links", wheels, "--install", "two", "--workspace", jail.workspace)
    step = lambda code: jail("code", "--json", "-s", "web", "-c", code, timeout=120).json  # noqa: E731
    r = step(WAYS[way])
    assert "allow_runtime_deps: false" in r["stdout"] + r["stderr"], r
    if way != "bang":  # as in IPython, a line for the shell tells of its failure in _exit_code alone
        assert r["error"] is not None, r
    assert step("import two; two.version")["value"] == "'1.0'", "what was there before is"
    assert step("import one")["error"]["name"] == "ModuleNotFoundError"


def test_pip_of_the_system_itself_refuses_where_it_is_forbidden(jail, wheels):  # noqa: F811
    make_wheel(jail.workspace, "one")
    options = ("--workspace", jail.workspace, "--no-runtime-deps", "--find-links", wheels, "--install", "two")
    has_pip = subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0
    lines = {"of the environment": "python3 -m pip install --no-index ./one-1.0-py3-none-any.whl",
             "of the system": f"{PYTHON} -I -m pip install --no-index --user --break-system-packages ./one-1.0-py3-none-any.whl",
             "to a directory": f"{PYTHON} -I -m pip install --no-index --target /tmp/x ./one-1.0-py3-none-any.whl",
             "ensurepip": f"{PYTHON} -I -m ensurepip", "its program": "/usr/bin/pip3 install --no-index ./one-1.0-py3-none-any.whl"}
    if Path("/usr/bin/npm").exists():
        lines["npm"] = "/usr/bin/npm install x"
    for name, line in lines.items():
        r = jail.sh(line, *options)
        assert r.code != 0, (name, r)
        if has_pip or name == "of the environment":
            assert "allow_runtime_deps: false" in r.errors, (name, r)
    assert jail.ok("run", *options, "--", "python3", "-c", "import two; print(two.version)").text == "1.0\n"
    # the same line works where nothing forbids it: it is the key that does this
    if has_pip:
        r = jail.sh(lines["of the environment"] + " && python3 -c 'import one; print(one.__file__)'", "--workspace", jail.workspace, "--deps")
        assert r.code == 0, r
        assert r.text.strip().endswith("/home/cell/.local/lib/python3.%d/site-packages/one.py" % int(
            subprocess.run([PYTHON, "-c", "import sys; print(sys.version_info[1])"], capture_output=True, text=True, check=True).stdout))


def test_a_package_of_the_workspace_is_read_as_the_cell_sees_it(jail, wheels):  # noqa: F811
    """The file is the cell's: a link out of the workspace leads nowhere, and what is in it is checked outside."""
    jail.create("web", "--deps")
    jail.ok("file", "write", "web", wheel_name("one"), stdin=(wheels / wheel_name("one")).read_bytes())
    jail.ok("exec", "web", "--", "ln", "-s", "/etc/passwd", wheel_name("two"))
    jail.ok("deps", "add", "web", "web:" + wheel_name("one"))
    r = jail("deps", "add", "web", "web:" + wheel_name("two"))
    assert r.code == 125, r
    assert "passwd" not in r.errors or "refused" in r.errors or "workspace" in r.errors
    assert python(jail, "import one; print(one.version)") == "1.0"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk")
def test_a_full_disk_is_said_and_the_old_environment_stays(jail, wheels):  # noqa: F811
    make_wheel(wheels, "big", files={"big_data.bin": os.urandom(3 << 20)})
    disk = jail.dir / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=0755", "none", disk], check=True)
    try:
        if not jail.is_root:
            os.chown(disk, USER, USER)
        state = disk / "s"
        env = {"CELL_STATE_DIR": str(state)}
        r = jail("create", "--find-links", wheels, "web", env=env)
        if r.code != 0 and "idmap" in r.errors:
            pytest.skip("this kernel cannot map ids on a tmpfs")
        assert r.code == 0, r
        jail.ok("deps", "add", "web", "one", env=env)
        r = jail("deps", "add", "web", "big", env=env)
        assert r.code == 125, r
        assert "No space left" in r.errors, r
        assert jail.ok("exec", "web", "--", "python3", "-c", "import one; print(one.version)", env=env).text == "1.0\n"
        assert list((state / "deps" / "staging").iterdir()) == []
        jail.ok("deps", "add", "web", "two", env=env)
        jail.ok("rm", "web", env=env)
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.skipif(not Path("/usr/bin/node").exists(), reason="no node for cells to use")
def test_modules_are_found_by_require_and_by_import_from_anywhere(jail, wheels):  # noqa: F811
    make_tgz(wheels, "lib", "1.2.0", dependencies={"@scope/deep": "*"}, files={"index.js": "exports.version = require('@scope/deep').version;\n"})
    make_tgz(wheels, "@scope/deep", "3.0.0")
    for p in wheels.iterdir():
        p.chmod(0o755)
    jail.create("web", "--find-links", wheels)
    jail.ok("deps", "add", "--lang", "javascript", "web", "lib")
    jail.ok("file", "write", "web", "a.mjs", stdin=b"import lib from 'lib'; import deep from '@scope/deep'; console.log(lib.version, deep.version);\n")
    assert jail.ok("exec", "web", "--", "node", "a.mjs").text == "3.0.0 3.0.0\n"
    assert jail.ok("exec", "web", "--", "node", "-e", "console.log(require('lib').version)").text == "3.0.0\n"
    assert jail("exec", "web", "--", "sh", "-c", "touch /node_modules/x || ln -s /tmp /node_modules/y").code != 0
    jail.ok("deps", "remove", "--lang", "javascript", "web", "lib")
    assert jail.ok("exec", "web", "--", "ls", "/node_modules").text == ""


def test_interpreters_started_ahead_have_the_environment(jail, wheels):  # noqa: F811
    """A context takes over the one that was started with its cell, from the environment, imports done."""
    jail.put("cell.yaml", "kernels:\n  warm: [python]\n  preload: [decimal]\n")
    jail.create("web", "--find-links", wheels, "--install", "one", "--workspace", jail.workspace)
    look = "for p in /proc/[0-9]*; do case $(readlink $p/exe) in */python3*) echo ${p#/proc/};; esac; done"
    ahead = jail.ok("exec", "web", "--", "sh", "-c", look).text.split()
    assert len(ahead) == 1, "one waits"
    r = jail.ok("code", "--json", "-s", "web", "-c", "import os, sys, one\n'decimal' in sys.modules, os.getpid(), one.version, sys.prefix").json
    assert r["value"] == f"(True, {ahead[0]}, '1.0', '/opt/cell/env/current')", r
