# SPDX-License-Identifier: Apache-2.0
"""A model of what clients were promised, held against a live server that is stopped and killed in between.

The model knows sessions (labels, times, files, commands) and keys. STATEFUL_EXAMPLES and STATEFUL_STEPS make it longer (6 and 30).
"""

import os
import tempfile
import time
from pathlib import Path

import hypothesis.strategies as st
from conftest import Server
from hypothesis import HealthCheck, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, precondition, rule

NAMES = st.sampled_from(["a", "b", "c/d", "e f", "ü"])
LABELS = st.dictionaries(st.sampled_from(["team", "user", "x"]), st.text("abc0-é", max_size=6), max_size=3)
TEXTS = st.one_of(st.binary(max_size=200), st.integers(1, 300000).map(lambda n: bytes(i * 7 & 255 for i in range(n % 997)) * (n // 997 + 1)))
KEYS = st.sampled_from([f"key-{i}" for i in range(4)])


class Model:
    def __init__(self, labels, idle_s):
        self.labels, self.idle_s = dict(labels), idle_s
        self.files, self.log, self.execs = {}, [], {}


class Sessions(RuleBasedStateMachine):
    sessions = Bundle("sessions")

    def __init__(self):
        super().__init__()
        self.dir = tempfile.TemporaryDirectory(prefix="stateful.")
        self.server = Server(Path(self.dir.name) / "server")
        self.server.start()
        self.client = self.server.client()
        self.models, self.keyed, self.n = {}, {}, 0

    def teardown(self):
        try:
            self.server.clean_up()
        finally:
            if self.server.process:
                self.server.kill()
            self.dir.cleanup()

    def ask(self, method, path, /, body=None, headers=None, **query):
        """Again while it recovers."""
        for _ in range(200):
            a = self.client.call(method, path, body, headers, **query)
            if a.status != 409 or a.json.get("code") != "busy":
                return a
            time.sleep(0.05)
        return a

    # ---- sessions ----

    @rule(target=sessions, labels=LABELS, idle_s=st.sampled_from([None, 0, 600, 3600]))
    def create(self, labels, idle_s):
        if len(self.models) >= 6:
            return multiple()
        body = {"labels": labels, **({} if idle_s is None else {"idle_timeout": idle_s})}
        a = self.ask("POST", "/v1/sessions", body)
        assert a.status == 201, a
        self.models[a.json["id"]] = Model(labels, 1800 if idle_s is None else idle_s)
        return a.json["id"]

    @rule(target=sessions, key=KEYS, labels=LABELS)
    def create_with_key(self, key, labels):
        if len(self.models) >= 6 and key not in self.keyed:
            return multiple()
        a = self.ask("POST", "/v1/sessions", {"labels": labels}, {"Idempotency-Key": key})
        first = self.keyed.get(key)
        if first and first[1] in self.models:
            if first[0] == labels:
                assert a.status == 201 and a.json["id"] == first[1], (first, a)
            else:
                assert a.status == 409, (first, a)
            return multiple()
        assert a.status == 201, a
        self.keyed[key] = (dict(labels), a.json["id"])
        self.models[a.json["id"]] = Model(labels, 1800)
        return a.json["id"]

    @rule(s=sessions, labels=st.dictionaries(st.sampled_from(["team", "user", "x"]), st.one_of(st.none(), st.text("xyz", max_size=4)), max_size=3),
        idle_s=st.sampled_from([None, 0, 900]))
    def patch(self, s, labels, idle_s):
        a = self.ask("PATCH", f"/v1/sessions/{s}", {"labels": labels, **({} if idle_s is None else {"idle_timeout": idle_s})})
        if s not in self.models:
            assert a.status == 404, a
            return
        m = self.models[s]
        for k, v in labels.items():
            m.labels.pop(k, None)
            if v is not None:
                m.labels[k] = v
        m.idle_s = m.idle_s if idle_s is None else idle_s
        assert a.status == 200 and a.json["labels"] == m.labels and a.json["idle_timeout_s"] == m.idle_s, (a, m.labels, m.idle_s)

    @rule(s=consumes(sessions))
    def delete(self, s):
        a = self.ask("DELETE", f"/v1/sessions/{s}")
        assert a.status == (204 if s in self.models else 404), a
        self.models.pop(s, None)
        assert self.ask("GET", f"/v1/sessions/{s}").status == 404

    @rule(limit=st.integers(1, 4))
    def list_in_pages(self, limit):
        seen, cursor = [], None
        for _ in range(20):
            a = self.ask("GET", "/v1/sessions", limit=limit, **({"cursor": cursor} if cursor else {}))
            assert a.status == 200 and len(a.json["sessions"]) <= limit, a
            seen += [x["id"] for x in a.json["sessions"]]
            cursor = a.json["next"]
            if not cursor:
                break
        assert sorted(seen) == sorted(self.models)

    @rule(label=st.sampled_from(["team", "user", "x"]))
    def list_by_label(self, label):
        a = self.ask("GET", "/v1/sessions", label=label)
        assert {x["id"] for x in a.json["sessions"]} == {i for i, m in self.models.items() if label in m.labels}

    # ---- commands ----

    @rule(s=sessions, key=st.one_of(st.none(), KEYS))
    def append(self, s, key):
        """What it does is seen later: each key once."""
        if s not in self.models:
            return
        m = self.models[s]
        word = key or f"n{self.n}"
        self.n += 1
        a = self.ask("POST", f"/v1/sessions/{s}/exec", {"command": f"echo {word} >> log; echo {word}"}, {"Idempotency-Key": key} if key else None)
        assert a.status == 200 and a.json["stdout"] == word + "\n" and a.json["exit_code"] == 0, a
        if not key or key not in m.log:
            m.log.append(word)

    @rule(s=sessions, n=st.integers(0, 3000), code=st.integers(0, 255))
    def count(self, s, n, code):
        if s not in self.models:
            return
        a = self.ask("POST", f"/v1/sessions/{s}/exec", {"command": f"seq 1 {n}; exit {code}", "background": True})
        assert a.status == 202, a
        self.models[s].execs[a.json["id"]] = ("".join(f"{i}\n" for i in range(1, n + 1)), code)

    @rule(s=sessions, offset=st.integers(0, 5000))
    def follow(self, s, offset):
        if s not in self.models or not self.models[s].execs:
            return
        exec_id, (text, code) = next(reversed(self.models[s].execs.items()))
        a = self.ask("GET", f"/v1/sessions/{s}/execs/{exec_id}/output", None, {"Accept": "application/x-ndjson"}, stdout_offset=offset)
        assert a.status == 200, a
        assert "".join(e["data"] for e in a.lines if e["type"] == "stdout") == text[offset:], a
        assert a.lines[-1]["exit_code"] == code

    # ---- files ----

    @rule(s=sessions, name=NAMES, text=TEXTS)
    def write(self, s, name, text):
        a = self.ask("PUT", f"/v1/sessions/{s}/files", text, path=name, parents="true")
        if s not in self.models:
            assert a.status == 404, a
            return
        assert a.status // 100 == 2, a
        self.models[s].files[name] = text

    @rule(s=sessions, name=NAMES)
    def read(self, s, name):
        a = self.ask("GET", f"/v1/sessions/{s}/files", path=name)
        want = self.models[s].files.get(name) if s in self.models else None
        if want is None:
            assert a.status == 404, a
        else:
            assert a.status == 200 and a.body == want, (len(a.body), len(want), a)

    # ---- the server ----

    @rule()
    def kill(self):
        self.server.restart(is_killed=True)
        self.client.connection = None

    @rule()
    def stop(self):
        self.server.restart(is_killed=False)
        self.client.connection = None

    @precondition(lambda self: self.models)
    @invariant()
    def log_is_as_it_should(self):
        s, m = next(iter(self.models.items()))
        a = self.ask("GET", f"/v1/sessions/{s}")
        assert a.status == 200 and a.json["labels"] == m.labels and a.json["idle_timeout_s"] == m.idle_s, (a, m.labels, m.idle_s)
        if m.log:
            a = self.ask("GET", f"/v1/sessions/{s}/files", path="log")
            assert a.body.decode().split() == m.log, (a, m.log)


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=int(os.environ.get("STATEFUL_EXAMPLES", "6")), deadline=None, database=None,
    stateful_step_count=int(os.environ.get("STATEFUL_STEPS", "30")), suppress_health_check=list(HealthCheck), print_blob=True)
