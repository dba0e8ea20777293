# SPDX-License-Identifier: Apache-2.0
"""The driver of an SQL kernel, for Python 3.8 and later: SQLite by Python's own module, DuckDB and PostgreSQL where the cell
has their modules (or, for PostgreSQL, the psql program). It talks to the guest on fd 3 (docs/languages.md says what comes of it).

A run is a list of statements. Each that gives rows becomes a table: the last one is the run's result, those before it are
displayed. Rows that are not needed to show it are counted and dropped."""

import json
import os
import signal
import sys

CONTROL, TEXT = 3, 4
DATA_ROWS = 10000  # rows given as data
DATA_BYTES = 8 << 20
TEXT_ROWS = 50  # rows shown
COUNT_ROWS = 1000000  # rows counted beyond that
CELL_CHARS = 80
TABLE_FILES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")


class Interrupted(Exception):
    pass


class Refused(Exception):
    """Something that cannot be done here; `name` is what the error is called."""

    def __init__(self, name, message):
        super().__init__(message)
        self.name = name


# ---- the control channel ----

received = b""


def send(head, payload=b""):
    data = memoryview(b"%s %d\n%s" % (head, len(payload), payload))
    while data:
        data = data[os.write(CONTROL, data) :]


def event(head, value):
    send(head, json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "surrogateescape"))


def take():
    """The next message: its words and its payload; None at the end."""
    global received
    while True:
        end = received.find(b"\n")
        if end >= 0:
            words = received[:end].split(b" ")
            stop = end + 1 + int(words[-1])
            if len(received) >= stop:
                payload, received = received[end + 1 : stop], received[stop:]
                return words, payload
        data = os.read(CONTROL, 1 << 16)
        if not data:
            return None
        received += data


# ---- interrupts ----

is_interrupted = False
is_busy = False  # there is a run, or a question, that may be stopped
signs = None  # of signals: what the thread below waits for
gate = None  # is_busy and the signs change together
engine = None


def on_signal(_number, _frame):
    global is_interrupted
    is_interrupted = True


def check():
    if is_interrupted:
        raise Interrupted("the run was interrupted")


def watch():
    """Python calls a handler when the C code it is in returns; a query may take hours. So the signal also writes to a pipe, and
    this thread stops the query."""
    import select
    import threading

    global signs, gate
    signs, w = os.pipe()
    for fd in (signs, w):
        os.set_blocking(fd, False)
    gate = threading.Lock()
    signal.set_wakeup_fd(w, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, on_signal)

    def stop():
        while True:
            select.select([signs], (), ())
            with gate:
                try:
                    if forget_signs() and is_busy and engine is not None:
                        engine.interrupt()
                except Exception:
                    pass  # nothing to stop

    threading.Thread(target=stop, daemon=True).start()


def forget_signs():
    """Were there any?"""
    try:
        return bool(os.read(signs, 4096))
    except BlockingIOError:
        return False


def start_work():
    """A signal that came before was for what is over by now: the thread must not find it once there is something to stop."""
    global is_interrupted, is_busy
    with gate:
        forget_signs()
        is_interrupted = False
        is_busy = True


def end_work():
    """Waits for a stop that is under way, so that it cannot meet what comes next."""
    global is_busy
    with gate:
        is_busy = False


# ---- text ----


def split(code):
    """(offset, statement) of each statement, by the rules that the dialects share: quotes, comments, $tags$."""
    at = start = 0
    n = len(code)
    is_empty = True
    while at < n:
        c = code[at]
        if code.startswith("--", at):
            at = code.find("\n", at)
            at = n if at < 0 else at
            continue
        if code.startswith("/*", at):
            at = code.find("*/", at + 2)
            at = n if at < 0 else at + 2
            continue
        if c in "'\"`" or (c == "[" and engine is not None and engine.has_brackets):
            close = "]" if c == "[" else c
            at = code.find(close, at + 1)
            at = n if at < 0 else at + 1
            is_empty = False
            continue
        if c == "$" and engine is not None and engine.has_dollars:
            end = code.find("$", at + 1)
            tag = code[at : end + 1]
            if end > 0 and (tag == "$$" or tag[1:-1].isidentifier()):
                at = code.find(tag, end + 1)
                at = n if at < 0 else at + len(tag)
                continue
        at += 1
        if c == ";":
            text = code[start:at]
            if is_empty:
                start = at
            elif engine is None or engine.is_complete(text):
                yield start, text
                start, is_empty = at, True
        elif not c.isspace():
            is_empty = False
    if not is_empty:
        yield start, code[start:]


def begins(text):
    """Where a statement begins behind the space and the comments before it."""
    at = 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if text.startswith("--", at):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2)
            at = len(text) if end < 0 else end + 2
        else:
            return at


def quote(name):
    return '"' + name.replace('"', '""') + '"'


