# SPDX-License-Identifier: Apache-2.0
"""cell code and cell context: one-shot, sessions, stdin, --json, pictures, notebooks, deadlines and Ctrl-C."""

import base64
import json
import shutil
import signal
import struct
import subprocess
import zlib

import pytest
from conftest import descendants, rest_of, wait_until

DEBIAN = {"PATH": "/usr/bin:/bin"}  # the distribution's Python, with its packages


def has_module(name):
    return subprocess.run(["/usr/bin/python3", "-c", f"import {name}"], env=DEBIAN, capture_output=True, check=False).returncode == 0


def png():
    """The smallest picture there is."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


SHOW = f"class P:\n  def _repr_png_(self):\n    import base64\n    return base64.b64decode('{base64.b64encode(png()).decode()}')\nP()\n"


# ---- where the code comes from ----


def test_a_line_prints_its_value(cell):
    assert cell.ok("code", "-c", "1+1").text == "2\n"
    assert cell.ok("code", "-c", "x = 1").text == ""


def test_a_file_and_stdin(cell):
    cell.put("a.py", "print('from a file')\n6 * 7\n")
    assert cell.ok("code", "a.py").text == "from a file\n42\n"
    assert cell.ok("code", stdin=b"print('piped')").text == "piped\n"
    assert cell.ok("code", "-", stdin=b"2 + 3").text == "5\n"
    cell.fails("code", "none.py", says=["none.py"])
    cell.fails("code", "-c", "1", "a.py", says=["exclude each other"])


def test_the_language_is_guessed(cell):
    cell.put("a.xyz", "#!/usr/bin/env python3\nprint('python')\n")
    assert cell.ok("code", "a.xyz").text == "python\n"
    cell.put("a.sh", "echo shell")
    assert cell.ok("code", "a.sh").text == "shell\n"
    cell.put("a.sql", "select 6 * 7 as answer")
    assert cell.ok("code", "a.sql").text.split()[2:3] == ["42"]
    if shutil.which("node"):
        cell.put("a.mjs", "[1, 2].map(x => x * 2)")
        assert cell.ok("code", "a.mjs").text == "[ 2, 4 ]\n"
    cell.fails("code", "--lang", "cobol", "-c", "1", says=["cobol", "hint: ", "python"])


def test_stdin_answers_input(cell):
    assert cell.ok("code", "-c", "a = input('one? ')\nb = input()\nprint(a + b)", stdin=b"x\ny\nz\n").text == "one? xy\n"
    r = cell("code", "-c", "input()")
    assert r.code == 1 and "EOFError" in r.errors


# ---- sessions ----


def test_a_session_remembers(cell):
    r = cell.ok("code", "-s", "work", "-c", "x = 40")
    assert "made cell 'work'" in r.errors
    r = cell.ok("code", "--session", "work", "-c", "x + 2")
    assert r.text == "42\n" and r.errors == ""
    assert cell.ok("exec", "work", "--", "echo", "still a cell").text == "still a cell\n"
    cell.ok("rm", "work")
    assert cell("code", "-s", "work", "-c", "x").code == 1


def test_without_a_session_nothing_stays(cell):
    cell.ok("code", "-c", "x = 1")
    assert cell("code", "-c", "x").code == 1
    assert cell.names() == []


def test_walls_asked_of_a_cell_that_is_there_are_an_error(cell):
    cell.create("web")
    cell.fails("code", "-s", "web", "--pids", "9", "-c", "1", says=["--pids", "web", "hint: "])
    assert cell.ok("code", "-s", "web", "--timeout", "30s", "-c", "1").text == "1\n"
    cell.fails("code", "-s", "web", "--name", "b", "-c", "1", says=["exclude each other"])


def test_every_language_remembers(cell, web):
    cell.ok("code", "-s", web, "--lang", "bash", "-c", "x=40")
    assert cell.ok("code", "-s", web, "--lang", "sh", "-c", "echo $((x + 2))").text == "42\n"
    cell.ok("code", "-s", web, "--lang", "sql", "-c", "create table t (n int); insert into t values (40)")
    assert "42" in cell.ok("code", "-s", web, "--lang", "sql", "-c", "select n + 2 from t").text
    assert cell("code", "-s", web, "--lang", "shell", "-c", "exit 5").code == 5
    assert cell.ok("context", "ls", "-q", web).text.split() == ["shell", "sql"]


@pytest.mark.skipif(not shutil.which("sqlite3"), reason="the sqlite3 program is not installed")
def test_sql_without_python(cell):
    tools = cell.dir / "tools"
    tools.mkdir()
    path = ("-e", f"PATH={tools}", "--lang")
    cell.fails("code", *path, "sql", "-c", "select 1", says=["no interpreter for sql", "sqlite3 with bash"])
    for name in ("bash", "sh", "sqlite3", "head", "cat", "wc", "rm", "mktemp"):
        (tools / name).symlink_to(shutil.which(name))
    cell.fails("code", *path, "python", "-c", "1", says=["no interpreter for python", "shell, sql"])
    assert cell.ok("code", *path, "sql", "-c", "create table t(n); insert into t values (40); select n + 2 as answer from t").text == "answer\n------\n    42\n(1 row)\n"
    r = cell("code", *path, "sql", "-c", "select * form t")
    assert r.code == 1 and "OperationalError" in r.errors and "form" in r.errors


def test_contexts_of_one_cell_are_apart(cell, web):
    cell.ok("code", "-s", web, "-c", "x = 1")
    assert cell.ok("context", "create", web, "second").text == "second\n"
    cell.ok("code", "-s", web, "--context", "second", "-c", "x = 2")
    assert cell.ok("code", "-s", web, "-c", "x").text == "1\n"
    assert cell.ok("code", "-s", web, "--context", "second", "-c", "x").text == "2\n"
    listed = cell.ok("context", "ls", "--json", web).json["contexts"]
    assert {(c["name"], c["language"], c["state"]) for c in listed} == {("python", "python", "idle"), ("second", "python", "idle")}
    assert cell.ok("context", "ls", "-q", web).text.split() == ["python", "second"]
    assert "python" in cell.ok("context", "ls", web).text
    cell.ok("context", "rm", web, "second")
    assert cell.ok("context", "ls", "-q", web).text.split() == ["python"]
    cell.fails("context", "rm", web, "second", says=["second"])


def test_variables(cell, web):
    cell.ok("code", "-s", web, "-c", "x = 40\nname = 'a'\nclass C: pass\nodd = C()")
    listed = {v["name"]: v for v in cell.ok("context", "vars", "--json", web).json["variables"]}
    assert listed["x"]["type"] == "int" and listed["name"]["repr"] == "'a'"
    assert "int" in cell.ok("context", "vars", web, "python").text
    assert cell.ok("context", "get", web, "python", "x").text == "40\n"
    assert cell.ok("context", "get", web, "python", "name").text == '"a"\n'
    assert "C at 0x" in cell.ok("context", "get", web, "python", "odd").text
    cell.ok("context", "set", web, "python", "x", '{"a": [1, 2]}')
    assert cell.ok("code", "-s", web, "-c", "x['a']").text == "[1, 2]\n"
    cell.fails("context", "set", web, "python", "x", "no json", says=["no JSON", "hint: "])
    cell.fails("context", "get", web, "python", "none", says=["none"])
    cell.ok("context", "reset", web)
    assert cell.ok("context", "vars", "-q", web).text == ""


# ---- how it ends ----


@pytest.mark.parametrize("code, status", [("1", 0), ("1/0", 1), ("import sys; sys.exit(3)", 3), ("import sys; sys.exit()", 0), ("import sys; sys.exit('why')", 1),
    ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 139), ("import os; os.kill(os.getpid(), 9)", 137), ("import os; os._exit(7)", 7), ("x =", 1)])
def test_the_exit_code(cell, code, status):
    r = cell("code", "-c", code)
    assert r.code == status, r
    assert cell("code", "--json", "-c", code).code == status


def test_an_error_shows_the_users_lines(cell):
    r = cell("code", "-c", "def f():\n    raise ValueError('because')\nf()")
    assert r.code == 1 and r.out == b""
    assert "ValueError: because" in r.errors and "line 2" in r.errors and "raise ValueError" in r.errors
    assert r.errors.count("ValueError: because") == 1
    r = cell("code", "-c", "import sys; sys.exit('why')")
    assert r.errors == "why\n"


def test_a_deadline_interrupts_and_keeps_variables(cell, web):
    cell.ok("code", "-s", web, "-c", "x = 1")
    r = cell("code", "-s", web, "--timeout", "500ms", "-c", "while True: pass")
    assert r.code == 124 and "KeyboardInterrupt" in r.errors and "deadline" in r.errors
    assert cell.ok("code", "-s", web, "-c", "x").text == "1\n"
    stubborn = "import time\nwhile True:\n  try: time.sleep(1)\n  except BaseException: pass"
    r = cell("code", "-s", web, "--timeout", "300ms", "--grace", "300ms", "-c", stubborn)
    assert r.code == 124 and "lost" in r.errors
    r = cell("code", "-s", web, "-c", "x")
    assert r.code == 1 and "NameError" in r.errors


def test_ctrl_c_interrupts(cell, web):
    child = cell.popen("code", "-s", web, "-c", "x = 5\nprint('on', flush=True)\nimport time\ntime.sleep(600)")
    assert child.stdout.readline() == b"on\n"
    child.send_signal(signal.SIGINT)
    rest_of(child)
    assert child.returncode == 130
    assert b"KeyboardInterrupt" in child.stderr.read()
    assert cell.ok("code", "-s", web, "-c", "x").text == "5\n"


STUBBORN = """
import time
told = False
while True:
    try:
        if not told:
            told = True
            print('on', flush=True)
        time.sleep(600)
    except BaseException:
        print('no', flush=True)
