# SPDX-License-Identifier: Apache-2.0
"""The Python kernel by itself, spoken to as the guest speaks to it: values, streams, errors, input, processes, and what code can do to the
interpreter it runs in."""

import ast
import base64
import os
import re
import signal
import subprocess
import time

import pytest

from conftest import PYTHON, other_pythons
from driver import BOOT, PATIENCE_S, TOP, Died

TEXT = (TOP / "kernels" / "python.py").read_text()


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


# ---- the text itself ----


def test_is_written_in_python_3_8():
    ast.parse(TEXT, feature_version=(3, 8))


def test_each_part_compiles_alone():
    pieces = re.split(r"^#: part (\w+)\n", TEXT, flags=re.M)
    assert len(pieces) > 20
    for name, text in zip(["core", *pieces[1::2]], [pieces[0], *pieces[2::2]]):
        compile(text, name, "exec")


def test_starts_without_importing_anything_big(d):
    """What a run finds loaded, against a bare interpreter's."""
    bare = subprocess.run([PYTHON, "-c", "import sys; print(*sys.modules)"], capture_output=True, text=True, check=True).stdout.split()
    loaded = set(ast.literal_eval(d.run("import sys; sorted(sys.modules)").value.replace("\n", "")))
    assert loaded - set(bare) <= {"_ast", "_json", "fcntl", "time", "_signal", "_thread"}


