# SPDX-License-Identifier: Apache-2.0
"""cell token, cell audit, cell usage: what works without a server that runs."""

import fcntl
import json
import re
import signal
import sqlite3
import stat
import subprocess

import pytest

TOKEN = re.compile(r"cell_[a-z2-7]{12}_[a-z2-7]{52}")


def log_of(cell):
    return cell.state / "server" / "audit"


def files_of(cell):
    return sorted(log_of(cell).glob("audit-*.jsonl"))


@pytest.fixture
def log(cell):
    """A log of a few records."""
    for i in range(3):
        cell.ok("token", "create", "--tenant", f"t{i}", "--label", f"number {i}")
    return files_of(cell)[0]


def test_a_token_is_printed_once_and_kept_nowhere(cell):
    r = cell.ok("token", "create", "--tenant", "acme", "--label", "ci", "--expires", "90d")
    token = r.text.strip()
    assert TOKEN.fullmatch(token)
    assert "only time" in r.errors
    secret = token.rpartition("_")[2]
    for path in (cell.state / "server").rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    listed = cell.ok("token", "ls", "--json").json["tokens"]
    assert [(t["tenant"], t["role"], t["label"], t["state"]) for t in listed] == [("acme", "user", "ci", "valid")]
    assert listed[0]["id"] == token.split("_")[1]
    assert listed[0]["expires"] > listed[0]["created"]


def test_a_revoked_token_is_shown_only_with_all(cell):
    made = cell.ok("token", "create", "--role", "admin", "--json").json
    assert TOKEN.fullmatch(made["token"]) and made["role"] == "admin"
    assert cell.ok("token", "revoke", made["token"], "--json").json == {"revoked": [made["id"]]}
    assert cell.ok("token", "ls", "-q").text == ""
    assert cell.ok("token", "ls", "-a", "-q").text == made["id"] + "\n"
    assert "revoked" in cell.ok("token", "ls", "--all").text
    cell.fails("token", "revoke", "nosuchtoken0", says=["nosuchtoken0", "cell token ls"])


@pytest.mark.parametrize("args, says", [
    (["--role", "god"], ["god", "read-only"]),
    (["--tenant", "A B"], ["A B"]),
    (["--expires", "yesterday"], ["yesterday"]),
    (["--expires", "2001-01-01"], ["expired already"]),
    (["--label", "a\nb"], ["control character"]),
    (["word"], ["cell token create"]),
])
def test_what_cannot_be_a_token_is_refused(cell, args, says):
    cell.fails("token", "create", *args, says=says)


def test_before_anything_is_there_the_verbs_say_what_to_do(cell):
    for verb in (["token", "ls"], ["usage"], ["audit", "verify"], ["audit", "tail"]):
        cell.fails(*verb, says=["cell"])


def test_every_call_is_recorded_before_and_after(cell, log):
    records = cell.ok("audit", "query", "--json").json["records"]
    assert [(r["kind"], r["action"]) for r in records] == [("intent", "token.create"), ("result", "token.create")] * 3
    assert [r["seq"] for r in records] == list(range(1, 7))
    assert records[1]["outcome"] == {"code": "ok"}
    assert records[0]["actor"].startswith("uid:")
    assert len(cell.ok("audit", "query", "--tenant", "t1", "--json").json["records"]) == 2
    assert cell.ok("audit", "query", "--action", "session.*", "--json").json["records"] == []
    assert len(cell.ok("audit", "query", "--since", "1h", "--json").json["records"]) == 6
    assert len(cell.ok("audit", "query", "--until", "1h", "--json").json["records"]) == 0
    assert "token.create tenant=t0" in cell.ok("audit", "query", "--limit", "1").text
    assert cell.ok("audit", "tail", "-n", "2").text.count("\n") == 2
    cell.fails("audit", "query", "--since", "soon", says=["soon", "15m"])


