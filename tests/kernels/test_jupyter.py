# SPDX-License-Identifier: Apache-2.0
"""The Python kernel against a real Jupyter kernel: the same code gives the same value, output, pictures and errors. Where it does not,
DIFFERENCES says in what and why; a difference listed there that is gone is a failure, too."""

import pytest

from driver import Driver
from snippets import facts, files, snippets

pytest.importorskip("ipykernel", reason="python3-ipykernel is not installed")
pytest.importorskip("jupyter_client", reason="python3-jupyter-client is not installed")
pytest.importorskip("matplotlib", reason="python3-matplotlib is not installed")
pytest.importorskip("pandas", reason="python3-pandas is not installed")

DATA = "tables come as data, too, which a Jupyter kernel does not give"
FIGURE = "figures come before the value or the error, so that these are the last of a run"
USAGE = "a magic that cannot be done is an error of the run, not a line on stderr"
WARNED = "Jupyter compiles the code three times and warns each time"
DIFFERENCES = {
    "display: dataframe": ({"data"}, DATA),
    "display: dataframe display": ({"data"}, DATA),
    "display: dataframe head": ({"data"}, DATA),
    "display: dataframe empty": ({"data"}, DATA),
    "display: dataframe long": ({"data"}, DATA),
    "display: dataframe wide": ({"data"}, DATA),
    "display: dataframe describe": ({"data"}, DATA),
    "display: dataframe groupby": ({"data"}, DATA),
    "display: series": ({"data"}, DATA),
    "display: multiindex": ({"data"}, DATA),
    "display: plot value": ({"order"}, FIGURE),
    "display: hist value": ({"order"}, FIGURE),
    "display: plot then error": ({"order"}, FIGURE),
    "errors: syntax unclosed": ({"error"}, "Python's own message; IPython asks the compiler for another one"),
    "errors: system exit": ({"stderr", "order"}, "Jupyter warns, once, that this does not end the kernel"),
    "errors: not callable": ({"stderr"}, WARNED),
    "errors: not subscriptable": ({"stderr"}, WARNED),
    "errors: broken repr": ({"status"}, "a value that cannot be shown is an error of the run; Jupyter shows it and calls the run fine"),
    "magics: cd missing": ({"status", "stdout", "error", "order"}, "a directory that is not there is an error, not a line of output"),
    "magics: env missing": ({"stderr", "error", "order"}, USAGE),
    "magics: unknown magic": ({"stderr", "error", "order"}, USAGE),
    "magics: unknown cell magic": ({"stderr", "error", "order"}, USAGE),
    "magics: help": ({"stdout", "order"}, "there is no pager: help is printed"),
    "statements: encoding": ({"value"}, "as in the plain interpreter; Jupyter spells it UTF-8"),
}


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """By file, made when first asked for: {name of the snippet: (facts of ours, facts of Jupyter)}."""
    from peer import Jupyter

    made = {}

    def get(name):
        if name in made:
            return made[name]
        ours, theirs = tmp_path_factory.mktemp("ours"), tmp_path_factory.mktemp("theirs")
        jupyter = Jupyter(theirs)
        try:
            with Driver(cwd=ours) as driver:
                made[name] = {
                    title: (facts(driver.run(code), ours), facts(jupyter.run(code), theirs)) for title, code in snippets(name)
                }
        finally:
            jupyter.close()
        return made[name]

    return get


@pytest.mark.parametrize("file,title", [(f, title) for f in files() for title, _ in snippets(f)])
def test_same_as_jupyter(compared, file, title):
    ours, theirs = compared(file)[title]
    differing = {aspect for aspect in ours if ours[aspect] != theirs[aspect]}
    expected, why = DIFFERENCES.get(f"{file}: {title}", (set(), ""))
    shown = "\n".join(f"{a}: ours    {ours[a]!r}\n{a}: Jupyter {theirs[a]!r}"[:3000] for a in sorted(differing | expected))
    assert differing == expected, f"{why}\n{shown}"


def test_every_difference_is_of_a_snippet():
    there = {f"{f}: {title}" for f in files() for title, _ in snippets(f)}
    assert set(DIFFERENCES) <= there
    assert len(there) > 400
