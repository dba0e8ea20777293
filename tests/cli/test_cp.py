# SPDX-License-Identifier: Apache-2.0
"""cell cp: files and directories, in, out, by pipe; links and odd names; nothing beyond the target."""

import io
import os
import stat
import subprocess
import tarfile

from conftest import wait_until


def test_a_file_goes_in_and_out(cell, web):
    source = cell.dir / "in.bin"
    source.write_bytes(os.urandom(3_000_000))
    source.chmod(0o755)
    cell.ok("cp", source, "web:data.bin")
    assert (cell.workspace / "data.bin").read_bytes() == source.read_bytes()
    assert stat.S_IMODE((cell.workspace / "data.bin").stat().st_mode) == 0o755
    cell.ok("cp", "web:data.bin", cell.dir / "out.bin")
    assert (cell.dir / "out.bin").read_bytes() == source.read_bytes()


def test_into_a_directory_under_its_own_name(cell, web):
    source = cell.dir / "name.txt"
    source.write_text("x")
    (cell.workspace / "dir").mkdir()
    cell.ok("cp", source, "web:dir")
    cell.ok("cp", source, "web:dir/other.txt")
    assert sorted(p.name for p in (cell.workspace / "dir").iterdir()) == ["name.txt", "other.txt"]
    out = cell.dir / "out"
    out.mkdir()
    cell.ok("cp", "web:dir/name.txt", out)
    assert (out / "name.txt").read_text() == "x"


def test_several_sources(cell, web):
    (cell.workspace / "in").mkdir()
    for n in "ab":
        (cell.dir / n).write_text(n)
    cell.ok("cp", cell.dir / "a", cell.dir / "b", "web:in/")
    assert (cell.workspace / "in/a").read_text() == "a" and (cell.workspace / "in/b").read_text() == "b"
    cell.fails("cp", cell.dir / "a", cell.dir / "b", "web:notdir", says=["notdir"])


def make_tree(top):
    (top / "sub/empty").mkdir(parents=True)
    (top / "sub/file").write_text("file")
    (top / "zero").write_text("")
    os.symlink("sub/file", top / "link")
    (top / "tool").write_text("#!/bin/sh\n")
    (top / "tool").chmod(0o755)
    with open(os.fsencode(top) + b"/odd \xff\nname", "wb") as f:
        f.write(b"odd")


def check_tree(top):
    assert (top / "sub/empty").is_dir()
    assert (top / "sub/file").read_text() == "file"
    assert (top / "zero").read_text() == ""
    assert os.readlink(top / "link") == "sub/file"
    assert (top / "tool").stat().st_mode & 0o111
    with open(os.fsencode(top) + b"/odd \xff\nname", "rb") as f:
        assert f.read() == b"odd"


def test_a_directory_goes_in_and_out(cell, web):
    make_tree(cell.dir / "tree")
    cell.ok("cp", cell.dir / "tree", "web:copy")
    check_tree(cell.workspace / "copy")
    cell.ok("cp", "web:copy", cell.dir / "back")
    check_tree(cell.dir / "back")


def test_the_content_of_a_directory(cell, web):
    make_tree(cell.dir / "tree")
    (cell.workspace / "here").mkdir()
    cell.ok("cp", str(cell.dir / "tree") + "/.", "web:here")
    check_tree(cell.workspace / "here")


def test_pipes(cell, web):
    cell.ok("cp", "-", "web:piped", stdin=b"from a pipe")
    assert (cell.workspace / "piped").read_bytes() == b"from a pipe"
    assert cell.ok("cp", "web:piped", "-").out == b"from a pipe"


def test_tar_streams(cell, web):
    make_tree(cell.workspace / "src")
    data = cell.ok("cp", "--tar", "web:src", "-").out
    with tarfile.open(fileobj=io.BytesIO(data)) as t:
        assert any(n.endswith("sub/file") for n in t.getnames())
    (cell.workspace / "into").mkdir()
    cell.ok("cp", "--tar", "-", "web:into", stdin=data)
    found = [p for p in (cell.workspace / "into").rglob("file")]
    assert len(found) == 1 and found[0].read_text() == "file"


