# SPDX-License-Identifier: Apache-2.0
"""The server started as root becomes an ordinary user; jails go on working, because the launcher stays root."""

import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

import pytest
from conftest import PATIENCE_S, TOP, Server

USER = 65534

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def unit_caps():
    """What cell.service leaves in the bounding set, as setpriv says it."""
    text = (TOP / "packaging" / "systemd" / "cell.service.in").read_text()
    names = next(line for line in text.splitlines() if line.startswith("CapabilityBoundingSet=")).split("=")[1].split()
    assert "NoNewPrivileges=yes" in text
    return "-all," + ",".join("+" + n.removeprefix("CAP_").lower() for n in names)


@pytest.fixture(params=["root", "as the unit"])
def dropped(request):
    """In a directory that an ordinary user can get to."""
    top = Path(tempfile.mkdtemp(prefix="cell-priv-", dir="/tmp"))
    top.chmod(0o755)
    s = Server(top / "s")
    os.chown(s.dir, USER, USER)  # for its socket
    if request.param != "root":
        s.wrapper = ["setpriv", "--no-new-privs", "--inh-caps=-all", f"--bounding-set={unit_caps()}"]
    s.start("--user", str(USER))
    yield s
    if s.process is None:
        s.start("--user", str(USER))
    client = s.client()
    for one in client.get("/v1/sessions").json["sessions"]:
        client.delete(f"/v1/sessions/{one['id']}")
    s.stop()
    left = list((s.state / "cells").glob("*"))
    log = s.log()
    shutil.rmtree(top)
    assert not left, (left, log)
    assert "ERROR: AddressSanitizer" not in log and "runtime error:" not in log, log


def status(pid):
    return dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)


def guest_of(server, session):
    """By the name of its first process."""
    for p in Path("/proc").glob("[0-9]*"):
        try:
            if p.joinpath("cmdline").read_bytes().startswith(f"cell-guest:{session.id}:".encode()):
                return int(p.name)
        except OSError:
            continue
    raise AssertionError("no guest")


def test_it_holds_nothing_and_cannot_get_anything(dropped):
    s = status(dropped.process.pid)
    assert s["Uid"].split() == s["Gid"].split() == [str(USER)] * 4
    assert s["Groups"].split() in ([], [str(USER)])
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(s[name], 16) == 0, (name, s[name])
    assert s["NoNewPrivs"].strip() == "1"
    # every thread of it, not the first alone
    for task in Path(f"/proc/{dropped.process.pid}/task").iterdir():
        own = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
        assert own["Uid"].split() == [str(USER)] * 4 and int(own["CapBnd"], 16) == 0
    assert dropped.state.stat().st_uid == USER
    assert (dropped.state / "server" / "server.db").stat().st_uid == USER


def test_jails_work_and_survive_it(dropped):
    client = dropped.client()
    s = client.session(backend="jail", limits={"memory": "64m"})
    assert s.info["backend"] == "jail" and s.info["degraded"] == []
    assert s.run("id -u; echo x > f; cat f")["exit_code"] == 0
    assert s.put("g", b"bytes").status == 200
    assert s.read("g").body == b"bytes"
    dropped.kill()
    dropped.start("--user", str(USER))
    assert s.run("cat f")["stdout"] == "x\n"
    s.end()
    assert not list((dropped.state / "cells").glob("*"))


def is_running(pid):
    """Ended is ended, also when whoever adopted it has not looked yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_guest_that_does_not_answer_is_ended_by_the_launcher(dropped, is_restarted):
    """The server itself may not send it a signal; that it hangs is seen to from here."""
    s = dropped.client().session(backend="jail")
    if is_restarted:
        dropped.kill()
        dropped.start("--user", str(USER))
    pid = guest_of(dropped, s)
    assert status(pid)["Uid"].split()[0] != str(USER)
    os.kill(pid, signal.SIGSTOP)
    a = dropped.client().delete(s.path)
    assert a.status == 204, a
    end = time.monotonic() + PATIENCE_S
    while is_running(pid):
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_launcher_that_died_is_not_replaced_by_a_weaker_one(dropped):
    s = dropped.client().session(backend="jail")
    launchers = [int(p.parent.name) for p in Path("/proc").glob("[0-9]*/stat")
                 if (words := p.read_text().rsplit(")", 1))[1].split()[1] == str(dropped.process.pid) and "launcher" in words[0]]
    assert launchers
    for pid in launchers:
        os.kill(pid, signal.SIGKILL)
    assert s.run("echo goes on")["stdout"] == "goes on\n"
    for _ in range(2):
        a = dropped.client().post("/v1/sessions", {"backend": "jail"})
        assert a.status in (501, 502) and "restart" in a.json["hint"], a
    dropped.stop()
    dropped.start("--user", str(USER))
    assert s.run("echo still")["stdout"] == "still\n"
    assert dropped.client().session(backend="jail").run("echo new")["stdout"] == "new\n"


def test_who_it_cannot_become(tmp_path):
    s = Server(tmp_path / "s")
    for user in ("no-such-user", "0", "root", "1x"):
        r = s.cell("serve", "--user", user, "--listen", "127.0.0.1:0", check=False)
        assert r.returncode != 0 and "server.user" in r.stderr, (user, r)
