# SPDX-License-Identifier: Apache-2.0
"""Starts the drivers of the other languages as the guest does (src/guest/kernel_lang.c has the same lines)."""

import os
import re
import shutil
import threading
import time

import pytest

from driver import PATIENCE_S, TOP, Driver

KERNELS = TOP / "kernels"


def boot(language):
    """The argument that starts a driver, from the guest's own table."""
    text = (TOP / "src" / "guest" / "kernel_lang.c").read_text()
    entry = text[text.index(f'.name = "{language}"') :]
    entry = entry[: entry.index("\n\t},")]
    pieces = re.findall(r'"((?:[^"\\]|\\.)*)"', entry[entry.index(".boot = ") :])
    return "".join(pieces).replace('\\"', '"').replace("\\\\", "\\").replace("\\n", "\n")


def node_argv():
    program = os.environ.get("CELL_TEST_NODE") or shutil.which("node")
    if not program:
        pytest.skip("node is not installed")
    return [program, "--no-force-async-hooks-checks", "-e", boot("javascript")]


ARGV = {
    "javascript": node_argv,
    "shell": lambda: [os.environ.get("CELL_TEST_BASH", "/bin/bash"), "--norc", "--noprofile", boot("shell")],
    "sqlite": lambda: [os.environ.get("CELL_TEST_BASH", "/bin/bash"), "--norc", "--noprofile", boot("shell")],
    "sql": lambda: [os.environ.get("CELL_TEST_PYTHON", "/usr/bin/python3"), "-c", boot("sql")],
}
FILES = {"javascript": "javascript.js", "shell": "shell.sh", "sql": "sql.py", "sqlite": "sqlite.sh"}


class Starter:
    """starter(begin=..., env=...) starts one; all are ended with what they started when the test is over."""

    def __init__(self, language, cwd):
        self.language, self.cwd, self.made = language, cwd, []

    def __call__(self, **how):
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8", "HOME": str(self.cwd), **how.pop("env", {})}
        argv = how.pop("argv", None) or ARGV[self.language]()
        self.made.append(Driver(argv=argv, driver=KERNELS / FILES[self.language], env=env, cwd=how.pop("cwd", self.cwd), **how))
        return self.made[-1]

    def close(self):
        for d in self.made:
            d.close()


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


def interrupt_and_finish(d):
    """Interrupt, again when that is not enough: bash takes no notice when the command it waits for is just about to end, and a
    program that is just being started may not get it."""
    is_done = threading.Event()

    def again():
        while not is_done.wait(3):
            d.interrupt()

    d.interrupt()
    thread = threading.Thread(target=again)
    thread.start()
    try:
        return d.finish()
    finally:
        is_done.set()
        thread.join()


def interrupt_at_display(d, code, **how):
    """Start code that displays something and then goes on for ever, interrupt it there, and give its result."""
    d.start(code, **how)
    d.until(("display",))
    return interrupt_and_finish(d)
