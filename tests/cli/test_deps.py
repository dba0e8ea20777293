# SPDX-License-Identifier: Apache-2.0
"""cell deps: packages for the code of a cell, from files, directories and an index on loopback; what is refused, and what is left of it."""

import os
import signal
import stat
import subprocess
import sys
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest
from conftest import wait_until

sys.path.append(str(Path(__file__).resolve().parent.parent / "lib"))
from wheels import Index, Registry, make_tgz, make_wheel, sha256, wheel_name  # noqa: E402

PYTHON = "/usr/bin/python3"
pytestmark = pytest.mark.skipif(not Path(PYTHON).exists(), reason="no python3 for cells to use")


@pytest.fixture
def wheels(cell):
    path = cell.dir / "wheels"
    path.mkdir()
    return path


def packages(cell, name="web"):
    return {p["name"]: p["version"] for p in cell.ok("deps", "list", "--json", name).json["packages"]}


def python(cell, code, name="web"):
    return cell.ok("exec", name, "--", "python3", "-c", code).text.strip()


def trees(cell):
    directory = cell.state / "deps" / "trees"
    return sorted(p.name for p in directory.iterdir()) if directory.is_dir() else []


# ---- what it does ----


def test_a_package_of_a_directory_is_installed_with_what_it_needs(cell, wheels):
    make_wheel(wheels, "one", "1.0", requires=["two>=2", "three; python_version < '3'"])
    make_wheel(wheels, "two", "1.9")
    make_wheel(wheels, "two", "2.1")
    make_wheel(wheels, "two", "3.0rc1")
    cell.create("web", "--find-links", wheels)
    assert packages(cell) == {}
    cell.ok("deps", "add", "web", "one")
    assert packages(cell) == {"one": "1.0", "two": "2.1"}
    assert python(cell, "import one, two; print(one.version, two.version)") == "1.0 2.1"
    listed = {p["name"]: p for p in cell.ok("deps", "list", "--json", "web").json["packages"]}
    assert listed["one"]["requested"] is True
    assert listed["two"]["requested"] is False
    assert listed["two"]["hash"] == sha256(wheels / wheel_name("two", "2.1"))


def test_the_environment_is_a_virtual_one_of_its_own(cell, wheels):
    cell.create("web", "--deps")
    prefix = python(cell, "import sys; print(sys.prefix != sys.base_prefix, sys.prefix)")
    assert prefix.startswith(f"True {cell.state}/cells/") and prefix.endswith("/env/current")
    assert python(cell, "import os; print(os.environ['VIRTUAL_ENV'])") == prefix.split()[1]


def test_scripts_run_with_the_environments_interpreter(cell, wheels):
    make_wheel(wheels, "tool", scripts=["say-it = tool:main"],
               files={"tool-1.0.data/scripts/raw": "#!python\nimport tool, sys\nprint(tool.version, sys.prefix)\n",
                      "tool-1.0.data/data/share/tool.txt": "data", "tool-1.0.data/purelib/pure_tool.py": "x = 1\n"})
    cell.create("web", "--find-links", wheels)
    cell.ok("deps", "add", "web", "tool")
    assert cell.ok("exec", "web", "--", "say-it").text == "tool 1.0\n"
    assert cell.ok("exec", "web", "--", "raw").text.startswith("1.0 " + str(cell.state))
    assert python(cell, "import pure_tool, sys; print(open(sys.prefix + '/share/tool.txt').read())") == "data"
    assert python(cell, "from importlib import metadata as m; print(m.version('tool'))") == "1.0"


def test_what_is_preinstalled_is_there_before_the_first_command(cell, wheels):
    make_wheel(wheels, "one", "1.5")
    r = cell.ok("run", "--find-links", wheels, "--install", "one>=1", "--", "python3", "-c", "import one; print(one.version)")
    assert r.text == "1.5\n"
    cell.fails("run", "--find-links", wheels, "--install", "nowhere", "--", "true", says=["deps.preinstalled", "no package 'nowhere'"])


