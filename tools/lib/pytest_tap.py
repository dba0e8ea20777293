# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: TAP into the file $CELL_TAP as the tests run, and a time limit for each.

The limit is $TEST_TIMEOUT seconds (60); @pytest.mark.slow(seconds) raises it for one test.
"""

import os
import signal

import pytest

NAME_MAX = 160

def pytest_configure(config):
    config.addinivalue_line("markers", "slow(seconds): may take this long")
    if path := os.environ.get("CELL_TAP"):
        config.pluginmanager.register(Tap(open(path, "w", encoding="utf-8", buffering=1)))


def _limit(item):
    limit = int(os.environ.get("TEST_TIMEOUT", "60"))
    if marker := item.get_closest_marker("slow"):
        limit = max(limit, int(marker.args[0]))
    return limit


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    limit = _limit(item)

    def late(_signo, _frame):
        pytest.fail(f"took longer than its time limit of {limit} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(limit)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


class Tap:
    def __init__(self, out):
        self.out = out
        self.count = 0
        self.reports = {}

    def line(self, is_ok, name, directive="", detail=""):
        self.count += 1
        name = name.replace("#", "\\#").replace("\n", "\\n")[:NAME_MAX]
        print(f"{'ok' if is_ok else 'not ok'} {self.count} - {name}{directive}", file=self.out)
        for line in detail.splitlines():
            print(f"# {line}", file=self.out)

    def pytest_collectreport(self, report):
        if report.failed:
            self.line(False, f"{report.nodeid} can be collected", detail=str(report.longrepr))
        elif report.skipped:
            self.line(True, report.nodeid, f" # SKIP {_reason(report)}")

    def pytest_runtest_logreport(self, report):
        reports = self.reports.setdefault(report.nodeid, [])
        reports.append(report)
        if report.when != "teardown":
            return
        del self.reports[report.nodeid]
        bad = [r for r in reports if r.failed]
        skipped = [r for r in reports if r.skipped]
        if bad:
            text = "\n".join(f"{r.longreprtext}\n{_captured(r)}" for r in bad)
            self.line(False, report.nodeid, detail=text)
        elif skipped:
            self.line(True, report.nodeid, f" # SKIP {_reason(skipped[0])}")
        else:
            self.line(True, report.nodeid)

    def pytest_sessionfinish(self, exitstatus):
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
            print(f"1..{self.count}", file=self.out)
        else:
            print(f"Bail out! pytest: {pytest.ExitCode(exitstatus).name}", file=self.out)


def _reason(report):
    if hasattr(report, "wasxfail"):
        return f"known to fail: {report.wasxfail}"
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ").replace("\n", " ")


def _captured(report):
    return "\n".join(f"--- {title}\n{text}" for title, text in report.sections)
