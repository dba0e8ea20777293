# SPDX-License-Identifier: Apache-2.0
"""Containers by containerd alone: its store and its registries, what crashes leave, and what it says when it cannot."""

import base64
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Cell, skipped_without, started, wait_for
from engines import IMAGE, ContainerdEngine, image_archive, unmount_below

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lib"))
from registries import Image, Registry, digest, scripted  # noqa: E402


def groups():
    return {p for pattern in ("cell-containerd-*", "*/cell-containerd-*") for p in Path("/sys/fs/cgroup").glob(pattern)}


@pytest.fixture(scope="module")
def engine():
    with started(ContainerdEngine) as made:
        made.groups = groups()  # of others
        yield made


@pytest.fixture
def cell(engine):
    """The command line beside containerd; nothing that a cell is made of may be left."""
    c = Cell("containerd", engine.env)
    yield c
    cells = c.remove()
    assert_nothing_is_left(engine)
    assert not cells


def assert_nothing_is_left(engine):
    wait_for(lambda: not engine.containers(), "no container, task, snapshot or lease is left")
    wait_for(lambda: not engine.shims(), "no shim is left")
    assert not engine.mounts()
    wait_for(lambda: groups() <= engine.groups, "no cgroup is left")
    bundles = engine.containerd.dir / "run" / "io.containerd.runtime.v2.task" / engine.space
    wait_for(lambda: not bundles.exists() or not list(bundles.iterdir()), "no bundle is left")
    ingests = engine.containerd.dir / "data" / "io.containerd.content.v1.content" / "ingest"
    assert not ingests.exists() or not list(ingests.iterdir())


def create(cell, name="kept", *args):
    return cell.ok("create", name, "--backend", "containerd", "--image", "cell-test", *args)


# ---- images ----


def test_an_image_is_found_by_every_name_it_has(cell, engine):
    target = next(line.split()[2] for line in engine.ctr("images", "ls").splitlines() if IMAGE in line)
    for name in ("cell-test", IMAGE, f"docker.io/library/{IMAGE}", target, f"{IMAGE}@{target}", f"docker.io/library/{IMAGE}@{target}"):
        r = cell.run("--pull", "never", "--", "echo", "found", image=name)
        assert r.out == "found\n", (name, r.err)
    assert "no image" in cell.fails("--pull", "never", "--", "true", image=f"{IMAGE}@sha256:{'1' * 64}")
    assert "no image" in cell.fails("--pull", "never", "--", "true", image=f"sha256:{'1' * 64}")


def test_layers_are_unpacked_once_and_kept_with_their_image(cell, engine):
    """Also by a cell, where whoever imported the image did not."""
    name = "docker.io/library/unpacked:1"
    engine.load_image(name, image_archive(name, Env=["FROM_IMAGE=yes"], WorkingDir="/usr"))
    for line in engine.ctr("snapshots", "ls").splitlines()[1:]:
        engine.ctr("snapshots", "rm", line.split()[0])
    r = cell.run("--", "sh", "-c", "echo $FROM_IMAGE", image="unpacked:1")
    assert (r.code, r.out) == (0, "yes\n"), r.err
    snapshots = engine.ctr("snapshots", "ls")
    assert "Committed" in snapshots
    engine.ctr("content", "prune", "references")  # collects what nobody refers to
    assert engine.ctr("snapshots", "ls") == snapshots
    engine.ctr("images", "rm", "--sync", name)
    assert cell.run("--", "echo", "the other is there").code == 0


@pytest.fixture
def registry():
    with Registry() as r:
        yield r


def log_in(cell, host):
    config = cell.dir / "home" / ".docker"
    config.mkdir(exist_ok=True)
    (config / "config.json").write_text(json.dumps({"auths": {host: {"auth": base64.b64encode(b"ann:secret").decode()}}}))


