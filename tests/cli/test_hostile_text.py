# SPDX-License-Identifier: Apache-2.0
"""What others say and a terminal would obey: a server, a registry, an engine and a cell that put control sequences into every text they
send. People see them spelled out; programs that read the JSON or a pipe get the bytes."""

import http.server
import json
import os
import socketserver
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import CELL
from test_terminal import Terminal

sys.path.append(str(Path(__file__).resolve().parent.parent / "lib"))
from registries import Image, scripted  # noqa: E402
from serving import serving  # noqa: E402

# A title, a line that overwrites another, a colour by a control character of eight bits, an order of reading, a tag nobody sees, a forged line.
HOSTILE = "\x1b]0;owned\x07\r\x9b31m\u202eevil\u2066\x7f\U000e0041\ncell: all is well"
HIDDEN = [*range(0x20), *range(0x7f, 0xa0), 0x61c, 0x200b, 0x200e, 0x200f, *range(0x2028, 0x202f), *range(0x2060, 0x2070), 0xfeff, *range(0xe0000, 0xe0080)]
OWN = ("\r\n", "\n", "\t", "\x1b[H\x1b[J", "\r\x1b[K", "\x1b[K", *(f"\x1b[{n}m" for n in (0, 1, 2, 31, 32, 33)))


def check_shown(seen, is_document=False):
    """Nothing but what Cell itself sends is left to obey, and every byte is text. A document has lines of its own."""
    text = seen.decode()
    for sequence in OWN:
        text = text.replace(sequence, " ")
    bad = sorted({hex(ord(c)) for c in text if ord(c) in HIDDEN})
    assert not bad, (bad, seen)
    assert is_document or b"\ncell: all is well" not in seen, seen


@pytest.fixture
def show(cell):
    """What a user sees of a call."""
    opened = []

    def run(*args, env=None):
        t = Terminal(cell, *args, env=env)
        opened.append(t)
        t.end()
        check_shown(t.seen, "lock" in args)
        return t.seen.decode()

    yield run
    for t in opened:
        t.close()


# ---- a server ----

NUMBERS = ("bytes cpu_us cpus clients duration_ms execution_count exit_code gid uid guest_pid line memory_bytes mtime_ns offset pid processes "
           "rss_bytes seq signal size tier total waiting").split()
TEXTS = ("action actor arch backend capability command content context created_at cwd effect exec file fix from guest_version hash hint "
         "hostname id image kernel kind label language lock message mode name needs not_for os os_version path reason request_id "
         "resources role scratch seccomp session started_at summary take_for target tenant text time token user version wall workspace").split()
LISTS = ("backends contexts entries execs lacks matches packages records runs sessions snapshots tokens usage variables").split()


def everything(**more):
    """An answer to any question: each text there is, and each list with one such thing in it."""
    one = {name: 1 for name in NUMBERS} | {name: HOSTILE for name in TEXTS}
    one |= {"state": "ready", "code": "internal", "type": "file", "labels": {"name": HOSTILE, HOSTILE: HOSTILE}, "argv": [HOSTILE], "usable": True,
            "built": True, "capabilities": ["exec"], "declared": ["exec", "network"], "spec": {"name": HOSTILE, "workspace": HOSTILE}, "repr": HOSTILE,
            "decision": {"effect": HOSTILE, "rule": HOSTILE}, "outcome": {"code": HOSTILE}, "next": None, "truncated": False}
    one |= more
    lack = {"capability": "network", "reason": HOSTILE, "fix": HOSTILE}
    return one | {name: [one | {"lacks": [lack], "type": HOSTILE if name == "variables" else "file"}] for name in LISTS} | {
        "error": {"code": "internal", "message": HOSTILE, "hint": HOSTILE, "backend": HOSTILE}}


class Liar(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append(self.path)
        body = json.dumps(everything(**self.server.more) if self.server.status < 400 else
                          {"code": "backend", "message": HOSTILE, "hint": HOSTILE, "backend": HOSTILE}, ensure_ascii=False).encode() + b"\n"
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = do_PUT = answer


@pytest.fixture
def liar(cell):
    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar)) as server:
        server.daemon_threads = True
        server.status, server.more, server.asked = 200, {}, []
        cell.env |= {"CELL_SERVER": f"http://127.0.0.1:{server.server_address[1]}", "CELL_TOKEN": "t"}
        yield server