def test_needs_no_more_than_4_mb_over_a_bare_interpreter(d):
    def resident(pid):
        with open(f"/proc/{pid}/smaps_rollup") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("Rss:"))

    assert d.run("1 + 1").value == "2"
    assert d.run("print('x')").out == "x\n"
    bare = subprocess.Popen([PYTHON, "-c", "print(1, flush=True); import sys; sys.stdin.read()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert bare.stdout.readline() == b"1\n"
        assert resident(d.process.pid) <= resident(bare.pid) + 4096
    finally:
        bare.kill()
        bare.communicate()


def test_says_who_it_is(d):
    version = subprocess.run([PYTHON, "-c", "import platform; print(platform.python_version())"], capture_output=True, text=True)
    assert d.ready["language"] == "python" and version.stdout.strip().startswith(d.ready["version"])


# ---- state ----


def test_variables_are_kept(d):
    assert d.run("x = 40").events == []
    assert d.run("x + 2").value == "42"


def test_the_namespace_is_that_of_main(d):
    assert d.run("import __main__; x = 5; (__main__.x, __name__, sorted(n for n in globals() if not n.startswith('__')))").value == (
        "(5, '__main__', ['x'])"
    )


def test_the_namespace_has_nothing_of_ours(d):
    assert d.run("sorted(n for n in globals() if not n.startswith('__'))").value == "[]"
    assert d.run("import sys; sys.argv").value == "['']"


def test_underscore_is_the_last_value(d):
    d.run("41 + 1")
    assert d.run("_ + 1").value == "43"
    d.run("_ = 'mine'")
    d.run("7")
    assert d.run("_").value == "'mine'"


def test_state_before_an_error_is_kept(d):
    assert d.run("a = 1\n1/0\nb = 2").status == "error"
    assert d.run("a, 'b' in globals()").value == "(1, False)"


@pytest.mark.parametrize(
    "code,value",
    [
        ("1\r\n2\r\n", "2"),
        ("'\\N{SNOWMAN}'", "'☃'"),
        ("x = '''a\n!b\n%c\n'''\nx", "'a\\n!b\\n%c\\n'"),
        ("\n\n  5\n", "5"),
        ("    a = 1\n    a + 1", "2"),
        ("", None),
        ("# only this", None),
        ("5;", None),
        ("5 ; # quiet", None),
        ("';'", "';'"),
        ("None", None),
    ],
)
def test_value_of_the_last_expression(d, code, value):
    r = d.run(code)
    assert (r.status, r.value) == ("ok", value)


def test_very_long_code_runs(d):
    assert d.run("x = [\n" + "1234567890,\n" * 500000 + "]\nlen(x)").value == "500000"


@pytest.mark.parametrize("code", [b"x = '\xff\xfe'", b"a\0b", "x = '\ud800'".encode("utf-8", "surrogatepass")])
def test_code_that_is_no_text_is_an_error(d, code):
    assert d.run(code).status == "error"
    assert d.run("1").value == "1"


# ---- streams ----


def test_stdout_and_stderr_keep_their_order(d):
    r = d.run("import sys\nfor i in range(50):\n print('o', i)\n print('e', i, file=sys.stderr)")
    expected = []
    for i in range(50):
        expected += [("stdout", b"o %d\n" % i), ("stderr", b"e %d\n" % i)]
    assert r.merged == expected


def test_what_is_shown_keeps_its_place_in_the_output(d):
    r = d.run("for i in range(30):\n print(i)\n display(i)\n print(-i, end='')")
    kinds = [k for k, _ in r.events]
    assert [k for i, k in enumerate(kinds) if i == 0 or kinds[i - 1] != k] == ["stdout", "display"] * 30 + ["stdout"]
    assert r.displays[7]["data"] == {"text/plain": "7"}


def test_text_and_bytes_of_one_stream_keep_their_order(d):
    r = d.run("import sys\nfor i in range(200):\n print(i, end=' ')\n sys.stdout.buffer.write(b'%d;' % i)\n")
    assert r.out == "".join(f"{i} {i};" for i in range(200))


@pytest.mark.parametrize("code", ["print('part', end='')", "import sys; sys.stdout.buffer.write(b'part')", "import sys; sys.stderr.write('part')"])
def test_half_a_line_is_seen_while_the_code_goes_on(d, code):
    d.start(code + "\nimport time\nwhile True: time.sleep(0.01)")
    seen = []

    def on_event(e):
        if e[0] in ("stdout", "stderr") and not seen:
            seen.append(e[1])
            d.interrupt()

    r = d.finish(on_event=on_event)
    assert seen == [b"part"] and r.error["name"] == "KeyboardInterrupt"


def test_100_mb_of_output(d):
    size = 0

    def count(e):
        nonlocal size
        size += len(e[1]) if e[0] == "stdout" else 0

    d.start("line = 'x' * 99\nfor i in range(1000000): print(line)")
    r = d.finish(on_event=count)
    assert r.status == "ok" and size == 100000000


def test_one_print_of_50_mb(d):
    assert len(d.run("print('y' * 50_000_000)").stream("stdout")) == 50000001


@pytest.mark.parametrize(
    "code,out",
    [
        ("print('\\udc80|\\ud800')", b"\\udc80|\\ud800\n"),
        ("import sys; sys.stdout.buffer.write(b'\\xff\\xfe\\n');", b"\xff\xfe\n"),
        ("print('\\0')", b"\0\n"),
        ("import os; os.write(1, b'raw\\n');", b"raw\n"),
        ("import subprocess; subprocess.run(['echo', 'child'], check=True);", b"child\n"),
        ("import os; os.system('echo system');", b"system\n"),
        ("print('first', end=' '); import os; os.system('echo second');", b"first second\n"),
        ("import ctypes; ctypes.CDLL(None).puts(b'from C');", b"from C\n"),
        ("import sys; sys.stdout.writelines(['a\\n', 'b\\n'])", b"a\nb\n"),
        ("import sys; print(sys.stdout.fileno(), sys.stdout.name, sys.stdout.encoding, sys.stdout.isatty())", b"1 <stdout> utf-8 False\n"),
        ("import sys; sys.stdout.reconfigure(encoding='latin-1'); print('ä')", b"\xe4\n"),
        ("import sys; sys.__stdout__.write('really\\n');", b"really\n"),
    ],
)
def test_bytes_of_stdout(d, code, out):
    r = d.run(code)
    assert (r.stream("stdout"), r.status) == (out, "ok")


def test_patched_stdout_stays_patched(d):
    assert d.run("import sys, io; old = sys.stdout; sys.stdout = io.StringIO(); print('kept')").out == ""
    assert d.run("print('there')").out == ""
    assert d.run("got = sys.stdout.getvalue(); sys.stdout = old; got").value == "'kept\\nthere\\n'"
    assert d.run("print('back')").out == "back\n"


def test_stdout_of_the_users_own_class(d):
    r = d.run("import sys\nclass Loud:\n def write(self, s): old.write(s.upper())\n def flush(self): pass\nold = sys.stdout\nsys.stdout = Loud()\nprint('loud')")
    assert r.out == "LOUD\n"
    assert d.run("sys.stdout = old\nprint('quiet')").out == "quiet\n"


@pytest.mark.parametrize(
    "code",
    ["import sys; sys.stdout.close()", "import os; os.close(1)", "import os; os.close(1); os.close(2)", "import sys; sys.stdout = None", "import sys; sys.stdout.detach();", "import sys; sys.stdout = open('f', 'w'); sys.stdout.close()"],
)
def test_a_closed_stdout_is_open_again_in_the_next_run(d, code):
    d.run(code)
    r = d.run("print('seen'); import sys; print('err', file=sys.stderr)")
    assert (r.out, r.err, r.status) == ("seen\n", "err\n", "ok")


def test_printing_to_a_closed_stdout_is_an_error(d):
    assert d.run("import sys; sys.stdout.close(); print('x')").error["name"] == "ValueError"
    assert d.run("import os; os.close(1); print('x', flush=True)").error["name"] == "OSError"
    assert d.run("print('x')").out.endswith("x\n")


def came_early(r):
    """Late output that was there before we read of the run's end, as on a busy machine it may be."""
    return [e for e in r.events if e[0] in ("stdout", "stderr")]


def test_output_of_threads_between_runs_is_late(d):
    d.run("import threading\ngo = threading.Event()\nthreading.Thread(target=lambda: (go.wait(), print('late', flush=True)), daemon=True).start()")
    late = came_early(d.run("threading.Timer(0.05, go.set).start()"))
    wait_for(lambda: late.extend(d.late_output()) or late, "the output of the thread")
    assert late == [("stdout", b"late\n")]


# ---- errors ----


def traceback_of(d, code):
    return "\n".join(d.run(code).error["traceback"])


def test_traceback_shows_the_users_lines_only(d):
    d.run("def f(x):\n    return 1 / x")
    text = traceback_of(d, "def g():\n    f(0)\n\ng()")
    assert "<cell>" not in text
    lines = [line for line in text.split("\n") if not set(line.strip()) <= {"^"}]
    assert lines == [
        "Traceback (most recent call last):", "  Cell In[2], line 4", "    g()", "  Cell In[2], line 2, in g", "    f(0)",
        "  Cell In[1], line 2, in f", "    return 1 / x", "ZeroDivisionError: division by zero",
    ]


def test_traceback_leaves_out_what_is_inside_libraries(d):
    text = traceback_of(d, "import json\njson.loads('{')")
    assert 'json.loads' in text and "raise " not in text and re.search(r"\[\d frames of json, the last: decoder.py, line \d+, in raw_decode\]", text)


def test_traceback_shows_files_of_the_user(d, tmp_path):
    (tmp_path / "mine.py").write_text("def f():\n    raise ValueError('in my file')\n")
    text = traceback_of(d, "import mine; mine.f()")
    assert f'File "{tmp_path}/mine.py", line 2, in f' in text and "raise ValueError('in my file')" in text


def test_traceback_of_a_syntax_error(d):
    assert d.run("a = 1\nb = = 2").error == {
        "name": "SyntaxError", "message": "invalid syntax (Cell In[1], line 2)",
        "traceback": ["  Cell In[1], line 2", "    b = = 2", "        ^", "SyntaxError: invalid syntax"],
    }


def test_traceback_of_recursion_is_short(d):
    r = d.run("def f(): return f()\nf()")
    assert r.error["name"] == "RecursionError" and len(r.error["traceback"]) < 30
    assert any("more times" in line for line in r.error["traceback"])
    r = d.run("def a(): return b()\ndef b(): return a()\na()")
    assert r.error["name"] == "RecursionError" and len(r.error["traceback"]) < 400


def test_chained_errors(d):
    text = traceback_of(d, "try:\n    1/0\nexcept Exception as e:\n    raise ValueError('b') from e")
    assert text.index("ZeroDivisionError") < text.index("direct cause") < text.index("ValueError: b")
    text = traceback_of(d, "try:\n    1/0\nexcept Exception as e:\n    {}['k']")
    assert "During handling" in text
    text = traceback_of(d, "try:\n    1/0\nexcept Exception as e:\n    raise ValueError('b') from None")
    assert "ZeroDivisionError" not in text


def test_groups_and_notes(d):
    if tuple(map(int, d.ready["version"].split(".")))[:2] < (3, 11):
        pytest.skip("exception groups and notes came with 3.11")
    text = traceback_of(d, "e = ValueError('inner'); e.add_note('a note')\nraise ExceptionGroup('some', [e, TypeError('t')])")
    assert "ExceptionGroup: some (2 sub-exceptions)" in text and "| a note" in text and "TypeError: t" in text


@pytest.mark.parametrize(
    "code,name,message",
    [
        ("import sys; sys.exit(3)", "SystemExit", "3"),
        ("exit()", "SystemExit", "None"),
        ("quit(1)", "SystemExit", "1"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("class E(BaseException): pass\nraise E('x')", "E", "x"),
        ("class E(Exception):\n def __str__(self): raise ValueError\nraise E", "E", "<exception str() failed>"),
        ("raise ValueError('a\\nb')", "ValueError", "a\nb"),
        ("raise ValueError('\\ud800')", "ValueError", "\\ud800"),
        ("raise ValueError('a\\0b')", "ValueError", "a\u2400b"),
        ("class R:\n def __repr__(self): raise ValueError('no repr')\nR()", "ValueError", "no repr"),
        ("import sys; sys.setrecursionlimit(60)\ndef f(): return f()\nf()", "RecursionError", None),
    ],
)
def test_error(d, code, name, message):
    r = d.run(code)
    assert r.status == "error" and r.error["name"] == name
    assert message is None or r.error["message"] == message
    assert d.run("'alive'").value == "'alive'"


def test_a_huge_message_is_cut(d):
    assert len(d.run("raise ValueError('x' * 50_000_000)").error["message"]) < 2 << 20


def test_error_in_a_thread_shows_the_users_lines(d):
    r = d.run("import threading\ndef boom():\n    raise ValueError('in thread')\nt = threading.Thread(target=boom)\nt.start(); t.join()")
    assert r.status == "ok" and "raise ValueError('in thread')" in r.err and "Exception in thread" in r.err


def test_warnings_name_the_line(d):
    r = d.run("import warnings\nwarnings.warn('careful')")
    assert r.err == "Cell In[1]:2: UserWarning: careful\n  warnings.warn('careful')\n"


def test_getsource_of_code_typed_in(d):
    d.run("def f():\n    return 1  # comment")
    assert d.run("import inspect; print(inspect.getsource(f))").out == "def f():\n    return 1  # comment\n\n"
    d.run("def g():\n    return 2")
    assert d.run("print(inspect.getsource(g), end='')").out == "def g():\n    return 2\n"


# ---- input ----


def test_input(d):
    r = d.run("a = input('name? ')\nb = input()\n(a, b)", answers=["bob", "ünï"])
    assert r.value == "('bob', 'ünï')"
    assert r.all("input") == [{"prompt": "name? ", "password": False}, {"prompt": "", "password": False}]


def test_output_comes_before_the_question(d):
    r = d.run("print('hello', end='')\ninput('?')", answers=["x"])
    assert [k for k, _ in r.events] == ["stdout", "input", "result"]


def test_getpass(d):
    assert d.run("import getpass\ngetpass.getpass('secret: ')", answers=["pw"]).all("input") == [{"prompt": "secret: ", "password": True}]


def test_input_without_anybody_is_eof(d):
    assert d.run("input('x')").error["name"] == "EOFError"
    assert d.run("input('x')", answers=[]).error["name"] == "EOFError"


def test_stdin_is_empty(d):
    assert d.run("import sys; sys.stdin.read()").value == "''"


# ---- processes ----


def test_a_fork_that_comes_back_ends(d):
    r = d.run("import os\npid = os.fork()\nif pid == 0: print('child')\nelse: print(os.waitpid(pid, 0)[1])")
    assert sorted(r.out.split("\n")) == ["", "0", "child"] and r.status == "ok"
    assert d.run("'parent'").value == "'parent'"


def test_a_fork_that_fails_says_so(d):
    r = d.run("import os\npid = os.fork()\nif pid == 0: raise ValueError('in child')\nos.waitpid(pid, 0)[1] >> 8")
    assert r.value == "1" and "ValueError: in child" in r.err and r.status == "ok"


def test_a_fork_exits_with_its_code(d):
    assert d.run("import os, sys\npid = os.fork()\nif pid == 0: sys.exit(7)\nos.waitpid(pid, 0)[1] >> 8").value == "7"


def test_a_fork_shows_things_as_text(d):
    r = d.run("import os\npid = os.fork()\nif pid == 0: display('shown')\nelse: os.waitpid(pid, 0)")
    assert r.out == "'shown'\n" and r.displays == []


def test_a_fork_does_not_repeat_what_was_printed(d):
    r = d.run("import os\nprint('once', end='')\npid = os.fork()\nif pid: os.waitpid(pid, 0);")
    assert r.out == "once"


def test_a_fork_is_no_reason_for_a_warning(start):
    """Python 3.12 and later warn of forks beside threads; the kernel's own is none of the user's business."""
    for version, python in other_pythons().items():
        if tuple(map(int, version.split("."))) >= (3, 12):
            d = start(python=python)
            d.run("print('starts the thread that flushes', end='')")
            r = d.run("import os, sys\nprint('x', end='')\npid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0);")
            assert r.err == "" and r.status == "ok"


def test_a_thread_may_fork_between_runs(d):
    d.run("import threading, os, time\ndef work():\n    time.sleep(0.05)\n    pid = os.fork()\n    if pid == 0: os._exit(0)\n    os.waitpid(pid, 0)\n    print('forked', flush=True)\nthreading.Thread(target=work).start()")
    got = []  # since 3.12 there may be a warning, too: a fork beside the user's own threads
    wait_for(lambda: got.extend(d.late_output()) or ("stdout", b"forked\n") in got, "the output of the thread")
    assert d.run("'alive'").value == "'alive'"


def test_a_thread_may_show_things_while_input_waits(d):
    d.run("import threading, time, sys\ndef work():\n    display('one'); print('two', flush=True); print('three', file=sys.stderr, flush=True)\n")
    d.start("t = threading.Timer(0.05, work); t.start()\ninput()", "i")
    d.until(("input",))
    events = []
    wait_for(lambda: d.drain(events) and {k for k, _ in events} == {"stdout", "stderr"} or {k for k, _ in events} == {"stdout", "stderr"}, "output")
    d.tell("input", b"answer")
    r = d.finish()
    assert r.value == "'answer'" and len(r.displays) == 1


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_multiprocessing(d, how):
    code = f"import multiprocessing, math\nwith multiprocessing.get_context('{how}').Pool(2) as pool:\n    got = pool.map(math.factorial, range(5))\ngot"
    r = d.run(code)
    assert r.value == "[1, 1, 2, 6, 24]", r


def test_multiprocessing_with_functions_typed_in(d):
    d.run("import multiprocessing\ndef double(x): print('in', x, flush=True); return 2 * x")
    r = d.run("with multiprocessing.get_context('fork').Pool(2) as pool:\n    got = pool.map(double, range(3))\ngot")
    assert r.value == "[0, 2, 4]" and sorted(r.out.split("\n")) == ["", "in 0", "in 1", "in 2"]


@pytest.mark.parametrize("how", ["spawn", "forkserver"])
@pytest.mark.parametrize("code", [
    "with ctx.Pool(2) as pool: pool.map(double, range(3))",
    "p = ctx.Process(target=double, args=(1,)); p.start(); p.join()",
    "import concurrent.futures as c\nwith c.ProcessPoolExecutor(1, mp_context=ctx) as e: e.submit(double, 1).result()",
    "with ctx.Pool(1) as pool: pool.apply(len, [Thing()])",
])  # fmt: skip
def test_processes_that_cannot_import_what_was_typed_in(d, how, code):
    d.run(f"import multiprocessing\nctx = multiprocessing.get_context('{how}')\ndef double(x): return 2 * x\nclass Thing: pass")
    r = d.run(code)
    assert r.error["name"] == "PicklingError" and "typed in" in r.error["message"] and "'fork'" in r.error["message"], r
    r = d.run("with multiprocessing.get_context('fork').Pool(2) as pool: got = pool.map(double, range(3))\ngot")
    assert r.value == "[0, 2, 4]", r


def test_children_do_not_get_our_channel(d):
    assert d.run("import subprocess; subprocess.run('ls /proc/self/fd', shell=True, capture_output=True, text=True).stdout.split()").value == "['0', '1', '2', '3']"
    assert d.run("import os; os.posix_spawn('/bin/sh', ['sh', '-c', 'ls -l /proc/$$/fd | grep -c socket'], os.environ) and os.wait()[1] >> 8").out == "0\n"


def test_pickle(d):
    assert d.run("import pickle\nclass P:\n    v = 3\npickle.loads(pickle.dumps(P())).v, pickle.loads(pickle.dumps(P)) is P").value == "(3, True)"


@pytest.mark.parametrize(
    "code,status", [("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV), ("import os; os._exit(3)", 3), ("import os; os.abort()", -signal.SIGABRT), ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL)]
)
def test_death_is_seen(d, code, status):
    d.start("print('before')\n" + code)
    with pytest.raises(Died) as e:
        d.finish()
    assert e.value.status == status and ("stdout", b"before\n") in e.value.events


def test_faulthandler_says_where(d):
    d.run("import faulthandler; faulthandler.enable()")
    d.start("import ctypes; ctypes.string_at(0)")
    with pytest.raises(Died) as e:
        d.finish()
    assert b"Cell In[2]" in b"".join(v for k, v in e.value.events if k == "stderr")


def test_ends_when_the_guest_is_gone(d):
    d.run("import atexit, pathlib; atexit.register(lambda: pathlib.Path('ended').write_text('x'))")
    cwd = d.run("import os; print(os.getcwd(), end='')").out
    d.control.close()
    assert d.process.wait(PATIENCE_S) == 0 and os.path.exists(os.path.join(cwd, "ended"))


def test_tracing_is_the_users_own(d):
    r = d.run("import sys\nseen = set()\ndef tracer(frame, event, arg):\n    seen.add(frame.f_code.co_filename)\nsys.settrace(tracer)\ndef f(): pass\nf()")
    assert r.status == "ok"
    assert d.run("f(); t = sys.gettrace(); sys.settrace(None); t is tracer").value == "True"
    assert "Cell In[1]" in d.run("sorted(seen)").value


# ---- async ----


def test_await(d):
    assert d.run("import asyncio\nawait asyncio.sleep(0.001, 'v')").value == "'v'"
    assert d.run("async def f(): return 5\nx = await f()\nx + 1").value == "6"


def test_tasks_go_on_between_runs(d):
    d.run("import asyncio\nticks = 0\nasync def tick():\n    global ticks\n    while True:\n        await asyncio.sleep(0.001)\n        ticks += 1\ntask = asyncio.create_task(tick())")
    wait_for(lambda: int(d.run("ticks").value or 0) > 3, "ticks")
    assert d.run("task.cancel()").value == "True"
    assert d.run("try:\n    await task\nexcept asyncio.CancelledError:\n    print('cancelled')").out == "cancelled\n"


def test_output_of_tasks_between_runs_is_late(d):
    r = d.run("import asyncio\nasync def later():\n    await asyncio.sleep(0.01)\n    print('late')\n    display('shown')\nt = asyncio.create_task(later())")
    late = came_early(r)
    wait_for(lambda: late.extend(d.late_output()) or b"shown" in b"".join(v for _, v in late), "late output")
    assert b"".join(v for _, v in late) == b"late\n'shown'\n"


def test_one_loop_for_all_runs(d):
    d.run("import asyncio\nq = asyncio.Queue()\nasync def loop(): return asyncio.get_running_loop()\nfirst = await loop()")
    assert d.run("await q.put(1)\n(await q.get(), await loop() is first)").value == "(1, True)"


def test_asyncio_run_works(d):
    assert d.run("import asyncio\nasync def f(): return 3\nasyncio.run(f())").value == "3"
    assert d.run("await f()").value == "3"
    assert d.run("asyncio.run(f())").value == "3"


def test_an_error_in_a_task_kills_nothing(d):
    d.run("import asyncio, sys\nasync def f(): sys.exit(5)\nt = asyncio.create_task(f())")
    assert d.run("'alive'").value == "'alive'"


# ---- begin ----


def test_begin_sets_the_place(start, tmp_path):
    (tmp_path / "sub dir").mkdir()
    d = start(begin=f"cwd={str(tmp_path).replace('%', '%25')}/sub%20dir\nenv.CELL_X=a%3Db%0A%C3%BC\npreload=json,fractions\n")
    assert d.run("import os, sys; os.getcwd().endswith('sub dir'), os.environ['CELL_X'], 'fractions' in sys.modules").value == "(True, 'a=b\\nü', True)"


def test_begin_says_what_failed(start):
    d = start(begin="cwd=/no/such/dir\npreload=json,no_such_module\n")
    assert set(d.ready["failed"]) == {"cwd", "no_such_module"}
    assert d.run("1").value == "1"


def test_a_parked_interpreter_is_handed_over(start, tmp_path):
    d = start(begin="park=1\npreload=random,tempfile,json\n")
    assert d.late_output() == []
    d.tell("begin", f"cwd={tmp_path}\nenv.WHO=me\nenv.TZ=Asia%2FTokyo".encode())
    assert d.until(("ready",))[-1][1]["language"] == "python"
    r = d.run("import os, time\nprint(os.environ['WHO'], os.getcwd(), time.strftime('%z'))\n_")
    assert r.out == f"me {tmp_path} +0900\n" and r.error["name"] == "NameError"
    assert "Cell In[1]" in r.error["traceback"][1]
    assert d.run("sorted(n for n in globals() if not n.startswith('__'))").value == "['os', 'time']"


@pytest.mark.parametrize("files", [16, 32, 100])
def test_starts_with_few_files_allowed(start, files):
    d = start(argv=["/bin/sh", "-c", f'ulimit -n {files}; exec "$0" -c "$1"', PYTHON, BOOT])
    assert d.run("print('a', end='')\nimport resource; resource.getrlimit(resource.RLIMIT_NOFILE)[0]").value == str(files)


def test_random_state_is_not_shared(start):
    seen = {start(begin="preload=random,tempfile\n").run("import random, tempfile; random.random(), tempfile.mktemp()").value for _ in range(3)}
    assert len(seen) == 3


# ---- questions ----


def test_vars(d):
    d.run("import math\nx = 5\ns = 'text'\nl = list(range(1000))\n_hidden = 1\ndef f(): pass")
    found = {v["name"]: v for v in d.ask("vars")}
    assert set(found) == {"x", "s", "l", "f"}
    assert found["x"]["type"] == "int" and found["x"]["repr"] == "5" and found["x"]["size"] > 0
    assert found["l"]["shape"] == [1000] and len(found["l"]["repr"]) < 300


def test_vars_survives_what_is_hostile(d):
    d.run("class R:\n    def __repr__(self): raise ValueError\n    def __sizeof__(self): raise ValueError\n    __class__ = property(lambda s: 1/0)\nr = R()\nloop = []; loop.append(loop)")
    found = {v["name"]: v["repr"] for v in d.ask("vars")}
    assert "failed" in found["r"] and "loop" in found


def test_get(d):
    d.run("x = {'a': [1, 2.5, None, True, 'ü'], 'b': {}}\nnan = float('nan')\no = object()\nt = (1, 2)")
    assert d.ask("get", "x")["value"] == {"a": [1, 2.5, None, True, "ü"], "b": {}}
    assert d.ask("get", "t")["value"] == [1, 2]
    for name in ("nan", "o"):
        answer = d.ask("get", name)
        assert "value" not in answer and "text/plain" in answer["data"]


def test_get_of_what_is_not_there_is_an_error(d):
    d.tell("ask get", b"nothing")
    r = d.finish()
    assert r.status == "error" and r.error["name"] == "NameError"


def test_set(d):
    assert d.ask("set", 'x\n{"a": [1, null, "\\u00fc"]}')["type"] == "dict"
    assert d.run("x").value == "{'a': [1, None, 'ü']}"
    for bad in ("a b\n1", "class\n1", "x\n{", "\n1"):
        d.tell("ask set", bad.encode())
        assert d.finish().status == "error"


@pytest.mark.parametrize(
    "code,matches,begins",
    [
        ("pri", ["print"], 0),
        ("x = my_v", ["my_value"], 4),
        ("my_value.up", ["upper"], 9),
        ("ü = 1; my_v", ["my_value"], 8),
        ("import coll", ["collections"], 7),
        ("import os.pa", [], 10),
        ("from json import lo", ["load", "loads"], 17),
        ("d['ke", ["key one", "key two"], 3),
        ("obj.plain.up", ["upper"], 10),
        ("obj.calc", ["calculated"], 4),
        ("obj.calculated.up", [], 15),
        ("%%wri", ["writefile"], 2),
        ("5.", [], 2),
        ("nothing.x", [], 8),
        ("'a'.up", [], 6),
    ],
)
def test_complete(d, code, matches, begins):
    d.run("my_value = 's'\nd = {'key one': 1, 'key two': 2, 3: 4}\nimport json\nevaluated = []\nclass C:\n    @property\n    def calculated(self):\n        evaluated.append(1)\n        return 's'\nobj = C()\nobj.plain = 's'")
    answer = d.ask("complete", f"{len(code.encode())}\n{code}")
    assert [m for m in answer["matches"] if not m.startswith("PRI")] == matches
    assert not matches or answer["start"] == begins
    assert answer["end"] == len(code.encode()) or not matches
    assert d.run("evaluated").value == "[]"


def test_complete_in_the_middle(d):
    assert d.ask("complete", "3\npri(5)")["matches"] == ["print"]


def test_questions_do_not_change_anything(d):
    d.run("x = 1")
    before = d.run("sorted(globals())").value
    d.ask("vars"), d.ask("get", "x"), d.ask("complete", "1\nx")
    assert d.run("sorted(globals())").value == before


# ---- what is shown ----


def test_display_ids(d):
    r = d.run("h = display(1, display_id='a')\nh.update(2)\ng = display(3, display_id=True)\ng.display_id")
    first, second, third = r.displays
    assert (first["id"], second["id"], second["update"]) == ("a", "a", True) and "update" not in first
    assert r.value == repr(third["id"])


def test_clear_output(d):
    r = d.run("from IPython.display import clear_output\nprint('a')\nclear_output(wait=True)\nprint('b')")
    assert r.events == [("stdout", b"a\n"), ("clear", {"wait": True}), ("stdout", b"b\n")]


def test_too_much_to_show_is_left_out(d):
    r = d.run("class Big:\n    def _repr_html_(self): return 'x' * (20 << 20)\n    def __repr__(self): return 'big'\nBig()")
    result = r.one("result")
    assert result["data"] == {"text/plain": "big"}
    assert result["metadata"]["cell"]["left_out"] == [{"type": "text/html", "bytes": 20 << 20}]
    assert len(d.run("'y' * (40 << 20)").value) < 2 << 20


def test_a_repr_method_that_fails_leaves_the_others(d):
    r = d.run("class H:\n    def _repr_html_(self): raise ValueError('no html')\n    def __repr__(self): return 'plain'\nH()")
    assert r.data == {"text/plain": "plain"} and "ValueError: no html" in r.err and r.status == "ok"


def test_json_of_odd_things(d):
    r = d.run("class J:\n    def _repr_json_(self): return {'nan': float('nan'), 'b': b'x', 3: (1, 2), 's': {1}}\n    def __repr__(self): return 'J'\nJ()")
    assert r.data["application/json"] == {"nan": None, "b": "eA==", "3": [1, 2], "s": "{1}"}


def test_json_with_what_json_cannot_say(d):
    r = d.run("class J:\n    def _repr_json_(self): return {'s': '\\ud800', 'n': 'a\\0b', 'f': 1.5, 'b': b'x'}\n    def __repr__(self): return 'J'\nJ()")
    assert r.data["application/json"] == {"s": "\\ud800", "n": "a\u2400b", "f": 1.5, "b": "eA=="}
    d.run("s = 'a\\0b'")
    assert "value" not in d.ask("get", "s")


def test_the_debugger_asks(d):
    r = d.run("x = 5\nbreakpoint()\ny = 6", answers=["p x + 37", "c"])
    assert r.status == "ok" and "42\n" in r.out


def test_ipython_display_without_ipython(start):
    d = start(argv=[PYTHON, "-S", "-c", BOOT])
    assert d.run("import importlib.util; importlib.util.find_spec('IPython.core.interactiveshell')").value is None
    r = d.run("from IPython.display import *\nfrom IPython.display import display, HTML, Markdown, Image, SVG, JSON, Latex, Math, Code, IFrame\nfrom IPython import get_ipython\nfrom IPython.core.display import HTML as H2\ndisplay(HTML('<b>'), Markdown('*m*'), JSON({'a': 1}))\nget_ipython(), H2 is HTML")
    assert r.value == "(None, True)"
    assert [x["data"] for x in r.displays] == [
        {"text/plain": "<IPython.core.display.HTML object>", "text/html": "<b>"},
        {"text/plain": "<IPython.core.display.Markdown object>", "text/markdown": "*m*"},
        {"text/plain": "<IPython.core.display.JSON object>", "application/json": {"a": 1}},
    ]
    assert d.run("Image(b'\\x89PNG123')").data["image/png"] == base64.b64encode(b"\x89PNG123").decode()
    assert d.run("Math('x')").data["text/latex"] == "$\\displaystyle x$"
    assert d.run("import IPython.no_such_thing").error["name"] == "ModuleNotFoundError"


# ---- magics ----


@pytest.mark.parametrize(
    "code,out,value",
    [
        ("!echo a; echo b", "a\nb\n", None),
        ("x = !echo a; echo b\nx", "", "['a', 'b']"),
        ("n = 'v'\n!echo {n} $n $$HOME_NOT_SET {n.upper()}.", "v v V.\n", None),
        ("if True:\n    !echo in\nelse:\n    !echo out", "in\n", None),
        ("for i in range(2):\n    y = !echo {i}\n    print(y)", "['0']\n['1']\n", None),
        ("!echo 'don''t' \"(\"", "dont (\n", None),
        ("!echo one \\\n  two\n5", "one two\n", "5"),
        ("%%bash\necho $((1+1))\nexit 0", "2\n", None),
        ("%%sh -e\necho x", "x\n", None),
        ("%%time\nz = 5\nz", None, "5"),
        ("%time 1 + 1", None, "2"),
        ("%timeit -n 1 -r 1 pass", None, None),
        ("%%timeit -n 2 -r 2 q = 1\nq + 1", None, None),
        ("%%writefile w.txt\na\nb", "Writing w.txt\n", None),
        ("%env CELL_A=b", "env: CELL_A=b\n", None),
        ("%matplotlib inline", "", None),
        ("%pip --version", None, None),
        ("pip help list", None, None),
        ("%%capture c\nprint('x')", "", None),
        ("%%python3\nprint(6*7)", "42\n", None),
        ("%lsmagic", None, None),
        ("%who", None, None),
        ("%config InlineBackend.figure_format = 'svg'", "", None),
    ],
)
def test_magic(d, code, out, value):
    r = d.run(code)
    assert (r.status, r.value) == ("ok", value), r
    assert out is None or r.out == out


@pytest.mark.parametrize(
    "code,name,words",
    [
        ("%no_such", "UsageError", "there is no %no_such here"),
        ("%%no_such\nx", "UsageError", "there is no %%no_such here"),
        ("%bash ls", "UsageError", "%%bash is"),
        ("%%bash\nexit 3", "UsageError", "exit code 3"),
        ("%matplotlib qt", "UsageError", "inline"),
        ("%pip no-such-command", "UsageError", "pip failed"),
        ("%cd /no/such", "FileNotFoundError", ""),
        ("!echo x\ny = = 1", "SyntaxError", "line 2"),
        ("x = 1\n!echo x\nif:\n", "SyntaxError", "line 3"),
        ("%%time\n1/0", "ZeroDivisionError", ""),
        ("!exit 1\nundefined", "NameError", ""),
    ],
)
def test_magic_that_fails(d, code, name, words):
    r = d.run(code)
    assert r.status == "error" and r.error["name"] == name and words in r.error["message"]


def test_lines_of_magic_cells_are_counted(d):
    assert "Cell In[1], line 3" in traceback_of(d, "%%time\nx = 1\n1/0")


def test_cd(d, tmp_path):
    (tmp_path / "sub").mkdir()
    assert d.run("%cd sub").out == f"{tmp_path}/sub\n"
    assert d.run("import os; os.getcwd()").value == repr(f"{tmp_path}/sub")
    assert d.run("%cd -").out == f"{tmp_path}\n"


# ---- libraries ----


def test_figures_without_a_line_of_set_up(d):
    pytest.importorskip("matplotlib", reason="python3-matplotlib is not installed")
    r = d.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nprint('between')\nplt.figure(); plt.plot([3]); None")
    pngs = [base64.b64decode(x["data"]["image/png"]) for x in r.displays]
    assert len(pngs) == 2 and all(p.startswith(b"\x89PNG") for p in pngs)
    assert [k for k, _ in r.events] == ["display", "stdout", "display"]
    assert d.run("plt.get_fignums(), 'MPLBACKEND' in __import__('os').environ").value == "([], False)"
    r = d.run("fig, ax = plt.subplots(); ax.plot([1]); fig")
    assert r.displays == [] and "image/png" in r.data
    r = d.run("%config InlineBackend.figure_format = 'svg'\nplt.plot([1]);")
    assert r.displays[0]["data"]["image/svg+xml"].lstrip().startswith("<?xml")


def test_tables_without_a_line_of_set_up(d):
    pytest.importorskip("pandas", reason="python3-pandas is not installed")
    r = d.run("import pandas as pd\ndf = pd.DataFrame({'a': [1, 2], 'b': ['x', None]})\ndf")
    assert "<table" in r.data["text/html"] and r.value.startswith("   a     b")
    table = r.data["application/vnd.dataresource+json"]
    assert table["rows"] == 2 and table["data"][1] == {"index": 1, "a": 2, "b": None}
    about = {v["name"]: v for v in d.ask("vars")}["df"]
    assert about["type"] == "pandas.DataFrame" and about["shape"] == [2, 2]
    assert d.ask("complete", "4\ndf['")["matches"] == ["a", "b"]
    assert d.run("import numpy as np\narr = np.zeros((10, 20))").status == "ok"
    about = {v["name"]: v for v in d.ask("vars")}["arr"]
    assert about["shape"] == [10, 20] and about["size"] == 1600
    assert d.ask("get", "arr")["value"][0][0] == 0.0


# ---- versions ----

CORE = [
    ("1 + 1", "2", ""),
    ("print('hi')\n{'a': list(range(40))}", None, "hi\n"),
    ("import asyncio\nawait asyncio.sleep(0, 5)", "5", ""),
    ("t = asyncio.create_task(asyncio.sleep(0, 6))", None, ""),
    ("await t", "6", ""),
    ("!echo x", None, "x\n"),
    ("%%bash\necho y", None, "y\n"),
    ("x = !echo z\nx", "['z']", ""),
    ("%pwd", None, None),
    ("5;", None, ""),
    ("from IPython.display import HTML\nHTML('<b>')", None, ""),
    ("import threading\nt = threading.Thread(target=print, args=('in',)); t.start(); t.join()", None, "in\n"),
    ("from __future__ import annotations\ndef f(x: nothing): pass\nf.__annotations__", "{'x': 'nothing'}", ""),
    ("import inspect\nprint(inspect.getsource(f), end='')", None, "def f(x: nothing): pass\n"),
    ("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nelse: print('c')", None, "c\n"),
    ("len", None, ""),
    ("print('a', end='')\nimport subprocess\nsubprocess.run(['echo', 'b']);", None, "ab\n"),
]


@pytest.mark.parametrize("version", sorted(other_pythons(), key=lambda v: tuple(map(int, v.split(".")))))
def test_other_versions_of_python(start, version):
    d = start(python=other_pythons()[version])
    assert d.ready["version"].startswith(version + ".")
    for code, value, out in CORE:
        r = d.run(code)
        assert r.status == "ok" and r.err == "", (code, r)
        assert value is None or r.value == value, (code, r)
        assert out is None or r.out == out, (code, r)
    for code, name in (("1/0", "ZeroDivisionError"), ("x = = 1", "SyntaxError"), ("def f(): return f()\nf()", "RecursionError"), ("%nope", "UsageError")):
        r = d.run(code)
        assert r.status == "error" and r.error["name"] == name and not any("<cell>" in line for line in r.error["traceback"])
    d.start("print('on', flush=True)\nwhile True: pass")
    wait_for_output(d)
    d.interrupt()
    assert d.finish().error["name"] == "KeyboardInterrupt"
    assert {v["name"] for v in d.ask("vars")} >= {"x", "f"}
    assert d.ask("complete", "4\nprin")["matches"] == ["print"]
    assert d.run("input()", answers=["l"]).value == "'l'"


def wait_for_output(d):
    got = []
    wait_for(lambda: got.extend(d.late_output()) or got, "output")
    return got
