# SPDX-License-Identifier: Apache-2.0
"""The SQL kernel by itself, spoken to as the guest speaks to it: SQLite, DuckDB where Python has it, PostgreSQL against a server of the
test's own."""

import ast
import base64
import json
import os
import pwd
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import quote

import pytest

from languages import ARGV, KERNELS, Starter, interrupt_at_display, wait_for

DATA = "application/vnd.dataresource+json"
FOREVER = "with recursive c(x) as (select 1 union all select x + 1 from c) select sum(x) from c"


@pytest.fixture
def start(tmp_path):
    starter = Starter("sql", tmp_path)
    yield starter
    starter.close()


@pytest.fixture
def d(start):
    return start()


def rows(r):
    """The result's rows as lists."""
    data = r.data[DATA]
    names = [f["name"] for f in data["schema"]["fields"]]
    return [[row[n] for n in names] for row in data["data"]]


def test_is_written_in_python_3_8():
    ast.parse((KERNELS / "sql.py").read_text(), feature_version=(3, 8))


def test_says_what_it_is(d):
    assert (d.ready["language"], d.ready["engine"]) == ("sql", "sqlite")


def test_a_table(d):
    r = d.run("create table t(id integer primary key, name text, x real, b blob); insert into t values (1, 'Ada', 1.5, x'0102'), (22, null, null, null); select * from t")
    assert r.value == "id | name |    x | b\n---+------+------+--------\n 1 | Ada  |  1.5 | x'0102'\n22 | NULL | NULL | NULL\n(2 rows)"
    data = r.data[DATA]
    assert data["schema"]["fields"] == [{"name": "id", "type": "integer"}, {"name": "name", "type": "string"}, {"name": "x", "type": "number"}, {"name": "b", "type": "string", "format": "binary"}]
    assert data["data"] == [{"id": 1, "name": "Ada", "x": 1.5, "b": base64.b64encode(b"\1\2").decode()}, {"id": 22, "name": None, "x": None, "b": None}]
    assert (data["total"], data["truncated"]) == (2, False)
    assert "<th>name</th>" in r.data["text/html"] and "<i>NULL</i>" in r.data["text/html"]


def test_html_is_escaped(d):
    assert "&lt;script&gt;" in d.run("select '<script>' as \"<b>\"").data["text/html"]
    assert "<b>" not in d.run("select '<script>' as \"<b>\"").data["text/html"]


def test_the_last_table_is_the_result(d):
    r = d.run("select 1 as a; select 2 as b; create table z(q)")
    assert [v["data"][DATA]["data"] for v in r.displays] == [[{"a": 1}]]
    assert rows(r) == [[2]]
    assert d.run("create table y(q)").value is None
    assert d.run("").status == "ok" and d.run(" -- nothing\n/* at all */ ;;").status == "ok"


def test_statements_are_told_apart(d):
    d.run("create table t(a); create table log(m); create trigger tr after insert on t begin insert into log values ('x;'); insert into log values (new.a); end;")
    d.run("insert into t values ('a;b') -- c;\n; /* ; */ insert into t values (\"q;\")")
    assert rows(d.run("select m from log")) == [["x;"], ["a;b"], ["x;"], ["q;"]]


def test_names_that_come_twice(d):
    r = d.run("select 1 as a, 2 as a, 3 as a_2")
    assert len({f["name"] for f in r.data[DATA]["schema"]["fields"]}) == 3
    assert r.value.splitlines()[0] == "a | a | a_2"


def test_many_rows_are_counted_and_cut(d):
    r = d.run("with recursive c(x) as (select 1 union all select x + 1 from c limit 25000) select x from c")
    assert r.data[DATA]["total"] == 25000 and r.data[DATA]["truncated"] and len(r.data[DATA]["data"]) == 10000
    assert r.value.splitlines()[-1] == "(25000 rows, the first 50 shown)"
    r = d.run("with recursive c(x) as (select 1 union all select x + 1 from c) select x from c")
    assert "more than 1000000 rows" in r.value
    r = d.run("with recursive c(x) as (select 1 union all select x + 1 from c limit 100) select hex(zeroblob(500000)) from c")
    assert len(json.dumps(r.data)) < 16 << 20 and r.data[DATA]["total"] == 100


