# SPDX-License-Identifier: Apache-2.0
"""Resource models: who has which CPU, that two cells never share one, and that a crash frees it."""

import os
import signal
from pathlib import Path

import pytest
from conftest import command_line, descendants, processes, wait_until
from jail_modes import jail, root_jail, user_jail  # noqa: F401

ALLOWED = ["grep", "^Cpus_allowed_list", "/proc/self/status"]


def numbers(text):
    """{0, 1, 4} of "0-1,4"."""
    found = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def cpus_in(c, name):
    return numbers(c.ok("exec", name, "--", *ALLOWED).text.split(":")[1].strip())


def needs_cpus(c, n=2):
    if not c.has("resources.dedicated"):
        pytest.skip("no cpuset controller here")
    if len(os.sched_getaffinity(0)) < n:
        pytest.skip(f"needs {n} CPUs")


def dedicate(c, name, *options):
    return c("create", "--resources", "dedicated", *options, name)


def guest_of(c, name):
    return c.ok("inspect", "--json", name).json["guest_pid"]


def group_path(pid, controller, file_v1, file_v2):
    """The file with a setting of the group a process is in."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        for base, wanted, file in ((f"/sys/fs/cgroup/{controller}", controller, file_v1),
                                   ("/sys/fs/cgroup", "", file_v2)):
            found = Path(f"{base}{path}") / file
            if wanted in names.split(",") and found.exists():
                return found
    return None


def group_file(pid, controller, file_v1, file_v2):
    found = group_path(pid, controller, file_v1, file_v2)
    return found and found.read_text().strip()


def test_a_dedicated_cell_has_its_cpu_to_itself(root_jail):
    needs_cpus(root_jail)
    everyone = os.sched_getaffinity(0)
    root_jail.ok("create", "before")
    assert cpus_in(root_jail, "before") == everyone, "the control"
    assert dedicate(root_jail, "own").code == 0
    own = cpus_in(root_jail, "own")
    assert len(own) == 1
    assert root_jail.ok("exec", "own", "--", "nproc").text == "1\n"
    root_jail.ok("create", "after")
    for name in ("before", "after"):
        assert not cpus_in(root_jail, name) & own, f"{name} runs where only 'own' may"
    assert numbers(root_jail.ok("run", "--", *ALLOWED).text.split(":")[1].strip()) == everyone - own
    # a cell cannot widen its own set
    widen = "import os; os.sched_setaffinity(0, range(1024)); print(len(os.sched_getaffinity(0)))"
    assert root_jail.ok("exec", "own", "--", "python3", "-c", widen).text == "1\n"
    root_jail.ok("rm", "-f", "own")
    assert cpus_in(root_jail, "before") == everyone, "and gives it back"
    assert numbers(root_jail.ok("run", "--", *ALLOWED).text.split(":")[1].strip()) == everyone


def test_two_cells_never_share_and_one_cpu_is_left_to_all_others(root_jail):
    needs_cpus(root_jail)
    taken = set()
    for i in range(len(os.sched_getaffinity(0)) - 1):
        assert dedicate(root_jail, f"c{i}").code == 0
        own = cpus_in(root_jail, f"c{i}")
        assert not own & taken
        taken |= own
    r = root_jail.fails("run", "--resources", "dedicated", "--", "true", says=["CPUs", "--cpus"])
    assert "one is left" in r.errors
    r = root_jail.ok("--json", "run", "--resources", "dedicated", "--limits", "best-effort", "--", "true").json
    assert r["degraded"] == ["resources.dedicated"]
    r = root_jail.ok("run", "--resources", "dedicated", "--limits", "best-effort", "--", "true")
    assert "resources.dedicated" in r.errors
    root_jail.ok("rm", "-f", "c0")
    assert dedicate(root_jail, "again").code == 0


def processes_named(word):
    found = {p for p in descendants() if command_line(p).startswith(word)}
    parents = processes()
    return [p for p in found if parents[p][0] not in found]


@pytest.mark.parametrize("role", ["guest of a named cell", "launcher", "client"])
def test_a_crash_frees_the_cpu(root_jail, role):
    needs_cpus(root_jail)
    n = str(len(os.sched_getaffinity(0)) - 1)  # all there are to be had
    if role == "guest of a named cell":
        assert dedicate(root_jail, "own", "--cpus", n).code == 0
        root_jail.fails("run", "--resources", "dedicated", "--", "true")
        os.kill(guest_of(root_jail, "own"), signal.SIGKILL)
        wait_until(lambda: not processes_named("cell-guest:"), what="the guest is gone")
    else:
        child = root_jail.popen("run", "--resources", "dedicated", "--cpus", n, "--", "sh", "-c", "echo up; exec sleep 600")
        assert child.stdout.readline() == b"up\n"
        root_jail.fails("run", "--resources", "dedicated", "--", "true")
        os.kill(child.pid if role == "client" else processes_named("cell-launcher")[0], signal.SIGKILL)
        child.wait(timeout=60)
        wait_until(lambda: not processes_named("cell-"), what="the cell is gone")
    # whoever comes next finds it free: a cell that asks for nothing too
    assert numbers(root_jail.ok("run", "--", *ALLOWED).text.split(":")[1].strip()) == os.sched_getaffinity(0)
    assert root_jail.ok("run", "--resources", "dedicated", "--", "true").code == 0
    assert numbers(root_jail.ok("run", "--", *ALLOWED).text.split(":")[1].strip()) == os.sched_getaffinity(0)


def test_memory_is_reserved_or_refused_or_reported(root_jail):
    needs_cpus(root_jail)
    options = ["--resources", "dedicated", "--memory", "64m"]
    if root_jail.has("resources.memory"):
        root_jail.ok("create", *options, "own")
        assert group_file(guest_of(root_jail, "own"), "memory", "none", "memory.min") == str(64 << 20)
        return
    root_jail.fails("run", *options, "--", "true", says=["resources.memory", "cgroup v2"])
    r = root_jail.ok("--json", "run", *options, "--limits", "best-effort", "--", *ALLOWED).json
    assert r["degraded"] == ["resources.memory"], "the CPUs and the limit are still held"
    assert len(numbers(r["stdout"].split(":")[1].strip())) == 1


def test_cpus_of_ones_own_are_whole(jail):
    jail.fails("run", "--resources", "dedicated", "--cpus", "1.5", "--", "true", says=["whole", "burstable"])


def test_a_burstable_cell_has_a_weight_and_no_ceiling(root_jail):
    if not root_jail.has("limits.cpus"):
        pytest.skip("no cpu controller here")
    root_jail.ok("create", "--resources", "burstable", "--cpus", "0.5", "soft")
    root_jail.ok("create", "--cpus", "0.5", "hard")
    soft, hard = guest_of(root_jail, "soft"), guest_of(root_jail, "hard")
    assert group_file(soft, "cpu", "cpu.shares", "cpu.weight") in ("512", "50")
    assert group_file(soft, "cpu", "cpu.cfs_quota_us", "cpu.max") in ("-1", "max 100000")
    assert group_file(hard, "cpu", "cpu.cfs_quota_us", "cpu.max") in ("50000", "50000 100000"), "the control"
    assert root_jail.ok("inspect", "--json", "soft").json["resources"] == "burstable"


def test_a_weight_is_not_left_to_the_next_cell(root_jail):
    """One process that makes several cells reuses their groups."""
    if not root_jail.has("limits.cpus"):
        pytest.skip("no cpu controller here")
    root_jail.ok("create", "--resources", "burstable", "--cpus", "0.1", "soft")
    root_jail.ok("rm", "-f", "soft")
    root_jail.ok("create", "--cpus", "1", "next")
    assert group_file(guest_of(root_jail, "next"), "cpu", "cpu.shares", "cpu.weight") in ("1024", "100")


def test_a_limited_cell_has_limits_nobody_named(root_jail):
    if not all(root_jail.has(f"limits.{x}") for x in ("memory", "cpus", "pids")):
        pytest.skip("not all controllers here")
    root_jail.ok("create", "--resources", "limited", "--pids", "77", "small")
    pid = guest_of(root_jail, "small")
    assert group_file(pid, "memory", "memory.limit_in_bytes", "memory.max") == str(512 << 20)
    assert group_file(pid, "pids", "pids.max", "pids.max") == "77"
    assert group_file(pid, "cpu", "cpu.cfs_quota_us", "cpu.max") in ("100000", "100000 100000")


def test_a_crowd_with_hardly_any_cpu_can_be_removed(root_jail):
    """Each of them needs a little of it to die."""
    if not root_jail.has("limits.cpus"):
        pytest.skip("no limits here")
    root_jail.ok("create", "box", "--cpus", "1", "--pids", "2000")
    pid = guest_of(root_jail, "box")
    root_jail.ok("exec", "-d", "box", "--", "sh", "-c", "for i in $(seq 1800); do sleep 1000 & done; wait")
    wait_until(lambda: len(descendants(pid)) > 1800, what="a crowd")
    quota = group_path(pid, "cpu", "cpu.cfs_quota_us", "cpu.max")
    quota.write_text("2000")  # of 100,000: as with --cpus 0.02, but the crowd is there sooner
    root_jail.ok("rm", "-f", "box")
    assert not descendants(pid) and root_jail.names() == []


def test_back_ends_without_limits_refuse_the_models(jail):
    for model, word in (("limited", "limits.memory"), ("burstable", "limits.cpus"), ("dedicated", "resources.dedicated")):
        jail.fails("run", "--backend", "subprocess", "--resources", model, "--", "true", says=[word])
    assert jail.ok("run", "--resources", "shared", "--", "true").code == 0


def test_without_a_delegated_cgroup_the_models_are_refused_or_reported(user_jail):
    if user_jail.has("limits.cpus"):
        pytest.skip("this user has cgroups")
    user_jail.fails("run", "--resources", "burstable", "--", "true", says=["limits.cpus"])
    r = user_jail.ok("--json", "run", "--resources", "dedicated", "--limits", "best-effort", "--", "true").json
    assert "resources.dedicated" in r["degraded"]


def test_a_share_of_the_disk_is_set_or_refused_or_reported(root_jail):
    schedulers = [p.read_text() for p in Path("/sys/block").glob("*/queue/scheduler") if "/loop" not in str(p)]
    if root_jail.has("limits.io"):
        assert any(word in s for s in schedulers for word in ("[bfq]", "[cfq]")) or "enable=1" in "".join(
            p.read_text() for p in Path("/sys/fs/cgroup").glob("io.cost.qos")), "a weight nobody looks at is no promise"
        root_jail.ok("create", "--io-weight", "50", "slow")
        pid = guest_of(root_jail, "slow")
        found = {group_file(pid, "blkio", file, "io.weight") for file in ("blkio.bfq.weight", "blkio.weight")}
        assert found & {"50", "default 50"}, found
        return
    root_jail.fails("run", "--io-weight", "50", "--", "true", says=["limits.io", "bfq"])
    r = root_jail.ok("--json", "run", "--io-weight", "50", "--limits", "best-effort", "--", "true").json
    assert r["degraded"] == ["limits.io"]


def test_best_effort_reports_each_limit_that_is_not_enforced(user_jail):
    asked = {"memory": "64m", "cpus": "1", "pids": "100", "files": "100", "disk": "10m", "io-weight": "10"}
    words = {"io-weight": "limits.io"}
    options = [x for name, value in asked.items() for x in (f"--{name}", value)]
    missing = sorted(w for name in asked if not user_jail.has(w := words.get(name, f"limits.{name}")))
    r = user_jail.ok("--json", "run", *options, "--limits", "best-effort", "--", "true").json
    assert sorted(r.get("degraded", [])) == missing
    text = user_jail.ok("run", *options, "--limits", "best-effort", "--", "true").errors
    assert all(word in text for word in missing)
    if missing:
        user_jail.fails("run", *options, "--", "true", says=[missing[0].split(".")[0]])