def test_an_image_is_pulled_with_the_credentials_of_docker(cell, engine, registry):
    host, image = registry.host, Image()
    registry.push(image)
    err = cell.fails("--", "true", image=f"{host}/team/base:1.0")
    assert "credentials" in err and "docker login" in err
    log_in(cell, host)
    r = cell.run("--", "sh", "-c", "echo $FROM_IMAGE", image=f"{host}/team/base:1.0")
    assert (r.code, r.out) == (0, "yes\n"), r.err
    assert f"{host}/team/base:1.0" in engine.ctr("images", "ls")
    # what is there is not fetched, unless asked for
    assert cell.run("--", "/bin/busybox", "true", image=f"{host}/team/base:1.0", env={"HOME": "/nowhere"}).code == 0
    assert "credentials" in cell.run("--pull", "always", "--", "true", image=f"{host}/team/base:1.0", env={"HOME": "/nowhere"}).err
    pinned = f"{host}/team/base@{digest(image.manifest)}"
    cell.ok("create", "pinned", "--backend", "containerd", "--image", pinned)
    told = json.loads(cell.ok("inspect", "pinned", "--json"))
    assert told["image"] == digest(image.manifest), told
    cell.ok("rm", "pinned")
    err = cell.fails("--", "true", image=f"{host}/team/base@sha256:{'2' * 64}")
    assert "2" * 64 in err and "has no image" in err
    assert "has no image" in cell.fails("--", "true", image=f"{host}/team/none:1")
    engine.ctr("images", "rm", "--sync", f"{host}/team/base:1.0", pinned)


def test_a_registry_that_lies_gives_an_error_and_nothing_is_kept(cell, engine):
    image = Image(b"\0" * 2)
    layer = f"/v2/team/base/blobs/{digest(image.layer)}"
    with scripted(image) as r:
        for lie in (b"x" * len(image.layer), image.layer[:-1], image.layer + b"x"):
            r.lie = {layer: (200, {}, lie)}
            err = cell.fails("--", "true", image=r.ref())
            assert "pull image" in err and ("sha256" in err or "digest" in err), err
        r.lie = {f"/v2/team/base/manifests/{digest(image.manifest)}": (200, {}, image.manifest + b" ")}
        assert "not what was asked for" in cell.fails("--", "true", image=r.ref())
        assert r.host not in engine.ctr("images", "ls")
        r.lie = {}
        assert cell.run("--", "/bin/busybox", "true", image=r.ref()).code == 0  # an index leads to it
        assert r.ref() in engine.ctr("images", "ls")
        engine.ctr("images", "rm", "--sync", r.ref())


def test_an_image_for_another_machine_is_told(cell, engine):
    name, layer = "docker.io/library/other:1", b"\0" * 1024
    archive = image_archive(name, layer).replace(b'"amd64"', b'"s390x"').replace(b'"arm64"', b'"s390x"')
    path = engine.dir / "other.tar"
    path.write_bytes(archive)
    r = subprocess.run(["ctr", "-a", engine.socket, "-n", "cell", "images", "import", "--no-unpack", path], capture_output=True, check=False)
    if r.returncode:  # its digest is another one then, which this version notices
        assert "no image" in cell.fails("--pull", "never", "--", "true", image="other:1")
        return
    assert "other:1" in cell.fails("--pull", "never", "--", "true", image="other:1")
    engine.ctr("images", "rm", "--sync", name)


# ---- what cannot be done ----


def test_what_cannot_be_done_is_told(cell, engine):
    err = cell.fails("--runtime", "runsc", "--", "true")
    assert "kernel of its own" in err and "--backend docker" in err
    assert "io.containerd.none.v9" in cell.fails("--runtime", "io.containerd.none.v9", "--", "true")
    assert "limits.disk" in cell.fails("--disk", "16m", "--scratch", "disk", "--", "true")
    assert "limits.memory" in cell.fails("--memory", "1m", "--", "true")
    err = cell.fails("--", "true", env={"CONTAINERD_SNAPSHOTTER": "no-such"})
    assert "no-such" in err
    assert "no image" in cell.fails("--pull", "never", "--", "true", env={"CONTAINERD_NAMESPACE": "another"})


def test_another_runtime_is_run_where_it_is_told_to(cell):
    """A program that is called like runc: it says so, and calls it."""
    said, wrapper = cell.dir / "said", cell.dir / "my-runtime"
    wrapper.write_text(f'#!/bin/sh\necho "$@" >> {said}\nexec runc "$@"\n')
    wrapper.chmod(0o755)
    r = cell.run("--runtime", wrapper, "--", "echo", "runs")
    assert (r.code, r.out) == (0, "runs\n"), r.err
    assert " create " in said.read_text() and " start " in said.read_text()


