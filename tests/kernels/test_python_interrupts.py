# SPDX-License-Identifier: Apache-2.0
"""Interrupts of the Python kernel: wherever they hit, the code gets a KeyboardInterrupt or nothing happens; the kernel goes on, its messages
stay whole and its variables stay."""

import fcntl
import os
import random
import struct
import termios
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driver import Driver
from test_python import wait_for, wait_for_output


def interrupted(d, code, flags="-"):
    """The result of code that says that it is on its way and is interrupted then."""
    d.start(code if code.startswith("%%") else "print('on', flush=True)\n" + code, flags)
    wait_for_output(d)
    d.interrupt()
    return d.finish()


def is_alive(d):
    d.run("alive = globals().get('alive', 0) + 1")
    return d.run("alive").status == "ok"


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time; time.sleep(1000)",
        "while True: print('x')",
        "while True: print('x', end='')",
        "import sys\nwhile True: print('o'); print('e', file=sys.stderr)",
        "while True: display('shown')",
        "import asyncio; await asyncio.sleep(1000)",
        "import asyncio\nasync def f():\n    while True: pass\nawait f()",
        "import asyncio\nasync def f():\n    while True: await asyncio.sleep(0)\nawait f()",
        "import asyncio\nawait asyncio.gather(*[asyncio.sleep(1000) for i in range(3)])",
        "import asyncio\nasyncio.run(asyncio.sleep(1000))",
        "import subprocess; subprocess.run(['sleep', '1000'])",
        "!sleep 1000",
        "x = !sleep 1000",
        "%%bash\necho on; sleep 1000",
        "%timeit sum(range(100000000))",
        "%time\nwhile True: pass",
        "import threading; threading.Event().wait()",
        "import threading\nt = threading.Thread(target=threading.Event().wait, daemon=True); t.start(); t.join()",
        "import select; select.select([], [], [])",
        "import os; os.read(os.pipe()[0], 1)",
        "import queue; queue.Queue().get()",
        "class R:\n    def __repr__(self):\n        while True: pass\nR()",
        "def g():\n    while True: yield 1\nsum(g())",
        "import re; re.match(r'(a+)+$', 'a' * 40 + 'b')",
        "exec('while True: pass')",
    ],
)
def test_interrupt(start, code):
    d = start()
    d.run("kept = 1")
    r = interrupted(d, code)
    assert r.status == "error" and r.error["name"] == "KeyboardInterrupt", r
    assert d.run("kept").value == "1"


def test_interrupt_of_a_question(d):
    d.start("input('?')", "i")
    d.until(("input",))
    d.interrupt()
    assert d.finish().error["name"] == "KeyboardInterrupt"
    assert d.run("input()", answers=["next"]).value == "'next'"


def test_an_answer_that_comes_too_late_is_dropped(d):
    d.start("input('?')", "i")
    d.until(("input",))
    d.interrupt()
    r = d.finish()
    d.tell("input", b"late")
    assert r.error["name"] == "KeyboardInterrupt" and d.run("1 + 1").value == "2"


def test_interrupt_shows_where(d):
    r = interrupted(d, "def busy():\n    while True:\n        pass\nbusy()")
    assert any("in busy" in line for line in r.error["traceback"])


def test_code_may_catch_it(d):
    d.start("try:\n    print('on', flush=True)\n    while True: pass\nexcept KeyboardInterrupt:\n    print('caught')\n'done'")
    wait_for_output(d)
    d.interrupt()
    r = d.finish()
    assert r.status == "ok" and r.value == "'done'" and r.out.endswith("caught\n")


def test_code_that_swallows_it_goes_on(d):
    """The guest kills it when its grace is over; here it is seen that interrupts do reach it, each time."""
    d.start("n = 0\nwhile True:\n    try:\n        print('try', n, flush=True)\n        while True: pass\n    except BaseException:\n        n += 1")
    for i in range(5):
        got = b""
        while not got.endswith(b"try %d\n" % i):
            got += b"".join(v for _, v in wait_for_output(d))
        d.interrupt()
    d.process.kill()


def test_a_blocked_print_can_be_interrupted(d):
    """Nobody reads: the pipe is full and the code waits in the midst of a write."""
    d.start("while True: print('x' * 1000)")
    out = next(fd for fd, name in d.pipes.items() if name == "stdout")

    def filled():
        return struct.unpack("i", fcntl.ioctl(out, termios.FIONREAD, b"    "))[0]

    size = fcntl.fcntl(out, fcntl.F_GETPIPE_SZ)
    wait_for(lambda: filled() > size - 4096, "a full pipe")
    d.interrupt()
    r = d.finish()
    assert r.error["name"] == "KeyboardInterrupt"
    assert r.out.replace("x" * 1000 + "\n", "").strip("x\n") == ""
    assert d.run("print('next')").out == "next\n", "nothing of the run before is left to be written"


def test_interrupts_between_runs_do_nothing(d):
    d.run("x = 5")
    for _ in range(50):
        d.interrupt()
    time.sleep(0.2)  # all are delivered; were it too short, the runs below would be as good
    d.run("x")
    assert d.run("x").value == "5"
    for i in range(100):
        d.interrupt()
        assert d.run(f"x + {i}").value == str(5 + i)


def test_interrupt_before_the_code_was_read(d):
    """The run is on its way when the signal comes: it is meant for that."""
    for _ in range(30):
        d.start("while True: pass")
        d.interrupt()
        assert d.finish().error["name"] == "KeyboardInterrupt"