def test_a_failed_call_is_recorded_too(cell):
    cell.ok("token", "create")
    cell.fails("token", "revoke", "nosuchtoken0")
    last = cell.ok("audit", "query", "--action", "token.revoke", "--json").json["records"]
    assert last[-1]["outcome"] == {"code": "not_found"}


def test_verify_passes_and_then_names_the_record_that_was_changed(cell, log):
    assert cell.ok("audit", "verify").text == "ok: 6 records in 1 files, 1 to 6\n"
    assert cell.ok("audit", "verify", "--json").json["valid"] is True
    text = bytearray(log.read_bytes())
    third = text.index(b'{"seq":3,')
    at = text.index(b"t1", third)
    text[at + 1] ^= 1
    log.write_bytes(text)
    r = cell("audit", "verify")
    assert (r.code, r.text) == (1, f"{log.name}:3: record 3: the record was changed: its hash is not that of its bytes\n")
    problem = cell("audit", "verify", "--json").json["problem"]
    assert (problem["file"], problem["line"], problem["seq"]) == (log.name, 3, 3)


def test_cutting_off_the_end_is_found(cell, log):
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-2]))
    r = cell("audit", "verify")
    assert r.code == 1 and "record 5: records 5 to 6 are missing at the end" in r.text
    # Without the key that cannot be seen, and it says so.
    assert "not checked" in cell.ok("audit", "verify", "--no-key").text
    # Writing on does not make it good.
    cell.ok("token", "create")
    assert cell("audit", "verify").code == 1
    assert "1 gaps allowed" in cell.ok("audit", "verify", "--allow-gaps").text


def test_a_copy_is_verified_with_its_key(cell, log):
    copy = cell.dir / "copy"
    copy.mkdir()
    for path in log_of(cell).iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    key = cell.state / "server" / "audit.key"
    cell.ok("audit", "verify", "--dir", copy, "--key", key)
    cell.fails("audit", "verify", "--dir", copy, says=["--key"])
    other = cell.dir / "other.key"
    other.write_text("ab" * 32)
    assert cell("audit", "verify", "--dir", copy, "--key", other).code == 1


def test_export_gives_the_lines_or_ocsf(cell, log):
    assert cell.ok("audit", "export").out == log.read_bytes()
    out = cell.dir / "events.jsonl"
    cell.ok("audit", "export", "--format", "ocsf", "--output", out, "--after", "4")
    events = [json.loads(line) for line in out.read_text().splitlines()]
    assert [e["class_uid"] for e in events] == [6003, 6003]
    for e in events:
        assert e["type_uid"] == e["class_uid"] * 100 + e["activity_id"] and e["activity_id"] == 1
        assert e["category_uid"] == 6 and e["severity_id"] == 1 and e["metadata"]["version"] == "1.3.0"
        assert e["api"]["operation"] == "token.create" and e["actor"]["user"]["uid"].startswith("uid:")
    cell.fails("audit", "export", "--format", "xml", says=["xml", "ocsf"])


def test_tail_follows_what_is_added(cell, log):
    child = cell.popen("audit", "tail", "-f", "-n", "1", "--json")
    assert json.loads(child.stdout.readline())["seq"] == 6
    cell.ok("token", "create", "--tenant", "late")
    assert json.loads(child.stdout.readline())["tenant"] == "late"
    child.send_signal(signal.SIGINT)
    assert child.wait(20) == 128 + signal.SIGINT