def test_no_containerd_is_told_with_what_to_do(cell):
    nowhere = {"CONTAINERD_ADDRESS": f"{cell.dir}/none.sock"}
    err = cell.fails("--", "true", env=nowhere)
    assert "no containerd answers" in err and "CONTAINERD_ADDRESS" in err and "systemctl start containerd" in err
    d = json.loads(cell("backends", "--json", env=nowhere).out)
    b = next(b for b in d["backends"] if b["name"] == "containerd")
    assert not b["usable"] and "no containerd answers" in b["reason"] and b["fix"], b


def test_what_is_no_containerd_is_told(cell):
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(f"{cell.dir}/fake.sock")
        s.listen(8)
        child = cell.start("run", "--backend", "containerd", "--image", "cell-test", "--", "true",
            env={"CONTAINERD_ADDRESS": f"{cell.dir}/fake.sock"})
        while child.poll() is None:
            s.settimeout(0.2)
            try:
                peer, _ = s.accept()
                peer.recv(65536)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                peer.close()
            except OSError:
                pass  # nobody came, or only to see whether somebody is there
        _, err = child.communicate()
    assert child.returncode != 0 and "protocol" in err.lower() and "CONTAINERD_ADDRESS" in err, err


def test_who_may_not_use_its_socket_is_told(cell, engine):
    """As another user; root would be let in."""
    before = os.stat(engine.socket).st_mode
    os.chmod(engine.dir, 0o755)
    os.chmod(engine.containerd.dir, 0o755)
    assert not stat.S_IMODE(before) & 0o002
    theirs = cell.dir / "theirs"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    r = cell.run("--", "true", user=65534, group=65534, extra_groups=[], env={"CELL_STATE_DIR": str(theirs), "HOME": str(theirs)})
    assert r.code != 0 and "denied" in r.err and "root" in r.err, r.err


def test_a_full_disk_is_told_and_leaves_nothing():
    """A containerd whose data are on a file system of 8 MiB: an image of more is not to be had."""
    with skipped_without():
        engine = ContainerdEngine()
    data = engine.containerd.dir / "data"
    data.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", data], check=True)
    try:
        image = Image(os.urandom(1 << 16))  # 32 MiB, and nothing to compress
        with engine, scripted(image) as r:
            c = Cell("containerd", engine.env)
            err = c.fails("--", "true", image=r.ref())
            assert "no space left" in err and "/var/lib/containerd" in err, err
            engine.load_image()  # there is room again
            assert c.run("--", "echo", "fine").out == "fine\n"
            assert not c.remove()
            assert_nothing_is_left_but(engine, data)
    finally:
        unmount_below(engine.containerd.dir)


def assert_nothing_is_left_but(engine, mount):
    assert not engine.containers()
    assert engine.mounts() == [str(mount)]


# ---- crashes ----


def test_no_process_of_containerd_is_left(cell, engine):
    create(cell)
    assert len(engine.shims()) == 1 and engine.mounts() and groups()
    cell.ok("rm", "kept")
    assert_nothing_is_left(engine)


@pytest.mark.parametrize("delay_ms", [20, 60, 80, 100, 120, 140, 160, 200])
def test_a_maker_killed_at_any_moment_leaves_what_prune_removes(cell, engine, delay_ms):
    child = cell.start("create", "half", "--backend", "containerd", "--image", "cell-test")
    time.sleep(delay_ms / 1000)
    child.kill()
    child.communicate()
    if "half" in cell.ok("ls"):
        cell("rm", "half")
    cell.ok("prune")
    assert_nothing_is_left(engine)


