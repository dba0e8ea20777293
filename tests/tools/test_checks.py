# SPDX-License-Identifier: Apache-2.0
"""The checks of tools/: each finds what it is for, and is quiet about the same thing done right."""

import os
import subprocess
from pathlib import Path

import pytest

TOP = Path(os.environ.get("CELL_SOURCE", Path(__file__).resolve().parents[2]))
HEAD = "/* SPDX-License-Identifier: Apache-2.0 */\n"


@pytest.fixture
def tree(tmp_path):
    """A small source tree; write(name, text) adds a file."""

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    write("src/base/banned.h", HEAD + "#pragma GCC poison strcpy system\n")
    write("src/base/buf.h", HEAD)
    write("src/wire/wire.h", HEAD)
    write("src/core/backend.h", HEAD)
    write("src/backends/local/local.h", HEAD)
    write.top = tmp_path
    return write


def check(name, tree):
    done = subprocess.run([TOP / "tools" / name, tree.top], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    "path, include, is_ok",
    [
        ("src/wire/a.c", '"base/buf.h"', True),
        ("src/base/a.c", '"wire/wire.h"', False),
        ("src/core/a.c", '"wire/wire.h"', True),
        ("src/core/a.c", '"backends/local/local.h"', False),
        ("src/guest/a.c", '"wire/wire.h"', True),
        ("src/guest/a.c", '"core/backend.h"', False),
        ("src/launcher/a.c", '"core/backend.h"', False),
        ("src/backends/local/a.c", '"backends/local/local.h"', True),
        ("src/backends/local/a.c", '"core/backend.h"', True),
        ("src/backends/jail/a.c", '"backends/local/local.h"', False),
        ("src/backends/jail/a.c", '"../local/local.h"', False),
        ("src/net/a.c", '"core/backend.h"', False),
        ("src/cli/a.c", '"core/backend.h"', True),
        ("src/core/a.c", "<jansson.h>", True),
        ("src/guest/a.c", "<jansson.h>", False),
        ("src/guest/a.c", "<linux/sched.h>", True),
        ("src/guest/a.c", '"cell/error.h"', True),
        ("include/cell/a.h", "<cell/error.h>", True),
        ("include/cell/a.h", '"core/backend.h"', False),
        ("include/cell/a.h", "<base/buf.h>", False),
        ("src/nowhere/a.c", '"base/buf.h"', False),
    ],
)
def test_layers_are_kept_by_includes(tree, path, include, is_ok):
    tree(path, f"{HEAD}#include {include}\n")
    code, out = check("check-layers", tree)
    assert (code, path in out) == ((0, False) if is_ok else (1, True)), out


def test_an_include_in_a_comment_is_none(tree):
    tree("src/base/a.c", HEAD + '/*\n#include "core/backend.h"\n*/\n')
    assert check("check-layers", tree) == (0, "")


@pytest.mark.parametrize(
    "text, is_ok",
    [
        ("void f(void) { strcpy(a, b); }\n", False),
        ("void f(void) { my_strcpy(a, b); }\n", True),
        ("/* strcpy(a, b) is banned */\n", True),
        ('const char *s = "system(x)";\n', True),
        ("int a; // no\n", False),
        ('const char *s = "http://x";\n', True),
        ("typedef struct x x_t;\n", False),
        ("typedef struct { int a; } x_t;\n", False),
        ("typedef int (*fn)(struct x *p);\n", True),
        ("typedef struct x *(*fn)(int a);\n", True),
        ("int a; \n", False),
        ("<<<<<<< HEAD\n", False),
        ("int a;\n" * 1001, False),
        ("int a;\n" * 900, True),
    ],
)
def test_what_is_banned_is_found(tree, text, is_ok):
    tree("src/core/a.c", HEAD + text)
    code, out = check("check-banned", tree)
    assert code == (0 if is_ok else 1), out


def test_a_file_without_a_licence_line_is_found(tree):
    tree("src/core/a.c", "int a;\n")
    assert check("check-banned", tree)[0] == 1


@pytest.mark.parametrize(
    "link, is_ok",
    [
        ("[x](other.md)", True),
        ("[x](missing.md)", False),
        ("[x](other.md#a-heading-with-code)", True),
        ("[x](other.md#no-heading)", False),
        ("[x](#top)", True),
        ("[x](/docs/other.md)", True),
        ("[x](https://example.org/missing)", True),
        ("`[x](missing.md)`", True),
        ("```\n[x](missing.md)\n```", True),
        ("```\nnever closed", False),
        ("[x]: missing.md", False),
        ("![x](missing.png)", False),
        ("[x](../../../../etc/passwd)", False),
    ],
)
def test_links_that_lead_nowhere_are_found(tree, link, is_ok):
    tree("docs/other.md", "# A heading with `code`!\n")
    tree("docs/page.md", f"# Top\n\n{link}\n")
    code, out = check("check-docs", tree)
    assert code == (0 if is_ok else 1), out


def run_examples(tree, page):
    tree("page.md", page)
    done = subprocess.run([TOP / "tests/docs/run-examples", "/bin/true", tree.top / "page.md"], capture_output=True,
        text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    "page, is_ok",
    [
        ("```sh run\ntrue\n```\n", True),
        ("```sh run\nfalse\n```\n", False),
        ("```sh run\nfalse\ntrue\n```\n", False),
        ("```sh run exit=3\nexit 3\n```\n", True),
        ("```sh run exit=3\ntrue\n```\n", False),
        ("```sh run\ncell\n```\n", True),
        ("```sh run\necho a; echo b; echo c\n```\n\n```text output\na\n...\nc\n```\n", True),
        ("```sh run\necho a; echo b\n```\n\n```text output\na\n```\n", False),
        ("```sh run\necho took 12 ms\n```\n```text output\ntook ... ms\n```\n", True),
        ("```sh run\necho a\n```\n```text\nb\n```\n", True),
        ("```sh run\necho 1 > f\n```\n```sh run\ncat f\n```\n", True),
    ],
)
def test_examples_of_a_page_are_run_and_compared(tree, page, is_ok):
    code, out = run_examples(tree, page)
    assert code == (0 if is_ok else 1), out
    assert ("not ok" in out) != is_ok


def test_a_block_that_is_not_marked_is_not_run(tree):
    code, out = run_examples(tree, "```sh\nfalse\n```\n")
    assert (code, out.startswith("1..0 # SKIP")) == (0, True)