def test_a_wheel_of_this_machine_or_of_the_workspace(cell, wheels):
    make_wheel(wheels, "mine", "3.0")
    make_wheel(cell.workspace, "inner", "4.0")
    cell.create("web", "--deps")
    cell.ok("deps", "add", "web", wheels / wheel_name("mine", "3.0"))
    cell.ok("deps", "add", "web", "web:" + wheel_name("inner", "4.0"))
    assert packages(cell) == {"inner": "4.0", "mine": "3.0"}
    assert python(cell, "import mine, inner; print(mine.version, inner.version)") == "3.0 4.0"
    # another package later does not lose them, though no index has them
    make_wheel(wheels, "more")
    cell.ok("deps", "add", "web", wheels / wheel_name("more"))
    assert set(packages(cell)) == {"inner", "mine", "more"}


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("with_hashes", [False, True])
def test_a_simple_index_over_http(cell, wheels, as_json, with_hashes):
    make_wheel(wheels, "one", "1.0", requires=["two-part"])
    make_wheel(wheels, "two-part", "2.0")
    make_wheel(wheels, "one", "2.0", tag="cp27-cp27m-win32")
    with Index(wheels, as_json, with_hashes) as index:
        cell.create("web", "--index", index.url)
        cell.ok("deps", "add", "web", "One")
        assert packages(cell) == {"one": "1.0", "two-part": "2.0"}
        assert "/simple/one/" in index.asked
        cell.fails("deps", "add", "web", "absent", says=["no package 'absent'"])
    # what is there stays, also when the index is away
    cell.fails("deps", "add", "web", "other", says=["ask the index"])
    assert packages(cell) == {"one": "1.0", "two-part": "2.0"}


def test_an_index_that_is_a_directory(cell, wheels):
    (wheels / "one").mkdir()
    make_wheel(wheels / "one", "one")
    cell.create("web", "--index", wheels)
    cell.ok("deps", "add", "web", "one")
    assert packages(cell) == {"one": "1.0"}


def test_removing_takes_along_what_only_it_needed(cell, wheels):
    make_wheel(wheels, "one", requires=["shared", "own"])
    make_wheel(wheels, "other", requires=["shared"])
    for name in ("shared", "own"):
        make_wheel(wheels, name)
    cell.create("web", "--find-links", wheels)
    cell.ok("deps", "add", "web", "one", "other")
    cell.fails("deps", "remove", "web", "shared", says=["'shared' is needed by"])
    cell.ok("deps", "remove", "web", "one")
    assert set(packages(cell)) == {"other", "shared"}
    assert cell("exec", "web", "--", "python3", "-c", "import own").code == 1
    cell.fails("deps", "remove", "web", "one", says=["not installed"])


def test_a_lock_makes_the_same_again_and_nothing_else(cell, wheels):
    make_wheel(wheels, "one", "1.0", requires=["two"])
    make_wheel(wheels, "two", "1.0")
    cell.create("web", "--find-links", wheels)
    cell.ok("deps", "add", "web", "one")
    lock = cell.dir / "lock.txt"
    lock.write_bytes(cell.ok("deps", "lock", "web").out)
    assert f"one==1.0 \\\n    --hash=sha256:{sha256(wheels / wheel_name('one'))}" in lock.read_text()
    make_wheel(wheels, "two", "2.0")
    make_wheel(wheels, "extra")
    cell.create("again", "--find-links", wheels)
    cell.ok("deps", "add", "again", "extra")
    cell.ok("deps", "sync", "again", "-r", lock)
    assert packages(cell, "again") == {"one": "1.0", "two": "1.0"}
    # pip reads the same file: it fails only for want of what is not there
    r = subprocess.run([PYTHON, "-m", "pip", "install", "--dry-run", "--no-index", "--find-links", str(wheels), "--target", str(cell.dir / "t"),
                        "-r", str(lock)], capture_output=True, text=True, check=False)
    if "No module named pip" not in r.stderr:
        assert r.returncode == 0, r


def test_requirements_from_stdin_and_upgrades(cell, wheels):
    make_wheel(wheels, "one", "1.0")
    cell.create("web", "--find-links", wheels)
    cell.ok("deps", "add", "web", "-r", "-", stdin=b"# list\none\n")
    make_wheel(wheels, "one", "1.1")
    make_wheel(wheels, "two")
    cell.ok("deps", "add", "web", "two")
    assert packages(cell)["one"] == "1.0"
    cell.ok("deps", "add", "--upgrade", "web", "one")
    assert packages(cell)["one"] == "1.1"


