# SPDX-License-Identifier: Apache-2.0
"""Which database servers SQL may be given a connection to: those that the configuration grants, and no others."""

import socket

import pytest

DEBIAN = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def nobody():
    """host:port where nobody listens, for the length of the test."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{s.getsockname()[1]}"


def make(cell, url, name="db"):
    return cell("context", "create", "--lang", "sql", "--database", url, "work", name, env=DEBIAN)


def test_without_a_grant_there_is_no_connection(cell, nobody):
    cell.create("work")
    r = make(cell, f"postgresql://ann:secret@{nobody}/x")
    assert r.code == 125 and "may not connect" in r.errors and "kernels.databases" in r.errors, r
    assert "secret" not in r.errors


def test_a_grant_is_for_one_database(cell, nobody):
    cell.put("cell.yaml", f"kernels: {{databases: ['postgresql://{nobody}/x']}}\n")
    cell.create("work")
    for url in (f"postgresql://{nobody}/xy", f"postgresql://{nobody}/x?host=elsewhere", f"postgresql://{nobody}/", f"postgres://{nobody}/x",
                f"postgresql://elsewhere/x@{nobody}/x", f"postgresql://{nobody}.evil/x"):
        r = make(cell, url)
        assert r.code == 125 and "may not connect" in r.errors, (url, r)


def test_what_is_granted_is_tried(cell, nobody):
    cell.put("cell.yaml", f"kernels: {{databases: ['postgresql://{nobody}/x']}}\n")
    cell.create("work")
    make(cell, f"postgresql://ann:secret@{nobody}/x")
    r = cell("code", "--session", "work", "--context", "db", "--lang", "sql", "-c", "select 1", env=DEBIAN)
    said = r.errors + r.text
    if "no module" in said.lower() or "psql" in said:
        pytest.skip("neither psycopg2 nor psql is here")
    assert r.code == 1 and "refused" in said, r


def test_a_file_needs_no_grant(cell):
    cell.create("work")
    assert make(cell, "data.db").code == 0
    r = cell.ok("code", "--session", "work", "--context", "db", "-c", "create table t(a); insert into t values (7); select a from t", env=DEBIAN)
    assert "7" in r.text.split(), r
