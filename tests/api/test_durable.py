# SPDX-License-Identifier: Apache-2.0
"""What survives a server that is killed, stopped, or upgraded: everything."""

import fcntl
import threading
import time


def numbers(stream):
    text = "".join(e["data"] for e in stream if e["type"] == "stdout")
    return [int(n) for n in text.split()]


def test_a_counter_survives_kills_and_every_number_is_seen_once(server):
    s = server.client().session()
    exec_id = s.background("i=0; while [ $i -lt 200 ]; do echo $i; i=$((i+1)); sleep 0.02; done")
    seen, offset = "", 0
    for _ in range(3):
        events = s.follow(exec_id, stdout_offset=offset)
        for e in events:
            if e["type"] == "stdout":
                assert e["offset"] == offset
                seen += e["data"]
                offset += len(e["data"])
            if len(seen) > 60 and seen.count("\n") % 40 == 39:
                break
        events.close()
        server.restart(is_killed=True)
        s.client.connection = None
    events = s.follow(exec_id, stdout_offset=offset)
    rest = list(events)
    seen += "".join(e["data"] for e in rest if e["type"] == "stdout")
    assert [int(n) for n in seen.split()] == list(range(200))
    assert rest[-1]["type"] == "exit" and rest[-1]["exit_code"] == 0


def test_output_while_no_server_is_there_is_not_lost(server):
    """Far more than the guest keeps: the command waits for the next server."""
    s = server.client().session()
    exec_id = s.background("sleep 0.3; seq 1 500000; echo done > finished")
    server.kill()
    time.sleep(1.0)
    server.start()
    s.client.connection = None
    assert numbers(s.follow(exec_id)) == list(range(1, 500001))
    assert s.run("cat finished")["stdout"] == "done\n"


def test_a_command_that_ends_while_no_server_is_there_has_its_result(server):
    s = server.client().session()
    exec_id = s.background("sleep 0.5; echo late; exit 5")
    server.kill()
    time.sleep(1.5)
    server.start()
    s.client.connection = None
    rest = list(s.follow(exec_id))
    assert rest[-1]["exit_code"] == 5
    assert any(e.get("data") == "late\n" for e in rest)


def test_a_stopped_server_lets_commands_run_on(server):
    s = server.client().session()
    exec_id = s.background("i=0; while [ $i -lt 60 ]; do echo $i; i=$((i+1)); sleep 0.02; done")
    server.restart(is_killed=False)
    s.client.connection = None
    assert numbers(s.follow(exec_id)) == list(range(60))


def test_stdin_goes_on_after_a_restart(server):
    s = server.client().session()
    exec_id = s.background("cat", stdin=True)
    path = f"{s.path}/execs/{exec_id}/stdin"
    assert s.client.call("POST", path, b"one\n").status == 200
    server.restart()
    s.client.connection = None
    assert s.client.call("POST", path, b"two\n", eof="true").status == 200
    assert "".join(e["data"] for e in s.follow(exec_id) if e["type"] == "stdout") == "one\ntwo\n"


def test_a_session_being_made_when_the_server_dies_is_made(server):
    client = server.client()
    ids = [client.post("/v1/sessions", {"wait": False}).json["id"] for _ in range(8)]
    server.restart()
    client.connection = None
    for i in ids:
        for _ in range(500):
            a = client.get(f"/v1/sessions/{i}")
            if a.json["state"] != "creating":
                break
            time.sleep(0.02)
        assert a.json["state"] == "ready", a
        assert client.run(i, "echo ok")["stdout"] == "ok\n"


def test_a_cell_nobody_knows_is_removed(server):
    server.cell("create", "--backend", "jail", "--label", "cell.session=1", "sorphan")
    server.restart()
    for _ in range(500):
        if not (server.state / "cells" / "sorphan").exists():
            break
        time.sleep(0.02)
    assert not (server.state / "cells" / "sorphan").exists()


def test_cells_of_others_are_left_alone(server):
    server.cell("create", "--backend", "jail", "mine")
    server.restart()
    time.sleep(1)
    assert (server.state / "cells" / "mine").exists()
    server.cell("rm", "-f", "mine")


def test_the_same_key_makes_one_session_in_parallel_and_across_a_restart(server):
    ids, lock = [], threading.Lock()

    def create():
        a = server.client().post("/v1/sessions", {"labels": {"k": "v"}}, headers={"Idempotency-Key": "the-key"})
        assert a.status == 201, a
        with lock:
            ids.append(a.json["id"])

    for _ in range(2):
        threads = [threading.Thread(target=create) for _ in range(25)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        server.restart()
    assert len(ids) == 50 and len(set(ids)) == 1
    assert len(server.client().get("/v1/sessions").json["sessions"]) == 1
    a = server.client().post("/v1/sessions", {"labels": {"k": "w"}}, headers={"Idempotency-Key": "the-key"})
    assert a.status == 409, a


def test_the_same_key_runs_a_command_once(server):
    s = server.client().session()
    for i in range(6):
        a = s.client.post(f"{s.path}/exec", {"command": "echo x >> log; cat log"}, headers={"Idempotency-Key": "k1"})
        assert a.status == 200 and a.json["stdout"] == "x\n", a
        if i % 2:
            server.restart()
            s.client.connection = None
    a = s.client.post(f"{s.path}/exec", {"command": "other"}, headers={"Idempotency-Key": "k1"})
    assert a.status == 409, a
    assert s.run("cat log")["stdout"] == "x\n"


def test_other_answers_are_given_again(server):
    s = server.client().session()
    s.put("f", b"old")
    body, head = {"path": "f", "old": "old", "new": "new"}, {"Idempotency-Key": "edit-1"}
    first = s.post("/files/edit", body, headers=head)
    assert first.status == 200, first
    server.restart()
    s.client.connection = None
    again = s.post("/files/edit", body, headers=head)
    assert again.status == 200 and again.json == first.json
    assert again.headers["Idempotency-Replayed"] == "true"
    assert s.post("/files/edit", body).status == 404


def test_a_process_that_still_holds_the_lock_of_a_killed_server_is_waited_for(server):
    """One that the server was just starting when it was killed. Here a stand-in has the lock for a while."""
    server.kill()
    with (server.state / "server" / "audit" / "lock").open("rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        thread = threading.Timer(0.5, lambda: fcntl.flock(lock, fcntl.LOCK_UN))
        thread.start()
        server.start()
        thread.join()
    assert server.client().get("/v1/sessions").status == 200


def test_files_made_ahead_for_output_are_few_used_and_left_by_nobody(server):
    spool = server.state / "server" / "spool"

    def spares():
        return [p.name for p in spool.glob(".spare-*")]

    s = server.client().session()
    for i in range(30):  # more than are ever ahead, faster than they are made
        assert s.run(f"echo {i}")["stdout"] == f"{i}\n"
    end = time.monotonic() + 20
    while not spares() and time.monotonic() < end:
        time.sleep(0.02)
    assert 0 < len(spares()) <= 16
    before = set(spares())
    server.restart(is_killed=True)
    s.client.connection = None
    assert s.run("echo after")["stdout"] == "after\n"
    end = time.monotonic() + 20
    while len(spares()) > 16 and time.monotonic() < end:
        time.sleep(0.02)
    assert len(spares()) <= 16, (before, spares())
    server.restart(is_killed=False)
    s.client.connection = None
    for p in spool.glob(".spare-*"):
        assert p.stat().st_size == 0
    server.stop()
    assert not spares()
    server.start()
    s.client.connection = None
