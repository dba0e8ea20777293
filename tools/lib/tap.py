# SPDX-License-Identifier: Apache-2.0
"""Reads TAP. What a program leaves unsaid (no plan, too few tests, a crash) becomes a failed test."""

import re
import signal
from dataclasses import dataclass, field

PASS, FAIL, SKIP = "pass", "fail", "skip"
LINE = re.compile(r"^(not )?ok\b\s*(\d+)?\s*(?:- )?(.*)$")
PLAN = re.compile(r"^1\.\.(\d+)\s*(?:#\s*(.*))?$")
DIRECTIVE = re.compile(r"\s#\s*(SKIP|TODO)\b\S*\s*(.*)$", re.IGNORECASE)


@dataclass
class Result:
    status: str
    name: str
    reason: str = ""  # of a skip
    detail: list = field(default_factory=list)  # lines to show when it failed


def how_it_ended(returncode):
    """None when it ended as a test program may: exit 0, or 1 after failed tests."""
    if returncode in (0, 1):
        return None
    if returncode < 0:
        try:
            return "killed by " + signal.Signals(-returncode).name
        except ValueError:
            return f"killed by signal {-returncode}"
    return f"ended with exit status {returncode}"


class Parser:
    """Feed it lines as they come; finish() with how the program ended gives what was missing."""

    def __init__(self):
        self.results = []
        self.notes = []  # comments before the first test
        self.planned = None
        self.plan_comment = ""
        self.bail = None

    def feed(self, line):
        """The Result the line begins, or None."""
        line = line.rstrip("\n")
        if plan := PLAN.match(line):
            self.planned = int(plan[1])
            self.plan_comment = plan[2] or ""
        elif found := LINE.match(line):
            return self._result(found)
        elif line.startswith("Bail out!"):
            self.bail = line
        elif self.results:
            self.results[-1].detail.append(line.removeprefix("# "))
        elif line.startswith("#"):
            self.notes.append(line)
        return None

    def _result(self, found):
        name, status, reason = found[3], FAIL if found[1] else PASS, ""
        if directive := DIRECTIVE.search(name):
            name = name[: directive.start()]
            reason = directive[2].strip()
            if directive[1].upper() == "SKIP":
                status = FAIL if found[1] else SKIP
                reason = reason or "no reason given"
            elif found[1]:
                status, reason = SKIP, f"known to fail: {reason}"
        result = Result(status, name.strip() or f"test {len(self.results) + 1}", reason)
        self.results.append(result)
        return result

    def finish(self, returncode, log=()):
        """Failures of the program as a whole; `log` is what else it printed."""
        ran = len(self.results)
        problems = []
        if self.bail:
            problems.append(self.bail)
        if ended := how_it_ended(returncode):
            problems.append(ended)
        if self.planned is None:
            problems.append(f"no plan in its output: it ended early, after {ran} tests")
        elif self.planned != ran:
            problems.append(f"{self.planned} tests were planned, {ran} ran")
        elif ran == 0 and not self.plan_comment.upper().startswith("SKIP"):
            problems.append("ran no tests" + (f": {self.plan_comment}" if self.plan_comment else ""))
        failed = any(r.status == FAIL for r in self.results)
        if returncode == 1 and not failed and not problems:
            problems.append("exit status 1 though no test failed")
        if returncode == 0 and failed:
            problems.append("exit status 0 though a test failed")
        if self.planned == 0 and ran == 0 and not problems:
            self.results.append(Result(SKIP, "all", self.plan_comment[4:].strip() or "no reason given"))
        if problems:
            self.results.append(Result(FAIL, "the program as a whole", detail=[*problems, *log]))
        return problems
