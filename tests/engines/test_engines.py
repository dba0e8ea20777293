# SPDX-License-Identifier: Apache-2.0
"""What a cell in a container is, over real engines: walls that were asked for, files, users, networks, images, crashes."""

import json
import os
import re
import time

import pytest
from conftest import wait_for


def test_a_command_runs_in_a_container_of_its_own(cell, engine):
    r = cell.run("--", "sh", "-c", "cat /etc/os-release; id -u; ls /sys/class/net; pwd")
    assert r.code == 0, r.err
    assert r.out == 'PRETTY_NAME="Image of the tests"\n65532\nlo\n/workspace\n'


def test_there_are_no_privileges_and_a_filter(cell):
    out = cell.run("--", "grep", "-E", "^(Cap|NoNewPrivs|Seccomp:)", "/proc/self/status").out
    assert set(re.findall(r"^Cap\w+:\s+(\w+)$", out, re.MULTILINE)) == {"0" * 16}
    assert re.search(r"^NoNewPrivs:\s+1$", out, re.MULTILINE) and re.search(r"^Seccomp:\s+2$", out, re.MULTILINE)


def test_files_in_the_workspace_keep_their_owner(cell):
    os.chown(cell.workspace, 4321, 1234)
    r = cell.run("-w", cell.workspace, "--", "sh", "-c", "echo hi > made; id -u; id -g")
    assert (r.code, r.out) == (0, "4321\n1234\n"), r.err
    made = (cell.workspace / "made").stat()
    assert (made.st_uid, made.st_gid) == (4321, 1234)


def test_mounts_are_read_only_or_not_as_asked(cell):
    for name in ("in", "out"):
        (cell.dir / name).mkdir()
        os.chown(cell.dir / name, 65532, 65532)
    (cell.dir / "in" / "data").write_text("42\n")
    r = cell.run("-v", f"{cell.dir}/in:/data:ro", "-v", f"{cell.dir}/out:/results", "--", "sh", "-c",
        "cat /data/data; cp /data/data /results/; touch /data/x || echo refused")
    assert (r.code, r.out) == (0, "42\nrefused\n"), r.err
    assert (cell.dir / "out" / "data").read_text() == "42\n"
    assert not (cell.dir / "in" / "x").exists()


def test_the_socket_of_an_engine_voids_the_walls_and_is_said_so(cell, engine):
    r = cell.run("-v", f"{engine.socket}:/var/run/docker.sock", "--", "ls", "/var/run/docker.sock")
    assert r.out == "/var/run/docker.sock\n", r.err
    assert "no walls" in r.err and "root" in r.err
    quiet = cell.run("--", "true")
    assert "no walls" not in quiet.err


def test_what_an_image_says_is_taken_over_or_told(cell, engine):
    engine.make_image("says", Entrypoint=["/bin/entry", "-x"], Cmd=["serve"], User="nobody", WorkingDir="/usr", Env=["FROM_IMAGE=yes"])
    cell.ok("create", "one", "--backend", cell.backend, "--image", "says")
    assert cell.ok("exec", "one", "--", "sh", "-c", "echo $FROM_IMAGE; pwd; id -u") == "yes\n/usr\n65532\n"
    told = json.loads(cell.ok("inspect", "one", "--json"))
    assert (told["image_entrypoint"], told["image_cmd"], told["image_user"]) == ("/bin/entry -x", "serve", "nobody"), told
    assert re.fullmatch("sha256:[0-9a-f]{64}", told["image"]), told
    cell.ok("rm", "one")
    engine.remove_image("docker.io/library/says:latest" if engine.backend == "containerd" else "says:latest")


def test_a_device_and_the_whole_host_are_refused(cell):
    assert "device" in cell.fails("-v", "/dev/null:/mnt", "--", "true")
    assert "whole root" in cell.fails("-v", "/:/mnt", "--", "true")


