# SPDX-License-Identifier: Apache-2.0
"""Commands: waited for, streamed, in the background, written to, signalled, resumed from any offset."""

import base64
import json
import threading
import time

import pytest


def test_a_result_has_everything(client):
    s = client.session()
    r = s.run("echo out; echo err >&2; exit 3")
    assert (r["stdout"], r["stderr"], r["exit_code"]) == ("out\n", "err\n", 3)
    assert r["signal"] is None and r["timed_out"] is False and r["oom"] is False and r["truncated"] is False
    assert r["duration_ms"] >= 0 and r["stdout_bytes"] == 4


def test_argv_env_cwd_stdin(client):
    s = client.session()
    s.run("mkdir d")
    r = s.run(["sh", "-c", 'echo "$A $PWD"; cat'], env={"A": "a b"}, cwd="d", stdin="line\n")
    assert r["stdout"] == "a b /workspace/d\nline\n"
    r = s.run("cat", stdin_base64=base64.b64encode(bytes(range(256))).decode())
    assert base64.b64decode(r["stdout_base64"]) == bytes(range(256))


def test_a_timeout_is_a_result(client):
    s = client.session()
    r = s.run("echo begun; sleep 60", timeout="500ms")
    assert r["exit_code"] == 124 and r["timed_out"] is True and r["stdout"] == "begun\n"


def test_much_output_is_cut_in_the_answer_and_whole_in_the_spool(client):
    s = client.session()
    r = s.run("head -c 3000000 /dev/zero | tr '\\0' x", max_output_bytes=1000)
    assert r["truncated"] is True and r["stdout"] == "x" * 1000 and r["stdout_bytes"] == 3000000
    a = client.get(f"{s.path}/execs/{r['id']}/output", stream="stdout")
    assert a.body == b"x" * 3000000


def test_an_answer_in_one_piece_has_an_end(client):
    """It is put together where every other client waits."""
    s = client.session()
    most = 8 << 20
    r = s.run(f"head -c {most} /dev/zero | tr '\\0' x", max_output_bytes=most)
    assert len(r["stdout"]) == most and r["truncated"] is False
    a = s.post("/exec", {"command": "touch ran", "max_output_bytes": most + 1})
    assert a.status == 400 and f"from 0 to {most}" in a.json["message"] and "stream" in a.json["hint"], a
    assert s.run("test -e ran")["exit_code"] == 1


def test_events_are_streamed_as_they_happen(client):
    s = client.session()
    events = client.stream("POST", f"{s.path}/exec", {"command": "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two >&2; exit 7"})
    assert next(events)["type"] == "started"
    first = next(events)
    assert (first["type"], first["data"], first["offset"]) == ("stdout", "one\n", 0)
    s.put("go", b"x\n")  # only now can it go on
    second, last = list(events)
    assert (second["type"], second["data"]) == ("stderr", "two\n")
    assert (last["type"], last["exit_code"]) == ("exit", 7)


def test_server_sent_events_resume_by_their_id(client):
    s = client.session()
    exec_id = s.background("for i in 1 2 3 4 5; do echo $i; done")
    a = client.call("GET", f"{s.path}/execs/{exec_id}/output", headers={"Accept": "text/event-stream"})
    assert a.headers["Content-Type"] == "text/event-stream"
    ids = [line[4:] for line in a.body.decode().splitlines() if line.startswith("id: ")]
    assert ids[-1] == "10.0"
    b = client.call("GET", f"{s.path}/execs/{exec_id}/output", headers={"Accept": "text/event-stream", "Last-Event-ID": "4.0"})
    assert '"offset":4' in b.body.decode() and '"offset":0,' not in b.body.decode()


def test_background_and_follow_from_offsets(client):
    s = client.session()
    exec_id = s.background("seq 1 1000; seq 1 10 >&2")
    whole = "".join(f"{i}\n" for i in range(1, 1001))
    for offset in (0, 1, 100, len(whole) - 1, len(whole), len(whole) + 5):
        got = "".join(e["data"] for e in s.follow(exec_id, stdout_offset=offset) if e["type"] == "stdout")
        assert got == whole[offset:]
    listed = s.get("/execs").json["execs"]
    assert [e["id"] for e in listed] == [exec_id]
    assert s.get(f"/execs/{exec_id}").json["exit_code"] == 0


def test_a_client_that_goes_away_does_not_end_the_command(client):
    s = client.session()
    events = client.stream("POST", f"{s.path}/exec", {"command": "echo a; sleep 1; echo b"})
    started = next(events)
    next(events)
    events.close()
    rest = [e for e in s.follow(started["id"]) if e["type"] in ("stdout", "exit")]
    assert "".join(e["data"] for e in rest if e["type"] == "stdout") == "a\nb\n"
    assert rest[-1]["exit_code"] == 0


def test_stdin_later_and_in_pieces(client):
    s = client.session()
    exec_id = s.background("cat", stdin=True)
    data = bytes(range(256)) * 8192  # 2 MiB: more than any window
    for i in range(0, len(data), 300000):
        a = client.call("POST", f"{s.path}/execs/{exec_id}/stdin", data[i:i + 300000])
        assert a.status == 200, a
    a = client.call("POST", f"{s.path}/execs/{exec_id}/stdin", b"", eof="true")
    assert a.status == 200, a
    out = client.get(f"{s.path}/execs/{exec_id}/output", stream="stdout")
    assert out.body == data


