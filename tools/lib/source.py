# SPDX-License-Identifier: Apache-2.0
"""What the checks share: our C files, and C text without its comments and strings."""

import re
import subprocess
from pathlib import Path

TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def tracked(top, *patterns):
    """Files git has or would take: not ignored, not deleted."""
    try:
        listing = subprocess.run(
            ["git", "-C", str(top), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
            capture_output=True, check=True).stdout
        found = [Path(top, n) for n in sorted({n for n in listing.decode().split("\0") if n})]
    except (OSError, subprocess.CalledProcessError):  # no git, or an unpacked archive
        found = sorted(p for pattern in patterns for p in Path(top).rglob(pattern)
            if not p.relative_to(top).parts[0].startswith(("build", ".")))
    return [p for p in found if p.is_file()]


def c_files(top):
    return tracked(top, "*.c", "*.h")


def blank(text, keep_strings=False):
    """The text with comments (and strings) blanked out, line numbers kept."""

    def hide(found):
        token = found[0]
        if token[0] in "\"'" and keep_strings:
            return token
        return re.sub(r"[^\n]", " ", token)

    return TOKEN.sub(hide, text)


def report(name, problems, n_files):
    """Prints what was found; the exit status."""
    for problem in problems:
        print(problem)
    if problems:
        print(f"{name}: {len(problems)} problem{'s' if len(problems) != 1 else ''} in {n_files} files")
    return 1 if problems else 0
