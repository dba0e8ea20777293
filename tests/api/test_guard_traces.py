# SPDX-License-Identifier: Apache-2.0
"""What the server tells and asks others: the external guard, traces, metrics, usage, its log."""

import http.server
import json
import threading
import time

import pytest


class Listener:
    """A real HTTP server on loopback that records what it is sent and answers as told."""

    def __init__(self):
        self.requests, self.answer, self.delay_s = [], (200, {}), 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                outer.requests.append((self.path, dict(self.headers), json.loads(body)))
                time.sleep(outer.delay_s)
                status, reply = outer.answer(outer.requests[-1][2]) if callable(outer.answer) else outer.answer
                data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def listener():
    one = Listener()
    yield one
    one.close()


def guard_config(url, on="all"):
    return f"server:\n  guard: {{url: \"{url}/decide\", timeout: 1s, token: s3cret, on: {on}}}\n"


def test_the_guard_decides_and_is_told_everything(listener, make_server):
    listener.answer = lambda q: (200, {"decision": "deny", "reason": "not today"} if "rm -rf" in json.dumps(q) else {"decision": "allow"})
    server = make_server(guard_config(listener.url))
    s = server.client().session()
    assert s.run("echo ok")["stdout"] == "ok\n"
    a = s.post("/exec", {"command": "rm -rf /"})
    assert a.status == 403 and "not today" in a.json["message"], a
    path, headers, body = listener.requests[-1]
    assert path == "/decide" and headers["Authorization"] == "Bearer s3cret"
    assert body["action"] == "exec.start" and body["session"] == s.id and "rm -rf /" in json.dumps(body)
    records = server.client().get("/v1/audit", session=s.id, action="exec.start").lines
    assert records[-1]["decision"]["rule"] == "guard"
    listener.answer = (200, {"decision": "allow"})


@pytest.mark.parametrize("answer, delay", [((500, {}), 0), ((200, b"nonsense"), 0), ((200, {"decision": "maybe"}), 0), ((302, {}), 0), ((200, {"decision": "allow"}), 3)])
def test_a_guard_that_does_not_say_yes_means_no(listener, make_server, answer, delay):
    listener.answer = (200, {"decision": "allow"})
    server = make_server(guard_config(listener.url))
    s = server.client().session()
    listener.answer, listener.delay_s = answer, delay
    assert s.post("/exec", {"command": "true"}).status == 403
    listener.answer, listener.delay_s = (200, {"decision": "allow"}), 0
    assert s.run("true")["exit_code"] == 0


def test_a_guard_that_is_not_there_means_no(make_server):
    server = make_server(guard_config("http://127.0.0.1:9"))
    a = server.client().post("/v1/sessions", {})
    assert a.status == 403 and "guard" in a.json["message"], a
    # or the session of the clean-up could not be ended
    assert server.client().get("/v1/sessions").json["sessions"] == []


def test_spans_are_exported_within_the_callers_trace(listener, make_server):
    server = make_server(f"server:\n  tracing: {{endpoint: \"{listener.url}/v1/traces\", service: test-cell}}\n")
    client = server.client()
    s = client.session()
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    a = s.post("/exec", {"command": "true"}, headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
    assert a.headers["traceparent"].split("-")[1] == trace
    found = None
    for _ in range(500):
        spans = [span for _, _, body in listener.requests for r in body["resourceSpans"] for sc in r["scopeSpans"] for span in sc["spans"]]
        found = next((x for x in spans if x["traceId"] == trace), None)
        if found:
            break
        time.sleep(0.02)
    assert found, listener.requests
    by_name = {}
    for _ in range(500):
        by_name = {x["name"]: x for _, _, body in listener.requests for r in body["resourceSpans"] for sc in r["scopeSpans"] for x in sc["spans"]
                   if x["traceId"] == trace}
        if len(by_name) >= 2:
            break
        time.sleep(0.02)
    request = next(x for n, x in by_name.items() if n.startswith("POST "))
    assert request["parentSpanId"] == "00f067aa0ba902b7"
    assert by_name["exec"]["parentSpanId"] == request["spanId"]
    assert a.headers["X-Request-Id"] in server.log()
    assert client.get("/v1/audit", exec=a.json["id"]).lines[0]["trace"] == trace


def test_metrics_and_usage_agree_with_what_was_done(server):
    client = server.client()
    s = client.session()
    for _ in range(5):
        s.run("python3 -c 'sum(range(2000000))'")
    text = client.get("/metrics").body.decode()
    assert 'cell_sessions{state="ready"} 1' in text
    line = next(x for x in text.splitlines() if x.startswith("cell_http_requests_total") and "/exec\"" in x)
    assert line.endswith(" 5"), line
    usage = {u["name"]: u for u in client.get("/v1/usage", by="operation").json["usage"]}
    assert usage["exec.start"]["operations"] == 5 and usage["exec.start"]["cpu_seconds"] > 0.05
    assert client.get("/v1/usage", by="session").json["usage"][0]["name"] == s.id


def test_usage_is_exact_across_a_kill(server):
    s = server.client().session()
    for _ in range(4):
        s.run("true")
    server.restart(is_killed=True)
    s.client.connection = None
    s.run("true")
    usage = {u["name"]: u for u in server.client().get("/v1/usage", by="operation").json["usage"]}
    assert usage["exec.start"]["operations"] == 5


def test_secrets_are_nowhere_on_disk(server):
    s = server.client().session(env={"API_KEY": "hunter2-in-env"})
    s.run("true", env={"DB_PASSWORD": "hunter2-in-exec"})
    s.run("echo --password=hunter2-in-line")
    log = server.log()
    audit = "".join(p.read_text() for p in (server.state / "server" / "audit").glob("*.jsonl"))
    for secret in ("hunter2-in-env", "hunter2-in-exec", "hunter2-in-line"):
        assert secret not in log
        assert secret not in audit, audit
    assert server.admin.split("_")[2] not in audit + log


def test_the_audit_log_verifies_and_a_changed_byte_is_named(server):
    s = server.client().session()
    for i in range(20):
        s.run(f"echo {i}")
    server.restart(is_killed=True)
    r = server.cell("audit", "verify")
    assert r.stdout.startswith("ok:"), r
    path = next((server.state / "server" / "audit").glob("*.jsonl"))
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    middle = len(lines) // 2
    at = sum(len(x) for x in lines[:middle]) + lines[middle].index(b'"action":"') + 10
    server.kill()
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
    r = server.cell("audit", "verify", check=False)
    assert r.returncode != 0 and str(middle + 1) in r.stdout + r.stderr, r
    path.write_bytes(data)
    server.start()
