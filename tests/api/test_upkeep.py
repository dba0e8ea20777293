# SPDX-License-Identifier: Apache-2.0
"""What keeps a server in order: reload, drain, secrets, storage, what sessions take, being started by systemd."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from conftest import CELL, PATIENCE_S


def wait_for(what, patience=PATIENCE_S):
    end = time.monotonic() + patience
    while True:
        value = what()
        if value:
            return value
        assert time.monotonic() < end, "never came true"
        time.sleep(0.05)


# ---- SIGHUP ----


def reload(server, config):
    before = server.log().count("event=reloaded") + server.log().count("event=config.reload")
    server.config.write_text(config)
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: server.log().count("event=reloaded") + server.log().count("event=config.reload") > before)


def test_rules_quotas_and_timeouts_change_without_a_restart(server):
    client = server.client()
    s = client.session()
    assert s.run("echo yes")["stdout"] == "yes\n"
    reload(server, "server:\n  idle_timeout: 7m\n  quotas: {cells: 1}\n  policy:\n    rules:\n      - {name: no-echo, effect: deny, command: 'echo*'}\n")
    a = s.post("/exec", {"command": "echo no"})
    assert a.status == 403 and "no-echo" in a.json["message"], a
    assert s.run("printf other")["stdout"] == "other"
    a = client.post("/v1/sessions", {})
    assert a.status == 429 and a.headers["Retry-After"], a
    reload(server, "server:\n  idle_timeout: 7m\n")
    t = client.session()
    assert t.info["idle_timeout_s"] == 420
    assert s.run("echo again")["stdout"] == "again\n"


@pytest.mark.parametrize("bad", ["server: {policy: {rules: [{effect: perhaps}]}}", "server: {quotas: {cells: many}}", "server: [", "server: {nonsense: 1}",
                                 "auth_disabled: true\nauth_token: x-y-z-x-y-z-x-y-z-x-y-z"])
def test_an_error_leaves_everything_as_it_was(server, bad):
    reload(server, "server:\n  policy:\n    rules:\n      - {name: no-echo, effect: deny, command: 'echo*'}\n")
    s = server.client().session()
    reload(server, bad)
    assert "event=config.reload" in server.log()
    assert s.post("/exec", {"command": "echo no"}).status == 403
    assert s.run("printf fine")["stdout"] == "fine"


def test_reloading_again_and_again_under_load(server):
    s = server.client().session()
    stop = threading.Event()
    failed = []
    def work():
        client = server.client()
        while not stop.is_set():
            a = client.post(f"{s.path}/exec", {"command": "printf x"})
            if a.status != 200:
                failed.append(a)
    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for i in range(20):
        reload(server, f"server:\n  quotas: {{cells: {10 + i}}}\n")
    stop.set()
    for t in threads:
        t.join()
    assert not failed


# ---- secrets, what a session takes ----


def test_values_of_secrets_are_not_shown(client):
    s = client.session(env={"API_KEY": "hush-1", "PLAIN": "seen", "OTHER": "ghp_0123456789abcdefghij0123456789abcdef"})
    assert s.run("printf %s $API_KEY")["stdout"] == "hush-1"
    text = json.dumps([s.get().json, client.get("/v1/sessions").json, s.info])
    assert "hush-1" not in text and "ghp_0123" not in text
    assert s.get().json["spec"]["env"]["PLAIN"] == "seen" and s.get().json["spec"]["env"]["API_KEY"] == "***"
    s = client.session(env=["DB_PASSWORD=hush-2", "PLAIN=seen"])
    assert s.get().json["spec"]["env"] == ["DB_PASSWORD=***", "PLAIN=seen"]


def test_stats_tell_what_the_cell_takes_and_are_no_use(client, shared):
    s = client.session()
    first = s.get("/stats").json
    s.run("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
    s.background("sleep 600")
    used = s.get().json["last_used_at"]
    now = s.get("/stats").json
    assert now["execs_running"] == 1 and now["spool_bytes"] > 0
    if now["cpu_us"] is not None:
        assert now["cpu_us"] > first["cpu_us"] and now["memory_bytes"] > 0
        assert now["processes"] > first["processes"]
    assert s.get().json["last_used_at"] == used
    rows = json.loads(shared.cell("top", "--json").stdout)["cells"]
    mine = [r for r in rows if r["name"] == s.id]
    assert mine and mine[0]["commands"] >= 1
    assert s.id in shared.cell("top").stdout
    token = shared.dir / "token"
    token.touch(0o600)
    token.write_text(shared.admin)
    there = json.loads(shared.cell("--server", f"unix:{shared.socket}", "--token-file", str(token), "top", "--json").stdout)["cells"]
    row = next(r for r in there if r["name"] == s.id)
    assert row["commands"] >= 1
    assert (row["cpu_us"] is None) == (now["cpu_us"] is None)
    assert s.get().json["last_used_at"] == used
    e = client.session(lifecycle="ephemeral")
    assert e.get("/stats").json["processes"] is None
    for interval in ("0", "x", "-1"):
        assert shared.cell("top", "--interval", interval, check=False).returncode != 0


def test_kept_output_counts_as_storage(make_server):
    server = make_server("server:\n  quotas: {storage: 4m}\n")
    client = server.client(server.make_token())
    s = client.session()
    for _ in range(2):
        s.run("head -c 3000000 /dev/zero", max_output_bytes=0)
    a = s.post("/exec", {"command": "true"})
    assert a.status == 429 and "storage" in a.json["message"] and a.headers["Retry-After"], a
    server.restart()
    assert s.post("/exec", {"command": "true"}).status == 429
    s.end()
    assert client.session().run("true")["exit_code"] == 0


# ---- leaving ----


def test_streams_end_in_order_and_are_taken_up_again(server):
    s = server.client().session()
    started = s.background("i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo $i; sleep 0.02; done")
    stream = s.follow(started)
    text = ""
    for e in stream:
        text += e.get("data", "") if e["type"] == "stdout" else ""
        if text.count("\n") >= 20:
            break
    watch = s.client.stream("GET", f"{s.path}/files/watch", path=".")
    assert next(watch)["type"] == "ready"
    server.process.send_signal(signal.SIGTERM)
    for e in stream:  # ends without an error, and without an exit
        assert e["type"] != "exit"
        text += e.get("data", "") if e["type"] == "stdout" else ""
    assert list(watch) == []
    assert server.process.wait(PATIENCE_S) == 0
    server.process = None
    server.start()
    for e in s.follow(started, stdout_offset=len(text)):
        text += e.get("data", "") if e["type"] == "stdout" else ""
    assert text.split() == [str(i + 1) for i in range(200)]


# ---- systemd ----


def test_socket_activation_and_notification(make_server, tmp_path):
    """Descriptor 3 is a listening socket, NOTIFY_SOCKET is told of start, reload and stop."""
    server = make_server(is_started=False)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(server.socket)
    listening.listen(16)
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.bind(str(tmp_path / "notify"))
    told.settimeout(PATIENCE_S)
    env = {**server.env, "NOTIFY_SOCKET": str(tmp_path / "notify"), "LISTEN_FDS": "1"}
    # LISTEN_PID must be the server's own: a program puts its number there and becomes the server
    become = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ['LISTEN_PID'] = str(os.getpid()); os.execv(sys.argv[2], sys.argv[2:])"
    log = server.log_path.open("ab")
    process = subprocess.Popen(
        [sys.executable, "-c", become, str(listening.fileno()), str(CELL), "--config", str(server.config), "serve"],
        env=env, pass_fds=[listening.fileno()], stdout=log, stderr=log, cwd=server.dir)
    try:
        assert told.recv(4096) == b"READY=1", server.log()
        listening.close()
        client = server.client()
        s = client.session()
        assert s.run("echo through the socket")["stdout"] == "through the socket\n"
        # the variables are for the server alone
        assert "LISTEN_FDS" not in s.run("env")["stdout"] and "NOTIFY_SOCKET" not in s.run("env")["stdout"]
        process.send_signal(signal.SIGHUP)
        assert told.recv(4096).startswith(b"RELOADING=1")
        assert told.recv(4096) == b"READY=1"
        s.end()
        process.send_signal(signal.SIGTERM)
        assert told.recv(4096) == b"STOPPING=1"
        assert process.wait(PATIENCE_S) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        log.close()
        told.close()
        if os.path.exists(server.socket):
            os.unlink(server.socket)
