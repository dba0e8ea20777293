# SPDX-License-Identifier: Apache-2.0
"""What only a client of a server has: addresses, tokens, TLS, connections that break, servers that are killed."""

import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import threading
import time

import pytest
from conftest import CELL, rest_of, wait_until

COUNT = "i=0; while [ $i -lt %d ]; do echo $i; i=$((i+1)); sleep 0.02; done"


class Proxy:
    """Between client and server: cuts connections after so many bytes, the first `cuts` of them."""

    def __init__(self, path, to, after, cuts):
        self.path, self.to, self.after, self.left, self.n_cut = str(path), to, after, cuts, 0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(16)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(near,), daemon=True).start()

    def serve(self, near):
        far = socket.socket(socket.AF_UNIX)
        far.connect(self.to)
        budget = [self.after]
        ends = [threading.Thread(target=self.copy, args=pair, daemon=True) for pair in ((near, far, budget), (far, near, budget))]
        for t in ends:
            t.start()
        for t in ends:
            t.join()
        near.close()
        far.close()

    def copy(self, a, b, budget):
        with contextlib.suppress(OSError):
            while data := a.recv(16384):
                b.sendall(data)
                budget[0] -= len(data)
                if budget[0] < 0 and self.left > 0:
                    self.left -= 1
                    self.n_cut += 1
                    break
            for s in (a, b):
                s.shutdown(socket.SHUT_RDWR)

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@pytest.fixture
def proxy(cell):
    made = []

    def make(after, cuts):
        p = Proxy(cell.dir / f"p{len(made)}", str(cell.dir / "s"), after, cuts)
        made.append(p)
        cell.env["CELL_SERVER"] = f"unix:{p.path}"
        return p

    yield make
    cell.env["CELL_SERVER"] = cell.address
    for p in made:
        p.close()


# ---- connections that break ----

def test_output_goes_on_after_broken_connections(cell, proxy):
    cell.create("web")
    p = proxy(after=100_000, cuts=5)
    r = cell.ok("exec", "web", "--", "seq", "1", "120000")
    assert r.out == b"".join(b"%d\n" % i for i in range(1, 120001))
    assert p.n_cut == 5, "the connection was never cut: the test shows nothing"
    assert "lost; trying again" in r.errors and "is back" in r.errors


def test_stdin_is_taken_once_over_broken_connections(cell, proxy):
    cell.create("web")
    data = os.urandom(3_000_000)
    p = proxy(after=400_000, cuts=4)
    r = cell.ok("exec", "web", "--", "sha256sum", stdin=data)
    assert r.text.split()[0] == hashlib.sha256(data).hexdigest()
    assert p.n_cut == 4


def test_a_command_whose_answer_is_lost_runs_once(cell, proxy):
    cell.create("web")
    for after in range(0, 1200, 100):  # cut at every stage of the first requests
        p = proxy(after=after, cuts=1)
        r = cell("exec", "web", "--", "sh", "-c", f"echo x >> ran{after}")
        cell.env["CELL_SERVER"] = cell.address
        if r.code == 0:
            assert (cell.workspace / f"ran{after}").read_text() == "x\n"
        else:  # nothing was heard of the server at all: that is an unreachable one
            assert "hint:" in r.errors and not (cell.workspace / f"ran{after}").exists(), r
        p.close()


def test_a_killed_server_loses_nothing_of_a_running_command(cell, web):
    child = cell.popen("exec", "web", "--", "sh", "-c", COUNT % 150)
    seen = b""
    for _ in range(2):
        seen += child.stdout.readline()
        cell.kill_server()
        time.sleep(0.3)
        cell.start()
    seen += rest_of(child, 60)
    err = child.stderr.read()
    assert child.returncode == 0, err
    assert seen == b"".join(b"%d\n" % i for i in range(150))
    assert err.count(b"is lost") >= 1 and err.count(b"is back") >= 1, err


def test_a_run_survives_its_server_and_leaves_nothing(cell):
    child = cell.popen("run", "--", "sh", "-c", COUNT % 60)
    seen = child.stdout.readline()
    cell.kill_server()
    cell.start()
    seen += rest_of(child, 60)
    assert child.returncode == 0, child.stderr.read()
    assert seen == b"".join(b"%d\n" % i for i in range(60))
    assert cell.sessions() == []


