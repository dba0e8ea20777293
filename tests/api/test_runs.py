# SPDX-License-Identifier: Apache-2.0
"""Runs of code: what they give, as a whole and as a stream; contexts and variables; what becomes of both when the server is killed."""

import base64
import json
import os
import socket
import struct
import threading
import time

import pytest
from test_openapi import answer_schema, check



def run(session, code, **more):
    a = session.post("/runs", {"code": code, **more})
    assert a.status == 200, a
    return a.json


def start(session, code, **more):
    a = session.post("/runs", {"code": code, "background": True, **more})
    assert a.status == 202, a
    return a.json["id"]


def events(session, run_id, **query):
    return session.client.stream("GET", f"{session.path}/runs/{run_id}/events", **query)


@pytest.fixture
def session(client):
    return client.session()


# ---- what a run gives ----


def test_a_value_is_remembered(session):
    assert run(session, "x = 40")["value"] is None
    r = run(session, "x + 2")
    assert r["value"] == "42" and r["ok"] is True and r["state"] == "kept" and r["execution_count"] == 2
    assert r["status"] == "done" and r["context"] == "python" and r["code"] == "x + 2"


def test_the_result_has_its_documented_shape(session):
    r = run(session, "import sys\nprint('out')\nprint('err', file=sys.stderr)\n[1, 2]")
    check(r, answer_schema("run", 200))
    assert (r["stdout"], r["stderr"], r["value"], r["error"]) == ("out\n", "err\n", "[1, 2]", None)
    assert r["results"][-1]["type"] == "result" and r["results"][-1]["data"]["text/plain"] == "[1, 2]"
    assert r["execution_time_ms"] > 0 and r["truncated"] is False


def test_an_error_in_the_code_is_a_result(session):
    r = run(session, "def f():\n    return 1 / 0\nf()")
    assert r["ok"] is False and r["state"] == "kept"
    assert r["error"]["name"] == "ZeroDivisionError" and "division" in r["error"]["message"]
    assert any("line 2" in line for line in r["error"]["traceback"])


def test_what_is_wrong_with_a_request_is_said(session):
    assert session.post("/runs", {}).status == 400
    a = session.post("/runs", {"code": "1", "colour": "red"})
    assert a.status == 400 and "colour" in a.json["message"]
    a = session.post("/runs", {"code": "1", "language": "cobol"})
    assert a.status == 400 and "cobol" in a.json["message"] and "python" in a.json["hint"], a.json
    assert session.get("/runs/none").status == 404
    exec_id = session.run("true")["id"]
    assert session.get(f"/runs/{exec_id}").status == 404
    run_id = run(session, "1")["id"]
    assert session.get(f"/execs/{run_id}").status == 404


def test_output_is_cut_where_asked_and_whole_in_the_events(session):
    r = run(session, "print('x' * 100000)", max_output_bytes=1000)
    assert r["truncated"] is True and len(r["stdout"]) == 1000 and r["stdout_bytes"] == 100001
    whole = "".join(e["data"] for e in events(session, r["id"]) if e["type"] == "stdout")
    assert whole == "x" * 100000 + "\n"


def test_a_deadline_interrupts_and_keeps_the_variables(session):
    run(session, "kept = 7")
    r = run(session, "while True: pass", timeout=0.5)
    assert r["timed_out"] is True and r["state"] == "kept" and r["error"]["name"] == "KeyboardInterrupt"
    assert run(session, "kept")["value"] == "7"


def test_a_crash_is_told_and_the_session_goes_on(session):
    run(session, "gone = 1")
    r = run(session, "import os; os.kill(os.getpid(), 11)")
    assert r["ok"] is False and r["state"] == "lost" and r["signal"] == 11, r
    r = run(session, "'gone' in globals()")
    assert r["value"] == "False" and r["execution_count"] == 1


# ---- streams ----


