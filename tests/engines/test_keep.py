# SPDX-License-Identifier: Apache-2.0
"""Cells that stand still, cells that are saved, and containers whose cell is gone, over real engines."""

import json
import os
import shutil
import subprocess
import time

import pytest
from conftest import CELL, wait_for

# containerd has tests of its own: it speaks another API
pytestmark = pytest.mark.parametrize("engine", ["docker", "podman"], indirect=True)


def create(cell, name, *args):
    return cell.ok("create", name, "--backend", cell.backend, "--image", "cell-test", *args)


def state(cell, name):
    return json.loads(cell.ok("inspect", name, "--json"))["state"]


def images(engine):
    return engine.snapshot_images()


def save(cell, *args, **kwargs):
    return cell("snapshot", "save", "one", "saved", *args, **kwargs)


def saved_dir(cell):
    return cell.dir / "state" / "snapshots"


def saved_names(cell):
    return [s["name"] for s in json.loads(cell.ok("snapshot", "ls", "--json"))["snapshots"]]


def nothing_saved(cell, engine):
    path = saved_dir(cell)
    return images(engine) == [] and (not path.exists() or os.listdir(path) == [])


def refused(cell, engine):
    """Why the cell cannot be saved; nothing of it is left."""
    r = save(cell, "--json")
    assert r.code != 0 and nothing_saved(cell, engine), r.err
    return json.loads(r.out or r.err)["error"]


def let_go(cell):
    cell.ok("rm", "one")
    cell.ok("snapshot", "rm", "saved")


def can_be_saved(cell):
    """Now that nothing is in the way."""
    cell.ok("snapshot", "save", "one", "saved")
    let_go(cell)


def test_a_paused_cell_uses_no_cpu_and_is_told(cell):
    create(cell, "busy")
    cell.ok("exec", "busy", "-d", "--", "sh", "-c", "while :; do :; done")
    cell.ok("pause", "busy")
    assert state(cell, "busy") == "paused"
    r = cell("exec", "busy", "--", "true")
    assert r.code != 0 and "is paused" in r.err and "cell resume busy" in r.err

    def used():
        return next(c for c in json.loads(cell.ok("top", "--json"))["cells"] if c["name"] == "busy")

    still = used()
    assert still["processes"] >= 2 and still["memory_bytes"] > 0
    assert used()["cpu_us"] == still["cpu_us"]
    cell.ok("resume", "busy")
    wait_for(lambda: used()["cpu_us"] > still["cpu_us"], "it goes on")
    cell.ok("rm", "-f", "busy")


def test_a_cell_paused_by_the_engine_s_own_tools_can_be_resumed(cell, engine):
    create(cell, "both")
    container = next(n for n in engine.containers() if n.startswith("cell-both-"))
    cell.ok("pause", "both")
    engine.unpause(container)
    cell.ok("resume", "both")
    assert cell.ok("exec", "both", "--", "echo", "on") == "on\n"
    cell.ok("rm", "both")


def test_a_snapshot_has_image_home_and_workspace_and_no_secrets(cell, engine):
    create(cell, "one", "-u", "0:0", "-e", "TOKEN_OF_MINE=confidential")
    cell.ok("exec", "one", "--", "sh", "-c", "echo root > /etc/marker; echo home > $HOME/h; echo ws > w; ln -s /bin/sh l")
    cell.ok("snapshot", "save", "one", "saved")
    assert len(images(engine)) == 1
    for path in saved_dir(cell).rglob("*"):
        assert path.is_dir() or b"confidential" not in path.read_bytes()
    r = cell.run("--from", "saved", "--", "sh", "-c", "cat /etc/marker $HOME/h w; readlink l; echo ${TOKEN_OF_MINE:-none}", image=None)
    assert (r.code, r.out) == (0, "root\nhome\nws\n/bin/sh\nnone\n"), r.err
    # a user that only the image knows, and a root that cannot be written to
    assert cell("run", "--from", "saved", "-u", "nobody", "--", "sh", "-c", "cat w; echo mine > x; id -u").out == "ws\n65534\n"
    r = cell("run", "--from", "saved", "--scratch", "memory", "--", "sh", "-c", "cat w; touch /etc/x || echo closed")
    assert r.out == "ws\nclosed\n", r.err
    # with a workspace of the host, that is what there is
    (cell.workspace / "mine").write_text("host\n")
    os.chown(cell.workspace, 65532, 65532)
    r = cell("run", "--from", "saved", "-w", cell.workspace, "--", "ls")
    assert r.out == "mine\n", r.err
    let_go(cell)
    assert images(engine) == []
    assert "no snapshot" in cell.fails("--from", "saved", "--", "true", image=None)