def test_a_server_that_stays_away_is_given_up(cell, web):
    child = cell.popen("exec", "web", "--", "sleep", "100")
    wait_until(lambda: cell.ps("web"))
    cell.kill_server()
    out, err = child.communicate(timeout=90)
    assert child.returncode == 125 and b"hint:" in err, err
    cell.start()
    assert len(cell.ps("web")) == 1, "the command goes on without us"


def test_stdin_that_may_be_lost_with_a_server_is_an_error(cell, web):
    child = cell.popen("exec", "web", "--", "cat", stdin=subprocess.PIPE)
    child.stdin.write(b"first\n")
    child.stdin.flush()
    assert child.stdout.readline() == b"first\n"
    cell.kill_server()
    cell.start()
    child.wait(60)  # with stdin open: more could come
    err = child.stderr.read()
    assert child.returncode == 125 and b"stdin" in err and b"hint:" in err, err


# ---- signals, the end ----

@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT])
def test_a_signal_ends_the_command_and_the_session(cell, number):
    child = cell.popen("run", "--", "sh", "-c", "echo up; exec sleep 100")
    assert child.stdout.readline() == b"up\n"
    child.send_signal(number)
    child.communicate(timeout=30)
    assert child.returncode == 128 + number
    assert cell.sessions() == []


def test_a_command_that_ignores_ctrl_c_is_killed_by_the_second(cell):
    child = cell.popen("run", "--", "sh", "-c", "trap '' INT; echo up; while :; do sleep 0.1; done")
    assert child.stdout.readline() == b"up\n"
    child.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert child.poll() is None
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=30)
    assert child.returncode == 137
    assert cell.sessions() == []


def test_a_client_that_is_killed_leaves_a_session_with_an_end(cell):
    child = cell.popen("run", "--", "sh", "-c", "echo up; exec sleep 100")
    assert child.stdout.readline() == b"up\n"
    child.kill()
    child.wait()
    curl = subprocess.run(["curl", "-s", "--unix-socket", str(cell.dir / "s"), "http://cell/v1/sessions", "-H",
                           f"Authorization: Bearer {cell.env['CELL_TOKEN']}"], capture_output=True, check=True)
    (session,) = json.loads(curl.stdout)["sessions"]
    assert session["expires_at"], "nobody would end it"
    assert cell.ok("ls", "--quiet").out == b"" and cell.ok("ls", "--quiet", "--all").text.strip() == session["id"]
    cell.ok("rm", "-f", session["id"])


def test_a_slow_reader_holds_the_command_back_and_loses_nothing(cell):
    cell.stop()
    cell.start(CELL_SERVER_SPOOL_BYTES="2m")
    child = cell.popen("run", "--", "sh", "-c", "seq 1 1500000; touch done")
    seen = child.stdout.read(10)
    time.sleep(1.5)
    assert not (cell.workspace / "done").exists(), "the command ran ahead of its reader"
    seen += rest_of(child, 120)
    assert seen == b"".join(b"%d\n" % i for i in range(1, 1500001)), child.stderr.read()


# ---- who may ----

def test_a_wrong_token_is_said(cell):
    cell.fails("ls", env={"CELL_TOKEN": "cell_aaaaaaaaaaaa_" + "a" * 52}, says=["refuses the token", "hint:", "CELL_TOKEN"])
    cell.fails("ls", env={"CELL_TOKEN": ""}, says=["without a token", "hint:", "CELL_TOKEN"])
    r = cell("ls", "--json", env={"CELL_TOKEN": "nonsense"})
    assert r.code == 125 and r.json["error"]["code"] == "denied", r


def test_the_token_comes_from_a_file(cell):
    token = cell.env.pop("CELL_TOKEN")
    path = cell.dir / "token"
    path.write_text(token + "\n")
    path.chmod(0o600)
    cell.fails("ls", says=["without a token"])
    cell.ok("ls", "--token-file", path)
    cell.ok("ls", env={"CELL_TOKEN_FILE": str(path)})
    path.chmod(0o644)
    cell.fails("ls", "--token-file", path, says=["used by others", "chmod 600"])
    own = cell.dir / "home" / ".config" / "cell"
    own.mkdir(parents=True)
    (own / "token").write_text(token)
    (own / "token").chmod(0o600)
    cell.ok("ls")
    (own / "token").unlink()
    own.rmdir()
    own.parent.rmdir()
    cell.fails("ls", "--token-file", cell.dir / "nope", says=["nope", "hint:"])
    path.chmod(0o600)
    path.write_text("two words")
    cell.fails("ls", "--token-file", path, says=["more than one word"])
    path.write_text("")
    cell.fails("ls", "--token-file", path, says=["empty"])


