# SPDX-License-Identifier: Apache-2.0
"""docs/openapi.yaml is what the server does: the same routes, and answers of the shapes it says."""

import re
from pathlib import Path

import yaml
from conftest import TOP

DOCUMENT = yaml.safe_load((TOP / "docs" / "openapi.yaml").read_text())
METHODS = ("get", "put", "post", "patch", "delete")


def documented():
    return {(m.upper(), path) for path, item in DOCUMENT["paths"].items() for m in item if m in METHODS}


def test_the_routes_are_those_of_the_tables():
    text = "".join(p.read_text() for p in sorted((TOP / "src" / "server").glob("api_*.c")))
    tables = set(re.findall(r'^\t\{"([A-Z*]+)", "(/[^"]*)",', text, re.M))
    any_method = {path for method, path in tables if method == "*"}
    tables = {t for t in tables if t[0] != "*"}
    for path in any_method:
        tables |= {(m.upper(), path.replace("/*", "/{path}")) for m in METHODS}
    assert tables == documented()


def test_every_route_says_what_it_is_and_ids_are_unique():
    ids = []
    for path, item in DOCUMENT["paths"].items():
        for method in METHODS:
            if method in item:
                assert item[method]["summary"] and item[method]["tags"] and item[method]["responses"], (method, path)
                ids.append(item[method]["operationId"])
    assert len(ids) == len(set(ids))


def resolve(schema):
    while "$ref" in schema:
        node = DOCUMENT
        for part in schema["$ref"].lstrip("#/").split("/"):
            node = node[part]
        schema = node
    return schema


TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "object": dict, "array": list, "null": type(None)}


def check(value, schema, where="$"):
    """As much of JSON Schema as the document uses."""
    schema = resolve(schema)
    for part in schema.get("allOf", []):
        check(value, part, where)
    kinds = schema.get("type")
    if kinds:
        kinds = kinds if isinstance(kinds, list) else [kinds]
        assert any(isinstance(value, TYPES[k]) and not (k in ("integer", "number") and isinstance(value, bool)) for k in kinds), (where, value, kinds)
    if "enum" in schema:
        assert value in schema["enum"], (where, value)
    if isinstance(value, dict):
        for name in schema.get("required", []):
            assert name in value, (where, name, value)
        for name, sub in schema.get("properties", {}).items():
            if name in value:
                check(value[name], sub, f"{where}.{name}")
        if schema.get("type") == "object" and schema.get("properties") and "allOf" not in schema and schema.get("additionalProperties") is False:
            assert set(value) <= set(schema["properties"]), (where, value)
    if isinstance(value, list) and "items" in schema:
        for i, one in enumerate(value):
            check(one, schema["items"], f"{where}[{i}]")


def answer_schema(operation, status, kind="application/json"):
    for item in DOCUMENT["paths"].values():
        for method in METHODS:
            if item.get(method, {}).get("operationId") == operation:
                responses = item[method]["responses"]
                r = resolve(responses.get(str(status)) or responses["default"])
                return r["content"][kind]["schema"]
    raise KeyError(operation)


def test_answers_have_the_documented_shapes(client):
    a = client.post("/v1/sessions", {"labels": {"a": "b"}})
    check(a.json, answer_schema("createSession", a.status))
    path = f"/v1/sessions/{a.json['id']}"
    check(client.get("/v1/sessions").json, answer_schema("listSessions", 200))
    check(client.get(path).json, answer_schema("getSession", 200))
    check(client.get(path + "/platform").json, answer_schema("platform", 200))
    r = client.post(path + "/exec", {"command": "echo x; echo y >&2"})
    check(r.json, answer_schema("exec", 200))
    for e in client.stream("GET", f"{path}/execs/{r.json['id']}/output"):
        check(e, answer_schema("output", 200, "application/x-ndjson"))
    check(client.get(path + "/execs").json, answer_schema("listExecs", 200))
    check(client.get(f"{path}/execs/{r.json['id']}").json, answer_schema("getExec", 200))
    a = client.call("PUT", path + "/files", b"abc", path="f")
    check(a.json, answer_schema("writeFile", 200))
    check(client.get(path + "/files/stat", path="f").json, answer_schema("stat", 200))
    check(client.get(path + "/files/list").json, answer_schema("listFiles", 200))
    check(client.get(path + "/files/glob", pattern="*").json, answer_schema("glob", 200))
    check(client.get(path + "/files/grep", pattern="b").json, answer_schema("grep", 200))
    check(client.get("/v1/backends").json, answer_schema("backends", 200))
    check(client.get("/v1/capabilities").json, answer_schema("capabilities", 200))
    check(client.get("/v1/usage").json, answer_schema("usage", 200))
    t = client.post("/v1/tokens", {"label": "shape"})
    check(t.json, answer_schema("createToken", 201))
    check(client.get("/v1/tokens").json, answer_schema("listTokens", 200))
    error = client.get("/v1/sessions/none")
    check(error.json, answer_schema("getSession", error.status))
    error = client.get("/nothing/here")
    check(error.json, DOCUMENT["components"]["schemas"]["Error"])
    assert client.call("PUT", "/v1/sessions", b"").status == 405


def test_it_serves_its_own_description(client):
    assert client.get("/openapi.yaml").body == Path(TOP / "docs" / "openapi.yaml").read_bytes()
    page = client.get("/").body.decode()
    for _, path in documented():
        assert f"<code>{path}</code>" in page