# ---- tables ----


class Table:
    """What came of a statement that gives rows."""

    def __init__(self, names, types, rows, total, is_more):
        seen = {}
        self.names = []
        for name in names:
            seen[name] = seen.get(name, 0) + 1
            unique = name if seen[name] == 1 else "%s_%d" % (name, seen[name])
            while unique != name and unique in names:
                unique += "_"
            self.names.append(unique)
        self.shown = list(names)
        self.types, self.rows, self.total, self.is_more = types, rows, total, is_more


def read_table(names, types, fetch):
    """fetch(n) gives the next n rows at most. Keeps some, counts the rest."""
    rows, total, size = [], 0, 0
    while True:
        check()
        some = fetch(1000)
        if not some:
            return Table(names, types, rows, total, False)
        total += len(some)
        for row in some:
            if len(rows) >= DATA_ROWS or size >= DATA_BYTES:
                break
            row = tuple(row)
            size += sum(len(v) if isinstance(v, (str, bytes)) else 8 for v in row)
            rows.append(row)
        if total >= COUNT_ROWS and len(some) == 1000:
            return Table(names, types, rows, total, True)


def as_json(v):
    if v is None or isinstance(v, (bool, int, str)):
        return v
    if isinstance(v, float):
        return v if v == v and v not in (float("inf"), float("-inf")) else str(v)
    if isinstance(v, (bytes, bytearray, memoryview)):
        import base64

        return base64.b64encode(bytes(v)).decode()
    if isinstance(v, (list, tuple)):
        return [as_json(x) for x in v]
    if isinstance(v, dict):
        return {str(k): as_json(x) for k, x in v.items()}
    if hasattr(v, "isoformat"):
        return v.isoformat()
    return str(v)


def as_text(v):
    if v is None:
        return "NULL"
    if isinstance(v, str):
        text = v
    elif isinstance(v, bool):
        return "true" if v else "false"
    elif isinstance(v, (bytes, bytearray, memoryview)):
        b = bytes(v)
        text = "x'%s'" % b[:16].hex() if len(b) <= 16 else "x'%s…' (%d bytes)" % (b[:16].hex(), len(b))
    elif isinstance(v, (list, dict)):
        text = json.dumps(as_json(v), ensure_ascii=False)
    else:
        return str(v)
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= CELL_CHARS else text[: CELL_CHARS - 1] + "…"


def kind_of(values):
    """The type of a column, in the words of a Table Schema, by its values."""
    kinds = set()
    for v in values:
        if v is None:
            continue
        if isinstance(v, bool):
            kinds.add("boolean")
        elif isinstance(v, int):
            kinds.add("integer")
        elif isinstance(v, float) or type(v).__name__ == "Decimal":
            kinds.add("number")
        elif isinstance(v, str):
            kinds.add("string")
        elif isinstance(v, (bytes, bytearray, memoryview)):
            kinds.add("binary")
        elif isinstance(v, dict):
            kinds.add("object")
        elif isinstance(v, (list, tuple)):
            kinds.add("array")
        elif hasattr(v, "isoformat"):
            kinds.add({"date": "date", "time": "time"}.get(type(v).__name__, "datetime"))
        else:
            kinds.add("string")
    if kinds == {"integer", "number"}:
        return "number"
    return kinds.pop() if len(kinds) == 1 else "any"


def width_of(text):
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def footer(t, shown):
    n = "more than %d" % t.total if t.is_more else str(t.total)
    text = "%s row%s" % (n, "" if t.total == 1 and not t.is_more else "s")
    return "(%s)" % text if shown == t.total and not t.is_more else "(%s, the first %d shown)" % (text, shown)


def render_text(t, kinds):
    rows = [[as_text(v) for v in row] for row in t.rows[:TEXT_ROWS]]
    heads = [as_text(n) for n in t.shown]
    widths = [max([width_of(h)] + [width_of(r[i]) for r in rows]) for i, h in enumerate(heads)]
    is_right = [k in ("integer", "number") for k in kinds]

    def line(cells):
        padded = []
        for text, width, right in zip(cells, widths, is_right):
            gap = " " * (width - width_of(text))
            padded.append(gap + text if right else text + gap)
        return " | ".join(padded).rstrip()

    lines = [line(heads), "-+-".join("-" * w for w in widths)]
    lines += [line(r) for r in rows]
    lines.append(footer(t, len(rows)))
    return "\n".join(lines)


def render_html(t):
    from html import escape

    rows = t.rows[:TEXT_ROWS]
    parts = ["<table><thead><tr>", *("<th>%s</th>" % escape(str(n)) for n in t.shown), "</tr></thead><tbody>"]
    for row in rows:
        parts.append("<tr>")
        parts += ["<td><i>NULL</i></td>" if v is None else "<td>%s</td>" % escape(as_text(v)) for v in row]
        parts.append("</tr>")
    parts.append("</tbody></table><p>%s</p>" % escape(footer(t, len(rows))))
    return "".join(parts)


