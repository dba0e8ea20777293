# SPDX-License-Identifier: Apache-2.0
"""The SQL kernel of a cell without Python, by itself: bash and the sqlite3 program. What it shares with the other one is the same."""

import base64
import os
import shutil
import sqlite3

import pytest

from languages import Starter, interrupt_at_display, wait_for
from test_sql import DATA, FOREVER, rows

pytestmark = pytest.mark.skipif(not shutil.which("sqlite3"), reason="the sqlite3 program is not installed")


@pytest.fixture
def start(tmp_path):
    """With a PATH in which there is no Python."""
    tools, temporary, work = (tmp_path / n for n in ("tools", "tmp", "work"))
    for d in (tools, temporary, work):
        d.mkdir()
    for name in ("sqlite3", "sh", "head", "cat", "wc", "rm", "mktemp"):
        (tools / name).symlink_to(shutil.which(name))
    starter = Starter("sqlite", work)
    yield lambda **how: starter(env={"PATH": str(tools), "TMPDIR": str(temporary)}, **how)
    starter.close()


@pytest.fixture
def d(start):
    return start()


def test_says_what_it_is(d):
    assert (d.ready["language"], d.ready["engine"]) == ("sql", "sqlite") and d.ready["version"][:2] == "3."


def test_a_table_is_what_it_is_with_python(d, tmp_path):
    code = """create table t(id integer primary key, name text, x real, b blob);
        insert into t values (1, 'Ada', 1.5, x'0102'), (22, null, null, null), (-3, 'it''s "<b>"', 0.1, x'00ff10'), (4, 'a' || char(10) || 'é;', 1e300, x'');
        select * from t order by abs(id)"""
    codes = [
        code,
        "select 1 as a, 2 as a, 3 as a_2, 4 as \"q;\"\"<\"",
        "select 0.1 + 0.2 as x, 9007199254740993 as y, -1.0 as z, 1e22 as w, 'Inf' as v, '' as u",
        "select id, name from t where 0",
        "values (1, 'x'), ('y', 2.5)",
        "with c(n) as (select 5) select n from c",
        "insert into t(name) values ('r') returning name, null as nothing",
        "with recursive c(x) as (select 1 union all select x + 1 from c limit 2500) select x, x * 0.5 as y, 'n' || x as z from c",
    ]
    starter = Starter("sql", tmp_path)
    try:
        other = starter()
        for code in codes:
            assert d.run(code).data == other.run(code).data, code
    finally:
        starter.close()


def test_infinity_and_blobs(d):
    blob = bytes(range(256)) * 40
    r = d.run(f"select 9e999 as a, -9e999 as b, 'Inf' as c, x'{blob.hex()}' as d")
    assert r.status == "ok", r
    row = r.data[DATA]["data"][0]
    assert (row["a"], row["b"], row["c"]) == ("inf", "-inf", "Inf") and base64.b64decode(row["d"]) == blob


def test_nothing_found_has_a_head(d):
    r = d.run("create table t(one, two); select two, one from t")
    assert r.value == "two | one\n----+----\n(0 rows)" and r.data[DATA]["data"] == []
    assert [v["name"] for v in d.ask("vars")] == ["t"]


def test_the_last_table_is_the_result(d):
    r = d.run("select 1 as a; select 2 as b; create table z(q)")
    assert [v["data"][DATA]["data"] for v in r.displays] == [[{"a": 1}]]
    assert rows(r) == [[2]]
    assert d.run("create table y(q)").value is None
    assert d.run("").status == "ok" and d.run(" -- nothing\n/* at all */ ;;").status == "ok"


def test_statements_are_told_apart(d):
    d.run("create table t(a); create table log(m);\ncreate trigger tr after insert on t begin insert into log values ('x;');\n insert into log values (new.a); end;")
    r = d.run("insert into t values ('a;b') -- c;\n; /* ;\n' */ insert into t values (\"q;\");insert into t values ('two\n.lines;')")
    assert r.status == "ok", r
    assert rows(d.run("select m from log")) == [["x;"], ["a;b"], ["x;"], ["q;"], ["x;"], ["two\n.lines;"]]


def test_long_lines(d):
    many = [f"({n}, 'it''s; -- /* {n}')" for n in range(3000)]
    assert d.run("create table t(a, b); insert into t values " + ", /* ; */ ".join(many) + "; -- and ' so on" + "-" * 5000).status == "ok"
    assert rows(d.run("select count(*), sum(a), max(length(b)) from t")) == [[3000, 4498500, 16]]
    for n in range(2040, 2052):
        assert rows(d.run("select " + " " * (n - 7) + "/* ' */ 1 -- '")) == [[1]]
        assert rows(d.run("select" + " " * (n - 6) + "1--;'\n+ 1 as x")) == [[2]]


def test_many_rows_are_counted_and_cut(d):
    r = d.run("with recursive c(x) as (select 1 union all select x + 1 from c limit 25000) select x from c")
    assert r.data[DATA]["total"] == 25000 and r.data[DATA]["truncated"] and len(r.data[DATA]["data"]) == 10000
    assert r.value.splitlines()[-1] == "(25000 rows, the first 50 shown)"
    r = d.run("with recursive c(x) as (select 1 union all select x + 1 from c limit 100) select hex(zeroblob(500000)) as h from c")
    assert r.status == "ok" and r.data[DATA]["truncated"] and "more than" in r.value
    assert {row["h"] for row in r.data[DATA]["data"]} == {"0" * 1000000}