VERBS = ["ls", "ls -a", "ls -q", "ls --json", "inspect web", "inspect --json web", "ps web", "ps -q web", "ps -a", "ps --json web", "context ls web",
         "context ls -q web", "context vars web", "context vars -q web", "context get web python x", "context create web", "snapshot ls",
         "snapshot ls -q", "backends", "backends jail", "backends -q", "backends --json", "doctor", "token ls", "token ls -q", "token create",
         "usage", "top --once", "audit tail", "audit tail --json", "audit query", "audit query --json", "audit export", "audit export --format ocsf",
         "deps list web", "deps lock web", "file ls web", "file ls -l web", "file grep web x", "file stat web x", "create web", "create", "exec -d web true",
         "pause web", "prune", "rm web", "snapshot save web x", "__complete -- exec ", "__complete -- attach web "]


@pytest.mark.parametrize("verb", VERBS)
def test_a_server_cannot_reach_the_terminal(show, liar, verb):
    seen = show(*verb.split(" "))
    assert liar.asked, seen


def test_what_is_kept_from_the_terminal_is_spelled_out_there_and_passes_elsewhere(cell, show, liar):
    assert r"^[]0;owned^G^M\xc2\x9b31m\xe2\x80\xaeevil\xe2\x81\xa6^?\xf3\xa0\x81\x81\ncell: all is well" in show("context", "ls", "web")
    assert HOSTILE[:20] in cell.ok("ls", "-q").text
    name = cell.ok("ls", "--json").json["cells"][0]["name"]
    assert name.startswith("\x1b]0;owned")
    assert json.loads(show("ls", "--json"))["cells"][0]["name"] == name


@pytest.mark.parametrize("verb", ["ls", "inspect web", "create web", "run -- true", "doctor", "backends"])
def test_a_server_s_error_cannot_reach_the_terminal(show, liar, verb):
    liar.status = 500
    assert "^[]0;owned^G" in show(*verb.split())


# ---- a registry ----

@pytest.mark.parametrize("what", ["manifest", "error", "type", "realm"])
def test_a_registry_cannot_reach_the_terminal(show, what):
    with scripted(Image()) as registry:
        place = "/v2/team/base/manifests/latest"
        said = json.dumps({"errors": [{"code": HOSTILE, "message": HOSTILE, "detail": HOSTILE}]}).encode()
        one_line = HOSTILE.replace("\r", "").replace("\n", "").encode()
        registry.lie[place] = {
            "manifest": (200, {"Content-Type": "application/vnd.oci.image.manifest.v1+json"}, json.dumps({
                "schemaVersion": 2, "mediaType": HOSTILE, "config": {"mediaType": HOSTILE, "digest": HOSTILE, "size": 1},
                "layers": [{"mediaType": HOSTILE, "digest": HOSTILE, "size": 1}]}).encode()),
            "error": (404, {"Content-Type": "application/json"}, said),
            "type": (200, {"Content-Type": one_line.decode("latin-1")}, b"{}"),
            "realm": (401, {"WWW-Authenticate": 'Bearer realm="http://' + one_line.decode("latin-1") + '/",service="x"'}, said),
        }[what]
        assert "cell:" in show("--verbose", "image", "pull", f"{registry.host}/team/base")


# ---- an engine ----