@pytest.mark.parametrize("code, name, place", [
    ("select 1;\nselect * form t", "OperationalError", (2, 10)),
    ("select nope from (select 1)", "OperationalError", (1, 8)),
    ("select * from missing", "OperationalError", (1, 15)),
    ("create table u(x unique); insert into u values (1); insert into u values (1)", "IntegrityError", (1, None)),
    ("select", "OperationalError", (1, 7)),
    ("select :unset", None, (1, None)),
    (".nope", "OperationalError", (1, None)),
])  # fmt: skip
def test_errors(d, code, name, place):
    r = d.run(code)
    assert r.status == "error" and (name is None or r.error["name"] == name)
    assert (r.error["line"], r.error.get("column")) == place
    assert r.error["traceback"][-1].startswith(r.error["name"])
    assert rows(d.run("select 1")) == [[1]]


def test_what_was_done_before_an_error_stays(d):
    d.run("create table t(a); insert into t values (1); insert into nope values (2); insert into t values (3)")
    assert rows(d.run("select * from t")) == [[1]]


def test_transactions(d):
    d.run("create table t(a)")
    d.run("begin; insert into t values (1)")
    assert rows(d.run("select count(*) from t")) == [[1]]
    d.run("rollback")
    assert rows(d.run("select count(*) from t")) == [[0]]


def test_a_database_in_the_workspace(start, tmp_path):
    start(begin="database=my%20data.db").run("create table t(a); insert into t values (5)")
    assert sqlite3.connect(tmp_path / "my data.db").execute("select a from t").fetchall() == [(5,)]
    assert rows(start(begin="database=my data.db").run("select a from t")) == [[5]]
    r = start(begin="database=no/such/dir.db").run("select 1")
    assert r.status == "error" and r.error["name"] == "OperationalError"


def test_an_interrupt_keeps_the_state(d):
    d.run("create table kept(a); insert into kept values (7)")
    for _ in range(3):
        r = interrupt_at_display(d, "select 1; select 2; " + FOREVER)
        assert r.status == "error" and r.error["name"] == "Interrupted"
        assert rows(d.run("select a from kept")) == [[7]]


def test_an_interrupt_that_came_too_late_stops_nothing(d):
    d.run("create table kept(a); insert into kept values (7)")
    for _ in range(200):
        d.interrupt()
        assert rows(d.run("select * from kept, (with recursive n(i) as (select 1 union all select i + 1 from n where i < 300) select max(i) from n)")) == [[7, 300]]


# ---- files ----


def test_files_are_tables(d, tmp_path):
    (tmp_path / "people.csv").write_text('id,name,score,zip\n1,"Ada, L",1.5,007\n2,Grace,,99\n')
    (tmp_path / "t.tsv").write_text("a\tb\n1\tx\n")
    (tmp_path / "l.jsonl").write_text('{"a": 1, "b": [1, 2]}\n\n{"a": 2, "c": "z"}\n')
    (tmp_path / "j.json").write_text('[{"k": true}]')
    (tmp_path / "semi.csv").write_text("a;b\n1;2,5\n")
    (tmp_path / "headless.csv").write_text("1,2\n3,4\n")
    assert rows(d.run("select * from 'people.csv'")) == [[1, "Ada, L", 1.5, "007"], [2, "Grace", None, "99"]]
    assert rows(d.run('select p.name from "people.csv" p join [t.tsv] t on p.id = t.a')) == [["Ada, L"]]
    assert rows(d.run("select * from 'l.jsonl'")) == [[1, "[1, 2]", None], [2, None, "z"]]
    assert rows(d.run("select k from 'j.json'")) == [[1]] or rows(d.run("select k from 'j.json'")) == [[True]]
    assert rows(d.run("select * from 'semi.csv'")) == [[1, "2,5"]]
    assert rows(d.run("select c2 from 'headless.csv'")) == [[2], [4]]


def test_a_file_that_changes_is_read_again(d, tmp_path):
    f = tmp_path / "f.csv"
    f.write_text("a\n1\n")
    assert rows(d.run("select count(*) from 'f.csv'")) == [[1]]
    f.write_text("a\n1\n22\n")
    assert rows(d.run("select count(*) from 'f.csv'")) == [[2]]
    f.unlink()
    assert d.run("select count(*) from 'f.csv'").error["name"] == "OperationalError"


def test_files_that_are_no_tables(d, tmp_path):
    (tmp_path / "empty.csv").touch()
    (tmp_path / "bad.jsonl").write_text('{"a": 1}\nnonsense\n')
    (tmp_path / "list.json").write_text("[1, 2]")
    assert "empty" in d.run("select * from 'empty.csv'").error["message"]
    assert "line 2" in d.run("select * from 'bad.jsonl'").error["message"]
    assert "record 1" in d.run("select * from 'list.json'").error["message"]


