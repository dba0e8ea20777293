# SPDX-License-Identifier: Apache-2.0
"""Containers by a runtime alone: what it leaves when it dies, and what it says when it cannot."""

import os
import tarfile
from io import BytesIO
from pathlib import Path

import pytest
from conftest import Cell, wait_for
from engines import Missing, need, root_archive


def groups():
    return [p for pattern in ("cell-oci-*", "*/cell-oci-*") for p in Path("/sys/fs/cgroup").glob(pattern)]


@pytest.fixture
def cell():
    try:
        need("runc", "busybox")
    except Missing as why:
        pytest.skip(str(why))
    c = Cell("oci", {})
    root = c.dir / "root"
    with tarfile.open(fileobj=BytesIO(root_archive())) as tar:
        tar.extractall(root)
    c.root = root
    before = set(groups())
    yield c
    assert not c.remove()
    assert set(groups()) <= before, "cgroups are left"
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        assert str(c.dir) not in f.read()


def run(cell, *args, **kwargs):
    return cell.run("--root", cell.root, *args, image=None, **kwargs)


def test_a_root_tree_and_an_archive_of_one_are_images(cell):
    assert run(cell, "--", "cat", "/etc/os-release").out == 'PRETTY_NAME="Image of the tests"\n'
    archive = cell.dir / "root.tar"
    archive.write_bytes(root_archive())
    r = cell.run("--root", archive, "--", "sh", "-c", "touch /tmp/x && id -u", image=None)
    assert (r.code, r.out) == (0, "65532\n"), r.err


def test_what_is_written_does_not_reach_the_image(cell):
    r = run(cell, "-u", "0:0", "--", "sh", "-c", "echo changed > /etc/os-release && cat /etc/os-release")
    assert r.out == "changed\n", r.err
    assert "Image of the tests" in (cell.root / "etc/os-release").read_text()


def test_a_user_of_the_image_is_found_by_name(cell):
    assert run(cell, "-u", "nobody", "--", "id", "-u").out == "65534\n"
    err = cell.fails("--root", cell.root, "-u", "no-such-user", "--", "true", image=None)
    assert "no-such-user" in err and "/etc/passwd" in err


def test_what_cannot_be_done_is_told(cell):
    assert "needs an image or a root tree" in cell.fails("--", "true", image=None)
    err = cell.fails("--root", cell.root, "--runtime", "no-such-runtime", "--", "true", image=None)
    assert "no-such-runtime" in err and "install" in err
    broken = cell.dir / "broken-runtime"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    assert "broken-runtime" in cell.fails("--root", cell.root, "--runtime", broken, "--", "true", image=None)
    assert "runsc" in cell.fails("--root", cell.root, "--runtime", "/usr/bin/runsc", "--", "true", image=None)


def test_a_killed_command_leaves_nothing_after_prune(cell):
    child = cell.start("run", "--backend", "oci", "--root", cell.root, "--", "sh", "-c", "echo up; sleep 1000")
    assert child.stdout.readline() == "up\n"
    assert groups()
    child.kill()
    child.communicate()
    wait_for(lambda: (cell.ok("prune"), not cell.ok("ls", "--json").count('"name"'))[1], "the cell is gone")


def test_a_named_cell_is_there_for_other_commands(cell):
    cell.ok("create", "kept", "--backend", "oci", "--root", cell.root)
    cell.ok("exec", "kept", "--", "sh", "-c", "echo 1 > /tmp/state")
    assert cell.ok("exec", "kept", "--", "cat", "/tmp/state") == "1\n"
    cell.ok("rm", "kept")


def test_the_disk_and_the_number_of_files_are_limited(cell):
    r = run(cell, "--disk", "8m", "--", "sh", "-c", "dd if=/dev/zero of=/tmp/x bs=1M count=20 2>/dev/null; wc -c < /tmp/x")
    assert 4 << 20 <= int(r.out) <= 8 << 20, r.err
    r = run(cell, "--inodes", "100", "--", "sh", "-c", "for i in $(seq 200); do touch /tmp/$i 2>/dev/null || break; done; ls /tmp | wc -l")
    assert 10 < int(r.out) < 100, r.err
    assert os.path.isdir(cell.root)
