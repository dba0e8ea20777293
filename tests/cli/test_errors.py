# SPDX-License-Identifier: Apache-2.0
"""Every error says what was attempted, what went wrong and what would help; nothing is lost by one."""

import os
import subprocess
from pathlib import Path

import pytest
from conftest import CELL


@pytest.mark.parametrize("args, words", [
    (["frobnicate"], ["frobnicate", "hint:"]),
    (["rnu"], ["rnu", "run"]),
    (["run"], ["no command", "hint:"]),
    (["run", "--no-such-flag", "--", "true"], ["--no-such-flag"]),
    (["run", "--timeot", "1s", "--", "true"], ["--timeot", "--timeout"]),
    (["run", "--timeout"], ["--timeout"]),
    (["run", "--json=yes", "--", "true"], ["--json"]),
    (["exec"], ["hint:"]),
    (["exec", "web"], ["web"]),
    (["exec", "nobody", "--", "true"], ["nobody", "hint:"]),
    (["logs", "nobody"], ["nobody", "hint:"]),
    (["rm"], ["hint:"]),
    (["cp", "a"], ["hint:"]),
    (["file"], ["hint:"]),
    (["file", "frob", "web"], ["frob"]),
    (["config", "frob"], ["frob"]),
    (["create", "a", "b"], ["hint:"]),
    (["inspect"], ["hint:"]),
])
def test_a_wrong_call_is_told_what_is_wrong(cell, args, words):
    cell.fails(*args, says=words)


def test_no_verb_shows_help_and_fails(cell):
    r = cell()
    assert r.code in (0, 125)
    assert "run" in r.text + r.errors


def test_an_unknown_back_end(cell):
    cell.fails("run", "--backend", "subproces", "--", "true", says=["subproces", "hint:", "subprocess"])
    cell.fails("backends", "subproces", says=["subproces"])


def test_a_back_end_that_is_not_built(cell):
    r = cell.fails("run", "--backend", "firecracker", "--", "true", says=["firecracker"])
    assert "hint:" in r.errors


@pytest.mark.parametrize("args, word", [
    (["--need", "own-kernel"], "own-kernel"),
    (["--network", "none"], "network.none"),
    (["--gpus", "1"], "gpu"),
    (["--image", "debian:12"], "image"),
    (["--tier", "4"], "tier"),
])
def test_what_cannot_be_promised_is_refused_by_name(cell, args, word):
    r = cell.fails("run", "--backend", "local", *args, "--", "touch", "ran", says=[word, "local", "hint:"])
    assert not (cell.workspace / "ran").exists()
    o = cell("run", "--json", "--backend", "local", *args, "--", "true").json
    assert o["error"]["code"] == "not_supported" or "sup" in o["error"]["code"], r


def test_errors_in_json(cell):
    r = cell("exec", "--json", "nobody", "--", "true")
    assert r.code == 125
    assert r.err == b""
    e = r.json["error"]
    assert e["code"] == "not_found" and "nobody" in e["message"] and e["hint"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_an_unwritable_state_directory(cell):
    for args in (["run", "--", "true"], ["create", "web"]):
        r = cell(*args, env={"CELL_STATE_DIR": "/proc/nowhere"})
        assert r.code == 125 and "/proc/nowhere" in r.errors and "hint:" in r.errors, r


def test_a_state_directory_that_is_a_file(cell):
    path = cell.dir / "file"
    path.write_text("not a directory")
    r = cell("run", "--", "true", env={"CELL_STATE_DIR": str(path)})
    assert r.code == 125 and str(path) in r.errors, r
    assert path.read_text() == "not a directory"


def test_a_corrupt_record_harms_no_other_cell(cell):
    cell.create("good")
    cell.create("bad")
    record = cell.state / "cells/bad/cell.json"
    old = record.read_bytes()
    for damage in (b"", b"{", b"null", b"[]", b"\xff\x00", b'{"name": 5}', old[: len(old) // 2]):
        record.write_bytes(damage)
        r = cell("exec", "bad", "--", "true")
        assert r.code == 125 and "bad" in r.errors and "hint:" in r.errors, (damage, r)
        assert cell.ok("exec", "good", "--", "echo", "x").text == "x\n"
        states = {c["name"]: c["state"] for c in cell.ok("ls", "--json").json["cells"]}
        assert states == {"good": "ready", "bad": "broken"}, damage
    record.write_bytes(old)
    assert cell.ok("exec", "bad", "--", "echo", "back").text == "back\n"
    record.write_bytes(b"{")
    cell.ok("rm", "-f", "bad")
    assert cell.names() == ["good"]


def test_strange_things_in_the_state_directory_do_no_harm(cell, web):
    cells = cell.state / "cells"
    (cells / "stray-file").write_text("x")
    (cells / "Not A Name").mkdir()
    (cells / "empty-dir").mkdir()
    try:
        assert cell.ok("exec", "web", "--", "echo", "x").text == "x\n"
        assert "web" in cell.names()
        cell.ok("prune")
        assert cell.ok("exec", "web", "--", "echo", "x").text == "x\n"
    finally:
        (cells / "stray-file").unlink(missing_ok=True)
        for name in ("Not A Name", "empty-dir"):
            if (cells / name).is_dir():
                (cells / name).rmdir()


def in_small_disk(cell, size, script):
    """Run a script with a state directory and workspace on a disk of that size."""
    disk = cell.dir / "disk"
    disk.mkdir(exist_ok=True)
    text = f"mount -t tmpfs -o size={size} none {disk} && mkdir -p {disk}/ws && cd {disk}/ws && {script}"
    return subprocess.run(["unshare", "-m", "sh", "-c", text], check=False, capture_output=True, timeout=120,
        env={**cell.env, "CELL": str(CELL), "CELL_STATE_DIR": f"{disk}/state", "TMPDIR": f"{disk}"})


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_is_said(cell):
    r = in_small_disk(cell, "64k", "head -c 200k /dev/zero > fill 2>/dev/null; $CELL run -- true; echo code $?")
    assert b"code 125" in r.stdout or b"code 0" in r.stdout, r
    if b"code 125" in r.stdout:
        assert b"space" in r.stderr.lower(), r
    r = in_small_disk(cell, "1m", "echo old > f; $CELL create web >/dev/null || exit 9; "
        "head -c 3000000 /dev/zero | $CELL file write web f; echo code $?; cat f; "
        "$CELL exec web -- echo still works; ls; $CELL rm web")
    assert b"code 125\nold\nstill works\nf\n" == r.stdout, r
    assert b"space" in r.stderr.lower() and b"'f'" in r.stderr, r


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_output_on_a_full_disk_is_said(cell):
    if os.path.exists("/dev/full"):
        for args in (["version"], ["run", "--json", "--", "true"], ["run", "--", "echo", "x"]):
            with open("/dev/full", "wb") as full:
                r = cell(*args, stdout=full)
            assert r.code == 125 and "space" in r.errors.lower(), r


def test_a_closed_stdout_is_no_crash(cell):
    r = subprocess.run(["sh", "-c", f"'{CELL}' run -- echo x >&-; echo $? >&2"], env=cell.env, cwd=cell.workspace,
        capture_output=True, check=False, timeout=60)
    assert int(r.stderr.split()[-1]) < 126, r


def test_text_from_outside_is_quoted(cell):
    r = cell("exec", "no\x1b[31mbody", "--", "true")
    assert r.code == 125 and b"\x1b[31m" not in r.err
