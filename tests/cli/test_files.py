# SPDX-License-Identifier: Apache-2.0
"""cell file: every verb, its JSON, its errors, and no way out of the workspace."""

import base64
import json
import os
import pty
import signal
import stat
import subprocess

import pytest
from conftest import wait_until

SECRET = "the secret outside"


def test_write_and_read(cell, web):
    cell.ok("file", "write", "web", "a.txt", stdin=b"hello\n")
    assert cell.ok("file", "read", "web", "a.txt").out == b"hello\n"
    assert (cell.workspace / "a.txt").read_bytes() == b"hello\n"
    cell.ok("file", "write", "web", "a.txt", "--text", "new")
    assert cell.ok("file", "read", "web", "a.txt").out == b"new"


def test_any_bytes(cell, web):
    every = bytes(range(256)) * 1000
    cell.ok("file", "write", "web", "bin", stdin=every)
    assert cell.ok("file", "read", "web", "bin").out == every
    o = cell.ok("file", "read", "--json", "web", "bin").json
    assert base64.b64decode(o["content_base64"]) == every
    assert "content" not in o
    cell.put("text", "\u00e9\n")
    assert cell.ok("file", "read", "--json", "web", "text").json["content"] == "\u00e9\n"


def test_read_a_part(cell, web):
    cell.put("ten", "0123456789")
    assert cell.ok("file", "read", "--offset", "3", "--limit", "4", "web", "ten").text == "3456"
    assert cell.ok("file", "read", "--offset", "100", "web", "ten").text == ""


def test_write_options(cell, web):
    cell.fails("file", "write", "web", "d/e/f", "--text", "x", says=["d/e/f"])
    cell.ok("file", "write", "-p", "--mode", "755", "web", "d/e/f", "--text", "x")
    assert stat.S_IMODE((cell.workspace / "d/e/f").stat().st_mode) == 0o755
    cell.fails("file", "write", "-x", "web", "d/e/f", "--text", "y", says=["d/e/f"])
    source = cell.dir / "source"
    source.write_text("from the host")
    cell.ok("file", "write", "web", "g", "--from", source)
    assert (cell.workspace / "g").read_text() == "from the host"
    assert cell.ok("file", "write", "--json", "web", "g", "--text", "12345").json["size"] == 5


def test_append(cell, web):
    cell.ok("file", "append", "web", "log", stdin=b"one\n")
    cell.ok("file", "append", "web", "log", "--text", "two\n")
    assert (cell.workspace / "log").read_text() == "one\ntwo\n"


def test_ls(cell, web):
    cell.put("d/b", "22")
    cell.put("d/a", "1")
    cell.put("d/sub/deep", "x")
    os.symlink("a", cell.workspace / "d/link")
    assert cell.ok("file", "ls", "web", "d").text == "a\nb\nlink\nsub\n"
    assert "sub/deep\n" in cell.ok("file", "ls", "-R", "web", "d").text
    files = {f["path"]: f for f in cell.ok("file", "ls", "--json", "web", "d").json["files"]}
    assert files["b"]["size"] == 2 and files["b"]["type"] == "file"
    assert files["sub"]["type"] == "directory"
    assert files["link"]["type"] == "symlink" and files["link"]["target"] == "a"
    assert "-rw" in cell.ok("file", "ls", "-l", "web", "d").text
    assert cell.ok("file", "ls", "-0", "web", "d").out == b"a\0b\0link\0sub\0"


def test_stat_and_exists(cell, web):
    cell.put("f", "12345")
    o = cell.ok("file", "stat", "--json", "web", "f").json
    assert (o["type"], o["size"], o["mode"]) == ("file", 5, "0644")
    assert "12345" not in cell.ok("file", "stat", "web", "f").text
    assert cell("file", "exists", "web", "f").code == 0
    assert cell("file", "exists", "web", "g").code == 1
    assert cell("file", "exists", "--json", "web", "g").json == {"exists": False}
    cell.fails("file", "stat", "web", "g", says=["'g'"])


