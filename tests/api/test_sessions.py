# SPDX-License-Identifier: Apache-2.0
"""Sessions: made, listed, changed, ended, by themselves and by time."""

import time

import pytest


def test_a_session_is_made_used_and_ended(client):
    s = client.session(labels={"team": "data"})
    assert s.info["state"] == "ready"
    assert s.info["backend"] == "jail"
    assert s.info["labels"] == {"team": "data"}
    assert s.run("echo hello")["stdout"] == "hello\n"
    s.end()
    gone = client.get(s.path)
    assert gone.status == 404
    assert gone.json["code"] == "not_found"
    assert gone.json["message"] == f"there is no session '{s.id}'"  # and no more: it says it all
    assert gone.json["request_id"] == gone.headers["X-Request-Id"]


def test_state_stays_between_commands(client):
    s = client.session()
    s.run("echo 42 > answer")
    assert s.run("cat answer")["stdout"] == "42\n"


def test_create_answers_at_once_when_asked(client):
    a = client.post("/v1/sessions", {"wait": False})
    assert a.status == 202
    assert a.json["state"] == "creating"
    for _ in range(500):
        now = client.get(f"/v1/sessions/{a.json['id']}").json
        if now["state"] != "creating":
            break
        time.sleep(0.02)
    assert now["state"] == "ready"
    assert client.run(a.json["id"], "echo there")["stdout"] == "there\n"


