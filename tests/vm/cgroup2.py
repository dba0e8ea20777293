#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Limits and clean-up of the jail where cgroup2 is all there is; run by tests/vm/guest, in TAP.

VM_MODE says who we are: root in a service, in the root group or in a container, a user with a delegated
group, a user without. What must hold differs only where the machine gives less: then it must be said.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

CELL = str(Path(sys.argv[1]).resolve())
WORD = sys.argv[2] if len(sys.argv) > 2 else ""
MODE = os.environ.get("VM_MODE", "")
GROUPS = Path("/sys/fs/cgroup")
HAS_GROUPS = MODE != "cgroup2-user"
IS_ROOT = os.geteuid() == 0
TESTS = []


class Skip(Exception):
    pass


def test(f):
    TESTS.append(f)
    return f


def needs_groups(f):
    def checked():
        if not HAS_GROUPS:
            raise Skip("no group was delegated to this user")
        f()

    checked.__name__ = f.__name__
    return test(checked)


def cell(*words, timeout=120, **more):
    return subprocess.run([CELL, *words], capture_output=True, text=True, timeout=timeout, check=False,
        stdin=subprocess.DEVNULL, **more)


def run_json(*words):
    r = cell("run", "--json", *words)
    assert r.stdout, f"exit {r.returncode}: {r.stderr}"
    return json.loads(r.stdout)


def until(what, seconds=30):
    """Waits for something to become true; what it was in the end."""
    end = time.monotonic() + seconds
    while not (value := what()) and time.monotonic() < end:
        time.sleep(0.05)
    return value


def group_list():
    """The groups of cells: GROUPS/.../cell/NUMBER."""
    found = []
    for top, names, _ in os.walk(GROUPS):
        if os.path.basename(top) == "cell":
            found += [Path(top) / n for n in names]
            names.clear()
    return found


def get(path):
    return Path(path).read_text(encoding="utf-8").strip()


def keyed(path):
    return dict((line.split()[0], int(line.split()[1])) for line in get(path).splitlines())


def pids_of(group):
    return [int(p) for p in get(group / "cgroup.procs").split()]


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def processes_with(word):
    return [int(p) for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid() and word in command_line(p)
        and CELL not in command_line(p)]


def children_of(pid):
    try:
        return [int(w) for w in get(f"/proc/{pid}/task/{pid}/children").split()]
    except OSError:
        return []