class Engine(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class EngineLiar(Liar):
    def address_string(self):
        return "engine"

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append(self.path)
        status, body = self.server.reply(self.path)
        data = "\n".join(json.dumps(part, ensure_ascii=False) for part in body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Api-Version", "1.41")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_POST = do_DELETE = do_PUT = do_HEAD = answer


def docker_says(path):
    if path.endswith("/_ping"):
        return 200, ["OK"]
    if path.endswith("/info"):
        return 200, [{"OSType": "linux", "Architecture": os.uname().machine, "ServerVersion": HOSTILE, "OperatingSystem": HOSTILE, "Name": HOSTILE,
                      "SecurityOptions": [HOSTILE], "Driver": HOSTILE, "CgroupDriver": HOSTILE, "CgroupVersion": "2", "MemoryLimit": True,
                      "PidsLimit": True, "CpuCfsQuota": True, "Runtimes": {HOSTILE: {"path": HOSTILE}}, "DefaultRuntime": HOSTILE}]
    if path.endswith("/version"):
        return 200, [{"Version": HOSTILE, "ApiVersion": "1.41", "Os": "linux", "Arch": HOSTILE, "KernelVersion": HOSTILE}]
    if "/images/create" in path:
        return 200, [{"status": HOSTILE, "id": HOSTILE, "progressDetail": {"current": 1, "total": 2}},
                     {"status": "Pull complete", "id": HOSTILE}, {"errorDetail": {"message": HOSTILE}, "error": HOSTILE}]
    return 404, [{"message": HOSTILE}]


def test_an_engine_cannot_reach_the_terminal(cell, show):
    path = str(cell.dir / "d")
    with serving(Engine(path, EngineLiar)) as engine:
        engine.asked, engine.reply = [], docker_says
        env = {"DOCKER_HOST": f"unix://{path}"}
        seen = show("--verbose", "run", "--backend", "docker", "--image", "some/thing", "--", "true", env=env)
        assert "pull some/thing: ^[]0;owned" in seen, seen
        assert "pull image 'some/thing': ^[]0;owned" in seen, seen
        assert any("/images/create" in p for p in engine.asked), engine.asked
        for verb in (["doctor"], ["doctor", "--json"], ["backends"], ["backends", "docker"]):
            show(*verb, env=env)
        engine.reply = lambda _: (500, [{"message": HOSTILE}])
        for verb in (["doctor"], ["backends", "docker"], ["run", "--backend", "docker", "--image", "x", "--", "true"]):
            show(*verb, env=env)


# ---- a cell ----

def test_names_in_a_cell_cannot_reach_the_terminal(cell, show):
    cell.create()
    text = "a\x1b]0;owned\x07\r\x9b31m\u202e\nb".encode()
    raw = text + b"\x9b\xff"
    for name in (text, raw):
        (cell.workspace / os.fsdecode(name)).write_bytes(b"needle " + name.replace(b"\n", b"") + b"\n")
    (cell.workspace / "link").symlink_to(os.fsdecode(text))
    for verb in ("file ls web", "file ls -l web", "file ls --json web", "file grep web needle", "file grep --json web needle",
                 "file glob web *", "file stat web link", "file stat --json web link", "__complete -- cp web:"):
        seen = show(*(verb.split(" ")))
        assert verb.startswith("__complete") or "owned" in seen, (verb, seen)
    assert raw in cell.ok("file", "ls", "web").out
    cell.ok("exec", "-d", "web", "--", "sh", "-c", "exec sleep 300 #" + HOSTILE)
    for verb in ("ps web", "ps --json web", "__complete -- attach web "):
        assert "owned" in show(*verb.split(" ")), verb
    cell.ok("rm", "-f", "web")


@pytest.mark.parametrize("form", [["--json"], ["--json", "--stream"]])
def test_code_cannot_reach_the_terminal(show, form):
    assert r"\u009b31m \u202e" in show("code", *form, "-c", r"print('\x7f \x9b31m \u202e')")


def test_a_notebook_cannot_reach_the_terminal(cell, show):
    code = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": [r"print('\x7f \x9b31m \u202e')"]}
    cell.put("in.ipynb", json.dumps({"cells": [code], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}))
    assert r"\u009b31m \u202e" in show("code", "--notebook", "in.ipynb", "-o", "-")


@pytest.mark.parametrize("name", ["$(touch owned)", "`touch owned`", "a; touch owned", "a' b\" c", "plain.txt"])
def test_a_name_in_a_cell_is_completed_as_a_name(cell, name):
    cell.create()
    (cell.workspace / "ws").mkdir()
    cell.put(f"ws/{name}", b"content")
    script = f"""
        source <("$CELL" completion bash)
        compopt() {{ :; }}
        COMP_LINE="$CELL cp web:ws/"; COMP_POINT=${{#COMP_LINE}}; _cell
        eval "set -- ${{COMPREPLY[0]}}"
        printf '%s\\n' "$#" "$1"
    """
    out = subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True, cwd=cell.workspace,
                         env={**cell.env, "CELL": str(CELL)}).stdout
    assert out == f"1\nws/{name}\n" or out == f"1\nweb:ws/{name}\n", out
    assert not (cell.workspace / "owned").exists()
    cell.ok("rm", "web")