def test_a_sparse_file_takes_no_space_and_stays_sparse(cell):
    create(cell, "one")
    cell.ok("exec", "one", "--", "sh", "-c", "dd if=/dev/null of=x bs=1M seek=512 count=0 && dd if=/dev/null of=$HOME/y bs=1M seek=256 count=0 && echo end >> x")
    cell.ok("snapshot", "save", "one", "saved")
    files = [p.stat() for p in (saved_dir(cell) / "saved").iterdir()]
    assert sum(f.st_size for f in files) > 768 << 20
    assert sum(f.st_blocks * 512 for f in files) < 1 << 20
    (listed,) = json.loads(cell.ok("snapshot", "ls", "--json"))["snapshots"]
    assert listed["size_bytes"] < 1 << 20
    # its workspace is in memory, of which it has less
    r = cell("run", "--from", "saved", "--", "sh", "-c", "wc -c < x; tail -c 4 x; wc -c < $HOME/y; /bin/busybox du x | tr '\\t' ' '")
    assert r.out == f"{(512 << 20) + 4}\nend\n{256 << 20}\n4 x\n", (r.out, r.err)
    let_go(cell)


def test_more_than_anybody_has_is_refused_at_once(cell, engine):
    create(cell, "one")
    cell.ok("exec", "one", "--", "dd", "if=/dev/null", "of=petabyte", "bs=1M", f"seek={1 << 30}", "count=0")
    error = refused(cell, engine)
    assert error["code"] == "limit" and "petabyte" in error["message"] and "64 GiB" in error["message"]
    cell.ok("exec", "one", "--", "rm", "petabyte")
    can_be_saved(cell)


def test_holes_in_the_image_are_counted_before_the_engine_fills_them(cell, engine):
    create(cell, "one", "-u", "0:0")
    cell.ok("exec", "one", "--", "dd", "if=/dev/null", "of=/etc/x", "bs=1M", f"seek={1 << 20}", "count=0")
    error = refused(cell, engine)
    assert error["code"] == "limit" and "1024 GiB" in error["message"]
    cell.ok("exec", "one", "--", "rm", "/etc/x")
    can_be_saved(cell)


def test_a_disk_too_small_is_told_and_nothing_is_left(cell, engine):
    state = cell.dir / "state"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m,mode=0700", "small", state], check=True)
    try:
        create(cell, "one")
        cell.ok("exec", "one", "--", "dd", "if=/dev/urandom", "of=noise", "bs=1M", "count=64")
        assert refused(cell, engine)["code"] == "no_space"
        cell.ok("exec", "one", "--", "rm", "noise")
        can_be_saved(cell)
    finally:
        cell("rm", "one")
        subprocess.run(["umount", "-l", state], check=True)


@pytest.mark.parametrize("fault", ["snapshot:1:ENOSPC", "snapshot:1:after=EIO"])
def test_an_engine_that_fails_to_save_leaves_nothing(cell, engine, fault):
    cell.ok("create", "one", "--backend", f"fault:{cell.backend}", "--image", "cell-test")
    r = save(cell, env={"CELL_FAULT": fault})
    assert r.code != 0 and "call 1 of snapshot" in r.err, r.err
    assert nothing_saved(cell, engine)
    # what cannot be removed now is by whoever comes next
    r = save(cell, env={"CELL_FAULT": fault + ",forget:*:EBUSY"})
    assert r.code != 0 and not nothing_saved(cell, engine)
    cell.ok("prune")
    assert nothing_saved(cell, engine)
    cell.ok("rm", "one")


@pytest.mark.parametrize("fault", ["pause:1:EIO", "pause:1:after=EIO"])
def test_a_pause_that_fails_leaves_a_cell_that_runs(cell, fault):
    cell.ok("create", "one", "--backend", f"fault:{cell.backend}", "--image", "cell-test")
    r = cell("pause", "one", env={"CELL_FAULT": fault})
    assert r.code != 0 and "call 1 of pause" in r.err, r.err
    assert state(cell, "one") == "ready"
    assert cell.ok("exec", "one", "--", "echo", "on", timeout=30) == "on\n"
    cell.ok("rm", "one")


def test_a_snapshot_in_use_stays(cell, engine):
    create(cell, "one")
    cell.ok("snapshot", "save", "one", "used")
    cell.ok("create", "two", "--from", "used")
    r = cell("snapshot", "rm", "used")
    assert r.code != 0 and "remove them first" in r.err
    assert saved_names(cell) == ["used"]
    cell.ok("rm", "one", "two")
    cell.ok("snapshot", "rm", "used")
    assert images(engine) == []


def test_an_image_removed_by_hand_is_told(cell, engine):
    create(cell, "one")
    cell.ok("snapshot", "save", "one", "saved")
    for name in images(engine):
        engine.remove_image(name)
    r = cell("run", "--from", "saved", "--", "true")
    assert r.code != 0 and "its image was removed" in r.err
    let_go(cell)


