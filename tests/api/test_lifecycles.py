# SPDX-License-Identifier: Apache-2.0
"""How long cells live: persistent, workspace, session, ephemeral, scheduled; with the server killed in the middle."""

import sqlite3
import threading
import time
from pathlib import Path

import pytest
from conftest import PATIENCE_S


def wait_for(what, patience=PATIENCE_S):
    end = time.monotonic() + patience
    while True:
        value = what()
        if value:
            return value
        assert time.monotonic() < end, "never came true"
        time.sleep(0.1)


def cells(server):
    return sorted(p.name for p in (server.state / "cells").glob("*")) if (server.state / "cells").exists() else []


def test_each_lifecycle_says_what_it_is_and_survives_a_kill(server):
    client = server.client()
    made = {word: client.session(lifecycle=word, **more) for word, more in (
        ("persistent", {}), ("session", {}), ("ephemeral", {}), ("workspace", {"workspace_key": "k"}),
        ("scheduled", {"schedule": {"cron": "0 0 1 1 *", "command": "true"}}))}
    assert {w: s.info["lifecycle"] for w, s in made.items()} == {w: w for w in made}
    assert made["persistent"].info["idle_timeout_s"] == 0 == made["scheduled"].info["idle_timeout_s"]
    assert made["session"].info["idle_timeout_s"] > 0
    for word in ("persistent", "session", "workspace", "scheduled"):
        made[word].run("echo kept > f")
    server.restart()
    for word, s in made.items():
        assert s.get().json["state"] == "ready", word
        got = s.run("cat f 2>/dev/null || echo fresh")["stdout"]
        assert got == ("fresh\n" if word == "ephemeral" else "kept\n"), word
    assert [s["id"] for s in client.get("/v1/sessions", lifecycle="workspace").json["sessions"]] == [made["workspace"].id]


def test_an_ephemeral_session_has_a_fresh_cell_for_each_command(client, shared):
    s = client.session(lifecycle="ephemeral")
    assert s.run("echo x > f; cat f")["stdout"] == "x\n"
    assert s.run("cat f")["exit_code"] != 0
    wait_for(lambda: not [c for c in cells(shared) if c.startswith(s.id)])


def test_idle_sessions_end_and_persistent_ones_do_not(server):
    client = server.client()
    idle, kept = client.session(idle_timeout="1s"), client.session(lifecycle="persistent")
    busy = client.session(idle_timeout="1s")
    busy.background("sleep 600")
    wait_for(lambda: idle.get().status == 404)
    assert kept.get().json["state"] == "ready"
    assert busy.get().json["state"] == "ready"  # a running command is use
    short = client.session(lifecycle="persistent", ttl="1s")
    wait_for(lambda: short.get().status == 404)
    assert cells(server) == sorted([kept.id, busy.id])


# ---- workspace ----