def bundle(t):
    kinds = [kind_of(row[i] for row in t.rows) for i in range(len(t.names))]
    fields = []
    for name, kind, native in zip(t.names, kinds, t.types):
        field = {"name": name, "type": kind}
        if kind == "binary":
            field.update(type="string", format="binary")
        if native:
            field["nativeType"] = native
        fields.append(field)
    data = {
        "schema": {"fields": fields},
        "data": [dict(zip(t.names, map(as_json, row))) for row in t.rows],
        "total": t.total,
        "truncated": len(t.rows) < t.total or t.is_more,
    }
    return {
        "data": {
            "text/plain": render_text(t, kinds),
            "text/html": render_html(t),
            "application/vnd.dataresource+json": data,
        },
        "metadata": {},
    }


# ---- files as tables (DuckDB reads them by itself) ----


def open_text(path):
    if path.endswith(".gz"):
        import gzip

        return gzip.open(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="")
    return open(path, encoding="utf-8-sig", errors="surrogateescape", newline="")


def is_table_file(name):
    base = name[:-3] if name.endswith(".gz") else name
    return base.lower().endswith(TABLE_FILES) and os.path.isfile(name)


def is_integer(s):
    d = s[1:] if s[:1] == "-" else s
    return d.isascii() and d.isdigit() and (d == "0" or d[0] != "0") and len(d) < 19


def is_number(s):
    d = s[1:] if s[:1] in "+-" else s
    if not d or not d[0] in "0123456789." or (len(d) > 1 and d[0] == "0" and d[1].isdigit()):
        return False
    try:
        float(d)
    except ValueError:
        return False
    return "_" not in d


def csv_records(path, delimiter):
    import csv

    csv.field_size_limit(1 << 30)
    with open_text(path) as f:
        for n, row in enumerate(csv.reader(f, delimiter=delimiter)):
            if n % 1000 == 0:
                check()
            if row:
                yield row


def csv_table(path):
    """Names of the columns, and a generator of rows. Types are those that every value of a column has."""
    base = path[:-3] if path.endswith(".gz") else path
    delimiter = "\t" if base.lower().endswith(".tsv") else ","
    if delimiter == ",":
        with open_text(path) as f:
            head = f.readline()
        if "," not in head:
            delimiter = ";" if ";" in head else "\t" if "\t" in head else ","
    records = csv_records(path, delimiter)
    first = next(records, None)
    if first is None:
        raise Refused("DataError", "'%s' is empty: there is not even a line with the names of columns" % path)
    has_head = all(first) and len(set(first)) == len(first) and not any(is_number(s) for s in first)
    width = len(first)
    could = None

    def body():
        records = csv_records(path, delimiter)
        if has_head:
            next(records)
        return records

    for row in body():
        width = max(width, len(row))
        could = could or []
        could += [[True, True] for _ in range(width - len(could))]
        for flags, s in zip(could, row):
            if s and flags[1]:
                flags[0] = flags[0] and is_integer(s)
                flags[1] = flags[0] or is_number(s)
    could = (could or []) + [[False, False] for _ in range(width - len(could or []))]
    makers = [int if i else float if f else str for i, f in could]
    names = [s.strip() for s in first] if has_head else []
    names += ["c%d" % (i + 1) for i in range(len(names), width)]

    def rows():
        for row in body():
            yield [m(s) if s else None for m, s in zip(makers, row)] + [None] * (width - len(row))

    return names, rows()


def json_table(path):
    base = path[:-3] if path.endswith(".gz") else path
    with open_text(path) as f:
        if base.lower().endswith(".json"):
            records = json.load(f)
            if isinstance(records, dict):
                records = [records]
        else:
            records = []
            for n, text in enumerate(f):
                check()
                try:
                    if text.strip():
                        records.append(json.loads(text))
                except ValueError as e:
                    raise Refused("DataError", "'%s', line %d: %s" % (path, n + 1, e))
    names = {}
    for n, r in enumerate(records):
        if not isinstance(r, dict):
            raise Refused("DataError", "'%s', record %d: not an object" % (path, n + 1))
        names.update(dict.fromkeys(r))
    if not names:
        raise Refused("DataError", "'%s' has no columns" % path)

    def value(v):
        return json.dumps(v, ensure_ascii=False) if isinstance(v, (dict, list)) else v

    return list(names), ([value(r.get(n)) for n in names] for r in records)


def file_table(path):
    base = path[:-3] if path.endswith(".gz") else path
    return json_table(path) if base.lower().endswith((".json", ".jsonl", ".ndjson")) else csv_table(path)


# ---- SQLite ----


