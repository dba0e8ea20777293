# SPDX-License-Identifier: Apache-2.0
"""Packages of sessions: where they come from is the server's business, which ones the client's."""

import sys
from pathlib import Path

import pytest
from conftest import TOP
from test_openapi import DOCUMENT, check

sys.path.append(str(TOP / "tests" / "lib"))
from wheels import Index, make_wheel, sha256, wheel_name  # noqa: E402

pytestmark = pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="no python3 for cells to use")


@pytest.fixture
def wheels(tmp_path):
    path = tmp_path / "wheels"
    path.mkdir()
    make_wheel(path, "one", requires=["two"])
    make_wheel(path, "two", "2.0")
    make_wheel(path, "three")
    return path


@pytest.fixture
def served(make_server, wheels):
    return make_server(f"deps: {{find_links: [{wheels}]}}\n")


def names(session):
    a = session.get("/deps")
    assert a.status == 200, a
    check(a.json, DOCUMENT["components"]["schemas"]["Deps"])
    return {p["name"]: p["version"] for p in a.json["packages"]}


def imports(session, what):
    return session.run(f"python3 -c 'import {what}; print({what}.version)'")


def test_packages_are_added_listed_locked_synced_and_removed(served, wheels):
    s = served.client(served.make_token()).session()
    assert names(s) == {}
    a = s.post("/deps", {"packages": ["one"]})
    assert a.status == 200, a
    assert names(s) == {"one": "1.0", "two": "2.0"}
    assert imports(s, "one")["stdout"] == "1.0\n"
    lock = s.get("/deps/lock").json["lock"]
    assert f"two==2.0 \\\n    --hash=sha256:{sha256(wheels / wheel_name('two', '2.0'))}" in lock
    a = s.post("/deps/remove", {"packages": ["one"]})
    assert a.status == 200 and a.json["packages"] == [], a
    assert imports(s, "two")["exit_code"] == 1
    s.post("/deps", {"packages": ["three"]})
    a = s.client.call("PUT", s.path + "/deps", {"requirements": lock})
    assert a.status == 200 and {p["name"] for p in a.json["packages"]} == {"one", "two"}, a


def test_progress_comes_as_lines_and_an_error_is_the_last(served):
    s = served.client().session()
    lines = list(s.client.stream("POST", s.path + "/deps", {"packages": ["one"]}, stream="true"))
    kinds = [line["type"] for line in lines]
    assert kinds[0] == "resolve" and kinds[-2:] == ["install", "done"] and "unpack" in kinds, lines
    assert {p["name"] for p in lines[-1]["packages"]} == {"one", "two"}
    lines = list(s.client.stream("POST", s.path + "/deps", {"packages": ["absent"]}, stream="true"))
    assert lines[-1]["type"] == "error" and lines[-1]["error"]["code"] == "not_found", lines
    assert set(names(s)) == {"one", "two"}


def test_errors_are_typed(served):
    s = served.client().session()
    assert s.post("/deps", {"packages": ["absent"]}).status == 404
    assert s.post("/deps", {"packages": ["-r x"]}).status == 400
    assert s.post("/deps", {"packages": "one"}).status == 400
    assert s.post("/deps", {"package": ["one"]}).status == 400
    assert s.post("/deps", {"files": ["/etc/passwd"]}).status == 400
    assert s.post("/deps", {"requirements": f"one --hash=sha256:{'0' * 64}"}).status in (403, 404)
    assert s.post("/deps/remove", {"packages": ["absent"]}).status == 404
    assert s.post("/deps", {"language": "cobol", "packages": ["x"]}).status == 400
    assert names(s) == {}


def test_a_wheel_of_the_workspace(served, tmp_path):
    s = served.client().session()
    wheel = make_wheel(tmp_path, "inner")
    s.put(wheel.name, wheel.read_bytes())
    assert s.post("/deps", {"inside": [wheel.name]}).status == 200
    assert imports(s, "inner")["stdout"] == "1.0\n"
    s.put("evil-1.0-py3-none-any.whl", make_wheel(tmp_path, "evil", extra=[("../x", "y")]).read_bytes())
    a = s.post("/deps", {"inside": ["evil-1.0-py3-none-any.whl"]})
    assert a.status == 403 and "leads out" in a.json["message"], a
    assert s.post("/deps", {"inside": ["../../../etc/passwd-1.0-py3-none-any.whl"]}).status in (403, 404)


def test_a_client_names_no_place_of_the_servers_machine(served, wheels):
    user = served.client(served.make_token())
    for spec in ({"deps": {"index": "https://example.org/simple"}}, {"deps": {"find_links": [str(wheels)]}}, {"venv_dir": "/tmp/x"}):
        a = user.post("/v1/sessions", spec)
        assert a.status == 403 and "server's business" in a.json["message"], a


def test_what_the_server_forbids_no_session_allows(make_server, wheels):
    server = make_server(f"allow_runtime_deps: false\ndeps: {{find_links: [{wheels}], preinstalled: [two]}}\n")
    client = server.client(server.make_token())
    s = client.session(allow_runtime_deps=True)
    a = s.post("/deps", {"packages": ["one"]})
    assert a.status == 403 and "allow_runtime_deps: false" in a.json["message"], a
    assert names(s) == {"two": "2.0"}
    r = s.run("python3 -m pip install one")
    assert r["exit_code"] == 1 and "allow_runtime_deps: false" in r["stderr"]
    own = client.session(deps={"preinstalled": ["three"]})
    assert names(own) == {"three": "1.0"}


def test_a_read_only_token_looks_and_changes_nothing(served):
    s = served.client().session()
    reader = served.client(served.make_token("--role", "read-only"))
    assert reader.get(s.path + "/deps").status in (200, 404)
    assert reader.post(s.path + "/deps", {"packages": ["one"]}).status == 403
    assert names(s) == {}


def test_rules_decide_about_packages_too(make_server, wheels):
    server = make_server(f"deps: {{find_links: [{wheels}]}}\nserver: {{policy: {{rules: [{{effect: deny, action: 'deps.*', reason: no packages}}]}}}}\n")
    s = server.client().session()
    a = s.post("/deps", {"packages": ["one"]})
    assert a.status == 403 and "no packages" in a.json["message"], a


def test_they_survive_the_server(served):
    s = served.client().session()
    s.post("/deps", {"packages": ["one"]})
    served.restart()
    assert set(names(s)) == {"one", "two"}
    assert imports(s, "one")["stdout"] == "1.0\n"
    assert s.post("/deps", {"packages": ["three"]}).status == 200


def test_an_index_over_http_is_asked_by_the_server_not_by_the_cell(make_server, wheels):
    with Index(wheels, as_json=True) as index:
        server = make_server(f"deps: {{index: '{index.url}'}}\n")
        s = server.client(server.make_token()).session(network="none")
        assert s.post("/deps", {"packages": ["one"]}).status == 200
        assert set(names(s)) == {"one", "two"}
        assert any(p.startswith("/moved/one") for p in index.asked)
        server.client().delete(s.path)


def test_sessions_without_an_environment_say_so(server):
    s = server.client().session()
    a = s.post("/deps", {"packages": ["one"]})
    assert a.status == 501 and "no environment" in a.json["message"], a
