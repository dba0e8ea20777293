# SPDX-License-Identifier: Apache-2.0
"""Who may: tokens, tenants, roles, quotas; and the server that starts for nobody."""

import json
import subprocess

from conftest import CELL


def test_without_a_token_it_refuses_to_start(make_server):
    server = make_server(is_started=False)
    tokens = json.loads(server.cell("--json", "token", "ls").stdout)
    for t in tokens["tokens"]:
        server.cell("token", "revoke", t["id"])
    r = subprocess.run([CELL, "--config", server.config, "serve", "--listen", "127.0.0.1:0"], env=server.env, capture_output=True, text=True, timeout=30)
    assert r.returncode == 125
    assert "refusing to start" in r.stderr and "cell token create" in r.stderr
    server.admin = server.make_token("--role", "admin")


def test_disabled_authentication_stays_on_this_machine(make_server):
    server = make_server("server:\n  auth_disabled: true\n", is_started=False)
    r = subprocess.run([CELL, "--config", server.config, "serve", "--listen", "*:0"], env=server.env, capture_output=True, text=True, timeout=30)
    assert r.returncode == 125 and "auth_disabled" in r.stderr
    server.start()
    client = server.client()
    client.token = None
    assert client.get("/v1/sessions").status == 200
    a = client.call("GET", "/v1/sessions", headers={"Origin": "https://evil.example"})
    assert a.status == 403


def test_tokens_are_asked_for(shared):
    client = shared.client()
    for token in (None, "wrong", "cell_aaaaaaaaaaaa_" + "a" * 52, shared.admin[:-1] + ("a" if shared.admin[-1] != "a" else "b"), shared.admin + "x"):
        client.token = token
        a = client.get("/v1/sessions")
        assert a.status == 401 and a.json["code"] == "denied" and "WWW-Authenticate" in a.headers, a
    for path in ("/healthz", "/readyz", "/openapi.yaml", "/"):
        assert client.get(path).status == 200
    assert client.get("/metrics").status == 401


def test_another_tenants_session_is_not_there(shared):
    a, b = shared.client(shared.make_token("--tenant", "acme")), shared.client(shared.make_token("--tenant", "beta"))
    s = a.session()
    for method, path in (("GET", s.path), ("DELETE", s.path), ("POST", s.path + "/exec"), ("GET", s.path + "/files"), ("GET", s.path + "/execs")):
        r = b.call(method, path, {"command": "id"} if method == "POST" else None)
        assert r.status == 404 and r.json["code"] == "not_found", (method, path, r)
    assert b.get("/v1/sessions").json["sessions"] == []
    assert s.id in [x["id"] for x in shared.client().get("/v1/sessions").json["sessions"]]
    # the same key of two tenants is two keys
    one = a.post("/v1/sessions", {}, headers={"Idempotency-Key": "same"}).json["id"]
    two = b.post("/v1/sessions", {}, headers={"Idempotency-Key": "same"}).json["id"]
    assert one != two
    assert all(r.get("tenant") == "beta" for r in b.get("/v1/audit").lines)
    for c, i in ((a, one), (b, two), (a, s.id)):
        assert c.delete(f"/v1/sessions/{i}").status == 204


def test_roles(shared):
    user, reader = shared.client(shared.make_token("--role", "user")), shared.client(shared.make_token("--role", "read-only"))
    s = user.session()
    assert reader.get(s.path).status == 200
    for method, path in (("DELETE", s.path), ("POST", s.path + "/exec"), ("PUT", s.path + "/files"), ("POST", "/v1/sessions")):
        assert reader.call(method, path, {"command": "id"}).status == 403
    for method, path in (("GET", "/v1/tokens"), ("POST", "/v1/tokens"), ("GET", "/metrics")):
        assert user.call(method, path, {} if method == "POST" else None).status == 403
    s.end()


def test_tokens_are_made_and_revoked_over_the_api(shared):
    admin = shared.client()
    made = admin.post("/v1/tokens", {"tenant": "gamma", "role": "user", "label": "ci"}).json
    c = shared.client(made["token"])
    assert c.get("/v1/sessions").status == 200
    assert made["token"] not in admin.get("/v1/tokens").body.decode()
    assert admin.delete(f"/v1/tokens/{made['id']}").status == 204
    assert c.get("/v1/sessions").status == 401
    assert made["token"] not in shared.log()
    audit = admin.get("/v1/audit", action="token.*").body.decode()
    assert made["id"] in audit or "token.create" in audit
    assert made["token"].split("_")[2] not in audit


def test_quotas_answer_429_with_a_time(make_server):
    server = make_server("server:\n  quotas: {cells: 2, execs_per_minute: 3}\n")
    c = server.client()
    a, b = c.session(), c.session()
    r = c.post("/v1/sessions", {})
    assert r.status == 429 and r.json["code"] == "limit", r
    b.end()
    b = c.session()
    for _ in range(3):
        a.run("true")
    r = a.post("/exec", {"command": "true"})
    assert r.status == 429 and int(r.headers["Retry-After"]) >= 1, r


def test_policy_denies_by_rule_and_says_which(make_server):
    server = make_server("""server:
  policy:
    rules:
      - {name: no-curl, effect: deny, action: "exec.*", command: "curl *", reason: "no downloads"}
      - {name: no-secrets, effect: deny, action: "file.*", path: "**/.env"}
""")
    c = server.client()
    s = c.session()
    r = s.post("/exec", {"command": "curl http://x"})
    assert r.status == 403 and "no-curl" in r.json["message"] and "no downloads" in r.json["message"], r
    assert s.put("d/.env", b"x", parents="true").status == 403
    assert s.run("echo fine")["exit_code"] == 0
    records = c.get("/v1/audit", action="exec.start").lines
    assert records[0]["decision"] == {"effect": "deny", "rule": "no-curl"}