def test_versions_that_contradict_are_told_with_who_asks(cell, wheels):
    make_wheel(wheels, "one", requires=["base<2"])
    make_wheel(wheels, "two", requires=["base>=2"])
    for v in ("1.0", "2.0"):
        make_wheel(wheels, "base", v)
    cell.create("web", "--find-links", wheels)
    cell.fails("deps", "add", "web", "one", "two", says=["no version of 'base' fits", "'<2' by one 1.0", "'>=2' by two 1.0"])
    cell.ok("deps", "add", "web", "one")
    assert packages(cell)["base"] == "1.0"


def test_the_newest_is_given_up_when_another_needs_an_older_one(cell, wheels):
    make_wheel(wheels, "aaa")
    make_wheel(wheels, "base", "1.0")
    make_wheel(wheels, "base", "2.0")
    make_wheel(wheels, "aaa", "2.0", requires=["base", "zzz"])
    make_wheel(wheels, "zzz", requires=["base==1.*"])
    cell.create("web", "--find-links", wheels)
    cell.ok("deps", "add", "web", "aaa")
    assert packages(cell) == {"aaa": "2.0", "base": "1.0", "zzz": "1.0"}


def test_extras_bring_more(cell, wheels):
    make_wheel(wheels, "one", requires=["two; extra == 'more'", "three[deep]; extra == 'most'"])
    make_wheel(wheels, "two")
    make_wheel(wheels, "three", requires=["four; extra == 'deep'"])
    make_wheel(wheels, "four")
    cell.create("web", "--find-links", wheels)
    cell.ok("deps", "add", "web", "one")
    assert set(packages(cell)) == {"one"}
    cell.ok("deps", "add", "web", "one[more, most]")
    assert set(packages(cell)) == {"one", "two", "three", "four"}


def test_what_only_exists_as_source_says_so(cell, wheels):
    (wheels / "old-1.0.tar.gz").write_bytes(b"x")
    make_wheel(wheels, "alien", tag="cp27-cp27m-win32")
    make_wheel(wheels, "future", requires_python=">=4")
    cell.create("web", "--find-links", wheels)
    cell.fails("deps", "add", "web", "alien", says=["has no wheel for Python", "win32"])
    cell.fails("deps", "add", "web", "future", says=["no version of 'future' fits"])
    cell.fails("deps", "add", "web", "old", says=["source only"])


# ---- hashes ----


def test_a_file_with_another_hash_is_refused_and_changes_nothing(cell, wheels):
    make_wheel(wheels, "one")
    cell.create("web", "--find-links", wheels)
    bad = cell.dir / "bad.txt"
    bad.write_text(f"one==1.0 --hash=sha256:{'0' * 64}\n")
    cell.fails("deps", "sync", "web", "-r", bad, says=["hash"])
    assert packages(cell) == {}
    make_wheel(wheels, "two", requires=["one"])
    bad.write_text(f"two==1.0 --hash=sha256:{sha256(wheels / wheel_name('two'))}\n")
    cell.fails("deps", "add", "web", "-r", bad, says=["'one'", "has no hash"])


def test_an_index_that_gives_other_bytes_than_it_says(cell, wheels):
    make_wheel(wheels, "one")
    with Index(wheels) as index:
        index.wrong_bytes = True
        cell.create("web", "--index", index.url)
        cell.fails("deps", "add", "web", "one", says=["is not what was asked for"])
    assert trees(cell) == []


# ---- hostile wheels ----


def raw_link(name):
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


