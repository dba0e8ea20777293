# SPDX-License-Identifier: Apache-2.0
"""Help, completion, man pages, version, back ends, doctor."""

import os
import re
import shutil
import subprocess

import pytest
from conftest import CELL, TOP

VERBS = ["run", "create", "exec", "attach", "logs", "ps", "signal", "shell", "cp", "file", "ls", "inspect", "rm",
    "prune", "backends", "doctor", "config", "token", "audit", "usage", "version"]
FILE_VERBS = ["read", "write", "append", "ls", "stat", "mkdir", "mv", "rm", "glob", "grep", "edit", "watch"]


def test_help_lists_every_verb(cell):
    for args in (["--help"], ["help"], ["-h"]):
        text = cell.ok(*args).text
        for verb in VERBS:
            assert re.search(rf"^\s+{verb}\b", text, re.M), f"{verb} is not in cell {' '.join(args)}"


@pytest.mark.parametrize("verb", VERBS + [f"file {v}" for v in FILE_VERBS] + ["config check", "config show",
    "token create", "token ls", "token revoke", "audit tail", "audit query", "audit export", "audit verify"])
def test_each_verb_has_help_with_examples(cell, verb):
    words = verb.split()
    text = cell.ok(*words, "--help").text
    assert f"cell {verb}" in text
    assert "xample" in text
    assert text.count(f"cell {verb}") >= 2, "a synopsis and at least one example"
    assert max(map(len, text.splitlines())) <= 100
    assert cell.ok("help", *words).text == text


@pytest.mark.parametrize("verb", ["run", "exec"])
def test_the_exit_codes_are_documented(cell, verb):
    text = cell.ok(verb, "--help").text + cell.ok("--help").text
    for code in ("124", "125", "126", "127", "128"):
        assert code in text, code


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_load(cell, shell):
    script = cell.ok("completion", shell).text
    path = cell.dir / f"completion.{shell}"
    path.write_text(script)
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    r = subprocess.run([shell, "-n", str(path)], capture_output=True, check=False)
    assert (r.returncode, r.stderr) == (0, b"")


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_completion_completes_verbs_and_cells(cell, web):
    path = cell.dir / "completion.bash"
    path.write_text(cell.ok("completion", "bash").text)

    def complete(*words):
        line = " ".join(words)
        script = (f'source {path}; COMP_WORDS=({" ".join(repr(w) for w in words)}); COMP_CWORD={len(words) - 1}; '
            f'COMP_LINE={line!r}; COMP_POINT={len(line)}; f=$(complete -p cell | sed "s/.*-F \\([^ ]*\\) .*/\\1/"); '
            'cur=${COMP_WORDS[COMP_CWORD]}; $f cell "$cur" "${COMP_WORDS[COMP_CWORD-1]}"; printf "%s\\n" "${COMPREPLY[@]}"')
        env = {**cell.env, "PATH": f"{CELL.parent}:{cell.env['PATH']}"}
        r = subprocess.run(["bash", "-c", script], capture_output=True, check=False, env=env, timeout=30)
        return [w.strip() for w in r.stdout.decode().split("\n") if w.strip()]

    assert "run" in complete("cell", "r")
    assert "--timeout" in complete("cell", "run", "--tim")
    assert "web" in complete("cell", "exec", "w")
    assert "subprocess" in complete("cell", "run", "--backend", "sub")


def man_pages():
    """Those made by the build of the binary, and those written by hand."""
    return sorted([*(CELL.parent / "man").glob("cell*.[1-8]"), *(TOP / "man").glob("cell*.[1-8]")])


def test_there_is_a_man_page():
    assert any(p.name == "cell.1" for p in man_pages())


@pytest.mark.skipif(not shutil.which("mandoc"), reason="mandoc is not installed")
@pytest.mark.parametrize("page", man_pages(), ids=[p.name for p in man_pages()])
def test_man_pages_render_without_warnings(page):
    r = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", str(page)], capture_output=True, check=False)
    assert (r.returncode, r.stdout + r.stderr) == (0, b"")
    text = subprocess.run(["mandoc", "-T", "ascii", str(page)], capture_output=True, check=True).stdout
    assert len(text) > 500


def test_version(cell):
    assert re.fullmatch(r"cell \d+\.\d+\.\d+\n", cell.ok("version").text)
    assert cell.ok("--version").text == cell.ok("version").text
    o = cell.ok("version", "--json").json
    assert re.fullmatch(r"\d+\.\d+\.\d+", o["version"])


def test_backends(cell):
    o = {b["name"]: b for b in cell.ok("backends", "--json").json["backends"]}
    for name in ("null", "local", "subprocess", "chroot"):
        assert o[name]["built"] is True, name
        assert {"summary", "wall", "needs", "take_for", "not_for", "tier", "usable", "capabilities", "lacks"} <= set(o[name])
    assert o["local"]["usable"] and "exec" in o["local"]["capabilities"]
    assert o["local"]["tier"] <= o["chroot"]["tier"]
    for b in o.values():
        if b["built"] and not b["usable"]:
            assert b["reason"], b["name"]
        for lack in b["lacks"]:
            assert lack["reason"] and lack["fix"], (b["name"], lack)
    assert any(not b["built"] for b in o.values()), "those not built yet are known by name"
    text = cell.ok("backends").text
    assert "local" in text and "subprocess" in text
    text = cell.ok("backends", "local").text
    assert "exec" in text
    assert "no wall" in text or "not" in text, "it says plainly that it is no wall"
    assert "local" in cell.ok("backends", "-q").text.split()


def test_doctor(cell):
    r = cell("doctor")
    assert r.code in (0, 1), r
    assert "subprocess" in r.text
    j = cell("doctor", "--json")
    assert j.code == r.code
    assert isinstance(j.json, dict) and j.json


@pytest.mark.parametrize("backend", ["trace:local", "trace:subprocess", "fault:local"])
def test_wrappers_run(cell, backend):
    r = cell("run", "--backend", backend, "--", "echo", "wrapped")
    assert (r.code, r.out) == (0, b"wrapped\n"), r


def test_null_says_what_it_is(cell):
    cell.fails("run", "--backend", "null", "--", "true", says=["null", "exec", "hint:", "subprocess"])


def has_static_busybox():
    """A dynamic one needs its libraries, and a root tree has none."""
    return os.path.exists("/bin/busybox") and b"/ld-" not in open("/bin/busybox", "rb").read(4096)


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
@pytest.mark.skipif(not has_static_busybox(), reason="busybox-static is not installed")
def test_chroot_with_a_directory_and_a_tarball(cell):
    root = cell.dir / "root"
    for name in ("bin", "dev", "etc", "proc", "tmp", "workspace"):
        (root / name).mkdir(parents=True)
    shutil.copy2("/bin/busybox", root / "bin/busybox")
    for name in ("sh", "cat", "ls", "echo"):
        os.symlink("busybox", root / "bin" / name)
    (root / "etc/here").write_text("inside\n")
    subprocess.run(["tar", "-C", str(root), "-cf", str(cell.dir / "root.tar"), "."], check=True)
    for where in (root, cell.dir / "root.tar"):
        r = cell("run", "--backend", "chroot", "--root", where, "--", "sh", "-c", "cat /etc/here; ls /etc")
        assert (r.code, r.out) == (0, b"inside\nhere\n"), r
    cell.fails("run", "--backend", "chroot", "--root", cell.dir / "none", "--", "true", says=["none"])