def test_a_handler_of_the_users_own(d):
    d.run("import signal, time\nhits = []\nold = signal.signal(signal.SIGINT, lambda s, f: hits.append(1))")
    d.start("print('on', flush=True)\nwhile not hits: time.sleep(0.001)\nlen(hits)")
    wait_for_output(d)
    d.interrupt()
    assert d.finish().value == "1"
    d.run("signal.signal(signal.SIGINT, signal.default_int_handler);")
    for _ in range(20):
        d.interrupt()
    for _ in range(3):  # one that is delivered late hits a run
        is_alive(d)
    assert is_alive(d)
    assert interrupted(d, "while True: pass").error["name"] == "KeyboardInterrupt"


def test_ignored_interrupts_stay_ignored(d):
    d.run("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN);")
    d.start("print('on', flush=True)\nimport time; time.sleep(0.3); 'slept'")
    wait_for_output(d)
    d.interrupt()
    assert d.finish().value == "'slept'"


@pytest.mark.parametrize("what", ["print(1); print(2, file=sys.stderr)", "display(1)", "print('a', end='')", "display('x' * 100000)"])
def test_alarms_that_raise_anywhere_break_no_message(d, what):
    """A timer of the user's own whose handler raises, as fast as it can, in whatever the kernel does for the code."""
    code = f"""
import signal, sys
class Late(Exception): pass
def late(s, f): raise Late
signal.signal(signal.SIGALRM, late)
hits = 0
n = 0
while n < 300:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.00002 + (n % 17) * 0.00001)
        while True:
            {what}
    except Late:
        hits += 1
    n += 1
signal.setitimer(signal.ITIMER_REAL, 0)
signal.signal(signal.SIGALRM, signal.SIG_DFL)
hits
"""
    r = d.run(code)
    assert r.status == "ok" and r.value == "300", r.error
    assert d.run("print('whole'); 5").value == "5"


PIECES = [
    "for i in range(200): print(i)",
    "for i in range(100): print(i); print(i, file=sys.stderr)",
    "for i in range(20): display(i)",
    "x = sum(range(20000))",
    "{'a': list(range(200))}",
    "1/0",
    "x = = 1",
    "import asyncio; await asyncio.sleep(0.001)",
    "!true",
    "try:\n    time.sleep(0.002)\nexcept KeyboardInterrupt:\n    pass",
    "print('x' * 100000)",
    "input('?')",
]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.sampled_from(PIECES), st.lists(st.integers(0, 3000), max_size=4)), min_size=1, max_size=12), st.integers(0, 2**32))
def test_interrupts_at_any_moment(shared, pieces, seed):
    """Each run ends, and as it should or with KeyboardInterrupt; the harness checks each message."""
    d = shared
    chance = random.Random(seed)
    for code, delays in pieces:
        d.start(code, "i")
        for delay in sorted(delays):
            time.sleep(delay / 1e6)
            d.interrupt()
        r = d.finish(answers=["answer"])
        if r.status == "error":
            assert r.error["name"] in ("KeyboardInterrupt", "ZeroDivisionError", "SyntaxError", "UsageError"), r
        if chance.random() < 0.3:
            d.interrupt()
    assert d.run("marker").value == "'still here'", "one that came after the end is for nobody"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    driver = Driver(os.environ.get("CELL_TEST_PYTHON", "/usr/bin/python3"), cwd=tmp_path_factory.mktemp("shared"))
    driver.run("import sys, time\nmarker = 'still here'")
    yield driver
    driver.close()


WRITES = {
    "o": ("print('o{n}')", "stdout", "o{n}\n"),
    "O": ("print('O{n}', end='')", "stdout", "O{n}"),
    "e": ("print('e{n}', file=sys.stderr)", "stderr", "e{n}\n"),
    "E": ("sys.stderr.write('E{n}')", "stderr", "E{n}"),
    "b": ("sys.stdout.buffer.write(b'b{n}')", "stdout", "b{n}"),
    "c": ("sys.stderr.buffer.write(b'c{n}\\n')", "stderr", "c{n}\n"),
    "s": ("subprocess.run(['echo', 's{n}'])", "stdout", "s{n}\n"),
    "l": ("print('l{n}' * 5000)", "stdout", "l{n}"),
    "m": ("for i in range(100): print('m{n}', end=' ')", "stdout", "m{n} "),
    "d": ("display({n})", "display", "{n}"),
    "f": ("sys.stdout.flush()", None, ""),
    "i": ("input('{n}')", "input", "{n}"),
}
REPEATED = {"l": (5000, "\n"), "m": (100, "")}


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text(alphabet="".join(WRITES), min_size=1, max_size=25))
def test_everything_comes_in_the_order_it_was_written(shared, text):
    code, expected = ["import sys, subprocess"], []
    for n, letter in enumerate(text):
        line, kind, said = (x.replace("{n}", str(n)) if x else x for x in WRITES[letter])
        code.append(line)
        times, end = REPEATED.get(letter, (1, ""))
        said = (said * times + end).encode()
        if kind in ("stdout", "stderr") and expected and expected[-1][0] == kind:
            expected[-1] = (kind, expected[-1][1] + said)
        elif kind:
            expected.append((kind, said))
    code.append("None")
    shared.late_output()
    shared.start("\n".join(code), "i")
    r = shared.finish(answers=["x"] * len(text))
    got = []
    for kind, v in r.events:
        v = v["data"]["text/plain"].encode() if kind == "display" else v["prompt"].encode() if kind == "input" else v
        if kind in ("stdout", "stderr") and got and got[-1][0] == kind:
            got[-1] = (kind, got[-1][1] + v)
        else:
            got.append((kind, v))
    assert r.status == "ok" and got == expected