HOSTILE = {
    "climbs": ({"extra": [("../../evil.py", "x")]}, "leads out"),
    "climbs within": ({"extra": [("a/../../../evil.py", "x")]}, "leads out"),
    "absolute": ({"extra": [("/tmp/evil.py", "x")]}, "no relative path"),
    "backslash": ({"extra": [("a\\..\\evil.py", "x")]}, "backslash"),
    "link": ({"extra": [(raw_link("link.py"), "/etc/passwd")]}, "symbolic link"),
    "unlisted": ({"extra": [("more.py", "x")]}, "not in RECORD"),
    "not in record": ({"files": {"more.py": "x"}, "drop_from_record": ["more.py"]}, "not in RECORD"),
    "wrong hash": ({"files": {"more.py": "x"}, "record": {"more.py": "more.py,sha256=" + "A" * 43 + ",1"}}, "hashes differ"),
    "no hash": ({"files": {"more.py": "x"}, "record": {"more.py": "more.py,,"}}, "no hash"),
    "weak hash": ({"files": {"more.py": "x"}, "record": {"more.py": "more.py,md5=abc,1"}}, "no SHA-256"),
    "ghost": ({"record": {"ghost.py": "ghost.py,sha256=" + "A" * 43 + ",1"}}, "not there"),
    "script with a slash": ({"scripts": ["../../bin/sh = evil:main"]}, "no name for a script"),
    "script for the interpreter": ({"scripts": ["python3 = evil:main"]}, "interpreter's place"),
    "script with code": ({"scripts": ["x = evil:main;import os"]}, "names no function"),
    "another's name": ({"metadata_name": "other"}, "another package"),
    "another's info": ({"info": "other-1.0"}, "another package"),
    "two infos": ({"files": {"other-1.0.dist-info/METADATA": "x"}}, "two .dist-info"),
    "venv": ({"files": {"evil-1.0.data/data/pyvenv.cfg": "home = /tmp"}}, "environment itself"),
    "bin by data": ({"files": {"evil-1.0.data/data/bin/python3": "x"}}, "environment itself"),
    "unknown scheme": ({"files": {"evil-1.0.data/root/etc": "x"}}, "no known part"),
    "file and directory": ({"files": {"a": "x", "a/b": "y"}}, "also a file"),
    "bad requirement": ({"requires": ["-r /etc/passwd"]}, "requirement"),
}


@pytest.mark.parametrize("kind", sorted(HOSTILE))
def test_a_hostile_wheel_is_refused_and_leaves_nothing(cell, wheels, kind):
    options, says = HOSTILE[kind]
    make_wheel(wheels, "good")
    path = make_wheel(wheels, "evil", **options)
    cell.create("web", "--find-links", wheels)
    cell.ok("deps", "add", "web", "good")
    before = trees(cell)
    cell.fails("deps", "add", "web", "evil", says=["evil-1.0", says])
    cell.fails("deps", "add", "web", path, says=[says])
    assert packages(cell) == {"good": "1.0"}
    assert trees(cell) == before
    assert list((cell.state / "deps" / "staging").iterdir()) == []
    assert not Path("/tmp/evil.py").exists()
    assert not list(cell.dir.rglob("evil.py"))


def damage(path, change):
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)


def test_broken_and_bomb_like_archives_are_refused(cell, wheels):
    cell.create("web", "--deps")

    def attempt(says):
        cell.fails("deps", "add", "web", wheels / wheel_name("evil"), says=["refused", says])

    (wheels / wheel_name("evil")).write_bytes(b"")
    attempt("no zip")
    (wheels / wheel_name("evil")).write_bytes(os.urandom(5000))
    attempt("no zip")
    path = make_wheel(wheels, "evil")
    path.write_bytes(path.read_bytes()[:-30])
    attempt("")
    # a size that a few bytes cannot unpack to
    path = make_wheel(wheels, "evil", files={"big.py": "x" * 1000})

    def claim(data):
        at = data.index(b"PK\x01\x02")
        while data[at + 46:at + 52] != b"big.py":
            at = data.index(b"PK\x01\x02", at + 4)
        data[at + 24:at + 28] = (0x7fffffff).to_bytes(4, "little")
    damage(path, claim)
    attempt("larger than its bytes")
    # less claimed than there is
    path = make_wheel(wheels, "evil", files={"big.py": "x" * 100000})

    def understate(data):
        at = data.index(b"PK\x01\x02")
        while data[at + 46:at + 52] != b"big.py":
            at = data.index(b"PK\x01\x02", at + 4)
        data[at + 24:at + 28] = (500).to_bytes(4, "little")
    damage(path, understate)
    attempt("larger than the directory says")
    # two entries over the same bytes
    path = make_wheel(wheels, "evil", files={"aa.py": "x" * 400, "bb.py": "x" * 400})

    def overlap(data):
        first = data.index(b"PK\x01\x02")
        second = data.index(b"PK\x01\x02", first + 4)
        data[second + 42:second + 46] = data[first + 42:first + 46]
    damage(path, overlap)
    attempt("shares bytes")
    # names that differ between the two headers
    path = make_wheel(wheels, "evil")
    damage(path, lambda data: data.__setitem__(slice(30, 37), b"EVIL.py"))
    attempt("two ways")
    assert trees(cell) == []