def test_lists_are_filtered_and_paged(client):
    made = [client.session(labels={"n": str(i % 2), "of": "paging"}).id for i in range(5)]
    seen, cursor = [], None
    for _ in range(10):
        page = client.get("/v1/sessions", label="of=paging", limit=2, **({"cursor": cursor} if cursor else {})).json
        assert len(page["sessions"]) <= 2
        seen += [s["id"] for s in page["sessions"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == made
    odd = client.get("/v1/sessions", label="n=1").json["sessions"]
    assert [s["id"] for s in odd] == [made[1], made[3]]
    assert client.get("/v1/sessions", state="failed").json["sessions"] == []


def test_labels_and_times_are_changed(client):
    s = client.session(labels={"a": "1", "b": "2"})
    a = client.call("PATCH", s.path, {"labels": {"a": None, "c": "3"}, "ttl": "1h", "idle_timeout": 90})
    assert a.status == 200, a
    assert a.json["labels"] == {"b": "2", "c": "3"}
    assert a.json["idle_timeout_s"] == 90
    assert a.json["expires_at"]


def test_a_session_ends_when_its_time_is_over(client):
    s = client.session(ttl="1s")
    for _ in range(500):
        if client.get(s.path).status == 404:
            break
        time.sleep(0.02)
    assert client.get(s.path).status == 404


def test_an_idle_session_ends_and_a_busy_one_does_not(client):
    idle, busy = client.session(idle_timeout="1s"), client.session(idle_timeout="1s")
    exec_id = busy.background("sleep 30")
    for _ in range(500):
        if client.get(idle.path).status == 404:
            break
        time.sleep(0.02)
    assert client.get(idle.path).status == 404
    assert client.get(busy.path).json["state"] == "ready"
    client.delete(f"{busy.path}/execs/{exec_id}")


def test_an_ephemeral_session_has_a_fresh_cell_for_each_command(client):
    s = client.session(lifecycle="ephemeral")
    assert s.run("echo 1 > f; cat f")["stdout"] == "1\n"
    assert s.run("cat f")["exit_code"] != 0


def test_what_cannot_be_had_is_refused_with_a_hint(client):
    a = client.post("/v1/sessions", {"backend": "subprocess"})
    assert a.status == 501, a
    assert "tier" in a.json["message"]
    a = client.post("/v1/sessions", {"memry": "1g"})
    assert a.status == 400
    assert "memory" in a.json["hint"] or "memory" in a.json["message"], a
    a = client.post("/v1/sessions", {"idle_timeout": "soon"})
    assert a.status == 400
    assert "idle_timeout" in a.json["message"]


def test_a_session_whose_cell_died_says_so(client):
    s = client.session()
    pid = client.server.cell("--json", "inspect", s.id)
    import json
    import os
    import signal
    os.kill(json.loads(pid.stdout)["guest_pid"], signal.SIGKILL)
    for _ in range(500):
        if client.get(s.path).json["state"] == "lost":
            break
        time.sleep(0.02)
    a = s.post("/exec", {"command": "true"})
    assert a.status == 410, a
    assert a.json["code"] == "gone"
    s.end()


def test_host_directories_are_not_for_the_asking(make_server, tmp_path):
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "f").write_text("shared\n")
    server = make_server(f"server:\n  host_paths: [{tmp_path / 'given'}]\n")
    user = server.client(server.make_token("--role", "user"))
    a = user.post("/v1/sessions", {"workspace": "/etc"})
    assert a.status == 403, a
    assert "host_paths" in a.json["hint"]
    a = user.post("/v1/sessions", {"mounts": [{"source": "/etc", "target": "/mnt"}]})
    assert a.status == 403, a
    s = user.session(workspace=str(tmp_path / "given"))
    assert s.run("cat f")["stdout"] == "shared\n"


@pytest.mark.parametrize("how", ["workspace", "mount"])
def test_a_host_directory_that_becomes_a_link_leads_nowhere(make_server, tmp_path, how):
    """Each command of an ephemeral session has a new cell: what was allowed is looked at again. An admin may go anywhere: the control."""
    inside, secret = tmp_path / "given" / "mine", tmp_path / "secret"
    inside.mkdir(parents=True)
    secret.mkdir()
    (inside / "f").write_text("mine\n")
    (secret / "f").write_text("secret\n")
    server = make_server(f"server:\n  host_paths: [{tmp_path / 'given'}]\n")
    spec = {"workspace": str(inside)} if how == "workspace" else {"mounts": [{"source": str(inside), "target": "/mnt"}]}
    command = "cat f" if how == "workspace" else "cat /mnt/f"
    user = server.client(server.make_token("--role", "user")).session(lifecycle="ephemeral", **spec)
    admin = server.client().session(lifecycle="ephemeral", **spec)
    assert user.run(command)["stdout"] == "mine\n"
    inside.rename(tmp_path / "given" / "was")
    inside.symlink_to(secret)
    assert admin.run(command)["stdout"] == "secret\n"
    for _ in range(2):
        a = user.post("/exec", {"command": command})
        assert a.status == 403 and a.json["code"] == "denied" and "secret" not in a.json["message"], a
        server.restart()
        user.client.connection = None
    inside.unlink()
    inside.symlink_to("was")  # a link that stays inside
    assert user.run(command)["stdout"] == "mine\n"


def test_words_for_the_server_are_not_for_sessions(client):
    a = client.post("/v1/sessions", {"server": {"auth_disabled": True}})
    assert a.status == 400 and "'server'" in a.json["message"], a


def test_a_session_stands_still_and_goes_on(client):
    if "pause" not in next(b for b in client.get("/v1/backends").json["backends"] if b["name"] == "jail")["capabilities"]:
        pytest.skip("no cgroup2 here")
    s = client.session()
    s.run("echo kept > f")
    paused = client.post(f"{s.path}/pause", {})
    assert paused.status == 200, paused.json
    assert client.get(s.path).json["state"] == "paused"
    refused = client.post(f"{s.path}/exec", {"argv": ["true"]})
    assert refused.json["code"] == "busy" and "resume" in refused.json["hint"]
    assert client.post(f"{s.path}/resume", {}).status == 200
    assert client.get(s.path).json["state"] == "ready"
    assert s.run("cat f")["stdout"] == "kept\n"
    assert client.post(f"{s.path}/pause", {}).status == 200
    s.end()  # also while it stands still
    assert client.get(s.path).status == 404
