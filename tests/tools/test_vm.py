# SPDX-License-Identifier: Apache-2.0
"""tools/test-vm without its machine: the archive it boots from, the order of modules, what it says when something is missing."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(os.environ.get("CELL_SOURCE", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(TOP / "tools" / "lib"))
import vm_kernel  # noqa: E402
import vm_machine  # noqa: E402


def test_the_first_root_is_an_archive_that_others_can_read(tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to("../x")
    (tmp_path / "tree" / "odd").write_bytes(b"12345")
    cpio = vm_machine.Cpio()
    cpio.file("init", b"#!/bin/sh\n", 0o755)
    cpio.copy(tmp_path / "tree", "etc/tree")
    cpio.file("etc/tree/last", b"")
    cpio.write(tmp_path / "archive")
    out = tmp_path / "out"
    out.mkdir()
    with open(tmp_path / "archive", "rb") as f:
        subprocess.run(["busybox", "cpio", "-i"], stdin=f, cwd=out, check=True, capture_output=True)
    assert (out / "init").read_bytes() == b"#!/bin/sh\n" and (out / "init").stat().st_mode & stat.S_IXUSR
    assert os.readlink(out / "etc/tree/link") == "../x"
    assert (out / "etc/tree/odd").read_bytes() == b"12345" and (out / "etc/tree/last").read_bytes() == b""


def test_modules_come_after_what_they_rest_on_and_unknown_ones_are_left_out():
    needs = {"a": ["b", "c"], "b": ["c"], "c": [], "d": ["built_in"]}
    assert vm_kernel.in_order(["a", "nowhere", "d", "c"], needs) == ["c", "b", "a", "d"]


def test_what_a_module_rests_on_is_read_from_it():
    assert vm_kernel.depends(b"x\0license=GPL\0depends=jbd2,mbcache,x-y\0retpoline=Y\0") == ["jbd2", "mbcache", "x_y"]
    assert vm_kernel.depends(b"x\0license=GPL\0depends=\0") == []
    assert vm_kernel.module_name("lib/modules/6.1/kernel/fs/ext4/ext4.ko.xz") == "ext4"
    assert vm_kernel.module_name("boot/vmlinuz-6.1") is None


def test_a_package_without_a_kernel_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(vm_kernel, "CACHE", tmp_path / "cache")
    (tmp_path / "p" / "DEBIAN").mkdir(parents=True)
    (tmp_path / "p" / "DEBIAN" / "control").write_text("Package: p\nVersion: 1\nArchitecture: all\nMaintainer: n <n@example.org>\nDescription: d\n")
    subprocess.run(["dpkg-deb", "-b", tmp_path / "p", tmp_path / "p.deb"], check=True, capture_output=True)
    with pytest.raises(vm_kernel.NoKernel, match="no boot/vmlinuz"):
        vm_kernel.get(str(tmp_path / "p.deb"))
    with pytest.raises(vm_kernel.NoKernel, match="there is no file"):
        vm_kernel.get(str(tmp_path / "q.deb"))
    assert not list((tmp_path / "cache").glob("*"))


def run(*words, path=None):
    env = dict(os.environ) | ({"PATH": path} if path else {})
    return subprocess.run(["/usr/bin/python3", "-B", TOP / "tools/test-vm", *words], capture_output=True, text=True, check=False, env=env)


def test_its_suites_are_listed_and_an_unknown_one_is_an_error():
    listed = run("--list")
    assert listed.returncode == 0 and "cgroup2-user-delegated" in listed.stdout.splitlines()
    unknown = run("nonsense")
    assert unknown.returncode == 2 and "--list" in unknown.stderr


@pytest.mark.skipif(os.path.exists("/usr/sbin/qemu-system-x86_64"), reason="qemu is where it is always looked for")
def test_without_qemu_it_says_what_to_install_and_in_tap_that_all_is_skipped(tmp_path):
    os.symlink(shutil.which("python3"), tmp_path / "python3")
    plain, tap = run(path=str(tmp_path)), run("--tap", path=str(tmp_path))
    assert plain.returncode == 1 and "qemu-system-x86_64" in plain.stderr and "tools/setup vm" in plain.stderr
    assert tap.returncode == 0 and tap.stdout.startswith("1..0 # SKIP ") and "qemu-system-x86_64" in tap.stdout