def test_events_come_while_the_code_runs(session):
    stream = session.client.stream("POST", session.path + "/runs", {"code": "print('first', flush=True)\nline = input('? ')\nprint(line)", "input": True})
    seen = [next(stream)]
    assert seen[0]["type"] == "started" and seen[0]["status"] == "running"
    while seen[-1]["type"] != "input":
        seen.append(next(stream))
    assert any(e.get("data") == "first\n" for e in seen) and seen[-1]["prompt"] == "? "
    run_id = seen[0]["id"]
    assert session.post(f"/runs/{run_id}/input", {"text": "typed"}).status == 204
    rest = list(stream)
    assert any(e.get("data") == "typed\n" for e in rest)
    assert rest[-1]["type"] == "done" and rest[-1]["ok"] is True
    assert session.post(f"/runs/{run_id}/input", {"text": "late"}).status == 409


def test_every_event_has_its_documented_shape(session):
    code = "print(1)\ndisplay({'a': 1})\n2"
    run_id = start(session, code)
    for e in events(session, run_id):
        check(e, answer_schema("runEvents", 200, "application/x-ndjson"))


def test_input_without_anybody_to_answer_is_an_end_of_file(session):
    assert run(session, "input()")["error"]["name"] == "EOFError"
    run_id = start(session, "input()", input=True)
    assert session.post(f"/runs/{run_id}/input", {"eof": True}).status == 204
    a = session.get(f"/runs/{run_id}/result")
    assert a.json["error"]["name"] == "EOFError", a


def test_a_stream_goes_on_from_any_offset(session):
    run_id = start(session, "for i in range(50): print(i, flush=True)\n'end'")
    every = [e for e in events(session, run_id) if e["type"] != "started"]
    assert every[-1]["type"] == "done"
    for i in range(0, len(every) - 1, 7):
        again = [e for e in events(session, run_id, offset=every[i]["next"]) if e["type"] != "started"]
        assert again == every[i + 1:]
    # in the middle of one: that one comes whole
    again = [e for e in events(session, run_id, offset=every[0]["next"] + 3) if e["type"] != "started"]
    assert again == every[1:]


def test_server_sent_events_go_on_by_their_id(session):
    run_id = start(session, "print('a')\nprint('b')\n3")

    def read(**headers):
        connection = session.client.connect()
        connection.request("GET", f"{session.path}/runs/{run_id}/events", headers=session.client.headers({"Accept": "text/event-stream", **headers}))
        text = connection.getresponse().read().decode()
        connection.close()
        return [dict(line.split(": ", 1) for line in block.splitlines() if ": " in line) for block in text.split("\n\n") if "event:" in block]

    first = read()
    assert first[-1]["event"] == "done"
    result = next(e for e in first if e["event"] == "result")
    assert json.loads(result["data"])["data"]["text/plain"] == "3"
    out = next(e for e in first if e["event"] == "stdout")
    again = [e for e in read(**{"Last-Event-ID": out["id"]}) if e["event"] != "started"]
    assert again == first[first.index(out) + 1:]