class Living:
    """A cell that runs `sleep SECONDS`, found by the number of seconds; its group, launcher and first process."""

    number = 100000

    def __init__(self, *words):
        Living.number += 1
        self.word = str(Living.number)
        self.client = subprocess.Popen([CELL, "run", *words, "--", "sleep", self.word], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.sleepers = until(lambda: self.client.poll() is not None or processes_with(f"sleep {self.word}"))
        assert self.client.poll() is None and self.sleepers, f"no cell: {self.client.stderr.read()}"
        self.launcher = next(p for p in children_of(self.client.pid) if get(f"/proc/{p}/comm").startswith("cell-launcher"))
        self.group = next((g for g in group_list() if self.sleepers[0] in pids_of(g)), None)

    def first(self):
        """The cell's pid 1 as the host counts."""
        return next(p for p in children_of(self.launcher) if p in pids_of(self.group))

    def end(self):
        self.client.terminate()
        self.client.wait(60)
        self.client.stderr.close()

    def is_gone(self):
        return not processes_with(f"sleep {self.word}")


def assert_clean():
    left = until(lambda: not group_list())
    assert left, f"groups are left: {[str(g) for g in group_list()]}"


@needs_groups
def every_process_of_a_cell_is_in_its_group():
    c = Living()
    assert c.group, f"{c.sleepers} is in no group of a cell: {get(f'/proc/{c.sleepers[0]}/cgroup')}"
    assert c.first() in pids_of(c.group)
    assert c.client.pid not in pids_of(c.group) and c.launcher not in pids_of(c.group)
    assert len(pids_of(c.group)) >= 2
    c.end()
    assert c.is_gone()
    assert_clean()


@needs_groups
def limits_are_written_into_the_group():
    c = Living("--memory", "64m", "--cpus", "0.5", "--pids", "50")
    assert get(c.group / "memory.max") == str(64 << 20)
    if (c.group / "memory.swap.max").exists():
        assert get(c.group / "memory.swap.max") == "0"
    assert get(c.group / "cpu.max") == "50000 100000"
    assert get(c.group / "pids.max") == "50"
    assert get(c.group / "cgroup.max.descendants") == "0"
    c.end()
    assert_clean()


@needs_groups
def a_cell_without_limits_has_none_of_the_one_before():
    first = Living("--memory", "64m", "--cpus", "0.5", "--pids", "50")
    first.end()
    c = Living()
    assert get(c.group / "memory.max") == "max" and get(c.group / "cpu.max").startswith("max") and get(c.group / "pids.max") == "max"
    c.end()


@needs_groups
def the_share_of_the_disk_is_written_into_the_group():
    r = cell("run", "--io-weight", "50", "--", "true")
    if r.returncode == 125 and "limits.io" in r.stderr:
        raise Skip("no scheduler that knows weights: " + r.stderr.strip().splitlines()[0])
    assert r.returncode == 0, r.stderr
    c = Living("--io-weight", "50")
    files = [c.group / n for n in ("io.weight", "io.bfq.weight") if (c.group / n).exists()]
    assert any(get(f).endswith("50") for f in files), [get(f) for f in files]
    c.end()


@needs_groups
def out_of_memory_takes_the_command_and_nothing_else():
    neighbour = Living("--memory", "64m")
    outside = subprocess.Popen([sys.executable, "-c", "import time; x = bytearray(150 << 20); print('up', flush=True); time.sleep(1000)"],
        stdout=subprocess.PIPE)
    assert outside.stdout.readline() == b"up\n"
    control = run_json("--", "python3", "-c", "x = bytearray(256 << 20); print(len(x))")
    r = run_json("--memory", "64m", "--", "python3", "-c", "x = bytearray(256 << 20); print(len(x))")
    assert control["exit_code"] == 0 and control["oom"] is False, control
    assert r["exit_code"] == 137 and r["oom"] is True and r["stdout"] == "", r
    assert not neighbour.is_gone() and outside.poll() is None
    outside.kill()
    outside.wait()
    outside.stdout.close()
    neighbour.end()
    assert_clean()


@needs_groups
def out_of_memory_of_one_process_takes_all_of_the_command():
    line = "for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; python3 -c 'x = bytearray(256 << 20)'; sleep 1000; echo survived"
    for _ in range(5):
        r = run_json("--memory", "64m", "--shell", line)
        assert r["oom"] is True and r["exit_code"] == 137 and "survived" not in r["stdout"], r
    assert_clean()


@needs_groups
def out_of_memory_of_a_child_is_told_though_its_parent_ends_at_once():
    for i in range(10):
        r = run_json("--memory", "64m", "--", "python3", "-c", "import os; os.fork() or [bytearray(256 << 20)]; os.wait(); os._exit(3)")
        assert r["oom"] is True, (i, r)


@needs_groups
def memory_is_counted_over_processes_files_in_memory_and_shared_memory():
    many = "for i in 1 2 3 4 5 6 7 8; do python3 -c 'x = bytearray(20 << 20); import time; time.sleep(20)' & done; wait; echo survived"
    r = run_json("--memory", "64m", "--timeout", "100s", "--shell", many)
    assert r["oom"] is True and "survived" not in r["stdout"], r
    for place in ("/tmp", "/dev/shm"):
        r = run_json("--memory", "64m", "--shell", f"head -c 200000000 /dev/zero >{place}/x && echo survived")
        assert "survived" not in r["stdout"], (place, r)
        assert r["oom"] or r["exit_code"], (place, r)


@needs_groups
def a_cell_lives_on_after_it_ran_out_of_memory():
    name = f"oom-{os.getpid()}"
    r = cell("create", "--name", name, "--memory", "64m")
    assert r.returncode == 0, r.stderr
    try:
        for _ in range(3):
            r = cell("exec", "--json", name, "--", "python3", "-c", "x = bytearray(256 << 20)")
            assert json.loads(r.stdout)["oom"] is True, r
            r = cell("exec", "--json", name, "--", "echo", "here")
            assert json.loads(r.stdout)["stdout"] == "here\n" and json.loads(r.stdout)["oom"] is False, r
    finally:
        r = cell("rm", name)
    assert r.returncode == 0, r.stderr
    assert_clean()


@test
def a_fork_bomb_stays_within_its_number_and_ends_with_its_deadline():
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    c = subprocess.Popen([CELL, "run", "--json", "--pids", "40", "--timeout", "5s", "--", "python3", "-c", bomb],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    most = 0
    while c.poll() is None:
        for g in group_list():
            try:
                most = max(most, int(get(g / "pids.current")))
            except OSError:
                pass
        time.sleep(0.1)
    out, err = c.communicate()
    r = json.loads(out)
    assert r["exit_code"] == 124 and r["timed_out"], (r, err)
    if HAS_GROUPS:
        assert 0 < most <= 40, most
    assert_clean()


@needs_groups
def cpus_are_limited():
    """Two whole CPUs are there to be had. Time that the host does not give to the machine is charged to whoever ran, and
    the group pays it back later: one such window says nothing, so there are several."""
    line = "for i in 1 2 3 4; do (while :; do :; done) & done; wait"
    c = subprocess.Popen([CELL, "run", "--cpus", "0.25", "--timeout", "5m", "--shell", line], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    group = until(lambda: next((g for g in group_list() if len(pids_of(g)) >= 5), None))
    assert group
    shares, throttled = [], 0
    while len(shares) < 8 and not any(0.2 < s < 0.28 for s in shares):
        start, before = time.monotonic(), keyed(group / "cpu.stat")
        time.sleep(4)
        after, end = keyed(group / "cpu.stat"), time.monotonic()
        shares.append((after["usage_usec"] - before["usage_usec"]) / 1e6 / (end - start))
        throttled += after["nr_throttled"] - before["nr_throttled"]
    c.terminate()
    c.wait(60)
    assert throttled and any(0.2 < s < 0.28 for s in shares), (throttled, shares)
    assert_clean()


@needs_groups
def a_dedicated_cpu_is_its_cell_s_alone():
    words = ["--resources", "dedicated", "--cpus", "1", *(["--memory", "64m"] if IS_ROOT else [])]  # reserving it is root's
    refused = cell("run", *words, "--", "true")
    if refused.returncode == 125 and MODE not in ("cgroup2-root", "cgroup2-root-in-the-root-group", "cgroup2-user-delegated"):
        assert "resources." in refused.stderr, refused
        raise Skip(refused.stderr.splitlines()[0])
    control, r = run_json("--", "nproc"), run_json(*words, "--", "nproc")
    assert control["stdout"] == f"{os.cpu_count()}\n" and r["stdout"] == "1\n", (control, r)
    c = Living(*words)
    own = get(c.group / "cpuset.cpus.effective")
    reserved = get(c.group / "memory.min")
    neighbour = Living()
    others = get(neighbour.group / "cpuset.cpus.effective")
    c.end()
    neighbour.end()
    assert own in ("0", "1") and others in ("0", "1") and own != others, (own, others)
    assert reserved == (str(64 << 20) if IS_ROOT else "0"), reserved
    assert run_json("--", "nproc")["stdout"] == control["stdout"]
    assert_clean()


@needs_groups
def a_client_that_is_killed_takes_its_cell_and_its_group():
    c = Living("--memory", "64m")
    c.client.kill()
    c.client.wait()
    assert until(c.is_gone)
    assert_clean()


@needs_groups
def the_group_of_a_launcher_that_was_killed_is_removed_by_the_next_command():
    c = Living("--memory", "64m")
    os.kill(c.launcher, signal.SIGKILL)
    assert until(c.is_gone)
    c.client.wait(60)
    assert cell("run", "--", "true").returncode == 0
    assert cell("prune").returncode == 0
    assert_clean()


@needs_groups
def the_group_goes_when_client_and_launcher_are_killed_at_once():
    c = Living("--memory", "64m")
    os.kill(c.launcher, signal.SIGSTOP)
    c.client.kill()
    os.kill(c.launcher, signal.SIGKILL)
    c.client.wait()
    assert until(c.is_gone)
    assert cell("prune").returncode == 0
    assert_clean()


@needs_groups
def a_first_process_that_is_killed_takes_the_rest_and_the_group():
    c = Living("--memory", "64m")
    os.kill(c.first(), signal.SIGKILL)
    assert until(c.is_gone)
    c.client.wait(60)
    assert c.client.returncode != 0
    assert_clean()


@needs_groups
def what_is_frozen_can_be_ended():
    c = Living()
    (c.group / "cgroup.freeze").write_text("1")
    assert until(lambda: keyed(c.group / "cgroup.events")["frozen"] == 1)
    c.client.kill()
    c.client.wait()
    assert until(c.is_gone)
    assert_clean()


@needs_groups
def a_named_cell_keeps_its_group_and_limits_until_it_is_removed():
    name = f"kept-{os.getpid()}"
    r = cell("create", "--name", name, "--memory", "64m", "--pids", "50")
    assert r.returncode == 0, r.stderr
    groups = group_list()
    r = cell("exec", name, "--", "echo", "here")
    again = group_list()
    limit = get(groups[0] / "memory.max") if groups else ""
    assert cell("run", "--", "true").returncode == 0, "another cell beside it"
    assert cell("prune").returncode == 0
    survived = group_list()
    gone = cell("rm", name)
    assert len(groups) == 1 and again == groups and survived == groups, (groups, again, survived)
    assert r.stdout == "here\n" and limit == str(64 << 20), (r, limit)
    assert gone.returncode == 0, gone.stderr
    assert_clean()


@needs_groups
def a_named_cell_whose_first_process_was_killed_is_removed_whole():
    name = f"dead-{os.getpid()}"
    assert cell("create", "--name", name, "--memory", "64m").returncode == 0
    for g in group_list():
        for pid in pids_of(g):
            os.kill(pid, signal.SIGKILL)
    r = cell("prune")
    assert r.returncode == 0 and name in r.stdout, r
    assert_clean()


@test
def many_cells_at_once_and_in_a_row_leave_no_group():
    for _ in range(5):
        batch = [subprocess.Popen([CELL, "run", "--pids", "60", "--", "true"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for _ in range(6)]
        said = [(p.communicate(timeout=120)[1], p.returncode) for p in batch]
        assert all(code == 0 for _, code in said), said
    assert_clean()


@test
def a_limit_that_no_group_can_enforce_is_refused_and_best_effort_says_so():
    if HAS_GROUPS:
        raise Skip("a group is there")
    for option, value, name in (("--memory", "64m", "limits.memory"), ("--cpus", "0.5", "limits.cpus")):
        r = cell("run", option, value, "--", "true")
        assert r.returncode == 125 and name in r.stderr, r
        r = cell("run", "--limits", "best-effort", option, value, "--", "true")
        assert r.returncode == 0 and name in r.stderr, r
    count = "import os, time\nn = 0\ntry:\n    while n < 100:\n        os.fork() or (time.sleep(20), os._exit(0))\n        n += 1\nexcept OSError: pass\nprint(n)"
    control, r = run_json("--", "python3", "-c", count), run_json("--pids", "30", "--", "python3", "-c", count)
    assert int(control["stdout"]) == 100 and 0 < int(r["stdout"]) < 30, (control, r)


@test
def without_user_namespaces_the_error_names_the_setting():
    if not IS_ROOT or "container" in MODE:
        raise Skip("only root may change it")
    knob = Path("/proc/sys/kernel/unprivileged_userns_clone")
    if not knob.exists():
        knob = Path("/proc/sys/user/max_user_namespaces")
    before = get(knob)
    as_user = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "env", "HOME=/home/user", "XDG_RUNTIME_DIR=/run/user/1000"]
    os.makedirs("/run/user/1000", exist_ok=True)
    os.chown("/run/user/1000", 1000, 1000)
    words = [*as_user, CELL, "run", "--backend", "jail", "--", "true"]
    control = subprocess.run(words, capture_output=True, text=True, check=False)
    try:
        knob.write_text("0")
        r = subprocess.run(words, capture_output=True, text=True, check=False)
    finally:
        knob.write_text(before)
    assert control.returncode == 0, control
    assert r.returncode == 125 and knob.name in r.stderr, r


def main():
    chosen = [t for t in TESTS if WORD in t.__name__]
    failed = 0
    print(f"1..{len(chosen)}", flush=True)
    for number, t in enumerate(chosen, 1):
        try:
            t()
            print(f"ok {number} - {t.__name__}", flush=True)
        except Skip as e:
            print(f"ok {number} - {t.__name__} # SKIP {e}", flush=True)
        except Exception as e:  # pylint: disable=broad-except
            failed += 1
            import traceback
            where = traceback.extract_tb(e.__traceback__)[-1]
            print(f"not ok {number} - {t.__name__}\n# line {where.lineno}: {where.line}\n# {type(e).__name__}: {e}".replace("\n\n", "\n"), flush=True)
            for pid in processes_with("sleep 100"):
                os.kill(pid, signal.SIGKILL)
            cell("prune")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
