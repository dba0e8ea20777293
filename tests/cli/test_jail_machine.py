# SPDX-License-Identifier: Apache-2.0
"""The jail where something of the machine is not as it should be: it says what, and does nothing by halves."""

import os
import resource
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import CELL
from jail_modes import USER, jail, root_jail, user_jail  # noqa: F401


def few_files(n):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))


@pytest.mark.parametrize("n", [8, 20, 40, 66, 127])
def test_too_few_open_files_are_said_to_be_too_few(jail, n):  # noqa: F811
    r = jail("run", "--", "true", preexec_fn=few_files(n))
    assert r.code == 125
    assert f"the hard limit is {n}" in r.errors
    assert "ulimit -Hn" in r.errors


def test_as_many_as_it_asks_for_are_enough(jail):  # noqa: F811
    assert jail("run", "--", "echo", "good", preexec_fn=few_files(128)).text == "good\n"


@pytest.mark.parametrize("what", ["another user's", "open to all", "a link"])
def test_a_directory_of_locks_that_others_can_change_is_refused(user_jail, what, tmp_path):  # noqa: F811
    if os.path.exists(f"/run/user/{USER}"):
        pytest.skip("this user's locks are elsewhere")
    place = Path(f"/tmp/cell-{USER}")
    shutil.rmtree(place, ignore_errors=True)
    try:
        if what == "a link":
            target = tmp_path / "elsewhere"
            target.mkdir()
            os.chown(target, USER, USER)
            tmp_path.chmod(0o755)
            place.symlink_to(target)
        else:
            place.mkdir()
            os.chown(place, 0 if what == "another user's" else USER, USER)
            place.chmod(0o777)
        r = user_jail("run", "--", "true")
        assert r.code == 125
        assert str(place) in r.errors
        assert not (place / "cell").exists()
    finally:
        if place.is_symlink():
            place.unlink()
        else:
            shutil.rmtree(place)
    assert user_jail("run", "--", "true").code == 0  # the control


def test_what_is_mounted_below_a_workspace_comes_along_or_is_refused(root_jail):  # noqa: F811
    """/proc stands for every file system whose owners cannot be mapped; without it the directory below would be shown."""
    below = root_jail.workspace / "below"
    below.mkdir()
    (below / "covered").touch()
    run = f"{CELL} run --workspace {root_jail.workspace} -- ls below"

    def ls(mount):
        return subprocess.run(["unshare", "--mount", "sh", "-c", f"{mount} {below} && touch {below}/on-top; {run}"], check=False,
            capture_output=True, text=True, timeout=120, env=root_jail.env, cwd=root_jail.workspace)

    assert ls("mount -t tmpfs none").stdout == "on-top\n"
    r = ls("mount -t proc none")
    assert (r.returncode, r.stdout) == (125, ""), r
    assert "mounted below it cannot be idmapped" in r.stderr and "findmnt" in r.stderr, r