def test_two_packages_with_the_same_file_do_not_mix(cell, wheels):
    make_wheel(wheels, "one", files={"shared.py": "x = 1\n"})
    make_wheel(wheels, "two", files={"shared.py": "x = 2\n"})
    make_wheel(wheels, "same", files={"shared.py": "x = 1\n"})
    cell.create("web", "--find-links", wheels)
    cell.fails("deps", "add", "web", "one", "two", says=["'two' brings", "shared.py"])
    cell.ok("deps", "add", "web", "one", "same")
    assert set(packages(cell)) == {"one", "same"}


# ---- allow_runtime_deps ----


INSTALL = """
import subprocess, sys
r = subprocess.run([sys.executable, *{args!r}], capture_output=True, text=True)
print(r.returncode, (r.stdout + r.stderr)[-600:])
"""


def inside(cell, args, *flags):
    return cell.ok("run", *flags, "--", "python3", "-c", INSTALL.format(args=args)).text


@pytest.mark.parametrize("args", [["-m", "pip", "install", "./one-1.0-py3-none-any.whl"], ["-m", "pip", "install", "--target", "x", "one"],
                                  ["-m", "ensurepip"], ["-m", "easy_install", "one"],
                                  ["-c", "import pip; raise SystemExit(pip.main(['install', 'one']))"]])
def test_nothing_can_be_installed_where_the_configuration_forbids_it(cell, args):
    make_wheel(cell.workspace, "one")
    said = inside(cell, args, "--no-runtime-deps")
    assert said.startswith("1 "), said
    assert "allow_runtime_deps: false" in said
    assert not (cell.workspace / "x").exists()


@pytest.mark.parametrize("program", ["pip", "pip3", "easy_install", "npm", "npx", "uv"])
def test_programs_that_install_say_why_not(cell, program):
    r = cell("run", "--no-runtime-deps", "--", program, "install", "one")
    assert r.code == 1, r
    assert "allow_runtime_deps: false" in r.errors


def test_cell_deps_is_refused_too_but_preinstalled_packages_are_there(cell, wheels):
    make_wheel(wheels, "one")
    make_wheel(wheels, "two")
    cell.create("web", "--no-runtime-deps", "--find-links", wheels, "--install", "one")
    assert packages(cell) == {"one": "1.0"}
    for verb in (("add", "web", "two"), ("remove", "web", "one"), ("sync", "web", "two")):
        cell.fails("deps", *verb, says=["may not install packages", "allow_runtime_deps: false"])
    assert python(cell, "import one; print(one.version)") == "1.0"
    assert "one 1.0" in cell.ok("exec", "web", "--", "pip", "list").text


def has_pip():
    return subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not has_pip(), reason="the system's Python has no pip")
def test_where_it_is_allowed_code_installs_a_wheel_that_goes_with_the_cell(cell):
    make_wheel(cell.workspace, "one")
    cell.create("web", "--deps")
    said = python(cell, INSTALL.format(args=["-m", "pip", "install", "--no-index", "./one-1.0-py3-none-any.whl"]))
    assert said.startswith("0 "), said
    assert python(cell, "import one; print(one.version, one.__file__)").startswith("1.0 " + str(cell.state))
    cell.ok("exec", "web", "--", "pip", "install", "--no-index", "--force-reinstall", "./one-1.0-py3-none-any.whl")
    cell.ok("rm", "web")
    cell.create("web", "--deps")
    assert cell("exec", "web", "--", "python3", "-c", "import one").code == 1
    assert not (cell.dir / "home" / ".local").exists()


# ---- interpreters, directories ----