def test_sessions_of_a_workspace_share_a_cell_from_the_first_to_the_last(server):
    client = server.client()
    a, b = (client.session(lifecycle="workspace", workspace_key="project") for _ in range(2))
    other = client.session(lifecycle="workspace", workspace_key="another")
    assert a.id != b.id and len(cells(server)) == 2
    a.run("echo from a > f")
    assert b.run("cat f")["stdout"] == "from a\n"
    assert other.run("cat f")["exit_code"] != 0
    mine = a.background("exec sleep 600")
    a.end()
    assert b.run("cat f")["stdout"] == "from a\n"
    # its commands ended with it, the others' go on
    wait_for(lambda: "sleep 600" not in b.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")["stdout"])
    assert b.get(f"/execs/{mine}").status == 404
    b.end()
    assert len(cells(server)) == 1
    again = client.session(lifecycle="workspace", workspace_key="project")
    assert again.run("cat f")["exit_code"] != 0


def test_a_workspace_survives_the_server(server):
    client = server.client()
    a, b = (client.session(lifecycle="workspace", workspace_key="k") for _ in range(2))
    a.run("echo x > f")
    started = b.background("for i in $(seq 100); do echo $i; sleep 0.05; done")
    server.restart()
    assert a.run("cat f")["stdout"] == b.run("cat f")["stdout"] == "x\n"
    lines = "".join(e["data"] for e in b.follow(started) if e["type"] == "stdout").split()
    assert lines == [str(i + 1) for i in range(100)]
    a.end()
    server.restart()
    assert b.run("cat f")["stdout"] == "x\n"
    b.end()
    assert cells(server) == []


def test_many_at_once_make_one_cell_and_leave_none(server):
    client = [server.client() for _ in range(8)]
    answers = []
    def one(c):
        for _ in range(4):
            s = c.session(lifecycle="workspace", workspace_key="busy")
            answers.append(s.run("echo in")["stdout"])
            s.end()
    threads = [threading.Thread(target=one, args=(c,)) for c in client]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert answers == ["in\n"] * 32
    assert cells(server) == []


def test_a_workspace_is_one_tenants_and_one_specification(server):
    a, b = (server.client(server.make_token("--tenant", t)) for t in ("one", "two"))
    x = a.session(lifecycle="workspace", workspace_key="k", limits={"memory": "64m"})
    x.run("echo secret > f")
    y = b.session(lifecycle="workspace", workspace_key="k")
    assert y.run("cat f")["exit_code"] != 0
    refused = a.post("/v1/sessions", {"lifecycle": "workspace", "workspace_key": "k", "limits": {"memory": "128m"}})
    assert refused.status == 409 and "another specification" in refused.json["message"], refused
    assert a.session(lifecycle="workspace", workspace_key="k", limits={"memory": "64m"}, labels={"l": "1"}).run("cat f")["stdout"] == "secret\n"
    assert a.session(lifecycle="workspace", workspace_key="k").run("cat f")["stdout"] == "secret\n"


def test_a_shared_cell_is_counted_once(make_server):
    server = make_server("server:\n  quotas: {cells: 2}\n")
    client = server.client(server.make_token())
    made = [client.session(lifecycle="workspace", workspace_key="k") for _ in range(5)]
    single = client.session()
    refused = client.post("/v1/sessions", {})
    assert refused.status == 429 and refused.headers["Retry-After"], refused
    for s in made[1:]:
        s.end()
    assert client.post("/v1/sessions", {}).status == 429
    made[0].end()
    assert client.post("/v1/sessions", {}).status == 201
    single.end()


@pytest.mark.parametrize("spec", [
    {"lifecycle": "workspace"}, {"workspace_key": "k"}, {"lifecycle": "workspace", "workspace_key": ""},
    {"lifecycle": "workspace", "workspace_key": "a/b"}, {"lifecycle": "workspace", "workspace_key": 1}, {"lifecycle": "forever"},
    {"lifecycle": "scheduled"}, {"schedule": {"cron": "* * * * *", "command": "true"}},
    {"lifecycle": "scheduled", "schedule": {"command": "true"}}, {"lifecycle": "scheduled", "schedule": {"cron": "* * * *", "command": "true"}},
    {"lifecycle": "scheduled", "schedule": {"cron": "* * * * *"}}, {"lifecycle": "scheduled", "schedule": {"cron": "* * * * *", "command": []}},
    {"lifecycle": "scheduled", "schedule": {"cron": "* * * * *", "command": "true", "argv": ["true"]}},
    {"lifecycle": "scheduled", "schedule": {"cron": "0 0 30 2 *", "command": "true"}},
    {"lifecycle": "scheduled", "schedule": {"cron": "* * * * *", "command": "true", "zone": "Mars/Olympus"}},
    {"lifecycle": "scheduled", "schedule": {"cron": "* * * * *", "command": "true", "missed": "sometimes"}},
    {"lifecycle": "scheduled", "schedule": {"cron": "* * * * *", "command": "true", "every": 5}}])
def test_what_makes_no_sense_is_refused(client, spec):
    a = client.post("/v1/sessions", spec)
    assert a.status in (400, 404) and a.json["message"], a


# ---- scheduled ----


def set_back(server, session, last_s):
    """Where the schedule stood; the server is down."""
    with sqlite3.connect(server.state / "server" / "server.db") as db:
        assert db.execute("UPDATE schedules SET last_s = ? WHERE session = ?", (last_s, session.id)).rowcount == 1
    db.close()


def runs(session):
    return {e["id"]: e for e in session.get("/execs").json["execs"] if e["id"].startswith("run-")}


def every_minute(client, command, **more):
    """A slow machine may be late: what is missed is run once, unless the test is about that."""
    return client.session(lifecycle="scheduled", schedule={"cron": "* * * * *", "command": command, "missed": "once", **more})


def test_a_run_is_an_exec_and_happens_once_across_restarts(server):
    s = every_minute(server.client(), "echo ran")
    assert s.info["schedule"]["next_at"] and s.info["schedule"]["last_exec"] is None
    server.stop()
    minute = int(time.time()) // 60 * 60
    set_back(server, s, minute - 1)  # due at most a minute ago: on time
    server.start()
    name = f"run-{minute}"
    wait_for(lambda: runs(s).get(name, {}).get("state") == "exited")
    assert s.get().json["schedule"]["last_exec"] in runs(s)
    assert "".join(e["data"] for e in s.follow(name) if e["type"] == "stdout") == "ran\n"
    ended_at = s.get(f"/execs/{name}").json["started_at"]
    for _ in range(2):
        server.kill()
        set_back(server, s, minute - 1)  # as if it had been killed before it could write down that it ran
        server.start()
        wait_for(lambda: s.get().json["schedule"]["last_at"])
        time.sleep(1.5)
    assert s.get(f"/execs/{name}").json["started_at"] == ended_at


def test_missed_runs_follow_the_rule(server):
    client = server.client()
    made = {rule: every_minute(client, "echo x", missed=rule, overlap="queue") for rule in ("skip", "once", "all")}
    server.stop()
    now = int(time.time())
    minute = now // 60 * 60
    for s in made.values():
        set_back(server, s, minute - 5 * 60 - 1)
    server.start()
    wait_for(lambda: len(runs(made["all"])) >= 6)
    assert {f"run-{minute - i * 60}" for i in range(6)} <= set(runs(made["all"]))
    assert 1 <= len(runs(made["once"])) <= 3, runs(made["once"])
    assert len(runs(made["skip"])) <= 3, runs(made["skip"])
    assert made["skip"].get().json["schedule"]["skipped"] >= 4


def test_overlap_follows_the_rule(server):
    """The second run comes with the next minute."""
    client = server.client()
    made = {rule: every_minute(client, "echo begun; sleep 600", overlap=rule) for rule in ("skip", "queue", "kill")}
    server.stop()
    minute = int(time.time()) // 60 * 60
    for s in made.values():
        set_back(server, s, minute - 1)
    server.start()
    for s in made.values():
        wait_for(lambda s=s: runs(s))
    server.restart()  # a run goes on without the server, and is known to the next
    first = {rule: min(runs(s)) for rule, s in made.items()}
    for rule, s in made.items():
        assert runs(s)[first[rule]]["state"] == "running", rule
    wait_for(lambda: made["queue"].get().json["schedule"]["waiting"], 90)
    wait_for(lambda: made["skip"].get().json["schedule"]["skipped"] >= 1, 90)
    wait_for(lambda: len(runs(made["kill"])) >= 2, 90)
    assert len(runs(made["skip"])) == 1 == len(runs(made["queue"]))
    assert runs(made["kill"])[first["kill"]]["exit_code"] == 137
    made["queue"].client.delete(f"{made['queue'].path}/execs/{first['queue']}")
    wait_for(lambda: len(runs(made["queue"])) == 2)


def test_a_scheduled_session_whose_cell_died_gets_another(server):
    s = every_minute(server.client(), "echo alive")
    server.stop()
    server.cell("rm", "-f", s.id, check=False)
    minute = int(time.time()) // 60 * 60
    set_back(server, s, minute - 1)
    server.start()
    wait_for(lambda: runs(s).get(f"run-{minute}", {}).get("exit_code") == 0 or len(runs(s)) > 0)
    assert s.get().json["state"] == "ready"


def test_rules_hold_for_runs_too(make_server):
    server = make_server("server:\n  policy:\n    rules:\n      - {name: no-danger, effect: deny, action: exec.start, command: 'danger*'}\n")
    s = every_minute(server.client(), "danger now")
    server.stop()
    minute = int(time.time()) // 60 * 60
    set_back(server, s, minute - 1)
    server.start()
    wait_for(lambda: s.get().json["schedule"]["skipped"])
    assert runs(s) == {}
    assert any("no-danger" in str(r) for r in server.client().get("/v1/audit", action="exec.start").lines)


@pytest.mark.parametrize("backend", ["local", "subprocess"])
def test_a_session_without_workspace_has_one_of_its_own(make_server, backend):
    """Also where the back end has no files of its own: the server's current directory is nobody's."""
    server = make_server("server: {min_tier: 0}\n")
    client = server.client()
    one, two = client.session(backend=backend), client.session(backend=backend)
    assert one.put("mine", b"1").status == 200
    assert one.run("cat mine; pwd")["stdout"].startswith("1")
    place = one.run("pwd")["stdout"].strip()
    assert place.startswith(str(server.state)) and place != two.run("pwd")["stdout"].strip()
    assert two.run("ls -A")["stdout"] == ""
    assert not (server.dir / "mine").exists()
    server.restart()
    client.connection = None
    assert one.run("cat mine")["stdout"] == "1"
    assert one.post("/exec", {"command": "id -u", "user": "65534"}).status in (200, 501)
    one.end()
    assert not Path(place).exists()
    fresh = client.session(backend=backend, lifecycle="ephemeral")
    place = fresh.run("touch x; pwd; ls -A")["stdout"].split()
    assert place[1:] == ["x"] and place[0].startswith(str(server.state))
