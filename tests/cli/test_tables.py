# SPDX-License-Identifier: Apache-2.0
"""Man pages and completion say what the tables say: nothing missing, nothing made up."""

import re
import shutil
import subprocess

import pytest
from conftest import CELL

MAN = CELL.parent / "man"


@pytest.fixture(scope="module")
def tables():
    import json
    return json.loads(subprocess.run([CELL, "help", "--json"], check=True, capture_output=True).stdout)


def options(verb):
    """The long options of a verb and of the verbs it has."""
    own = {o["name"] for group in verb["groups"] for o in group["options"]}
    return own.union(*(options(inner) for inner in verb["verbs"]))


def documented(page):
    """The options a page has an entry for."""
    items = [line for line in page.read_text().splitlines() if line.startswith(".It Fl")]
    return {m.replace("\\", "") for line in items for m in re.findall(r"Fl \\-((?:[a-z]|\\-)+)", line)}


def test_there_is_a_page_for_each_verb_and_no_other(tables):
    verbs = {f"cell-{verb['name']}.1" for verb in tables["verbs"]}
    assert {page.name for page in MAN.glob("cell*.1")} == verbs | {"cell.1"}


def test_pages_have_exactly_the_options_of_the_tables(tables):
    for verb in tables["verbs"]:
        assert documented(MAN / f"cell-{verb['name']}.1") == options(verb), verb["name"]
    assert documented(MAN / "cell.1") == {o["name"] for o in tables["options"]}


def test_pages_are_clean_mdoc():
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed")
    pages = sorted(MAN.glob("*.1"))
    assert pages
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *pages], capture_output=True, text=True, check=False)
    assert done.stdout == ""


def test_completion_offers_exactly_the_options_of_a_verb(tables):
    everywhere = {o["name"] for o in tables["options"]}
    for verb in tables["verbs"]:
        for words in [[verb["name"]]] if not verb["verbs"] else [[verb["name"], v["name"]] for v in verb["verbs"]]:
            inner = next((v for v in verb["verbs"] if v["name"] == words[-1]), verb)
            out = subprocess.run([CELL, "__complete", "--", *words, "--"], check=True, capture_output=True, text=True).stdout
            assert {line.split("\t")[0][2:] for line in out.splitlines()} == options(inner) | everywhere, words


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_valid(shell):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    script = subprocess.run([CELL, "completion", shell], check=True, capture_output=True).stdout
    done = subprocess.run([shell, "-n"], input=script, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_bash_completes_verbs_options_and_cells(cell):
    if not shutil.which("bash"):
        pytest.skip("bash is not installed")
    cell.ok("create", "web")
    ask = """
        source <("$CELL" completion bash)
        compopt() { :; }
        COMP_LINE="$CELL $1"; COMP_POINT=${#COMP_LINE}; _cell; echo "${COMPREPLY[*]}"
    """
    def complete(line):
        return subprocess.run(["bash", "-c", ask, "bash", line], env=cell.env | {"CELL": str(CELL)}, check=True,
            capture_output=True, text=True).stdout.split()

    assert complete("ru") == ["run"]
    assert complete("run --network=o") == ["open"]
    assert complete("rm w") == ["web"]
    assert complete("cp we") == ["web:"]
    cell.ok("rm", "web")