class Socket:
    """Just enough of a WebSocket client."""

    def __init__(self, server, token, target):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(server.socket)
        key = base64.b64encode(os.urandom(16)).decode()
        self.sock.sendall((f"GET {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                           f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n").encode())
        self.file = self.sock.makefile("rb")
        assert b" 101 " in self.file.readline()
        while self.file.readline() != b"\r\n":
            pass

    def send(self, message):
        data, mask = json.dumps(message).encode(), os.urandom(4)
        assert len(data) < 126
        self.sock.sendall(struct.pack("BB", 0x81, 0x80 | len(data)) + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def __iter__(self):
        return self

    def __next__(self):
        head, n = struct.unpack("BB", self.file.read(2))
        if n == 126:
            n = struct.unpack(">H", self.file.read(2))[0]
        elif n == 127:
            n = struct.unpack(">Q", self.file.read(8))[0]
        data = self.file.read(n)
        if head & 15 == 8:
            raise StopIteration
        return json.loads(data)

    def close(self):
        self.file.close()
        self.sock.close()


def test_a_websocket_gives_events_and_takes_answers(session, shared):
    request = "%7B%22code%22%3A%22print%28input%28%27%3F%20%27%29%29%5Cnimport%20time%5Cntime.sleep%28600%29%22%7D"
    ws = Socket(shared, shared.admin, f"{session.path}/run/ws?request={request}")
    assert next(ws)["type"] == "started"
    assert next(ws)["type"] == "input"
    ws.send({"type": "nonsense"})
    assert next(ws)["type"] == "error"
    ws.send({"type": "input", "text": "hello"})
    assert next(ws)["data"] == "hello\n"
    ws.send({"type": "interrupt"})
    rest = list(ws)
    ws.close()
    assert rest[-1]["type"] == "done" and rest[-1]["interrupted"] is True and rest[-1]["state"] == "kept"
    assert any(e["type"] == "error" and e["name"] == "KeyboardInterrupt" for e in rest)


# ---- interrupts, ids, keys ----


def test_a_run_is_interrupted_and_one_is_killed(session):
    run(session, "kept = 1")
    run_id = start(session, "print('on', flush=True)\nimport time\ntime.sleep(600)")
    stream = events(session, run_id)
    while next(stream).get("data") != "on\n":
        pass
    assert session.post(f"/runs/{run_id}/interrupt").status == 204
    rest = list(stream)
    assert rest[-1]["interrupted"] is True and rest[-1]["state"] == "kept"
    assert run(session, "kept")["value"] == "1"
    run_id = start(session, "print('on', flush=True)\nimport time\ntime.sleep(600)")
    stream = events(session, run_id)
    while next(stream).get("data") != "on\n":
        pass
    assert session.client.delete(f"{session.path}/runs/{run_id}").status == 204
    assert list(stream)[-1]["state"] == "lost"


def test_the_same_key_runs_once(session):
    run(session, "n = 0")
    head = {"Idempotency-Key": "once"}
    first = session.post("/runs", {"code": "n += 1\nn"}, head)
    again = session.post("/runs", {"code": "n += 1\nn"}, head)
    assert first.json["value"] == again.json["value"] == "1" and first.json["id"] == again.json["id"]
    assert again.headers["Idempotency-Replayed"] == "true"
    assert run(session, "n")["value"] == "1"
    assert session.post("/runs", {"code": "n += 2"}, head).status == 409


def test_an_id_of_ones_own_is_used_once(session):
    assert run(session, "1", id="mine")["id"] == "mine"
    assert session.post("/runs", {"code": "2", "id": "mine"}).status == 409
    assert session.get("/runs/mine").json["code"] == "1"
    assert session.get("/runs/mine/result").json["value"] == "1"
    ids = {r["id"] for r in session.get("/runs").json["runs"]}
    assert "mine" in ids and session.get("/execs").json["execs"] == []


# ---- contexts ----


def test_contexts_are_made_listed_and_apart(session):
    a = session.post("/contexts", {"name": "other", "env": {"COLOUR": "blue"}, "preload": ["json"]})
    assert a.status == 201, a
    check(a.json, answer_schema("createContext", 201))
    assert a.headers["Location"].endswith("/contexts/other")
    run(session, "x = 1")
    run(session, "x = 2", context="other")
    assert (run(session, "x")["value"], run(session, "x", context="other")["value"]) == ("1", "2")
    assert run(session, "import os; os.environ['COLOUR']", context="other")["value"] == "'blue'"
    assert run(session, "'json' in __import__('sys').modules", context="other")["value"] == "True"
    page = session.get("/contexts").json
    check(page, answer_schema("listContexts", 200))
    assert {c["name"] for c in page["contexts"]} == {"python", "other"}
    one = session.get("/contexts/other").json
    assert one["language"] == "python" and one["execution_count"] >= 3
    assert session.post("/contexts", {"name": "other"}).status == 409
    assert session.client.delete(f"{session.path}/contexts/other").status == 204
    assert session.get("/contexts/other").status == 404


def test_two_contexts_work_side_by_side(session):
    session.post("/contexts", {"name": "second"})
    first = start(session, "print('on', flush=True)\nimport time\ntime.sleep(600)")
    assert run(session, "6 * 7", context="second")["value"] == "42"
    assert session.get(f"/runs/{first}").json["status"] == "running"
    assert session.post("/contexts/python/interrupt").status == 204
    assert session.get(f"/runs/{first}/result").json["interrupted"] is True


def test_variables_are_listed_fetched_and_set(session):
    run(session, "a = 1\nb = 'two'\nc = [1, 2, 3]")
    page = session.get("/contexts/python/variables").json
    check(page, answer_schema("listVariables", 200))
    assert {v["name"]: v["type"] for v in page["variables"]} == {"a": "int", "b": "str", "c": "list"}
    v = session.get("/contexts/python/variables/c").json
    check(v, answer_schema("getVariable", 200))
    assert v["value"] == [1, 2, 3]
    a = session.client.call("PUT", f"{session.path}/contexts/python/variables/c", {"value": {"k": None}})
    assert a.status == 204, a
    assert run(session, "c")["value"] == "{'k': None}"
    assert session.get("/contexts/python/variables/none").status == 404
    a = session.post("/contexts/python/complete", {"code": "import o"})
    check(a.json, answer_schema("complete", 200))
    assert "os" in a.json["matches"]
    assert session.post("/contexts/python/reset").status == 204
    assert session.get("/contexts/python/variables").json["variables"] == []


# ---- policy, audit, ephemeral sessions ----


def test_policy_knows_languages(make_server):
    server = make_server("server:\n  policy:\n    rules:\n"
                         "      - {name: no-shell, effect: deny, action: [code.run, context.create], language: shell, reason: 'no shells'}\n")
    s = server.client().session()
    a = s.post("/runs", {"code": "echo hi", "language": "bash"})
    assert a.status == 403 and "no-shell" in a.json["message"], a
    assert s.post("/contexts", {"language": "shell"}).status == 403
    assert run(s, "1 + 1")["value"] == "2"


def test_intent_and_result_are_on_record(session):
    r = run(session, "6 * 7")
    records = session.client.get("/v1/audit", session=session.id, limit=100).lines
    mine = [x for x in records if x.get("exec") == r["id"]]
    assert {x["kind"] for x in mine} == {"intent", "result"}
    intent = next(x for x in mine if x["kind"] == "intent")
    assert intent["action"] == "code.run" and intent["details"]["code"] == "6 * 7" and intent["details"]["language"] == "python"
    usage = session.client.get("/v1/usage", by="operation", session=session.id).json
    assert any("code.run" in json.dumps(u) for u in usage["usage"]), usage


def test_an_ephemeral_session_has_a_cell_for_each_run(client):
    s = client.session(lifecycle="ephemeral")
    assert run(s, "x = 1\nx")["value"] == "1"
    assert run(s, "x")["error"]["name"] == "NameError"
    assert s.get("/contexts").status in (400, 409, 422, 501)


# ---- a server that dies ----


def test_variables_outlive_a_killed_server(server):
    s = server.client().session()
    run(s, "x = 40")
    server.restart(is_killed=True)
    s.client.connection = None
    assert run(s, "x + 2")["value"] == "42"


def test_a_run_goes_on_without_a_server_and_nothing_is_lost(server):
    s = server.client().session()
    code = "import time\nfor i in range(200):\n    print(i, flush=True)\n    time.sleep(0.01)\ndisplay('shown')\n'value'"
    run_id = start(s, code)
    seen, offset = [], 0
    for _ in range(3):
        stream = events(s, run_id, offset=offset)
        for e in stream:
            if "next" in e and e["type"] != "started":
                seen.append(e)
                offset = e["next"]
            if len(seen) % 37 == 36 or e["type"] == "done":
                break
        stream.close()
        server.restart(is_killed=True)
        s.client.connection = None
    seen += [e for e in events(s, run_id, offset=offset) if e["type"] not in ("started", "done")]
    text = "".join(e["data"] for e in seen if e["type"] == "stdout")
    assert [int(n) for n in text.split()] == list(range(200))
    assert [e["type"] for e in seen if e["type"] not in ("stdout", "done")] == ["display", "result"]
    r = s.get(f"/runs/{run_id}/result").json
    assert r["value"] == "'value'" and r["ok"] is True and r["execution_count"] == 1


def test_a_run_that_ends_while_no_server_is_there_has_its_result(server):
    s = server.client().session()
    run_id = start(s, "import pathlib, time\ntime.sleep(0.3)\npathlib.Path('ended').write_text('x')\n'late'")
    server.kill()
    server.start()
    s.client.connection = None
    r = s.get(f"/runs/{run_id}/result").json
    assert r["value"] == "'late'" and r["state"] == "kept"


def test_big_results_survive_a_kill_between_their_pieces(server):
    """Events of several records, and a reader that comes after the server was killed while they were written."""
    s = server.client().session()
    run_id = start(s, "for i in range(20):\n    display({'text/plain': str(i) + 'x' * 300000}, raw=True)\n1")
    threading.Event().wait(0.05)
    server.restart(is_killed=True)
    s.client.connection = None
    shown = [e for e in events(s, run_id) if e["type"] == "display"]
    assert [e["data"]["text/plain"] for e in shown] == [str(i) + "x" * 300000 for i in range(20)]


def test_what_is_no_longer_kept_is_a_gap_and_the_rest_is_whole(make_server):
    server = make_server("server: {spool: {bytes: 524288}}\n")
    s = server.client().session()
    run_id = start(s, "for i in range(40000): print(i, 'x' * 60)\n'end'")
    assert s.get(f"/runs/{run_id}/result").json["truncated"] is True
    every = [e for e in events(s, run_id) if e["type"] != "started"]
    assert every[0]["type"] == "gap"
    assert every[-2]["type"] == "result" and every[-1]["type"] == "done"
    lines = "".join(e["data"] for e in every if e["type"] == "stdout").splitlines()
    assert lines[-1] == "39999 " + "x" * 60 and len(lines) < 40000


# ---- made ahead ----


def interpreters_of(pid):
    """Pythons among the descendants of a process."""
    found, below = [], {pid}
    children = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as f:
                children.setdefault(int(f.read().rpartition(b")")[2].split()[1]), []).append(int(name))
        except OSError:
            continue
    while below:
        here = below.pop()
        below.update(children.get(here, []))
        try:
            with open(f"/proc/{here}/comm") as f:
                found += [here] if f.read().startswith("python3") else []
        except OSError:
            continue
    return found


def test_interpreters_wait_on_the_shelf_and_sessions_get_them(make_server):
    if os.geteuid() != 0:
        pytest.skip("sees the processes of its cells as root only")
    server = make_server("kernels: {warm: [python], preload: [colorsys]}\nserver: {shelf: 1}\n")
    end = time.monotonic() + 60
    while not interpreters_of(server.process.pid):
        assert time.monotonic() < end, f"no interpreter waits: {server.log()}"
        time.sleep(0.05)
    session = server.client().session()
    assert run(session, "import sys; 'colorsys' in sys.modules")["value"] == "True"
    other = server.client().session(kernels={"warm": []})
    assert run(other, "import sys; 'colorsys' in sys.modules")["value"] == "False"


# ---- who may, and what is written down ----


def test_a_context_hides_no_language_from_the_rules(make_server):
    server = make_server("""server:
  policy:
    rules:
      - {name: no-shell, effect: deny, action: code.run, language: shell}
      - {name: no-curl, effect: deny, command: "curl *"}
""")
    s = server.client().session()
    assert s.post("/contexts", {"name": "mine", "language": "shell"}).status == 201
    assert s.post("/contexts", {"name": "calm", "language": "python"}).status == 201
    for more in ({}, {"language": "shell"}):
        a = s.post("/runs", {"code": "echo out", "context": "mine", **more})
        assert a.status == 403 and "no-shell" in a.json["message"], a
    a = s.post("/runs", {"code": "echo out", "context": "mine", "language": "python"})
    assert a.status == 400 and "is shell" in a.json["message"], a
    assert s.post("/runs", {"code": "1", "context": "calm"}).status == 403, "it could be any language"
    assert run(s, "1 + 1", context="calm", language="python")["value"] == "2"


def test_rules_about_commands_see_shell_code_of_a_named_context(make_server):
    server = make_server("server: {policy: {rules: [{name: no-curl, effect: deny, command: 'curl *'}]}}\n")
    s = server.client().session()
    assert s.post("/contexts", {"name": "mine", "language": "shell"}).status == 201
    a = s.post("/runs", {"code": "curl http://x", "context": "mine"})
    assert a.status == 403 and "no-curl" in a.json["message"], a
    assert run(s, "echo fine", context="mine")["stdout"] == "fine\n"


def test_the_request_id_of_a_run_is_in_the_guests_record(server):
    s = server.client().session()
    a = s.post("/runs", {"code": "1"}, headers={"X-Request-Id": "mine-789"})
    server.kill()
    kept = {c["id"]: c["label"] for c in json.loads(server.cell("--json", "ps", "--all", s.id).stdout)["commands"]}
    server.start()
    assert kept[a.json["id"]] == "mine-789"