def test_a_tenant_sees_its_own(cell):
    mine = {"CELL_TOKEN": cell.make_token("--tenant", "a")}
    theirs = {"CELL_TOKEN": cell.make_token("--tenant", "b")}
    spec = {"CELL_WORKSPACE": "", "CELL_SERVER_PATHS": ""}
    cell.ok("create", "web", env=mine | spec)
    cell.ok("create", "web", env=theirs | spec)  # a name is one's own
    cell.fails("create", "web", env=mine | spec, says=["already", "hint:"])
    cell.ok("exec", "web", "--", "sh", "-c", "echo mine > who", env=mine)
    assert cell.ok("ls", "--quiet", env=theirs).text == "web\n"
    assert cell.ok("ls", "--quiet").out == b"", "an admin's own are none"
    cell.ok("rm", "web", env=theirs)
    assert cell.ok("ls", "--quiet", env=mine).text == "web\n"
    cell.ok("rm", "web", env=mine)


def test_a_reader_may_look_and_not_touch(cell, web):
    reader = {"CELL_TOKEN": cell.make_token("--role", "read-only")}
    cell.ok("exec", "--id", "one", "web", "--", "echo", "hello")
    assert cell.ok("logs", "web", "one", env=reader).text == "hello\n"
    assert cell.ok("ls", "--quiet", env=reader).text == "web\n"
    cell.fails("exec", "web", "--", "true", env=reader, says=["role"])
    cell.fails("rm", "web", env=reader, says=["role"])


# ---- where it is ----

@pytest.mark.parametrize("url, words", [
    ("unix:/nowhere/s", ["/nowhere/s", "hint:", "cell serve"]),
    ("http://127.0.0.1:1", ["127.0.0.1:1", "refused", "hint:"]),
    ("nonsense", ["nonsense", "hint:"]),
    ("ftp://x", ["hint:"]),
])
def test_a_server_that_cannot_be_reached_is_said(cell, url, words):
    for verb in (["ls"], ["run", "--", "true"], ["backends"], ["prune"], ["exec", "web", "--", "true"], ["token", "ls"], ["usage"]):
        cell.fails("--server", url, *verb, says=words)
    r = cell("--server", url, "doctor")
    assert r.code in (1, 125)


def test_what_is_no_cell_server_is_said(cell):
    def answer(listener):
        with contextlib.suppress(OSError):
            while True:
                c, _ = listener.accept()
                c.recv(65536)
                c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
                c.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, args=(listener,), daemon=True).start()
        cell.fails("--server", f"http://127.0.0.1:{listener.getsockname()[1]}", "ls", says=["no JSON", "hint:"])


