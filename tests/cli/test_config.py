# SPDX-License-Identifier: Apache-2.0
"""cell config: every example of the seeds, errors with line and column, layers and where values come from."""

import json
from pathlib import Path

import pytest
from conftest import TOP

SEEDS = sorted((TOP / "tests" / "data" / "seeds").glob("*.yaml"))


def test_there_are_examples():
    assert SEEDS, "tests/data/seeds/*.yaml are missing"


@pytest.mark.parametrize("path", SEEDS, ids=[p.name for p in SEEDS])
def test_each_example_of_the_seeds_is_valid(cell, path):
    r = cell.ok("config", "check", path)
    assert ": ok" in r.text
    o = cell.ok("config", "check", "--json", path).json
    assert o["valid"] is True


def test_an_example_for_a_back_end_that_is_not_built_says_so(cell):
    del cell.env["CELL_BACKEND"]  # it would be stronger than the file
    path = cell.put("lambda.yaml", "backend: aws_lambda\n")
    r = cell.ok("config", "check", path)
    assert "not available in this build" in r.text
    r = cell.fails("run", "--config", path, "--", "true", says=["lambda"])


def test_a_misspelt_key_is_found(cell):
    path = cell.put("bad.yaml", "# a remark\nbackend: local\nimge: x\n")
    r = cell("config", "check", path)
    assert r.code == 125
    said = r.text + r.errors
    assert f"{path}:3:1" in said
    assert "imge" in said
    assert "did you mean" in said.lower() and "image" in said
    o = cell("config", "check", "--json", path).json
    assert o["valid"] is False
    error = o["files"][0]["error"]
    assert ":3:1" in error["message"] and "image" in (error["hint"] or "") + error["message"]


@pytest.mark.parametrize("text, place, words", [
    ("limits:\n  memry: 1g\n", ":2:3", ["memry", "memory"]),
    ("limits:\n  memory: lots\n", ":2:11", ["lots"]),
    ("backend: [a, b]\n", ":1:10", ["backend"]),
    ("backend: local\nbackend: local\n", ":2:", ["backend"]),
    ("a: b: c\n", ":1:", []),
    ("timeout: -1s\n", ":1:10", ["-1s"]),
    ("\tbackend: x\n", ":1:", []),
    ("- a\n- b\n", ":1:1", []),
    ("backend: &a local\nimage: *a\n", ":", []),
    ("env_from: most\n", ":1:11", ["most", "all"]),
])
def test_mistakes_are_named_with_their_place(cell, text, place, words):
    path = cell.put("bad.yaml", text)
    r = cell("config", "check", path)
    assert r.code == 125, r
    assert f"{path.name}{place}" in r.errors, r
    for word in words:
        assert word in r.errors, r


def test_a_file_that_is_not_there(cell):
    r = cell("config", "check", "nowhere.yaml")
    assert r.code == 125 and "nowhere.yaml" in r.errors
    cell.fails("run", "--config", "nowhere.yaml", "--", "true", says=["nowhere.yaml"])


@pytest.mark.parametrize("data", [b"", b"\n", b"# nothing\n", b"---\n"])
def test_an_empty_file_is_valid(cell, data):
    cell.ok("config", "check", cell.put("empty.yaml", data))


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"\x00", b"a" * 3_000_000, b"[" * 10_000, b"{" * 10_000])
def test_nonsense_is_refused_without_harm(cell, data):
    r = cell("config", "check", cell.put("nonsense.yaml", data))
    assert r.code == 125 and "nonsense.yaml" in r.errors


def test_the_workspace_s_file_is_found_from_below(cell):
    cell.put("cell.yaml", "env:\n  FROM_FILE: found\n")
    deep = cell.workspace / "a/b"
    deep.mkdir(parents=True)
    assert "FROM_FILE=found\n" in cell.ok("run", "--", "env", cwd=deep).text
    assert "FROM_FILE" not in cell.ok("run", "--no-config", "--", "env", cwd=deep).text


def test_layers_in_order(cell):
    user = Path(cell.env["HOME"]) / ".config/cell"
    user.mkdir(parents=True)
    (user / "cell.yaml").write_text("timeout: 11s\ncwd: user\n")
    cell.put("cell.yaml", "timeout: 22s\n")
    given = cell.dir / "given.yaml"

    def timeout(*args, env=None):
        return cell.ok("config", "show", "--json", *args, env=env).json["timeout"]

    try:
        low = timeout()
        given.write_text("timeout: 33s\n")
        mid = timeout("--config", given)
        by_env = timeout("--config", given, env={"CELL_TIMEOUT": "44s"})
        by_flag = timeout("--config", given, "--timeout", "55s", env={"CELL_TIMEOUT": "44s"})
        seen = [str(v) for v in (low, mid, by_env, by_flag)]
        for value, number in zip(seen, ("22", "33", "44", "55")):
            assert number in value, seen
        assert "user" in cell.ok("config", "show").text
        text = cell.ok("config", "show", "--origin", "--timeout", "55s").text
        assert "--timeout" in text and ".config/cell/cell.yaml" in text
    finally:
        (user / "cell.yaml").unlink()
        user.rmdir()
        user.parent.rmdir()


def test_secrets_are_not_shown(cell):
    cell.put("cell.yaml", "env:\n  DB_PASSWORD: verysecret\n  PLAIN: shown\n")
    for args in (["config", "show"], ["config", "show", "--json"], ["config", "show", "--origin"]):
        out = cell.ok(*args).text
        assert "verysecret" not in out and "shown" in out and "***" in out


def test_show_is_valid_again(cell):
    cell.put("cell.yaml", "limits:\n  files: 100\nlabels: [a=b]\n")
    text = cell.ok("config", "show").text
    other = cell.put("shown.yaml", text)
    cell.ok("config", "check", other)
    assert json.loads(cell.ok("config", "show", "--json").text)["limits"]["files"] == 100


def test_flags_are_checked_like_keys(cell):
    cell.fails("run", "--memory", "lots", "--", "true", says=["--memory", "lots"])
    cell.fails("run", "--network", "sometimes", "--", "true", says=["sometimes"])
    cell.fails("run", "--timeout", "soon", "--", "true", says=["--timeout", "soon"])