def test_a_kill_right_behind_the_start_is_not_lost(client):
    """One keeper runs one command after the other: the signal may come before it has begun with this one."""
    s = client.session()
    for _ in range(40):
        exec_id = s.background("sleep 300")
        assert client.delete(f"{s.path}/execs/{exec_id}").status == 204
        assert list(s.follow(exec_id))[-1]["exit_code"] == 137


def test_signals(client):
    s = client.session()
    exec_id = s.background("trap 'echo caught; exit 9' USR1; echo ready; while :; do sleep 0.05; done")
    events = s.follow(exec_id)
    for e in events:
        if e.get("data") == "ready\n":
            break
    assert s.post(f"/execs/{exec_id}/signal", {"signal": "USR1"}).status == 204
    rest = list(events)
    assert rest[-1]["exit_code"] == 9
    assert s.post(f"/execs/{exec_id}/signal", {"signal": "USR1"}).status == 409
    a = s.post(f"/execs/{exec_id}/signal", {"signal": "NOPE"})
    assert a.status in (400, 409)
    exec_id = s.background("sleep 100 & sleep 100")
    assert client.delete(f"{s.path}/execs/{exec_id}").status == 204
    assert [e for e in s.follow(exec_id)][-1]["exit_code"] == 137


def test_a_terminal_has_a_size(client):
    s = client.session()
    r = s.run("stty size", tty=True, rows=33, cols=101)
    assert r["stdout"].strip() == "33 101"


def test_bad_requests_say_what_is_wrong(client):
    s = client.session()
    for body, word in (({}, "command"), ({"command": "x", "argv": ["x"]}, "either"), ({"command": 5}, "command"),
                       ({"command": "x", "timeot": 3}, "timeot"), ({"argv": []}, "either"), ({"command": "x", "timeout": -1}, "timeout"),
                       ({"argv": ["a\0b"]}, "u0000"), ({"command": "x", "rows": 5000}, "rows"), ({"command": "x", "stdin_base64": "?"}, "base64"),
                       ({"command": "x", "stdin_base64": "===="}, "base64"), ({"command": "x", "stdin_base64": "YQ==YQ=="}, "base64"),
                       ({"command": "x", "stdin_base64": " YWI"}, "base64"), ({"command": "x", "labels": "x"}, "labels"),
                       ({"command": "x", "labels": {"a": 1}}, "labels.a")):
        a = s.post("/exec", body)
        assert a.status == 400 and word in a.json["message"], (body, a)
    a = client.call("POST", f"{s.path}/exec", b"{not json")
    assert a.status == 400 and "JSON" in a.json["message"]
    a = s.get("/execs/nope")
    assert a.status == 404
    assert s.get("/execs/..%2f..%2fx").status in (400, 404)


def test_many_at_once_in_one_session(client):
    s = client.session()
    results, threads = {}, []

    def one(i):
        c = client.server.client()
        results[i] = c.run(s.id, f"echo {i}; exit {i % 7}")

    for i in range(40):
        threads.append(threading.Thread(target=one, args=(i,)))
        threads[-1].start()
    for t in threads:
        t.join()
    for i in range(40):
        assert (results[i]["stdout"], results[i]["exit_code"]) == (f"{i}\n", i % 7)


def test_a_slow_reader_harms_nobody(client):
    s = client.session()
    slow = client.stream("POST", f"{s.path}/exec", {"command": "head -c 20000000 /dev/zero"})
    next(slow)
    r = s.run("echo quick")
    assert r["stdout"] == "quick\n"
    total = 0
    for e in slow:
        total += len(e["data"]) if e["type"] == "stdout" else 0
    assert total == 20000000


def test_request_ids_are_found_again(client):
    s = client.session()
    a = s.post("/exec", {"command": "true"}, headers={"X-Request-Id": "mine-123"})
    assert a.headers["X-Request-Id"] == "mine-123"
    assert a.json["request_id"] == "mine-123"
    records = client.get("/v1/audit", request_id="mine-123").lines
    assert [r["kind"] for r in records] == ["intent", "result"]
    assert all(r["action"] == "exec.start" and r["exec"] == a.json["id"] for r in records)


def test_request_ids_are_found_again_in_the_guests_record(server):
    """Also by somebody who has only the cell, and no server."""
    s = server.client().session()
    a = s.post("/exec", {"command": "sleep 300", "background": True}, headers={"X-Request-Id": "mine-456"})
    b = s.post("/exec", {"command": "true"})
    server.kill()
    kept = {c["id"]: c["label"] for c in json.loads(server.cell("--json", "ps", "--all", s.id).stdout)["commands"]}
    server.start()
    assert kept[a.json["id"]] == "mine-456"
    assert kept[b.json["id"]] == b.headers["X-Request-Id"]



@pytest.mark.parametrize("count", [200])
def test_a_thousand_lines_in_small_pieces_arrive_once(client, count):
    s = client.session()
    exec_id = s.background(f"for i in $(seq 1 {count}); do echo $i; echo e$i >&2; done")
    out = {1: "", 2: ""}
    for e in s.follow(exec_id):
        if e["type"] in ("stdout", "stderr"):
            stream = 1 if e["type"] == "stdout" else 2
            assert e["offset"] == len(out[stream])
            out[stream] += e["data"]
    assert out[1] == "".join(f"{i}\n" for i in range(1, count + 1))
    assert out[2] == "".join(f"e{i}\n" for i in range(1, count + 1))
    time.sleep(0)
