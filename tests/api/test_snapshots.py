# SPDX-License-Identifier: Apache-2.0
"""Names of snapshots over HTTP, where no engine is needed: what is no name, what is somebody else's, and what a dead server left. Saving itself is in
tests/engines/test_keep_server.py."""

import json
import time
from urllib.parse import quote

import pytest

# what is no name of one's own, and would be a path, another owner's, or nothing at all
BAD_NAMES = ["other/x", "/x", "x/", "../x", "..", ".", "", "a" * 64, "a" * 5000, "x\n", "X", "ä", "x~y", "-x", "x\x7f", " x", ".new-1"]


def plant(server, owner, name, backend="local"):
    """A snapshot as if it had been saved: what it is called, and that it is there."""
    path = server.state / "snapshots" / f"{owner}~{name}"
    path.mkdir(parents=True, mode=0o700)
    (path / "cell.json").write_text(json.dumps({"version": 1, "state": "ready", "name": "s1", "backend": backend, "snapshot": {"name": f"{owner}/{name}", "id": "0" * 32,
        "created_unix_ms": 1}}))
    (path / "home.tar").write_bytes(b"x" * 100000)
    return path


def is_refused(answer, status):
    assert answer.status == status, answer
    assert answer.json["message"] and answer.json["hint"], answer
    return answer.json


@pytest.mark.parametrize("name", BAD_NAMES)
def test_what_is_no_name_is_refused_wherever_it_stands(shared, client, name):
    answer = client.post("/v1/sessions", {"from": name})
    assert answer.status == 400 and answer.json["code"] == "invalid", answer
    session = client.session()
    assert is_refused(session.post("/snapshots", {"name": name}), 400)["code"] == "invalid"
    session.end()
    # a path as the URL has it is no name, either
    assert client.delete("/v1/snapshots/" + quote(name, safe="")).status in ((400,) if len(name) < 1000 and name not in ("", ".", "..") else (400, 404, 414))


@pytest.mark.parametrize("name", ["x\0y", 7, None, ["x"], {"a": 1}])
def test_what_is_no_text_is_refused(client, name):
    session = client.session()
    assert session.post("/snapshots", {"name": name}).status == 400
    if name is not None and name != 7:  # a number has a spelling, and may be a name
        assert client.post("/v1/sessions", {"from": name}).status == 400
    session.end()


def test_a_back_end_that_cannot_save_says_so(client):
    session = client.session()
    error = is_refused(session.post("/snapshots", {"name": "x"}), 501)
    assert error["code"] == "not_supported"
    assert client.get("/v1/snapshots").json["snapshots"] == []
    session.end()


def test_a_tenant_knows_nothing_of_another_s(make_server):
    server = make_server()
    acme, other = (server.client(server.make_token("--tenant", t)) for t in ("acme", "other"))
    path = plant(server, "acme", "mine")
    plant(server, "acme-2", "x")  # a name that begins as another's does
    listed = acme.get("/v1/snapshots").json["snapshots"]
    assert [s["name"] for s in listed] == ["mine"] and listed[0]["size_bytes"] >= 100000
    assert other.get("/v1/snapshots").json["snapshots"] == []
    # the same answer as for what is not there, but for the name asked for
    for name in ("mine", "nothing"):
        assert is_refused(other.delete(f"/v1/snapshots/{name}"), 404)["message"] == f"there is no snapshot 'other/{name}'"
        assert "other/" in is_refused(other.post("/v1/sessions", {"from": name}), 404)["message"]
    for name in ("acme/mine", "acme~mine", "../snapshots/acme~mine"):
        assert other.delete("/v1/snapshots/" + name.replace("/", "%2F")).status == 400
        assert other.post("/v1/sessions", {"from": name}).status == 400
    # nor does who may only look remove anything
    assert server.client(server.make_token("--tenant", "acme", "--role", "read-only")).delete("/v1/snapshots/mine").status == 403
    assert path.exists()


def test_one_that_is_broken_is_in_nobody_s_way(make_server):
    server = make_server()
    acme, other = (server.client(server.make_token("--tenant", t)) for t in ("acme", "other"))
    plant(server, "other", "whole")
    for name, text in (("garbage", "{"), ("newer", '{"version": 1000}')):
        (plant(server, "acme", name) / "cell.json").write_text(text)
    (plant(server, "acme", "none") / "cell.json").unlink()
    assert [s["name"] for s in other.get("/v1/snapshots").json["snapshots"]] == ["whole"]
    assert [s["name"] for s in acme.get("/v1/snapshots").json["snapshots"]] == ["garbage", "newer", "none"]
    for name in ("garbage", "newer", "none"):
        assert "remove it" in is_refused(acme.post("/v1/sessions", {"from": name}), 502)["hint"]
        assert acme.delete(f"/v1/snapshots/{name}").status == 204
    assert acme.get("/v1/snapshots").json["snapshots"] == []


def test_what_a_dead_server_had_half_saved_is_removed_by_the_next(make_server):
    server = make_server()
    server.kill()
    half = server.state / "snapshots" / (".new-" + "1" * 32)
    half.mkdir(parents=True, mode=0o700)
    (half / "workspace.tar").write_bytes(b"half")
    whole = plant(server, "acme", "whole")
    server.start()
    end = time.monotonic() + 30
    while half.exists():
        assert time.monotonic() < end, "it is still there"
        time.sleep(0.05)
    assert whole.exists()
