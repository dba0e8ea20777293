# SPDX-License-Identifier: Apache-2.0
"""The example of docs/moving-up.md: one project, the same file cell.yaml but for the line that names the back end. Everything that can
be seen of a run is gathered, to be compared byte for byte."""

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent.parent / "examples" / "sales"
NAME = "sales"
OWN = ("id", "cell", "backend", "duration_ms", "usage", "execution_time_ms")  # what every run has of its own

STEPS = {
    "the analysis": ["run", "--", "python3", "analyse.py", "sales.csv"],
    "a pipe": ["run", "-c", "cut -d, -f3 sales.csv | sort | uniq -c"],
    "its environment": ["run", "-c", "echo $LC_ALL $TZ; date -d @0; umask"],
    "a step that fails": ["run", "--", "python3", "analyse.py", "broken.csv"],
    "one that is killed": ["run", "-c", "kill -KILL $$"],
    "one that takes too long": ["run", "--json", "--timeout", "1s", "--", "sleep", "1000"],
    "one that is not there": ["run", "--", "no-such-program"],
    "a file that is not there": ["run", "--", "cat", "no-such-file"],
    "both streams and the exit": ["run", "--json", "-c", "echo out; echo err >&2; exit 3"],
    "code that remembers": ["code", "-q", "-s", NAME, "-c", "import json; s = json.load(open('report/summary.json')); s['lines']"],
    "and has": ["code", "-q", "-s", NAME, "-c", "sum(map(float, s['regions'].values()))"],
    "code that fails": ["code", "--json", "-s", NAME, "-c", "s['no such key']"],
    "a command beside it": ["exec", NAME, "--", "wc", "-c", "report/summary.json"],
    "a file of it": ["file", "read", NAME, "report/months.csv"],
    "one it has not": ["file", "read", "--json", NAME, "no-such-file"],
    "one outside": ["file", "read", "--json", NAME, "../../etc/hostname"],
    "a context it has not": ["context", "delete", "--json", NAME, "no-such-context"],
    "removal": ["rm", NAME],
    "what is gone": ["exec", "--json", NAME, "--", "true"],
}


def without_own(text):
    """A JSON answer without what differs from one run to the next."""
    if not text.startswith("{"):
        return text
    return {key: value for key, value in json.loads(text).items() if key not in OWN}


def files_of(directory):
    return {str(p.relative_to(directory)): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


def results(cell, backend, env):
    """What each step gives, and the files afterwards. `cell` is the program, `env` its whole environment."""
    with tempfile.TemporaryDirectory(prefix="cm-", dir="/tmp") as top:
        project = Path(top) / "project"
        shutil.copytree(PROJECT, project)
        text = (project / "cell.yaml").read_text()
        moved, n = re.subn(r"(?m)^backend: \w+$", f"backend: {backend}", text)
        assert n == 1, text
        (project / "cell.yaml").write_text(moved)
        own = {"CELL_STATE_DIR": f"{top}/state", "HOME": top, "TMPDIR": top}
        told = {}
        try:
            for what, words in STEPS.items():
                r = subprocess.run([str(cell), *words], cwd=project, env=env | own, stdin=subprocess.DEVNULL, capture_output=True,
                    timeout=120, check=False)
                out, err = r.stdout.decode(), r.stderr.decode()
                told[what] = {"exit": r.returncode, "stdout": without_own(out), "stderr": err}
        finally:
            subprocess.run([str(cell), "rm", NAME], cwd=project, env=env | own, capture_output=True, check=False)
        told["files"] = {name: content for name, content in files_of(project).items() if name != "cell.yaml"}
        told["left"] = [p.name for p in Path(top, "state", "cells").glob("*") if not p.name.startswith(".")]
        return told