def test_python_version_picks_one_or_says_what_there_is(cell):
    version = subprocess.run([PYTHON, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True,
                             check=True).stdout.strip()
    r = cell.ok("run", "--python-version", version, "--", "python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys.prefix != sys.base_prefix)")
    assert r.text.strip() == f"{version} True"
    cell.fails("run", "--python-version", "3.2", "--", "true", says=["no Python 3.2 in this cell", "it has python3"])
    cell.fails("run", "--python-version", "three", "--", "true", says=["is no version"])


def test_venv_dir_keeps_the_environment(cell, wheels):
    make_wheel(wheels, "one")
    venv = cell.dir / "venv"
    cell.ok("run", "--venv-dir", venv, "--find-links", wheels, "--install", "one", "--", "true")
    assert (venv / "current" / "bin" / "python3").exists()
    r = cell.ok("run", "--venv-dir", venv, "--", "python3", "-c", "import one; print(one.__file__)")
    assert r.text.startswith(str(venv))
    # what is kept is a copy: nobody's change of it reaches another cell
    kept = next((venv / "current").rglob("one.py"))
    assert kept.stat().st_nlink == 1
    other = cell.dir / "other"
    other.mkdir()
    (other / "file").write_text("x")
    cell.fails("run", "--venv-dir", other, "--", "true", says=["no environment of ours"])
    assert (other / "file").read_text() == "x"


def test_a_cell_without_an_environment_says_how_to_get_one(cell):
    cell.create("web")
    cell.fails("deps", "add", "web", "one", says=["has no environment", "--deps"])
    cell.fails("deps", "list", "web", says=["has no environment"])
    cell.create("more", "--deps")
    cell.fails("deps", "add", "more", "one", says=["no package 'one'", "deps.index"])
    cell.fails("deps", "add", "more", says=["which packages?"])
    cell.fails("deps", "add", "--lang", "cobol", "more", "x", says=["cobol"])


# ---- others, crashes, disks ----


def test_the_cache_is_no_way_from_one_cell_to_another(cell, wheels):
    """With no wall a cell gets copies: what its code does to them stays there. (With one it cannot: escape's.)"""
    make_wheel(wheels, "one")
    cell.create("web", "--find-links", wheels)
    cell.ok("deps", "add", "web", "one")
    python(cell, "import one, os; os.chmod(one.__file__, 0o644); open(one.__file__, 'w').write('version = \"evil\"')")
    assert python(cell, "import one; print(one.version)") == "evil"
    cell.create("other", "--find-links", wheels)
    cell.ok("deps", "add", "other", "one")
    assert python(cell, "import one; print(one.version)", "other") == "1.0"


def test_two_at_once_in_one_cell_and_in_two(cell, wheels):
    names = [f"p{i}" for i in range(6)]
    for name in names:
        make_wheel(wheels, name, requires=["base"])
    make_wheel(wheels, "base", files={f"base_data/f{i}.py": "x = 1\n" * 50 for i in range(100)})
    cell.create("web", "--find-links", wheels)
    cell.create("other", "--find-links", wheels)
    children = [cell.popen("deps", "add", where, name) for name in names for where in ("web", "other")]
    for child in children:
        out, err = child.communicate(timeout=120)
        assert child.returncode == 0, (out, err)
    for where in ("web", "other"):
        assert set(packages(cell, where)) == {*names, "base"}
        assert python(cell, "import base_data.f99, p0, p5; print('ok')", where) == "ok"
    assert len(trees(cell)) == 7


def test_killed_half_way_it_leaves_the_old_one_whole(cell, wheels):
    make_wheel(wheels, "one")
    with Index(wheels) as index:
        cell.create("web", "--index", index.url)
        cell.ok("deps", "add", "web", "one")
        make_wheel(wheels, "two")
        index.hold = threading.Event()
        child = cell.popen("deps", "add", "web", "two")
        wait_until(lambda: any("two-1.0" in p for p in index.asked), what="the download")
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert packages(cell) == {"one": "1.0"}
        assert python(cell, "import one; print(one.version)") == "1.0"
        index.hold.set()
        cell.ok("deps", "add", "web", "two")
    assert packages(cell) == {"one": "1.0", "two": "1.0"}
    assert list((cell.state / "deps" / "staging").iterdir()) == []
    environment = next(cell.state.glob("cells/*/env"))
    assert [p.name for p in environment.glob("gen-*")] == [os.readlink(environment / "current")]


def test_killed_at_any_moment_it_is_the_old_or_the_new(cell, wheels):
    make_wheel(wheels, "one", files={f"one_data/f{i}.py": "x = 1\n" * 100 for i in range(300)})
    cell.create("web", "--find-links", wheels)
    for i in range(12):
        child = cell.popen("deps", "add" if i % 2 == 0 else "sync", "web", *(["one"] if i % 2 == 0 else ["-r", "/dev/null"]))
        try:
            child.wait(timeout=0.004 * (i + 1))
        except subprocess.TimeoutExpired:
            child.kill()
        child.wait()
        there = packages(cell)
        code = cell("exec", "web", "--", "python3", "-c", "import one, one_data.f299").code
        assert (code == 0) == ("one" in there), (i, there)
    cell.ok("deps", "add", "web", "one")
    assert list((cell.state / "deps" / "staging").iterdir()) == []


def test_interrupted_it_stops_and_nothing_changed(cell, wheels):
    make_wheel(wheels, "one")
    with Index(wheels) as index:
        index.hold = threading.Event()
        cell.create("web", "--index", index.url)
        child = cell.popen("deps", "add", "web", "one")
        wait_until(lambda: any("one-1.0" in p for p in index.asked), what="the download")
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
        assert child.returncode == 128 + signal.SIGINT
    assert packages(cell) == {}


def test_packages_of_an_ended_cell_are_gone(cell, wheels):
    make_wheel(wheels, "one")
    cell.create("web", "--find-links", wheels)
    cell.ok("deps", "add", "web", "one")
    cell.ok("rm", "web")
    assert list((cell.state / "cells").iterdir()) == []
    assert len(trees(cell)) == 1


def test_the_cache_has_a_size_and_environments_keep_what_they_have(cell, wheels):
    for name in ("one", "two", "three"):
        make_wheel(wheels, name, files={f"{name}_data.bin": os.urandom(300 << 10)})
    settings = {"CELL_DEPS_CACHE_SIZE": "700k"}
    cell.ok("create", "--find-links", wheels, "web", env=settings)
    for name in ("one", "two"):
        cell.ok("deps", "add", "web", name)
    assert len(trees(cell)) == 2
    cell.ok("create", "--find-links", wheels, "other", env=settings)
    cell.ok("deps", "add", "other", "two")  # used last
    cell.ok("deps", "add", "other", "three")
    assert sha256(wheels / wheel_name("one")) not in trees(cell)
    assert len(trees(cell)) == 2
    assert python(cell, "import one, two; print(one.version)") == "1.0"
    cell.ok("deps", "add", "web", "three")  # what went is fetched again
    assert set(packages(cell)) == {"one", "two", "three"}


# ---- JavaScript ----


NODE = Path("/usr/bin/node")
needs_node = pytest.mark.skipif(not NODE.exists(), reason="no node for cells to use")


def modules(cell, name="web"):
    return {(p["name"], p["version"]) for p in cell.ok("deps", "list", "--lang", "javascript", "--json", name).json["packages"]}


def node(cell, code, name="web"):
    return cell.ok("exec", name, "--", "node", "-e", code).text.strip()


@needs_node
def test_npm_packages_of_a_directory_with_what_they_need(cell, wheels):
    make_tgz(wheels, "app", dependencies={"@scope/lib": "^1.1", "util-a": "1.x"}, bin={"app-cli": "cli.js"},
             files={"cli.js": "#!/usr/bin/env node\nconsole.log('cli', require('@scope/lib').version);\n"})
    make_tgz(wheels, "@scope/lib", "1.0.0")
    make_tgz(wheels, "@scope/lib", "1.4.0", dependencies={"util-a": "^2.0.0"})
    make_tgz(wheels, "@scope/lib", "2.0.0")
    make_tgz(wheels, "util-a", "1.5.0")
    make_tgz(wheels, "util-a", "2.0.0")
    make_wheel(wheels, "one")
    cell.create("web", "--find-links", wheels)
    cell.ok("deps", "add", "--lang", "javascript", "web", "app")
    assert modules(cell) == {("app", "1.0.0"), ("@scope/lib", "1.4.0"), ("util-a", "1.5.0"), ("util-a", "2.0.0")}
    assert node(cell, "console.log(require('app').version, require('@scope/lib').version, require('util-a').version)") == "1.0.0 1.4.0 1.5.0"
    assert cell.ok("exec", "web", "--", "app-cli").text == "cli 1.4.0\n"
    # Python's packages and these do not know of each other, and stay
    cell.ok("deps", "add", "web", "one")
    assert node(cell, "console.log(require('app').version)") == "1.0.0"
    lock = cell.dir / "js.lock"
    lock.write_bytes(cell.ok("deps", "lock", "--lang", "javascript", "web").out)
    cell.ok("deps", "remove", "--lang", "javascript", "web", "app")
    assert modules(cell) == set()
    assert python(cell, "import one; print(one.version)") == "1.0"
    make_tgz(wheels, "@scope/lib", "1.9.0")
    cell.ok("deps", "sync", "--lang", "javascript", "web", "-r", lock)
    assert ("@scope/lib", "1.4.0") in modules(cell)
    make_tgz(wheels, "@scope/lib", "1.4.0", files={"evil.js": "x"})
    cell.create("other", "--find-links", wheels)
    cell.fails("deps", "sync", "--lang", "javascript", "other", "-r", lock, says=["hash"])


def test_npm_packages_of_a_registry_are_held_to_its_hash(cell, wheels):
    make_tgz(wheels, "@scope/lib", "1.0.0", dependencies={"dep": "*"})
    make_tgz(wheels, "dep", "0.1.0")
    env = {}
    with Registry(wheels) as registry:
        env["CELL_DEPS_NPM_REGISTRY"] = registry.url
        cell.ok("create", "web", env=env)
        cell.ok("deps", "add", "--lang", "javascript", "web", "@scope/lib@^1")
        cell.fails("deps", "add", "--lang", "javascript", "web", "absent", says=["no package 'absent'"])
    assert modules(cell) == {("@scope/lib", "1.0.0"), ("dep", "0.1.0")}
    make_tgz(wheels, "other")
    with Registry(wheels, wrong=True) as registry:
        cell.ok("create", "more", env={"CELL_DEPS_NPM_REGISTRY": registry.url})
        cell.fails("deps", "add", "--lang", "javascript", "more", "other", says=["SHA-512 differs"])
    assert modules(cell, "more") == set()


def tar_entry(name, kind=tarfile.REGTYPE, link="", data=b""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(data)
    return info, data


HOSTILE_NPM = {
    "climbs": ({"extra": [tar_entry("package/../../evil.js", data=b"x")]}, "leads out"),
    "absolute": ({"extra": [tar_entry("/tmp/evil.js", data=b"x")]}, "no relative path"),
    "link": ({"extra": [tar_entry("package/l", tarfile.SYMTYPE, "/etc/passwd")]}, "neither a file"),
    "hard link": ({"extra": [tar_entry("package/l", tarfile.LNKTYPE, "package/index.js")]}, "neither a file"),
    "device": ({"extra": [tar_entry("package/d", tarfile.CHRTYPE)]}, "neither a file"),
    "twice": ({"extra": [tar_entry("package/index.js", data=b"x")]}, "there twice"),
    "bundled": ({"extra": [tar_entry("package/node_modules/x/index.js", data=b"x")]}, "packages of its own"),
    "bin with a slash": ({"bin": {"../../x y": "index.js"}}, "no name for a script"),
    "bin out": ({"bin": {"x": "../../../etc/passwd"}}, "leads out"),
    "bin for python": ({"bin": {"python3": "index.js"}}, "interpreter's place"),
    "dependency by url": ({"dependencies": {"x": "git+https://example.org/x"}}, "no version"),
    "dependency with a path": ({"dependencies": {"../x": "*"}}, "no version"),
}


@pytest.mark.parametrize("kind", sorted(HOSTILE_NPM))
def test_a_hostile_npm_package_is_refused_and_leaves_nothing(cell, wheels, kind):
    options, says = HOSTILE_NPM[kind]
    path = make_tgz(wheels, "evil", **options)
    cell.create("web", "--find-links", wheels)
    cell.fails("deps", "add", "--lang", "javascript", "web", "evil", says=["evil-1.0.0.tgz", says])
    cell.fails("deps", "add", "--lang", "javascript", "web", path, says=[says])
    assert modules(cell) == set()
    assert trees(cell) == []
    assert list((cell.state / "deps" / "staging").iterdir()) == []


def test_optional_packages_for_other_machines_are_left_out(cell, wheels):
    make_tgz(wheels, "app", optionalDependencies={"for-darwin": "*", "nowhere": "*", "here": "*"})
    make_tgz(wheels, "for-darwin", os=["darwin"])
    make_tgz(wheels, "here", os=["linux"])
    cell.create("web", "--find-links", wheels)
    cell.ok("deps", "add", "--lang", "javascript", "web", "app")
    assert {n for n, _ in modules(cell)} == {"app", "here"}
    cell.fails("deps", "add", "--lang", "javascript", "web", "for-darwin", says=["not for linux"])