def test_a_database_on_disk_gets_no_copy_of_files(start, tmp_path):
    (tmp_path / "f.csv").write_text("a\n1\n")
    d = start(begin="database=my.db")
    d.run("create table t as select * from 'f.csv'")
    assert sqlite3.connect(tmp_path / "my.db").execute("select name from sqlite_master").fetchall() == [("t",)]


# ---- questions ----


def test_vars_get_set(d):
    d.run("create table t(a integer, b text); insert into t values (1, 'x'), (2, 'y'); create view v as select a from t")
    found = {v["name"]: (v["type"], v["shape"], v["repr"]) for v in d.ask("vars")}
    assert found == {"t": ("table", [2, 2], "a INTEGER, b TEXT"), "v": ("view", [None, 1], "a INTEGER")}
    assert d.ask("get", "t")["value"] == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    d.ask("set", "limit_\n1")
    d.ask("set", 'who\n"it\'s"')
    assert rows(d.run("select a, :who from t where a > $limit_")) == [[2, "it's"]]
    assert d.ask("get", "who")["value"] == "it's"
    for what, payload in (("get", "nope"), ("set", "a b\n1"), ("set", "x\n{")):
        d.tell(f"ask {what}", payload.encode())
        assert d.finish().status == "error"


def test_complete(d, tmp_path):
    (tmp_path / "some.csv").touch()
    d.run("create table customers(customer_name, age)")
    assert "customers" in d.ask("complete", "18\nselect * from cust")["matches"]
    assert d.ask("complete", "15\nselect customer from customers")["matches"] == ["customer_name", "customers"]
    assert d.ask("complete", "15\nselect * from '")["matches"] == ["some.csv"]
    assert "select" in d.ask("complete", "3\nsel")["matches"]


def test_it_ends_with_its_guest(d):
    d.control.close()
    wait_for(lambda: d.process.poll() is not None, "its end")


# ---- DuckDB ----


@pytest.fixture(scope="session")
def duckdb_path(tmp_path_factory):
    """Where the module is: with the interpreter, in CELL_TEST_DUCKDB, or fetched for this run. Debian has no package of it."""
    python = ARGV["sql"]()[0]
    given = os.environ.get("CELL_TEST_DUCKDB", "")
    if subprocess.run([python, "-c", "import duckdb"], capture_output=True, env={**os.environ, "PYTHONPATH": given}).returncode == 0:
        return given
    fetched = str(tmp_path_factory.mktemp("duckdb"))
    pip = [python, "-m", "pip", "install", "-q", "--no-deps", "--retries", "1", "--timeout", "20", "--target", fetched, "duckdb"]
    if subprocess.run(pip, capture_output=True, env={**os.environ, "PIP_ROOT_USER_ACTION": "ignore"}).returncode:
        pytest.skip("Python has no module duckdb, and pip cannot fetch it (CELL_TEST_DUCKDB=DIRECTORY names one)")
    return fetched


@pytest.fixture
def duck(start, duckdb_path):
    return lambda **how: start(env={"PYTHONPATH": duckdb_path}, **{"begin": "database=duckdb:", **how})


def test_duckdb(duck, tmp_path):
    (tmp_path / "f.csv").write_text("a,b\n1,x\n2,y\n")
    d = duck()
    assert d.ready["engine"] == "duckdb"
    r = d.run("create table t as select * from 'f.csv'; begin; insert into t values (3, 'z'); commit; select * from t order by a")
    assert rows(r) == [[1, "x"], [2, "y"], [3, "z"]] and r.displays == []
    assert r.data[DATA]["schema"]["fields"][0]["nativeType"] == "BIGINT"
    assert d.run("select nope from t").error["name"] == "BinderException"
    r = interrupt_at_display(d, "select 1; select 2; select count(*) from range(10000000) a, range(10000000) b where a.range + b.range = 7")
    assert r.error["name"] == "Interrupted"
    d.ask("set", "p\n2")
    assert rows(d.run("select b from t where a = $p")) == [["y"]]
    assert d.ask("vars")[0]["shape"] == [3, 2]


def test_duckdb_that_is_not_there(start):
    if subprocess.run([ARGV["sql"]()[0], "-c", "import duckdb"], capture_output=True).returncode == 0:
        pytest.skip("it is there")
    d = start(begin="database=duckdb:")
    assert "duckdb" in d.ready["problem"]
    assert "no module duckdb" in d.run("select 1").error["message"]