def hostile_tar(*members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, kind, link in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, link
            data = b"evil" if kind == tarfile.REGTYPE else b""
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def test_a_hostile_tar_stays_in_its_place(cell, web):
    (cell.workspace / "into").mkdir()
    (cell.workspace / "victim").write_text("victim")
    for members in (
        [("../evil", tarfile.REGTYPE, "")],
        [(str(cell.dir / "evil"), tarfile.REGTYPE, "")],
        [("l", tarfile.SYMTYPE, ".."), ("l/evil", tarfile.REGTYPE, "")],
        [("l", tarfile.SYMTYPE, str(cell.dir)), ("l/evil", tarfile.REGTYPE, "")],
        [("h", tarfile.LNKTYPE, "../victim"), ("h", tarfile.REGTYPE, "")],
        [("dev", tarfile.CHRTYPE, "")],
    ):
        r = cell("cp", "--tar", "-", "web:into", stdin=hostile_tar(*members))
        assert r.code == 125, (members, r)
        assert not (cell.dir / "evil").exists() and not (cell.workspace / "evil").exists()
        assert (cell.workspace / "victim").read_text() == "victim"


def test_links_out_are_not_made_on_the_host(cell, web):
    (cell.workspace / "d").mkdir()
    os.symlink("/etc/passwd", cell.workspace / "d/abs")
    os.symlink("../../../etc", cell.workspace / "d/rel")
    (cell.workspace / "d/ok").write_text("ok")
    cell("cp", "web:d", cell.dir / "got")
    assert not (cell.dir / "got/abs").is_symlink()
    assert not (cell.dir / "got/rel").is_symlink()


def test_links_out_do_not_leak_into_the_copy(cell, web):
    secret = cell.dir / "secret"
    secret.write_text("the secret")
    os.symlink(secret, cell.workspace / "leak")
    r = cell("cp", "web:leak", cell.dir / "got")
    got = cell.dir / "got"
    assert not got.exists() or "the secret" not in got.read_text()
    r = cell("cp", "web:leak", "-")
    assert b"the secret" not in r.out


def test_paths_out_are_refused(cell, web):
    source = cell.dir / "source"
    source.write_text("x")
    for path in ("../evil", str(cell.dir / "evil"), "/etc/evil"):
        cell.fails("cp", source, f"web:{path}", says=["evil"])
    assert not (cell.dir / "evil").exists()
    cell.fails("cp", "web:../source", cell.dir / "got", says=["source"])


def test_what_is_missing_is_said(cell, web):
    cell.fails("cp", cell.dir / "none", "web:x", says=["none"])
    cell.fails("cp", "web:none", cell.dir / "x", says=["none"])
    cell.fails("cp", "nobody:x", cell.dir / "x", says=["nobody"])
    cell.fails("cp", "web:x", "web:y", says=["hint:"])
    cell.fails("cp", cell.dir / "a", cell.dir / "b", says=["hint:"])


def test_json(cell, web):
    source = cell.dir / "five"
    source.write_text("12345")
    o = cell.ok("cp", "--json", source, "web:five").json
    assert o["copied"] == 1 and o["bytes"] >= 5


def test_a_copy_killed_in_the_middle_leaves_no_half_file(cell, web):
    child = cell.popen("cp", "-", "web:half", stdin=subprocess.PIPE)
    child.stdin.write(b"x" * 200_000)
    child.stdin.flush()
    child.kill()
    child.wait(30)
    wait_until(lambda: not list(cell.workspace.iterdir()))


def test_a_host_name_with_a_colon(cell, web):
    (cell.dir / "a:b").write_text("colon")
    cell.ok("cp", "./a:b", "web:c", cwd=cell.dir)
    assert (cell.workspace / "c").read_text() == "colon"