def test_what_a_running_writer_left_to_us_is_written_later(cell, log):
    with open(log_of(cell) / "lock", "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cell.ok("token", "create", "--tenant", "waiting")
        assert cell.ok("audit", "query", "--tenant", "waiting", "--json").json["records"] == []
    cell.ok("token", "create")
    records = cell.ok("audit", "query", "--tenant", "waiting", "--json").json["records"]
    assert [r["kind"] for r in records] == ["intent", "result"]
    assert records[0]["details"]["happened"] < records[0]["time"]
    cell.ok("audit", "verify")


def test_secrets_and_patterns_are_not_written_down(cell):
    cell.put("cell.yaml", "server: {audit: {redact: ['ACME-[0-9]+']}}\n")
    cell.ok("token", "create", "--label", "for ACME-77 with password=hunter2")
    text = b"".join(p.read_bytes() for p in files_of(cell))
    assert b"hunter2" not in text and b"ACME-77" not in text and b"for *** with" in text


def test_the_log_may_stand_elsewhere(cell):
    cell.put("cell.yaml", "server: {audit: {dir: ./log, key: ./log.key}}\n")
    cell.ok("token", "create")
    assert list((cell.workspace / "log").glob("audit-*.jsonl")) and (cell.workspace / "log.key").exists()
    cell.ok("audit", "verify")


def test_two_at_once_make_one_chain(cell):
    children = [cell.popen("token", "create", "--tenant", f"t{i}") for i in range(8)]
    for child in children:
        assert child.wait(60) == 0, child.stderr.read()
    cell.ok("token", "ls")
    cell.ok("token", "create")
    assert len(cell.ok("audit", "query", "--json").json["records"]) == 18
    cell.ok("audit", "verify")


def test_killing_it_anywhere_leaves_a_log_that_verifies(cell):
    cell.ok("token", "create")
    for i in range(12):
        child = cell.popen("token", "create")
        try:
            child.wait(0.002 * i)
        except subprocess.TimeoutExpired:
            child.kill()
        child.wait()
    cell.ok("token", "create")
    cell.ok("audit", "verify")


def test_usage_adds_up_and_prices(cell):
    cell.ok("token", "create")
    assert cell.ok("usage", "--json").json["usage"] == []
    with sqlite3.connect(cell.state / "server" / "server.db") as db:
        db.execute("CREATE TABLE usage (hour, tenant, session, backend, operation, count, errors, sessions, wall_us, cpu_us,"
            " mib_ms, bytes_in, bytes_out, latency)")
        rows = [(10, "acme", "s1", "jail", "exec", 4, 1, 0, 400, 3000000, 2048000, 5, 1 << 30, b""),
            (11, "acme", "s2", "local", "exec", 1, 0, 1, 100, 1000000, 0, 0, 0, b""),
            (12, "beta", "s3", "jail", "file.read", 2, 0, 0, 10, 0, 0, 7, 9, b"")]
        db.executemany("INSERT INTO usage VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)", rows)
    cell.put("cell.yaml", "server:\n  currency: EUR\n  prices:\n    jail: {cpu_second: 0.1, gib_second: 0.01, gib_egress: 2}\n"
        "    '*': {session: 5}\n")
    by = {u["tenant"]: u for u in cell.ok("usage", "--json").json["usage"]}
    assert by["acme"]["count"] == 5 and by["acme"]["errors"] == 1 and by["acme"]["cpu_seconds"] == 4.0
    assert by["acme"]["gib_seconds"] == 2.0
    assert by["acme"]["cost"] == "7.32"  # 3 * 0.1 + 2 * 0.01 + 1 * 2, and 5 for the session
    assert [u["session"] for u in cell.ok("usage", "--by", "session", "--json").json["usage"]] == ["s1", "s2", "s3"]
    assert [u["operation"] for u in cell.ok("usage", "--by", "operation", "--tenant", "beta", "--json").json["usage"]] == ["file.read"]
    assert cell.ok("usage", "--by", "all", "--since", "1970-01-01T11:30:00Z", "--json").json["usage"][0]["count"] == 3
    assert "7.32 EUR" in cell.ok("usage").text
    cell.fails("usage", "--by", "planet", says=["planet", "operation"])


def test_a_damaged_database_says_what_to_do(cell):
    cell.ok("token", "create")
    path = cell.state / "server" / "server.db"
    path.write_bytes(b"x" * 100000)
    cell.fails("token", "ls", says=["damaged", "recover"])