# ---- PostgreSQL ----


def test_no_connection_unless_it_is_granted(start):
    r = start(begin="database=postgresql://localhost/x").run("select 1")
    assert r.error["name"] == "PermissionError" and "grants" in r.error["message"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A PostgreSQL server of our own, on a unix socket."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [Path(p) for p in [shutil.which("initdb")] if p]
    if not found:
        pytest.skip("PostgreSQL is not installed")
    programs = found[-1].parent
    # A unix socket's path must be short; the server does not run as root.
    home = Path(tempfile.mkdtemp(prefix="cell-pg-", dir="/tmp"))
    become = {}
    if os.geteuid() == 0:
        try:
            user = pwd.getpwnam("postgres")
        except KeyError:
            user = pwd.getpwnam("nobody")
        os.chown(home, user.pw_uid, user.pw_gid)
        become = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    home.chmod(0o755)
    try:
        env = {"PATH": f"{programs}:/usr/bin:/bin", "LC_ALL": "C", "HOME": str(home)}
        subprocess.run([programs / "initdb", "-D", home / "data", "-A", "trust", "-U", "tester", "-N", "-E", "UTF8"], check=True, capture_output=True, env=env, cwd=home, **become)
        options = f"-k {home} -c listen_addresses= -c fsync=off -c shared_buffers=1MB -c max_connections=10 -c autovacuum=off -c logging_collector=off"
        subprocess.run([programs / "pg_ctl", "-D", home / "data", "-l", home / "log", "-w", "-t", "60", "-o", options, "start"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env, cwd=home, **become)
        yield f"postgresql://tester@/postgres?host={home}"
        subprocess.run([programs / "pg_ctl", "-D", home / "data", "-w", "-m", "immediate", "stop"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env, cwd=home, **become)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def has_psycopg():
    return subprocess.run([ARGV["sql"]()[0], "-c", "import psycopg2"], capture_output=True).returncode == 0


@pytest.fixture(params=["module", "psql"])
def postgres(request, server, start, tmp_path):
    env = {}
    if request.param == "module" and not has_psycopg():
        pytest.skip("Python has no module psycopg2")
    if request.param == "psql":
        if not shutil.which("psql"):
            pytest.skip("there is no psql")
        (tmp_path / "hide").mkdir()
        for name in ("psycopg", "psycopg2"):
            (tmp_path / "hide" / f"{name}.py").write_text("raise ImportError('hidden by the test')")
        env = {"PYTHONPATH": str(tmp_path / "hide")}
    return start(begin=f"database={quote(server)}\nconnect=1", env=env)


def test_postgres(postgres):
    d = postgres
    d.run("drop table if exists t")
    r = d.run("create table t(id serial primary key, name text, x numeric, ok bool); insert into t(name, x) values ('a;b', 1.5), (null, 2); select id, name, x from t order by id")
    assert [[int(a), b, float(c)] for a, b, c in rows(r)] == [[1, "a;b", 1.5], [2, None, 2.0]]
    assert rows(d.run("select $$a;'b$$ as q -- ;\n; ")) == [["a;'b"]]
    assert d.run("begin; insert into t(name) values ('gone'); rollback").status == "ok"
    assert rows(d.run("select count(*) from t")) == [[2]]
    d.ask("set", "who\n\"a;b\"")
    assert rows(d.run("select id::int from t where name = :who and '%' = '%'")) == [[1]]
    found = {v["name"]: v for v in d.ask("vars")}
    assert found["t"]["shape"] == [2, 4] and [c["name"] for c in found["t"]["columns"]] == ["id", "name", "x", "ok"]
    r = d.run("select 1;\nselect * form t")
    assert r.status == "error" and r.error["code"] == "42601" and "form" in r.error["message"]
    assert d.run("insert into t(id) values (1)").error["code"] == "23505"


def test_postgres_is_interrupted(postgres):
    d = postgres
    d.run("create temp table kept as select 7 as a")
    r = interrupt_at_display(d, "select 1; select 2; select pg_sleep(1000)")
    assert r.error["name"] == "Interrupted"
    assert rows(d.run("select a from kept")) == [[7]]


def test_a_server_that_is_not_there(start, tmp_path):
    if not has_psycopg() and not shutil.which("psql"):
        pytest.skip("there is no client of PostgreSQL")
    r = start(begin=f"database={quote(f'postgresql://x@/x?host={tmp_path}')}\nconnect=1").run("select 1")
    assert r.error["name"] == "OperationalError" and str(tmp_path) in r.error["message"]