"""


@pytest.mark.parametrize("where", [[], ["-s", "web"]])
def test_a_second_ctrl_c_kills(cell, web, where):
    child = cell.popen("code", *where, "-c", STUBBORN)
    assert child.stdout.readline() == b"on\n"
    child.send_signal(signal.SIGINT)
    assert child.stdout.readline() == b"no\n", child.stderr.read()
    child.send_signal(signal.SIGINT)
    rest_of(child)
    assert child.returncode == 130
    assert cell.ok("code", "-s", web, "-c", "'alive'").text == "'alive'\n"


def test_interrupt_from_elsewhere(cell, web):
    child = cell.popen("code", "-s", web, "-c", "print('on', flush=True)\nimport time\ntime.sleep(600)")
    assert child.stdout.readline() == b"on\n"
    assert cell.ok("context", "ls", "--json", web).json["contexts"][0]["state"] == "busy"
    cell.ok("context", "interrupt", web)
    rest_of(child)
    assert child.returncode == 130


def test_a_reader_that_goes_ends_the_code(cell):
    child = cell.popen("code", "-c", "import itertools\nfor i in itertools.count(): print(i)")
    assert child.stdout.readline() == b"0\n"
    child.stdout.close()
    assert child.wait(30) == 141
    child.stdout = None


# ---- --json ----


def test_the_result_as_one_object(cell):
    o = cell.ok("code", "--json", "-c", "import sys\nprint('o')\nprint('e', file=sys.stderr)\n{'a': 1}").json
    assert {"id", "cell", "backend", "context", "value", "stdout", "stderr", "error", "results", "execution_count", "execution_time_ms", "state", "ok"} <= set(o)
    assert (o["value"], o["stdout"], o["stderr"], o["error"], o["state"]) == ("{'a': 1}", "o\n", "e\n", None, "kept")
    assert o["results"][0]["data"]["text/plain"] == "{'a': 1}"
    r = cell("code", "--json", "-c", "1/0")
    assert r.code == 1 and r.json["error"]["name"] == "ZeroDivisionError" and r.json["ok"] is False
    o = cell.ok("code", "--json", "--max-output", "10", "-c", "print('x' * 100)").json
    assert o["truncated"] is True and o["stdout"] == "x" * 10 and o["stdout_bytes"] == 101
    o = cell.ok("code", "--json", "-c", "import sys; sys.stdout.buffer.write(b'\\xff'); None").json
    assert base64.b64decode(o["stdout_base64"]) == b"\xff"


def test_events_as_lines(cell):
    r = cell("code", "--json", "--stream", "-c", "print('a')\ndisplay('b')\n1/0")
    events = [json.loads(line) for line in r.text.splitlines()]
    assert r.code == 1 and [e["type"] for e in events] == ["stdout", "display", "error", "done"]
    assert events[0]["data"] == "a\n" and events[-1]["ok"] is False
    cell.fails("code", "--stream", "-c", "1", says=["--json"])


def run_id(cell, name, beginning):
    """The id of the run whose code begins like this."""
    return next(i for i, c in cell.ps(name, "--all").items() if c["command"].startswith(f"python: {beginning}"))


def test_logs_show_a_run_as_it_was_shown(cell, web):
    code = "import sys; print('one'); print('aside', file=sys.stderr)\nprint('two'); display('shown'); 6 * 7"
    shown = cell.ok("code", "-s", "web", "-c", code)
    ident = run_id(cell, "web", "import sys")
    r = cell.ok("logs", "web", ident)
    assert (r.text, r.errors) == (shown.text, "aside\n") and r.text == "one\ntwo\n'shown'\n42\n"
    together = cell.ok("logs", "web", ident, stderr=subprocess.STDOUT).text
    assert together == "one\naside\ntwo\n'shown'\n42\n", "in the order in which they were written"
    assert cell.ok("logs", "--stderr", "web", ident).text == "" and cell.ok("logs", "--stdout", "web", ident).errors == ""
    o = cell.ok("logs", "--json", "web", ident).json
    assert (o["id"], o["value"], o["stdout"], o["stderr"], o["state"]) == (ident, "42", "one\ntwo\n", "aside\n", "kept")


def test_logs_of_a_run_that_failed_show_its_traceback(cell, web):
    failed = cell("code", "-s", "web", "-c", "def f():\n    1 / 0\nf()")
    r = cell.ok("logs", "web", run_id(cell, "web", "def f"))
    assert r.errors == failed.errors and "ZeroDivisionError" in r.errors and r.text == ""


def test_logs_follow_a_run_and_disturb_nothing(cell, web):
    runner = cell.popen("code", "-s", "web", "-c", "import os, time\nprint('begun', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('ended')")
    wait_until(lambda: cell.ps("web"))
    ident = run_id(cell, "web", "import os")
    wait_until(lambda: cell.ok("logs", "web", ident).text == "begun\n")
    assert "state" not in cell.ok("logs", "--json", "web", ident).json, "it has not ended"
    gone, follower = cell.popen("logs", "-f", "web", ident), cell.popen("logs", "-f", "web", ident)
    assert gone.stdout.readline() == follower.stdout.readline() == b"begun\n"
    gone.send_signal(signal.SIGINT)
    assert gone.wait(60) == 130, "looking ends, the run goes on"
    cell.ok("exec", "web", "--", "touch", "go")
    assert rest_of(follower) == b"ended\n" and follower.wait(60) == 0
    assert rest_of(runner) == b"begun\nended\n" and runner.wait(60) == 0


def test_much_output_is_whole(cell):
    r = cell.ok("code", "-c", "for i in range(300000): print(i)")
    assert r.text == "".join(f"{i}\n" for i in range(300000))


# ---- pictures ----


def test_a_picture_is_saved_and_said_where(cell):
    r = cell.ok("code", "-c", SHOW)
    assert r.out == b"" and "saved picture-1.png" in r.errors
    assert (cell.workspace / "picture-1.png").read_bytes() == png()
    cell.ok("code", "-c", SHOW)
    assert (cell.workspace / "picture-2.png").read_bytes() == png()
    cell.ok("code", "-o", "out", "-c", SHOW)
    assert (cell.workspace / "out" / "picture-1.png").read_bytes() == png()
    cell.ok("code", "--pictures", "none", "-c", SHOW)
    assert not (cell.workspace / "picture-3.png").exists()


@pytest.mark.parametrize("way, begin", [("kitty", b"\x1b_Ga=T,f=100"), ("iterm2", b"\x1b]1337;File=inline=1;")])
def test_a_picture_for_a_terminal(cell, way, begin):
    r = cell.ok("code", "--pictures", way, "-c", SHOW)
    assert begin in r.out and base64.b64encode(png()) in r.out
    assert not list(cell.workspace.glob("picture-*"))
    # what only says that it is a picture never reaches the terminal
    r = cell.ok("code", "--pictures", way, "-c", "display({'image/png': 'G1tdMTMzNw==', 'text/plain': 'x'}, raw=True)")
    assert b"\x1b" not in r.out


def test_pictures_in_json(cell):
    o = cell.ok("code", "--json", "-c", SHOW).json
    assert base64.b64decode(o["results"][0]["data"]["image/png"]) == png()
    assert not list(cell.workspace.glob("picture-*"))
    cell.ok("code", "--json", "-o", ".", "-c", SHOW)
    assert (cell.workspace / "picture-1.png").exists()


def test_matplotlib_and_pandas_without_a_line_of_set_up(cell):
    if not has_module("matplotlib") or not has_module("pandas"):
        pytest.skip("python3-matplotlib and python3-pandas are not installed")
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])"
    cell.ok("code", "-c", code, env=DEBIAN)
    assert (cell.workspace / "picture-1.png").read_bytes().startswith(b"\x89PNG")
    o = cell.ok("code", "--json", "-c", "import pandas\npandas.DataFrame({'a': [1, 2], 'b': ['x', 'y']})", env=DEBIAN).json
    data = o["results"][-1]["data"]
    assert "<table" in data["text/html"] and data["text/plain"].split()[:2] == ["a", "b"]


# ---- notebooks ----


def notebook(*sources, minor=4, **metadata):
    cells = [{"cell_type": "markdown", "metadata": {}, "source": ["# Title\n", "text"]}]
    for s in sources:
        tags, s = s if isinstance(s, tuple) else ([], s)
        cells.append({"cell_type": "code", "metadata": {"tags": tags} if tags else {}, "source": s.splitlines(keepends=True), "outputs": [{"output_type": "stream", "name": "stdout", "text": ["old\n"]}], "execution_count": 9})
    return json.dumps({"nbformat": 4, "nbformat_minor": minor, "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}, **metadata}, "cells": cells})


def executed(cell, name="out.ipynb"):
    nb = json.loads((cell.workspace / name).read_text())
    return nb, [c for c in nb["cells"] if c["cell_type"] == "code"]


def validate(path):
    """By the format's own library, of the distribution."""
    if not has_module("nbformat"):
        pytest.skip("python3-nbformat is not installed: what was written is not validated")
    program = "import sys, nbformat; nb = nbformat.read(sys.argv[1], as_version=nbformat.NO_CONVERT); nbformat.validate(nb); print(nb.nbformat, nb.nbformat_minor)"
    done = subprocess.run(["/usr/bin/python3", "-c", program, path], env=DEBIAN, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_notebook_is_run_into_a_new_one(cell):
    cell.put("in.ipynb", notebook("x = 40\nprint('a')\nprint('b')", "x + 2", "import sys\nprint('e', file=sys.stderr)\nprint('o')\ndisplay({'k': 1})", SHOW, ""))
    before = (cell.workspace / "in.ipynb").read_bytes()
    cell.ok("code", "--notebook", "in.ipynb", "-o", "out.ipynb")
    assert (cell.workspace / "in.ipynb").read_bytes() == before
    nb, code = executed(cell)
    assert code[0]["outputs"] == [{"output_type": "stream", "name": "stdout", "text": ["a\n", "b\n"]}]
    assert code[1]["outputs"] == [{"output_type": "execute_result", "data": {"text/plain": "42"}, "metadata": {}, "execution_count": 2}]
    assert [(o["output_type"], o.get("name")) for o in code[2]["outputs"]] == [("stream", "stderr"), ("stream", "stdout"), ("display_data", None)]
    assert base64.b64decode(code[3]["outputs"][0]["data"]["image/png"]) == png()
    assert [c["execution_count"] for c in code] == [1, 2, 3, 4, None] and code[4]["outputs"] == []
    assert all(c["id"] for c in nb["cells"]) and nb["nbformat_minor"] == 5
    assert validate(cell.workspace / "out.ipynb") == "4 5\n"


def test_a_notebook_stops_at_an_error_or_goes_on(cell):
    cell.put("in.ipynb", notebook("a = 1", "1/0", "a", (["raises-exception"], "nope"), (["skip-execution"], "print('never')")))
    r = cell("code", "in.ipynb", "-o", "out.ipynb")
    assert r.code == 1 and "cell 3" in r.errors
    _, code = executed(cell)
    assert code[1]["outputs"][0]["ename"] == "ZeroDivisionError" and code[1]["outputs"][0]["traceback"]
    assert code[2]["outputs"] == [] and code[2]["execution_count"] is None
    validate(cell.workspace / "out.ipynb")
    o = cell("code", "--json", "--keep-going", "in.ipynb", "-o", "out.ipynb")
    assert o.code == 1 and o.json == {"notebook": "out.ipynb", "executed": 4, "failed": 1, "cells": 6}
    _, code = executed(cell)
    assert code[2]["outputs"][0]["data"]["text/plain"] == "1" and code[3]["outputs"][0]["ename"] == "NameError" and code[4]["outputs"] == []
    validate(cell.workspace / "out.ipynb")


def test_a_notebook_has_a_deadline_for_each_cell(cell):
    cell.put("in.ipynb", notebook("a = 1", "while True: pass", "a + 1"))
    r = cell("code", "--timeout", "500ms", "--keep-going", "in.ipynb", "-o", "out.ipynb")
    assert r.code == 124
    _, code = executed(cell)
    assert code[1]["outputs"][0]["ename"] == "KeyboardInterrupt" and code[2]["outputs"][0]["data"]["text/plain"] == "2"


def test_a_notebook_to_stdout_and_updates_and_clears(cell):
    source = "h = display('one', display_id=True)"
    cell.put("in.ipynb", notebook(source, "h.update('two')\n"))
    nb = json.loads(cell.ok("code", "in.ipynb").text)
    code = [c for c in nb["cells"] if c["cell_type"] == "code"]
    assert code[0]["outputs"][0]["data"]["text/plain"] == "'two'" and code[1]["outputs"] == []


def test_what_is_no_notebook_is_said(cell):
    cell.put("a.ipynb", "{")
    cell.fails("code", "a.ipynb", says=["a.ipynb", "no notebook"])
    cell.put("a.ipynb", json.dumps({"nbformat": 3, "worksheets": []}))
    cell.fails("code", "a.ipynb", says=["nbformat"])
    cell.put("a.ipynb", notebook("1"))
    cell.fails("code", "a.ipynb", "-o", "none/b.ipynb", says=["none/b.ipynb"])
    cell.fails("code", "--notebook", "a.ipynb", "-c", "1", says=["exclude each other"])


# ---- leftovers ----


def test_a_client_that_is_killed_leaves_no_process(cell):
    before = descendants()
    child = cell.popen("code", "-c", "print('on', flush=True)\nimport time\ntime.sleep(600)")
    assert child.stdout.readline() == b"on\n"
    child.kill()
    child.wait()
    wait_until(lambda: not descendants() - before, what="the end of the code")
    cell.ok("prune")