def test_scratch_in_memory_is_a_read_only_root(cell):
    try_it = "touch /etc/x 2>/dev/null && echo root; touch /tmp/x && touch $HOME/x && touch x && echo scratch"
    r = cell.run("--scratch", "memory", "-u", "0:0", "--", "sh", "-c", try_it)
    assert (r.code, r.out) == (0, "scratch\n"), r.err
    r = cell.run("-u", "0:0", "--", "sh", "-c", try_it)
    assert (r.code, r.out) == (0, "root\nscratch\n"), r.err


def test_the_disk_is_limited(cell):
    fill = "for f in /tmp/x $HOME/x x; do dd if=/dev/zero of=$f bs=1M count=20 2>/dev/null; done; cat /tmp/x $HOME/x x | wc -c"
    r = cell.run("--disk", "16m", "--", "sh", "-c", fill)
    assert r.code == 0 and 8 << 20 <= int(r.out) <= 16 << 20, (r.out, r.err)


def test_limits_are_those_of_the_container(cell):
    r = cell.run("--memory", "64m", "--pids", "50", "--cpus", "0.5", "--", "sh", "-c",
        "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null;"
        "cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max 2>/dev/null;"
        "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null || head -c 5 /sys/fs/cgroup/cpu.max")
    assert r.out.split() == [str(64 << 20), "50", "50000"], (r.out, r.err)


def test_the_user_is_the_one_that_was_named(cell):
    assert cell.run("-u", "nobody", "--", "id", "-u").out == "65534\n"
    assert cell.run("-u", "77:88", "--", "id", "-g").out == "88\n"
    assert "no-such-user" in cell.fails("-u", "no-such-user", "--", "true")


def test_what_ran_is_in_the_record(cell):
    cell.ok("create", "kept", "--backend", cell.backend, "--image", "cell-test")
    told = json.loads(cell.ok("inspect", "kept", "--json"))
    digest = told["image"]
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", digest), told
    cell.ok("rm", "kept")
    assert cell.run("--", "true", image=digest).code == 0


def test_a_named_cell_is_there_for_other_commands(cell, engine):
    cell.ok("create", "shared", "--backend", cell.backend, "--image", "cell-test")
    cell.ok("exec", "shared", "--", "sh", "-c", "echo 1 > /tmp/state")
    assert cell.ok("exec", "shared", "--", "cat", "/tmp/state") == "1\n"
    assert any(name.startswith("cell-shared-") for name in engine.containers())
    cell.ok("rm", "shared")


def test_the_same_in_an_image_without_a_shell(cell):
    r = cell.run("--", "/bin/busybox", "echo", "no shell needed")
    assert r.out == "no shell needed\n", r.err