def test_tls_with_an_authority_of_our_own(cell):
    def openssl(*args):
        subprocess.run(["openssl", *args], cwd=cell.dir, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=ours")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "s.key", "-out", "s.csr", "-subj", "/CN=localhost")
    (cell.dir / "ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "s.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "s.pem", "-days", "2",
            "-extfile", "ext")
    cell.stop()
    unix, cell.address = cell.address, "127.0.0.1:0"
    cell.start("--tls-cert", str(cell.dir / "s.pem"), "--tls-key", str(cell.dir / "s.key"))
    port = cell.log.read_text().rsplit("127.0.0.1:", 1)[1].split()[0].strip('"')
    cell.address = unix
    env = {"CELL_SERVER": f"https://localhost:{port}", "CELL_CA": str(cell.dir / "ca.pem")}
    data = os.urandom(2_000_000)
    assert cell.ok("run", "--", "cat", stdin=data, env=env).out == data
    assert cell.ok("--ca", cell.dir / "ca.pem", "--server", env["CELL_SERVER"], "run", "--", "echo", "x").text == "x\n"
    cell.fails("ls", env={"CELL_SERVER": env["CELL_SERVER"]}, says=["certificate", "hint:"])
    cell.fails("ls", env=env | {"CELL_CA": str(cell.dir / "s.key")}, says=["hint:"])
    cell.stop()
    cell.start()


# ---- what a server is not ----

def test_paths_of_this_machine_are_refused(cell):
    cell.env.pop("CELL_SERVER_PATHS")
    cell.env.pop("CELL_WORKSPACE")
    for args in (["-w", "."], ["-v", "/tmp:/data"], ["--root", "/srv/tree"]):
        cell.fails("run", *args, "--", "true", says=["other files", "cell cp", "--server-paths"])
    cell.ok("run", "--server-paths", "-w", cell.workspace, "--", "sh", "-c", "echo x > made")
    assert (cell.workspace / "made").read_text() == "x\n"


def test_what_is_no_text_is_refused(cell, web):
    cell.fails("exec", "web", "--", "echo", b"\xff", says=["UTF-8", "hint:"])
    cell.fails("exec", "-e", b"A=\xff", "web", "--", "true", says=["UTF-8", "hint:"])
    cell.fails("exec", "--user", b"\xff", "web", "--", "true", says=["UTF-8", "hint:"])
    cell.fails("code", "--session", "web", "--context", b"\xff", "-c", "1", says=["UTF-8", "hint:"])
    cell.fails("exec", "--keep-output", "1m", "web", "--", "true", says=["server's setting", "hint:"])


def test_a_session_is_found_by_its_id_too(cell, web):
    r = cell.ok("exec", "--json", "web", "--", "true").json
    assert r["cell"] == "web"
    cell.ok("create", "--json", "other")
    assert sorted(cell.names()) == ["other", "web"]


def test_verbs_of_this_machine_say_so(cell):
    for verb in (["serve"], ["config", "show"], ["version"]):
        cell.fails("--server", cell.address, *verb, says=["this machine", "hint:"])
    cell.ok("version")  # CELL_SERVER is set, and none of its business


def test_prune_leaves_it_to_the_server(cell, web):
    assert "sweeps by itself" in cell.ok("prune").errors
    assert cell.ok("prune", "--json").json == {"removed": []}


def test_doctor_tells_of_the_server(cell):
    text = cell.ok("doctor").text
    assert "the server" in text and "role admin, tenant default" in text
    r = cell("doctor", "--json", env={"CELL_TOKEN": "nonsense"})
    assert r.code == 1 and {c["name"]: c["status"] for c in r.json["checks"]}["token"] == "bad", r
    r = cell("doctor", env={"CELL_SERVER": "unix:/nowhere"})
    assert r.code == 1 and "/nowhere" in r.text


# ---- the ledger ----

def test_tokens_of_a_server(cell):
    made = cell.ok("token", "create", "--tenant", "x", "--label", "ci", "--expires", "1d", "--json").json
    cell.ok("run", "--", "true", env={"CELL_TOKEN": made["token"], "CELL_WORKSPACE": ""})
    listed = {t["id"]: t for t in cell.ok("token", "ls", "--json").json["tokens"]}
    here = json.loads(subprocess.run([CELL, "--json", "token", "ls"], env=cell.here, capture_output=True, check=True).stdout)
    assert listed[made["id"]] == {t["id"]: t for t in here["tokens"]}[made["id"]]
    cell.ok("token", "revoke", made["id"])
    cell.fails("ls", env={"CELL_TOKEN": made["token"]}, says=["refuses the token"])
    cell.fails("token", "ls", env={"CELL_TOKEN": cell.make_token()}, says=["role admin"])


def test_audit_and_usage_of_a_server(cell, web):
    cell.ok("exec", "web", "--", "true")
    records = cell.ok("audit", "query", "--action", "exec.start", "--json").json["records"]
    assert [r["kind"] for r in records] == ["intent", "result"]
    assert cell.ok("audit", "query", "--kind", "result", "--action", "exec.*").text.count("\n") == 1
    assert cell.ok("audit", "tail", "-n", "1").text.count("\n") == 1
    assert json.loads(cell.ok("audit", "export", "--format", "ocsf").text.splitlines()[0])["class_uid"]
    cell.fails("audit", "verify", says=["server", "hint:"])
    usage = {u["operation"]: u for u in cell.ok("usage", "--by", "operation", "--json").json["usage"]}
    assert usage["exec.start"]["count"] == 1
    assert "exec.start" in cell.ok("usage", "--by", "operation").text