def test_mkdir_mv_rm(cell, web):
    cell.ok("file", "mkdir", "-p", "web", "a/b/c")
    cell.fails("file", "mkdir", "web", "x/y", says=["x/y"])
    cell.put("f", "f")
    cell.put("g", "g")
    cell.fails("file", "mv", "web", "f", "g", says=["g"])
    assert (cell.workspace / "g").read_text() == "g"
    cell.ok("file", "mv", "-f", "web", "f", "g")
    assert (cell.workspace / "g").read_text() == "f"
    cell.fails("file", "rm", "web", "a", says=["a"])
    cell.ok("file", "rm", "-r", "web", "a", "g")
    assert not (cell.workspace / "a").exists() and not (cell.workspace / "g").exists()
    cell.fails("file", "rm", "web", "g", says=["g"])
    cell.ok("file", "rm", "-f", "web", "g")


def test_glob(cell, web):
    for n, name in enumerate(["old.py", "sub/mid.py", "sub/deep/new.py"]):
        os.utime(cell.put(name), (1_000_000_000 + n, 1_000_000_000 + n))
    assert cell.ok("file", "glob", "web", "**/*.py").text == "sub/deep/new.py\nsub/mid.py\nold.py\n"
    assert cell.ok("file", "glob", "web", "*.py").text == "old.py\n"
    o = cell.ok("file", "glob", "--json", "--limit", "1", "web", "**/*.py").json
    assert o["truncated"] is True and [f["path"] for f in o["files"]] == ["sub/deep/new.py"]
    assert cell("file", "glob", "web", "*.none").code == 1


def test_grep(cell, web):
    cell.put("a.txt", "one\nTWO needle\n")
    cell.put("d/b.md", "needle\n")
    cell.put("bin", b"needle\0")
    lines = sorted(cell.ok("file", "grep", "web", "need(le|y)").text.splitlines())
    assert lines == ["a.txt:2:TWO needle", "d/b.md:1:needle"]
    assert cell.ok("file", "grep", "-g", "*.md", "web", "needle").text.count("\n") == 1
    assert cell.ok("file", "grep", "-i", "web", "two").text == "a.txt:2:TWO needle\n"
    o = cell.ok("file", "grep", "--json", "web", "one").json
    assert o["matches"] == [{"path": "a.txt", "line": 1, "text": "one"}] and o["truncated"] is False
    assert cell("file", "grep", "web", "nothing-like-it").code == 1
    cell.fails("file", "grep", "web", "(", says=["("])


def test_edit(cell, web):
    cell.put("e", "one two two")
    cell.ok("file", "edit", "web", "e", "--old", "one", "--new", "1")
    cell.fails("file", "edit", "web", "e", "--old", "two", "--new", "2", says=["e"])
    cell.fails("file", "edit", "web", "e", "--old", "three", "--new", "3", says=["e"])
    assert (cell.workspace / "e").read_text() == "1 two two"
    assert cell.ok("file", "edit", "--json", "--all", "web", "e", "--old", "two", "--new", "2").json["replaced"] == 2
    assert (cell.workspace / "e").read_text() == "1 2 2"


def test_watch(cell, web):
    (cell.workspace / "w").mkdir()
    child = cell.popen("file", "watch", "--json", "-r", "-n", "1", "--timeout", "30s", "web", "w")
    assert json.loads(child.stdout.readline())["event"] == "ready"
    cell.put("w/new", "x")
    event = json.loads(child.stdout.readline())
    assert (event["event"], event["path"], event["directory"]) == ("created", "new", False)
    assert child.wait(30) == 0


def test_a_watch_ends_with_one_ctrl_c(cell, web):
    child = cell.popen("file", "watch", "--json", "web")
    child.stdout.readline()
    child.send_signal(signal.SIGINT)
    assert child.wait(30) == 130


def attacks(cell):
    outside = cell.dir / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "secret").write_text(SECRET)
    links = {"link-dir": outside, "link-rel": "../outside", "link-root": "/", "link-proc": "/proc/self/root"}
    for name, target in links.items():
        path = cell.workspace / name
        if not path.is_symlink():
            os.symlink(target, path)
    return [
        "../outside/secret", f"{outside}/secret", "link-dir/secret", "link-rel/secret",
        f"link-root{outside}/secret", f"link-proc{outside}/secret", f"/proc/self/root{outside}/secret",
        f"../../../../../../../../..{outside}/secret", f"{cell.workspace}/../outside/secret",
    ]