class Sqlite:
    name = "sqlite"
    has_brackets, has_dollars = True, False

    def __init__(self, database):
        import sqlite3

        self.sqlite3 = sqlite3
        # Autocommit: BEGIN and COMMIT are the user's own.
        self.db = sqlite3.connect(database or ":memory:", isolation_level=None, check_same_thread=False)
        self.version = sqlite3.sqlite_version
        self.files = {}

    def is_complete(self, text):
        return self.sqlite3.complete_statement(text)

    def interrupt(self):
        self.db.interrupt()

    def statements(self, code):
        return split(code)

    def run(self, statement, params):
        """A table, or None."""
        self.forget_changed()
        word = statement[begins(statement) :]
        if word.startswith("."):
            return self.command(word.rstrip("; \n\t"))
        while True:
            try:
                cursor = self.db.execute(statement, params)
                break
            except self.sqlite3.OperationalError as e:
                name = str(e)[len("no such table: ") :] if str(e).startswith("no such table: ") else ""
                for schema in ("main.", "temp."):
                    name = name[5:] if name.startswith(schema) and not os.path.isfile(name) else name
                if not name or name in self.files or not is_table_file(name):
                    raise
                self.load(name)
        try:
            if cursor.description is None:
                return None
            return read_table([d[0] for d in cursor.description], [None] * len(cursor.description), cursor.fetchmany)
        finally:
            cursor.close()

    def load(self, path):
        """As a temporary table of that name, so that no database on disk gets a copy."""
        before = self.stamp(path)
        names, rows = file_table(path)
        self.db.execute("SAVEPOINT cell_load")
        try:
            columns, seen = [], set()
            for n in names:
                while n.lower() in seen:
                    n += "_"
                seen.add(n.lower())
                columns.append(quote(n))
            self.db.execute("CREATE TEMP TABLE %s (%s)" % (quote(path), ", ".join(columns)))
            self.db.executemany("INSERT INTO temp.%s VALUES (%s)" % (quote(path), ", ".join("?" * len(names))), rows)
        except BaseException:
            self.db.execute("ROLLBACK TO cell_load")
            self.db.execute("RELEASE cell_load")
            raise
        self.db.execute("RELEASE cell_load")
        self.files[path] = before

    @staticmethod
    def stamp(path):
        try:
            s = os.stat(path)
        except OSError:
            return None
        return os.path.abspath(path), s.st_ino, s.st_size, s.st_mtime_ns

    def forget_changed(self):
        for path, stamp in list(self.files.items()):
            if self.stamp(path) != stamp:
                self.db.execute("DROP TABLE IF EXISTS temp.%s" % quote(path))
                del self.files[path]

    COMMANDS = {
        ".tables": "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
        ".schema": "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND (:of IS NULL OR tbl_name = :of)",
        ".indexes": "SELECT name, tbl_name FROM sqlite_master WHERE type = 'index' AND (:of IS NULL OR tbl_name = :of)",
        ".databases": "PRAGMA database_list",
    }

    def command(self, text):
        words = text.split()
        sql = self.COMMANDS.get(words[0])
        if not sql:
            known = ", ".join(sorted(self.COMMANDS))
            raise Refused("OperationalError", "unknown command %s; of those of the sqlite3 program there are %s" % (words[0], known))
        cursor = self.db.execute(sql, {"of": words[1] if len(words) > 1 else None})
        return read_table([d[0] for d in cursor.description], [None] * len(cursor.description), cursor.fetchmany)

    def tables(self):
        found = []
        for schema in [r[1] for r in self.db.execute("PRAGMA database_list")]:
            master = "sqlite_temp_master" if schema == "temp" else "%s.sqlite_master" % quote(schema)
            sql = "SELECT name, type FROM %s WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%%' ESCAPE '\\'" % master
            for name, kind in self.db.execute(sql).fetchall():
                where = "%s.%s" % (quote(schema), quote(name))
                columns = self.db.execute("PRAGMA %s.table_info(%s)" % (quote(schema), quote(name))).fetchall()
                prefix = "" if schema in ("main", "temp") else schema + "."
                found.append((prefix + name, kind, where, [(c[1], c[2]) for c in columns]))
        return found

    def query(self, sql):
        cursor = self.db.execute(sql)
        return read_table([d[0] for d in cursor.description], [None] * len(cursor.description), cursor.fetchmany)

    def is_interrupt(self, e):
        return isinstance(e, self.sqlite3.OperationalError) and str(e) == "interrupted"

    def place(self, e, statement):
        """Where in the statement the fault is, or None."""
        text = str(e)
        if text.startswith('near "'):
            token = text[6 : text.rfind('"')]
        elif text.startswith(("no such column: ", "no such table: ", "no such function: ")):
            token = text.split(": ", 1)[1].split(".")[-1]
        else:
            return len(statement.rstrip()) if text == "incomplete input" else None
        at = statement.lower().find(token.lower())
        return at if at >= 0 and statement.lower().count(token.lower()) == 1 else None