@pytest.mark.parametrize("code, name, line, says", [
    ("select 1;\nselect * form t", "OperationalError", 2, 'near "form": syntax error'),
    ("\n\nselect nope from (select 1)", "OperationalError", 3, "no such column: nope"),
    ("select * from missing", "OperationalError", 1, "no such table: missing"),
    ("create table u(x unique); insert into u values (1);\ninsert into u values (1)", "IntegrityError", 2, "UNIQUE constraint failed: u.x"),
    ("select", "OperationalError", 1, "incomplete input"),
    ("select 'open; select 2", "OperationalError", 1, "unrecognized token"),
    ("create table t(a); create trigger x after insert on t begin select 1;", "OperationalError", 1, "incomplete input"),
    (".shell touch x", "OperationalError", 1, "syntax error"),
    ("-- so\n.shell touch x", "OperationalError", 2, "syntax error"),
    ("#", "OperationalError", 1, ""),
])  # fmt: skip
def test_errors(d, code, name, line, says):
    r = d.run(code)
    assert r.status == "error" and r.error["name"] == name and says in r.error["message"]
    assert r.error["line"] == line and r.error["traceback"][-1].startswith(name)
    assert rows(d.run("select 1")) == [[1]]


def test_what_was_done_before_an_error_stays(d):
    d.run("create table t(a); insert into t values (1); insert into nope values (2); insert into t values (3)")
    assert rows(d.run("select * from t")) == [[1]]


def test_transactions_and_temporary_tables_stay(d):
    d.run("create table t(a); create temp table u(b); insert into u values (4)")
    d.run("begin; insert into t values (1)")
    assert rows(d.run("select count(*), (select b from u) from t")) == [[1, 4]]
    d.run("rollback")
    assert rows(d.run("select count(*) from t")) == [[0]]


def test_a_database_in_the_workspace(start, tmp_path):
    start(begin="database=my%20data.db").run("create table t(a); insert into t values (5)")
    assert sqlite3.connect(tmp_path / "work" / "my data.db").execute("select a from t").fetchall() == [(5,)]
    assert rows(start(begin="database=sqlite:my%20data.db").run("select a from t")) == [[5]]
    d = start(begin="database=no/such/dir.db")
    for _ in range(2):
        r = d.run("select 1")
        assert r.status == "error" and r.error["name"] == "OperationalError" and "unable to open" in r.error["message"]


def test_other_engines_are_refused(start):
    r = start(begin="database=duckdb:").run("select 1")
    assert r.status == "error" and r.error["name"] == "NotSupportedError" and "Python" in r.error["message"]


def test_an_interrupt_keeps_the_state(d):
    d.run("create table kept(a); insert into kept values (7)")
    for _ in range(3):
        r = interrupt_at_display(d, "select 1; select 2; " + FOREVER)
        assert r.status == "error" and r.error["name"] == "Interrupted"
        assert rows(d.run("select a from kept")) == [[7]]


def test_an_interrupt_that_came_too_late_stops_nothing(d):
    d.run("create table kept(a); insert into kept values (7)")
    for _ in range(100):
        d.interrupt()
        assert rows(d.run("select a from kept")) == [[7]]


def test_rows_without_end_are_interrupted(d):
    r = interrupt_at_display(d, "select 1; select 2; with recursive c(x) as (select 1 union all select x + 1 from c) select x from c")
    assert r.status == "error" and r.error["name"] == "Interrupted"
    assert rows(d.run("select 3")) == [[3]]


def test_questions(d):
    d.run("create table people(id integer, name text); insert into people values (1, 'Ada'), (2, 'Bo'); create view v as select name from people; create table \"o\"\"dd\"(x)")
    found = {v["name"]: v for v in d.ask("vars")}
    assert list(found) == ['o"dd', "people", "v"] and found["people"]["shape"] == [2, 2] and found["people"]["repr"] == "id INTEGER, name TEXT"
    assert found["people"]["columns"] == [{"name": "id", "type": "INTEGER"}, {"name": "name", "type": "TEXT"}]
    assert (found["v"]["type"], found["v"]["shape"]) == ("view", [None, 1])
    got = d.ask("get", "People")
    assert (got["name"], got["type"], got["shape"]) == ("people", "table", [2, 2])
    assert got["value"] == [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bo"}] and "Ada" in got["data"]["text/plain"]
    assert d.ask("get", "nope") is None
    assert "people" in d.ask("complete", "16\nselect * from pe")["matches"]


def test_parameters(d):
    assert d.ask("set", 'limit\n"it\'s"')["name"] == "limit"
    d.ask("set", "n\n3")
    assert rows(d.run("select :limit, :n + 1")) == [["it's", 4]]
    interrupt_at_display(d, "select 1; select 2; " + FOREVER)
    assert rows(d.run("select :limit, :n + 1")) == [["it's", 4]]


def test_leaves_nothing_behind(start, tmp_path):
    d = start()
    d.run("create table t(a); select 1")
    assert os.listdir(tmp_path / "tmp")
    d.control.close()
    wait_for(lambda: d.process.poll() is not None, "the driver's end")
    assert os.listdir(tmp_path / "tmp") == []