VERBS = [
    ("read", ["{}"]),
    ("write", ["{}", "--text", "x"]),
    ("append", ["{}", "--text", "x"]),
    ("edit", ["{}", "--old", "secret", "--new", "x"]),
    ("ls", ["{dir}"]),
    ("stat", ["{}"]),
    ("exists", ["{}"]),
    ("mkdir", ["{dir}/new"]),
    ("mkdir", ["-p", "{dir}/new/er"]),
    ("mv", ["{}", "stolen"]),
    ("mv", ["-f", "bait", "{}"]),
    ("rm", ["{}"]),
    ("rm", ["-rf", "{dir}/inner"]),
    ("glob", ["--path", "{dir}", "*"]),
    ("grep", ["secret", "{}"]),
    ("watch", ["--timeout", "1s", "{dir}"]),
]


@pytest.mark.parametrize("verb, args", VERBS, ids=[" ".join([v, *a]) for v, a in VERBS])
def test_no_path_leaves_the_workspace(cell, web, verb, args):
    inner = cell.dir / "outside" / "inner"
    paths = attacks(cell)
    inner.mkdir()
    cell.put("bait", "bait")
    for path in paths:
        words = [a.format(path, dir=path.removesuffix("/secret")) for a in args]
        r = cell("file", verb, "web", *words)
        assert r.code == 125, r
        assert SECRET not in r.text, r
        assert "hint:" in r.errors or "workspace" in r.errors, r
    assert (cell.dir / "outside" / "secret").read_text() == SECRET
    assert sorted(p.name for p in (cell.dir / "outside").iterdir()) == ["inner", "secret"]


ODD = [b"new\nline", b"sp ace", b"\xff\xfe", b"-dash", b"*", b"quote'\"", b"\x1b[31m", "\u20ac".encode()]


@pytest.mark.parametrize("name", ODD, ids=repr)
def test_odd_names(cell, web, name):
    cell.ok("file", "write", "--text", "content", "--", "web", name)
    path = os.fsencode(cell.workspace) + b"/" + name
    assert os.path.exists(path)
    assert cell.ok("file", "read", "--", "web", name).out == b"content"
    assert cell.ok("file", "ls", "-0", "web").out == name + b"\0"
    assert cell.ok("file", "ls", "--json", "web").json["files"]
    assert cell("file", "exists", "--", "web", name).code == 0
    cell.ok("file", "mv", "--", "web", name, "plain")
    cell.ok("file", "mv", "--", "web", "plain", name)
    cell.ok("file", "rm", "--", "web", name)
    assert not os.path.exists(path)


def test_control_bytes_of_a_name_do_not_reach_a_terminal(cell, web):
    cell.put("evil\x1b[31mred", "")
    master, slave = pty.openpty()
    child = cell.popen("file", "ls", "web", stdout=slave, stderr=subprocess.PIPE)
    child.wait(30)
    os.close(slave)
    shown = os.read(master, 4096)
    os.close(master)
    assert b"red" in shown and b"\x1b[31m" not in shown


def test_what_is_not_there_is_said(cell, web):
    for words in (["read", "web", "gone"], ["ls", "web", "gone"], ["mv", "web", "gone", "x"]):
        cell.fails("file", *words, says=["gone"])
    cell.fails("file", "read", "nobody", "x", says=["nobody", "hint:"])


def test_a_broken_pipe_is_quiet(cell, web):
    cell.put("big", b"x" * 5_000_000)
    child = cell.popen("file", "read", "web", "big")
    child.stdout.read(10)
    child.stdout.close()
    assert child.wait(30) in (141, 0)
    assert child.stderr.read() == b""


def test_a_write_cut_short_leaves_the_old_file(cell, web):
    cell.put("f", "old")
    child = cell.popen("file", "write", "web", "f", stdin=subprocess.PIPE)
    child.stdin.write(b"x" * 100_000)
    child.stdin.flush()
    child.kill()
    child.wait(30)
    wait_until(lambda: sorted(p.name for p in cell.workspace.iterdir()) == ["f"])
    assert (cell.workspace / "f").read_text() == "old"