# ---- DuckDB ----


class Duck:
    name = "duckdb"
    has_brackets, has_dollars = False, True

    def __init__(self, database):
        try:
            import duckdb
        except ImportError:
            raise Refused("DatabaseError", "the cell's Python has no module duckdb (pip install duckdb)")
        self.duckdb = duckdb
        self.db = duckdb.connect(database or ":memory:")
        self.version = duckdb.__version__

    def is_complete(self, _text):
        return True

    def interrupt(self):
        self.db.interrupt()

    def statements(self, code):
        return split(code)

    def run(self, statement, params):
        used, gives = {}, ""
        for s in self.db.extract_statements(statement):
            used.update({n: params[n] for n in s.named_parameters if n in params})
            gives += str(s.expected_result_type)
        cursor = self.db.execute(statement, used) if used else self.db.execute(statement)
        d = cursor.description
        # Statements that give no rows give one that says how it went.
        if not d or "QUERY_RESULT" not in gives or "CHANGED_ROWS" in gives and [c[0] for c in d] == ["Count"]:
            return None
        return read_table([c[0] for c in d], [str(c[1]) for c in d], cursor.fetchmany)

    def tables(self):
        sql = "SELECT table_schema, table_name, table_type FROM information_schema.tables ORDER BY 1, 2"
        found = []
        for schema, name, kind in self.db.execute(sql).fetchall():
            where = "%s.%s" % (quote(schema), quote(name))
            columns = self.db.execute("DESCRIBE %s" % where).fetchall()
            prefix = "" if schema in ("main", "temp") else schema + "."
            found.append((prefix + name, "view" if kind == "VIEW" else "table", where, [(c[0], c[1]) for c in columns]))
        return found

    def query(self, sql):
        return self.run(sql, {})

    def is_interrupt(self, e):
        return type(e).__name__ == "InterruptException"

    def place(self, _e, _statement):
        return None  # its messages show the line


# ---- PostgreSQL ----