@pytest.mark.parametrize("delay_ms", [20, 60, 120, 250])
def test_a_saver_killed_at_any_moment_leaves_what_prune_removes(cell, engine, delay_ms):
    create(cell, "one")
    child = cell.start("snapshot", "save", "one", "half")
    time.sleep(delay_ms / 1000)
    child.kill()
    child.communicate()
    known = saved_names(cell)
    # the engine may still be at it: what it finishes is found by its label. A commit lets the container go on when it is done
    cell.ok("exec", "one", "--", "true")
    time.sleep(0.5)
    wait_for(lambda: cell("prune").code == 0 and len(images(engine)) == len(known), "only what has a name is left")
    left = os.listdir(saved_dir(cell)) if saved_dir(cell).exists() else []
    assert sorted(left) == known
    if known:
        cell.ok("snapshot", "rm", "half")
    cell.ok("rm", "one")
    wait_for(lambda: cell("prune").code == 0 and images(engine) == [], "no image is left")


def test_containers_without_a_record_are_found_by_their_label(cell, engine):
    create(cell, "lost")
    create(cell, "kept")
    engine.make_container("foreign", {"cell.name": "lost", "cell.state": "0" * 32})
    # as if the directory had been restored from a backup
    shutil.rmtree(cell.dir / "state" / "cells" / "lost")
    out = cell.ok("prune")
    assert "lost" in out and "kept" not in out
    names = engine.containers()
    assert not [n for n in names if n.startswith("cell-lost-")], names
    assert "foreign" in names and [n for n in names if n.startswith("cell-kept-")]
    assert cell.ok("exec", "kept", "--", "echo", "alive") == "alive\n"
    assert cell.ok("prune") == ""
    engine.remove_container("foreign")
    cell.ok("rm", "kept")


def test_an_engine_killed_while_it_makes_a_container(cell, engine):
    """What it comes back with has a record, or is found by its label."""
    for delay in (0.05, 0.2, 0.4):
        child = cell.start("create", "half", "--backend", cell.backend, "--image", "cell-test")
        time.sleep(delay)
        engine.kill()
        child.communicate(timeout=120)
        engine.start()
        cell("rm", "half")
        wait_for(lambda: cell("prune").code == 0 and not engine.containers(), "nothing is left")
        assert "half" not in cell.ok("ls")


class Server:
    def __init__(self, cell):
        self.cell, self.socket = cell, cell.dir / "s"
        self.token = cell.dir / "token"
        self.token.write_text(json.loads(cell.ok("token", "create", "--role", "admin", "--json"))["token"])
        self.token.chmod(0o600)
        self.start()

    def start(self):
        self.process = subprocess.Popen([CELL, "--no-config", "serve", "--listen", f"unix:{self.socket}"], env=self.cell.env,
            cwd=self.cell.dir, stdout=subprocess.DEVNULL, stderr=open(self.cell.dir / "log", "ab"))
        wait_for(lambda: self("ls").code == 0, "the server answers")

    def __call__(self, *args):
        return self.cell("--server", f"unix:{self.socket}", "--token-file", self.token, *args)

    def ok(self, *args):
        r = self(*args)
        assert r.code == 0, (args, r.out, r.err)
        return r.out

    def kill(self):
        self.process.kill()
        self.process.wait()


def test_the_same_through_a_server(cell, engine):
    server = Server(cell)
    try:
        server.ok("create", "one", "--backend", cell.backend, "--image", "cell-test")
        server.ok("exec", "one", "--", "sh", "-c", "echo kept > f")
        server.ok("pause", "one")
        assert json.loads(server.ok("inspect", "one", "--json"))["state"] == "paused"
        r = server("exec", "one", "--", "true")
        assert r.code != 0 and "is paused" in r.err, r.err
        top = json.loads(server.ok("top", "--json"))["cells"]
        assert [c["name"] for c in top] == ["one"] and top[0]["processes"] >= 1
        # another server takes it over as it was
        server.kill()
        server.start()
        wait_for(lambda: json.loads(server.ok("inspect", "one", "--json"))["state"] == "paused", "it is paused again")
        server.ok("resume", "one")
        assert server.ok("exec", "one", "--", "cat", "f") == "kept\n"
        server.ok("snapshot", "save", "one", "saved")
        assert "saved" in server.ok("snapshot", "ls")
        r = server("snapshot", "save", "one", "other/saved")
        assert r.code != 0 and "no name" in r.err
        server.ok("create", "two", "--from", "saved")
        assert server.ok("exec", "two", "--", "cat", "f") == "kept\n"
        server.ok("pause", "two")
        server.ok("rm", "one", "two")
        server.ok("snapshot", "rm", "saved")
        assert images(engine) == []
    finally:
        server.kill()