@pytest.mark.parametrize("delay_ms", [20, 60, 80, 100, 120, 140, 160, 200])
def test_containerd_killed_at_any_moment_leaves_nothing_once_it_is_back(cell, engine, delay_ms):
    child = cell.start("create", "half", "--backend", "containerd", "--image", "cell-test")
    time.sleep(delay_ms / 1000)
    engine.kill()
    out, err = child.communicate(timeout=120)
    assert child.returncode == 0 or "containerd" in err, (out, err)
    engine.start()
    wait_for(lambda: (cell("rm", "half"), cell.ok("prune"), "half" not in cell.ok("ls"))[2], "the cell is gone")
    assert_nothing_is_left(engine)
    r = cell.run("--", "echo", "again")
    assert r.out == "again\n", r.err


def test_both_killed_in_the_middle_leave_nothing_once_they_are_back(cell, engine):
    child = cell.start("run", "--backend", "containerd", "--image", "cell-test", "--", "sh", "-c", "echo up; sleep 1000")
    assert child.stdout.readline() == "up\n"
    engine.kill()
    child.kill()
    child.communicate()
    assert cell("prune").code != 0 or json.loads(cell.ok("ls", "--json"))["cells"]  # nobody to ask: it is kept
    engine.start()
    wait_for(lambda: (cell.ok("prune"), not json.loads(cell.ok("ls", "--json"))["cells"])[1], "the cell is gone")
    assert_nothing_is_left(engine)


def test_a_shim_killed_leaves_nothing(cell, engine):
    create(cell)
    for pid in engine.shims():
        os.kill(pid, signal.SIGKILL)
    cell("rm", "kept")  # which may be gone already: containerd ends what has no shim
    cell.ok("prune")
    assert_nothing_is_left(engine)


def test_a_pull_killed_in_the_middle_leaves_what_prune_removes(cell, engine):
    """Its lease has an end of its own, too."""
    image = Image(os.urandom(1 << 16))
    with scripted(image) as r:
        child = cell.start("create", "half", "--backend", "containerd", "--image", r.ref())
        wait_for(lambda: any("blobs" in path for path, _ in r.seen), "it has begun")
        child.kill()
        child.communicate()
        assert "containerd.io/gc.expire" in engine.ctr("leases", "ls")
        cell("rm", "half")
        cell.ok("prune")
        assert r.host not in engine.ctr("images", "ls")


def test_a_cell_whose_record_was_lost_is_found_by_its_labels(cell, engine):
    create(cell, "lost")
    assert "cell.state" in engine.ctr("containers", "info", engine.containers()[0])
    directory = next((cell.dir / "state").rglob("cells/lost"))
    shutil.rmtree(directory)
    another = Cell("containerd", engine.env)
    another.ok("prune")  # it is of another state directory: not theirs to remove
    assert not another.remove()
    assert engine.containers()
    cell.ok("prune")
    assert_nothing_is_left(engine)


def test_a_snapshot_is_a_layer_on_its_image_and_goes_with_it(cell, engine):
    create(cell, "first", "-u", "0:0")
    cell.ok("exec", "first", "--", "sh", "-c", "echo changed > /etc/os-release; rm /etc/group; echo mine > kept")
    cell.ok("snapshot", "save", "first", "saved")
    cell.ok("rm", "first")
    assert len(engine.snapshot_images()) == 1
    r = cell("run", "--backend", "containerd", "-u", "0:0", "--from", "saved", "--", "sh", "-c", "cat /etc/os-release kept; ls /etc")
    assert (r.code, r.out) == (0, "changed\nmine\nos-release\npasswd\n"), r.err
    cell.ok("snapshot", "rm", "saved")
    assert not engine.snapshot_images()
    assert cell.run("--", "cat", "/etc/os-release").out == 'PRETTY_NAME="Image of the tests"\n'


@pytest.mark.parametrize("delay_ms", [10, 40, 80, 120, 200])
def test_who_saves_may_be_killed_at_any_moment(cell, engine, delay_ms):
    """The cell goes on, and nothing of a snapshot that is none is left."""
    create(cell, "first")
    child = cell.start("snapshot", "save", "first", "saved")
    time.sleep(delay_ms / 1000)
    child.kill()
    child.communicate()
    assert cell.ok("exec", "first", "--", "echo", "on it goes", timeout=60) == "on it goes\n"
    cell.ok("rm", "first")
    cell("snapshot", "rm", "saved")
    cell.ok("prune")
    assert not engine.snapshot_images()