def test_a_filter_of_ones_own_is_in_force(cell):
    profile = cell.dir / "profile.json"
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["sethostname", "mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}]}))
    assert cell.run("--", "mkdir", "/tmp/x").code == 0
    assert cell.run("--seccomp", profile, "--", "mkdir", "/tmp/x").code != 0
    assert cell.run("--seccomp", "strict", "--", "mkdir", "/tmp/x").code == 0
    assert "seccomp" in cell.fails("--seccomp", cell.dir / "missing.json", "--", "true")


def test_a_runtime_that_is_not_there_is_told(cell):
    err = cell.fails("--runtime", "no-such-runtime", "--", "true")
    assert "no-such-runtime" in err
    # and one that is
    if cell.backend != "podman":
        assert cell.run("--runtime", "runc", "--", "echo", "runs").out == "runs\n"
    else:
        assert "runtime" in err and "containers.conf" in err


def test_a_network_that_is_not_there_is_told(cell):
    expected = "network.named" if cell.backend == "containerd" else "no-such-net"
    assert expected in cell.fails("--network-name", "no-such-net", "--", "true")


def test_images_that_cannot_be_had_are_told(cell):
    assert "needs an image" in cell.fails("--", "true", image=None)
    err = cell.fails("--pull", "never", "--", "true", image="no-such-image")
    assert "no image 'no-such-image'" in err and "pull" in err
    err = cell.fails("--", "true", image="127.0.0.1:9/no-such:1")
    assert "pull image '127.0.0.1:9/no-such:1'" in err
    err = cell.fails("--", "true", image="127.0.0.1:9/cell-test@sha256:" + "0" * 64)
    assert "0" * 64 in err
    assert "no name of an image" in cell.fails("--", "true", image="not a name")


def test_a_killed_command_leaves_no_container(cell, engine):
    child = cell.start("run", "--backend", cell.backend, "--image", "cell-test", "--", "sh", "-c", "echo up; sleep 1000")
    assert child.stdout.readline() == "up\n"
    assert len(engine.containers()) == 1
    child.kill()
    child.communicate()
    if cell.backend == "containerd":  # which keeps what has ended until it is told
        wait_for(lambda: (cell.ok("prune"), not engine.containers())[1], "its container is gone")
    wait_for(lambda: not engine.containers(), "its container is gone")
    cell.ok("prune")


@pytest.mark.parametrize("delay_ms", [0, 50, 150, 300, 600])
def test_a_maker_killed_at_any_moment_leaves_what_prune_removes(cell, engine, delay_ms):
    child = cell.start("create", "half", "--backend", cell.backend, "--image", "cell-test")
    time.sleep(delay_ms / 1000)
    child.kill()
    child.communicate()
    if "half" in cell.ok("ls"):
        cell("rm", "half")
    cell.ok("prune")
    wait_for(lambda: not engine.containers(), "nothing is left")


def test_walls_and_engine_are_told_by_doctor(cell):
    d = json.loads(cell("doctor", "--json").out)
    b = next(b for b in d["backends"] if b["name"] == cell.backend)
    assert b["usable"], b
    assert "engine" in [w["name"] for w in b["walls"]], b


def test_the_engine_killed_and_back_leaves_nothing(cell, engine):
    """Last: the engine is another one afterwards."""
    cell.ok("create", "survivor", "--backend", cell.backend, "--image", "cell-test")
    engine.kill()
    # the guest is reached by its own socket, without the engine
    assert cell.ok("exec", "survivor", "--", "echo", "still here") == "still here\n"
    r = cell("rm", "survivor")
    assert r.code != 0 and "answers at" in r.err, r.err
    assert "survivor" in cell.ok("ls")
    engine.start()
    cell("rm", "survivor")
    cell.ok("prune")
    assert "survivor" not in cell.ok("ls")
    wait_for(lambda: not engine.containers(), "nothing is left")
    assert cell.run("--", "echo", "again").out == "again\n"


def test_what_an_engine_said_of_itself_is_known_to_the_next_process_for_a_minute(cell):
    if cell.backend == "containerd":
        pytest.skip("it is asked nothing of the kind")
    for _ in range(2):  # where there is no state directory yet, asking makes none
        assert cell.run("--memory", "64m", "--", "true").code == 0
    (kept,) = (cell.dir / "state").glob("engine-*")
    said = json.loads(kept.read_text())
    said["info"]["MemoryLimit"] = False
    kept.write_text(json.dumps(said))
    assert "memory" in cell.fails("--memory", "64m", "--", "true")
    said["socket"] = "another"
    kept.write_text(json.dumps(said))
    assert cell.run("--memory", "64m", "--", "true").code == 0, "what another socket said"
    said = json.loads(kept.read_text())
    said["info"]["MemoryLimit"] = False
    kept.write_text(json.dumps(said))
    os.utime(kept, (time.time() - 120, time.time() - 120))
    assert cell.run("--memory", "64m", "--", "true").code == 0, "what was said long ago"
    kept.write_text("{no JSON")
    assert cell.run("--memory", "64m", "--", "true").code == 0, "what nobody said"
