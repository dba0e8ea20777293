# SPDX-License-Identifier: Apache-2.0
"""Files of a session."""

import io
import tarfile

import pytest


@pytest.fixture
def s(client):
    return client.session()


def test_bytes_go_in_and_come_out(s):
    data = bytes(range(256)) * 20000
    a = s.put("a/b", data, parents="true", mode="0750")
    assert a.status == 200 and a.json["size"] == len(data), a
    assert s.read("a/b").body == data
    head = s.client.call("HEAD", s.path + "/files", path="a/b")
    assert head.status == 200 and int(head.headers["Content-Length"]) == len(data) and head.headers["X-Cell-Mode"] == "0750"
    assert s.run("stat -c %a a/b")["stdout"] == "750\n"


@pytest.mark.parametrize("header, want", [("bytes=2-4", b"234"), ("bytes=7-", b"789"), ("bytes=-3", b"789"), ("bytes=0-99", b"0123456789")])
def test_parts_of_a_file(s, header, want):
    s.put("f", b"0123456789")
    a = s.read("f", {"Range": header})
    assert a.status == 206 and a.body == want
    assert a.headers["Content-Range"].endswith("/10")


def test_a_part_that_is_not_there(s):
    s.put("f", b"0123456789")
    assert s.read("f", {"Range": "bytes=10-"}).status == 416
    assert s.read("f", {"Range": "lines=1-2"}).body == b"0123456789"


def test_an_empty_file(s):
    assert s.put("e", b"").json["size"] == 0
    assert s.read("e").body == b""


def test_names_are_bytes(s):
    name = "tab\tnewline\n \u00fc%2F"
    assert s.put(name, b"x").status == 200
    assert s.read(name).body == b"x"
    assert name in [e["path"] for e in s.get("/files/list").json["entries"]]


def test_looking(s):
    for name in ("src/a.py", "src/b.py", "src/deep/c.py", "doc.txt"):
        s.put(name, f"name = '{name}'\n".encode(), parents="true")
    assert s.get("/files/stat", path="src").json["type"] == "directory"
    assert [e["path"] for e in s.get("/files/list", path="src").json["entries"]] == ["a.py", "b.py", "deep"]
    assert {e["path"] for e in s.get("/files/glob", pattern="**/*.py").json["entries"]} == {"src/a.py", "src/b.py", "src/deep/c.py"}
    found = s.get("/files/grep", pattern="NAME = 'src", ignore_case="true").json["matches"]
    assert {m["path"] for m in found} == {"src/a.py", "src/b.py", "src/deep/c.py"} and found[0]["line"] == 1


def test_changing(s):
    s.put("f", b"one two one")
    assert s.post("/files/edit", {"path": "f", "old": "two", "new": "2"}).json == {"replacements": 1}
    assert s.post("/files/edit", {"path": "f", "old": "one", "new": "1"}).status == 400
    assert s.post("/files/edit", {"path": "f", "old": "one", "new": "1", "all": True}).json == {"replacements": 2}
    assert s.read("f").body == b"1 2 1"
    assert s.post("/files/mkdir", {"path": "x/y", "parents": True}).status == 204
    assert s.post("/files/move", {"from": "f", "to": "x/y/g"}).status == 204
    assert s.read("f").status == 404
    assert s.client.delete(s.path + "/files", path="x").status in (400, 409)
    assert s.client.delete(s.path + "/files", path="x", recursive="true").status == 204
    assert s.put("x", b"1", exclusive="true").status == 200
    assert s.put("x", b"2", exclusive="true").status == 409
    s.put("x", b"2", append="true")
    assert s.read("x").body == b"12"


def test_directories_as_tar(s):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for i in range(50):
            info = tarfile.TarInfo(f"d/f{i}")
            info.size = 1000
            tar.addfile(info, io.BytesIO(bytes([i]) * 1000))
    a = s.client.call("PUT", s.path + "/files/tar", out.getvalue(), path="into")
    assert a.status == 204, a
    a = s.get("/files/tar", path="into")
    with tarfile.open(fileobj=io.BytesIO(a.body)) as tar:
        files = {m.name.lstrip("./"): tar.extractfile(m).read() for m in tar.getmembers() if m.isfile()}
    assert files == {f"d/f{i}": bytes([i]) * 1000 for i in range(50)}


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "link/passwd", "a/../../x"])
def test_no_path_leaves_the_workspace(s, path):
    s.run("ln -s /etc link")
    a = s.read(path)
    assert a.status in (403, 404), a
    assert s.put(path, b"x").status in (403, 404)
    assert s.run("cat /etc/passwd")["exit_code"] == 0  # it is there for commands, not for the files API


def test_watching(s):
    events = s.client.stream("GET", s.path + "/files/watch")
    assert next(events)["type"] == "ready"
    s.put("new", b"x")
    assert next(events)["path"] == "new"
    events.close()


def test_errors_are_typed(s):
    assert s.read("nope").json["code"] == "not_found"
    assert s.client.get(s.path + "/files").status == 400
    a = s.client.get(s.path + "/files", path=".")
    assert a.status == 400 and "directory" in a.json["message"]
    assert s.get("/files/tar", path="nope").status == 404
    assert s.get("/files/grep").status == 400