class Postgres:
    """By psycopg (3) or psycopg2, which are much alike here."""

    name = "postgresql"
    has_brackets, has_dollars = False, True

    def __init__(self, url):
        try:
            import psycopg as module
        except ImportError:
            import psycopg2 as module
        self.module = module
        self.db = module.connect(url)
        self.db.autocommit = True
        number = self.db.info.server_version
        self.version = "%d.%d" % (number // 10000, number % 10000)

    def is_complete(self, _text):
        return True

    def interrupt(self):
        self.db.cancel()

    def statements(self, code):
        return split(code)

    def run(self, statement, params):
        cursor = self.db.cursor()
        try:
            sql, used = colon_params(statement, params)
            cursor.execute(sql, used) if used else cursor.execute(statement)
            if cursor.description is None:
                return None
            types = self.type_names([d[1] for d in cursor.description])
            return read_table([d[0] for d in cursor.description], types, cursor.fetchmany)
        finally:
            cursor.close()

    def type_names(self, oids):
        cursor = self.db.cursor()
        try:
            if self.db.info.transaction_status == 3:  # failed: no more questions
                return [None] * len(oids)
            cursor.execute("SELECT oid, typname FROM pg_catalog.pg_type WHERE oid = ANY(%s)", (list(oids),))
            names = dict(cursor.fetchall())
        finally:
            cursor.close()
        return [names.get(oid) for oid in oids]

    def tables(self):
        return postgres_tables(self.query)

    def query(self, sql):
        return self.run(sql, {})

    def is_interrupt(self, e):
        return getattr(e, "sqlstate", None) == "57014" or getattr(e, "pgcode", None) == "57014"

    def place(self, e, _statement):
        at = getattr(getattr(e, "diag", None), "statement_position", None)
        return int(at) - 1 if at else None


def postgres_tables(query):
    sql = (
        "SELECT table_schema, table_name, table_type FROM information_schema.tables "
        "WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2"
    )
    found = []
    for schema, name, kind in query(sql).rows:
        literal = "table_schema = %s AND table_name = %s" % tuple("'%s'" % s.replace("'", "''") for s in (schema, name))
        columns = query("SELECT column_name, data_type FROM information_schema.columns WHERE %s ORDER BY ordinal_position" % literal)
        where = "%s.%s" % (quote(schema), quote(name))
        prefix = "" if schema == "public" or schema.startswith("pg_temp") else schema + "."
        found.append((prefix + name, "view" if kind == "VIEW" else "table", where, [tuple(r) for r in columns.rows]))
    return found


def colon_params(statement, params):
    """:name of a parameter that was set becomes %(name)s; casts (::), quotes and comments stay."""
    out, used, at, done = [], {}, 0, 0
    while at < len(statement):
        c = statement[at]
        if statement.startswith("--", at) or statement.startswith("/*", at) or c in "'\"":
            close = "\n" if c == "-" else "*/" if c == "/" else c
            end = statement.find(close, at + 1 + (c in "-/"))
            at = len(statement) if end < 0 else end + len(close)
        elif statement.startswith("::", at):
            at += 2
        elif c == ":":
            end = at + 1
            while end < len(statement) and (statement[end].isalnum() or statement[end] == "_"):
                end += 1
            name = statement[at + 1 : end]
            if name in params:
                out += [statement[done:at].replace("%", "%%"), "%%(%s)s" % name]
                used[name] = params[name]
                done = end
            at = end
        else:
            at += 1
    return "".join(out) + statement[done:].replace("%", "%%"), used


class PsqlError(Exception):
    def __init__(self, state, message, at):
        super().__init__(message)
        self.sqlstate, self.at = state, at


class Psql:
    """By the psql program, where Python has no module. One psql stays connected; it says when a statement is done."""

    name = "postgresql"
    has_brackets, has_dollars = False, True
    NULL = "\ufdd0"  # a noncharacter: no text has it

    def __init__(self, url):
        import shutil
        import subprocess

        program = shutil.which("psql")
        if not program:
            raise Refused("DatabaseError", "the cell has neither the Python module psycopg or psycopg2 nor the program psql")
        self.command = [program, "-X", "-q", "-A", "--csv", "-v", "VERBOSITY=verbose", "-P", "null=" + self.NULL, "-d", url]
        # A session of its own: an interrupt is a cancel here, and would end psql.
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        self.subprocess = subprocess
        self.is_stopped = False
        try:
            table = self.query("SELECT current_setting('server_version_num')::int AS v, pg_backend_pid() AS pid")
        except EOFError as e:
            raise Refused("OperationalError", str(e))
        number, self.backend = (int(v) for v in table.rows[0])
        self.version = "%d.%d" % (number // 10000, number % 10000)

    def is_complete(self, _text):
        return True

    def interrupt(self):
        self.is_stopped = True
        sql = "SELECT pg_cancel_backend(%d)" % self.backend
        self.subprocess.run([*self.command, "-c", sql], stdin=self.subprocess.DEVNULL, capture_output=True, timeout=10, start_new_session=True)

    def statements(self, code):
        return split(code)

    def exchange(self, statement):
        import selectors

        end = "cell-%s" % os.urandom(12).hex()
        text = "%s\n;\n\\echo\n\\echo %s\n\\warn %s\n" % (statement.rstrip("; \n\t"), end, end)
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()
        got = {self.process.stdout: b"", self.process.stderr: b""}
        mark = end.encode() + b"\n"
        with selectors.DefaultSelector() as s:
            for f in got:
                s.register(f, selectors.EVENT_READ)
            while s.get_map():
                for key, _ in s.select():
                    data = os.read(key.fd, 1 << 16)
                    got[key.fileobj] += data
                    if not data or got[key.fileobj].endswith(mark):
                        s.unregister(key.fileobj)
        out, err = (got[f].decode("utf-8", "surrogateescape") for f in (self.process.stdout, self.process.stderr))
        if not out.endswith(end + "\n"):
            raise EOFError(err.strip().replace(end, "") or "psql ended")
        return out[: -len(end) - 2], err[: -len(end) - 1]

    def run(self, statement, params):
        at = begins(statement)
        if statement[at : at + 1] == "\\":
            raise Refused("OperationalError", "commands of psql itself (%s) are not for here" % statement[at:].split()[0])
        if params:
            statement = self.with_params(statement, params)
        try:
            out, err = self.exchange(statement)
        except (EOFError, BrokenPipeError) as e:
            raise PsqlError("08006", "the connection is lost: %s" % e, None)
        if "ERROR:" in err or "FATAL:" in err:
            raise self.fault(err)
        if err:
            os.write(2, err.encode("utf-8", "surrogateescape"))
        if not out:
            return None
        import csv
        import io

        records = csv.reader(io.StringIO(out, newline=""))
        names = next(records)
        rows = ([None if v == self.NULL else v for v in r] for r in records)

        def fetch(n):
            from itertools import islice

            return list(islice(rows, n))

        t = read_table(names, [None] * len(names), fetch)
        t.rows = self.typed(t.rows)
        return t

    @staticmethod
    def typed(rows):
        columns = []
        for values in zip(*rows):
            there = [v for v in values if v is not None]
            make = int if there and all(map(is_integer, there)) else float if there and all(map(is_number, there)) else str
            columns.append([None if v is None else make(v) for v in values])
        return [tuple(r) for r in zip(*columns)] if columns else rows

    def with_params(self, statement, params):
        sql, used = colon_params(statement, params)
        if not used:
            return statement
        quoted = {}
        for name, v in used.items():
            quoted[name] = "NULL" if v is None else str(v) if isinstance(v, (int, float)) else "'%s'" % str(v).replace("'", "''")
        return sql % quoted

    @staticmethod
    def fault(err):
        """ERROR:  42601: syntax error at or near "x" / LINE 1: ... / ^"""
        lines = err.splitlines()
        first = next(i for i, line in enumerate(lines) if "ERROR:" in line or "FATAL:" in line)
        rest = lines[first].split(": ", 1)[-1].strip()
        state, _, message = rest.partition(": ")
        more = [line for line in lines[first + 1 :] if not line.startswith(("LOCATION:", "psql:"))]
        return PsqlError(state, "\n".join([message] + more), None)

    def tables(self):
        return postgres_tables(self.query)

    def query(self, sql):
        return self.run(sql, {})

    def is_interrupt(self, e):
        return isinstance(e, PsqlError) and e.sqlstate == "57014"

    def place(self, _e, _statement):
        return None  # the message shows the line


def open_postgres(url):
    for name in ("psycopg", "psycopg2"):
        try:
            __import__(name)
        except ImportError:
            continue
        return Postgres(url)
    return Psql(url)


# ---- runs ----

options = {}
params = {}


def open_engine():
    """The database that was asked for; not before it is needed."""
    global engine
    if engine is not None:
        return engine
    database = options.get("database", "")
    if database.startswith(("postgresql://", "postgres://")):
        if options.get("connect") != "1":
            raise Refused("PermissionError", "the configuration grants this cell no connection to a PostgreSQL server")
        engine = open_postgres(database)
    elif database.startswith("duckdb:"):
        engine = Duck(database[7:].lstrip("/") if database.startswith("duckdb:///") else database[7:])
    elif database.endswith((".duckdb", ".ddb")):
        engine = Duck(database)
    else:
        engine = Sqlite(database[7:] if database.startswith("sqlite:") else database)
    return engine


def describe(e, code="", offset=0, statement="", number=0, count=0):
    if isinstance(e, (Interrupted, KeyboardInterrupt)) or engine is not None and engine.is_interrupt(e):
        text = "the run was interrupted"
        return {"name": "Interrupted", "message": text, "traceback": ["Interrupted: " + text]}
    name = getattr(e, "name", None) if isinstance(e, Refused) else None
    name = name or type(e).__name__
    message = str(e).strip() or name
    state = getattr(e, "sqlstate", None) or getattr(e, "pgcode", None) or getattr(e, "sqlite_errorname", None)
    lines = []
    where = {}
    if statement:
        place = engine.place(e, statement) if engine is not None else None
        at = offset + (place if place is not None else begins(statement))
        row = code.count("\n", 0, at)
        start = code.rfind("\n", 0, at) + 1
        text = code.split("\n")[row]
        lines.append("statement %d of %d, line %d:" % (number, count, row + 1) if count > 1 else "line %d:" % (row + 1))
        if len(text) <= 400:
            lines.append(text)
            if place is not None:
                lines.append("".join("\t" if c == "\t" else " " for c in code[start:at]) + "^")
        where = {"line": row + 1}
        if place is not None:
            where["column"] = at - start + 1
    lines += ("%s: %s" % (name, message)).split("\n")
    found = {"name": name, "message": message, "traceback": lines, **where}
    if state:
        found["code"] = state
    return found


def run(code):
    table, offset, statement, number, count = None, 0, "", 0, 0
    try:
        db = open_engine()
        statements = list(db.statements(code))
        count = len(statements)
        for number, (offset, statement) in enumerate(statements, 1):
            check()
            found = db.run(statement, params)
            if found is not None:
                if table is not None:
                    event(b"display", bundle(table))
                table = found
        if table is not None:
            event(b"result", bundle(table))
    except Exception as e:
        if table is not None:
            event(b"display", bundle(table))
        event(b"error", describe(e, code, offset, statement, number, count))
        return b"error"
    return b"ok"


# ---- questions ----


def shape_of(db, where, kind, columns):
    rows = None
    if kind == "table":
        rows = db.query("SELECT count(*) AS n FROM (SELECT 1 FROM %s LIMIT %d) AS t" % (where, COUNT_ROWS * 10 + 1)).rows[0][0]
        rows = None if rows > COUNT_ROWS * 10 else rows
    return [rows, len(columns)]


def answer_vars():
    db = open_engine()
    found = []
    for name, kind, where, columns in db.tables():
        check()
        listing = ", ".join("%s %s" % c if c[1] else c[0] for c in columns)
        found.append({
            "name": name,
            "type": kind,
            "shape": shape_of(db, where, kind, columns),
            "size": None,
            "repr": listing if len(listing) <= 200 else listing[:199] + "…",
            "columns": [{"name": n, "type": t} for n, t in columns],
        })
    for name, value in sorted(params.items()):
        found.append({"name": ":" + name, "type": "parameter", "shape": None, "size": None, "repr": as_text(value)})
    return found


def answer_get(name):
    bare = name.lstrip(":@$")
    if bare in params:
        return {"name": bare, "type": "parameter", "data": {"text/plain": as_text(params[bare])}, "value": as_json(params[bare])}
    db = open_engine()
    for found, kind, where, _columns in db.tables():
        if found.lower() == name.lower():
            t = db.query("SELECT * FROM %s" % where)
            data = bundle(t)["data"]
            return {"name": found, "type": kind, "shape": [None if t.is_more else t.total, len(t.names)], "data": data,
                "value": data["application/vnd.dataresource+json"]["data"]}
    raise Refused("NameError", "there is no table, view or parameter '%s'" % name)


def answer_set(payload):
    name, _, text = payload.partition("\n")
    name = name.lstrip(":@$")
    if not name.isidentifier():
        raise Refused("NameError", "'%s' cannot be the name of a parameter" % name)
    value = json.loads(text)
    params[name] = json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else value
    return {"name": name, "type": "parameter"}


KEYWORDS = (
    "ALTER AND AS ASC ATTACH BEGIN BETWEEN BY CASE CAST COMMIT CREATE CROSS DEFAULT DELETE DESC DISTINCT DROP ELSE END EXCEPT "
    "EXISTS EXPLAIN FOREIGN FROM FULL GROUP HAVING IN INDEX INNER INSERT INTERSECT INTO IS JOIN KEY LEFT LIKE LIMIT NOT NULL "
    "OFFSET ON OR ORDER OUTER OVER PARTITION PRAGMA PRIMARY REFERENCES RETURNING RIGHT ROLLBACK SELECT SET TABLE THEN UNION "
    "UNIQUE UPDATE USING VALUES VIEW WHEN WHERE WITH"
).split()


def answer_complete(payload):
    cursor, _, code = payload.partition(b"\n")
    cursor = int(cursor)
    before = code[:cursor].decode("utf-8", "replace")
    at = len(before)
    while at > 0 and (before[at - 1].isalnum() or before[at - 1] == "_"):
        at -= 1
    word = before[at:]
    tables = open_engine().tables()
    text = code.decode("utf-8", "replace").lower()
    if before[at - 1 : at] == ".":
        owner = before[: at - 1].split()[-1].strip('"').lower() if before[: at - 1].split() else ""
        names = [c[0] for name, _, _, columns in tables if name.lower() == owner for c in columns]
    else:
        names = [t[0] for t in tables] + [c[0] for name, _, _, columns in tables if name.lower() in text for c in columns]
        names += [k.lower() if word and word.islower() else k for k in KEYWORDS]
        if "'" in before and before.rfind("'") == at - 1:
            names = sorted(f for f in os.listdir(".") if is_table_file(f))
    matches = sorted({n for n in names if n.lower().startswith(word.lower())})
    return {"matches": matches[:1000], "start": cursor - len(word.encode()), "end": cursor}


def ask(what, payload):
    try:
        if what == b"vars":
            found = answer_vars()
        elif what == b"get":
            found = answer_get(payload.decode())
        elif what == b"set":
            found = answer_set(payload.decode())
        elif what == b"complete":
            found = answer_complete(payload)
        else:
            raise Refused("ValueError", "unknown question '%s'" % what.decode())
    except Exception as e:
        event(b"error", describe(e))
        return b"error"
    event(b"answer", found)
    return b"ok"


# ---- the loop ----


def unquote(text):
    from urllib.parse import unquote as decode

    return decode(text, errors="surrogateescape") if "%" in text else text


def begin(payload):
    for line in payload.decode("utf-8", "surrogateescape").split("\n"):
        key, _, value = line.partition("=")
        value = unquote(value)
        if key == "cwd":
            os.chdir(value)
        elif key.startswith("env."):
            os.environ[key[4:]] = value
        elif key:
            options[key] = value
    about = {"language": "sql"}
    try:
        if not options.get("database", "").startswith(("postgresql:", "postgres:")):
            open_engine()  # a server is asked when there is something to ask
            about.update(engine=engine.name, version=engine.version)
        else:
            about.update(engine="postgresql", version="")
    except Exception as e:
        about.update(version="", problem=describe(e)["message"])
    event(b"ready", about)


def serve():
    while True:
        message = take()
        if message is None:
            return
        words, payload = message
        if words[0] == b"begin":
            begin(payload)
            continue
        start_work()
        if words[0] == b"run":
            how = run(payload.decode("utf-8", "surrogateescape"))
        else:
            how = ask(words[1], payload)
        end_work()
        send(b"done " + how)


for fd in (CONTROL, TEXT):
    os.set_inheritable(fd, False)
os.close(TEXT)
watch()
try:
    serve()
except BrokenPipeError:
    pass
os._exit(0)
