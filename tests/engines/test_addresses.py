# SPDX-License-Identifier: Apache-2.0
"""Which engine, and with what credentials: contexts, TLS, old and false engines, logins."""

import base64
import hashlib
import json
import os
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler
from socketserver import BaseRequestHandler, ThreadingMixIn, UnixStreamServer

import pytest
from conftest import Cell, started, wait_for
from engines import Docker


class FakeEngine:
    """Answers like an engine as far as a test says, and remembers what it was asked."""

    def __init__(self, directory, answers):
        self.asked = asked = []
        self.path = directory / "fake.sock"

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                asked.append((self.command, self.path, dict(self.headers), body))
                name = self.path.split("?")[0]
                status, headers, text = next((a for key, a in answers.items() if name.endswith(key)), (404, {}, "{}"))
                self.send_response(status)
                for key, value in headers.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            do_GET = do_POST = do_DELETE = answer

            def address_string(self):
                return "unix"

            def log_message(self, *_):
                pass

        class Server(ThreadingMixIn, UnixStreamServer):
            daemon_threads = True

        self.server = Server(str(self.path), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


PING = {"Api-Version": "1.41", "Server": "Docker/20.10 (linux)"}


@pytest.fixture
def fake(alone):
    made = []

    def make(answers):
        engine = FakeEngine(alone.dir, answers)
        made.append(engine)
        alone.env["DOCKER_HOST"] = f"unix://{engine.path}"
        return engine

    yield make
    for engine in made:
        engine.close()


BACKENDS = {"docker": ("DOCKER_HOST", "Docker"), "podman": ("CONTAINER_HOST", "Podman")}


def error_of(cell, backend, path):
    """Of `cell run` with an engine said to be there, which `cell backends` gives as its reason too."""
    cell.env[BACKENDS[backend][0]] = f"unix://{path}"
    r = cell("run", "--backend", backend, "--image", "cell-test", "--json", "--", "true")
    assert r.code != 0, (r.out, r.err)
    error = json.loads(r.out)["error"]
    told = next(b for b in json.loads(cell.ok("backends", "--json"))["backends"] if b["name"] == backend)
    assert not told["usable"] and told["reason"] in error["message"] and told["fix"] == error["hint"], (told, error)
    return error


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_socket_that_is_not_there_or_nobody_s_is_told(alone, backend):
    left = alone.dir / "left.sock"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(left))
    for path in (alone.dir / "none.sock", left):
        error = error_of(alone, backend, path)
        assert f"no {BACKENDS[backend][1]} engine answers at 'unix:{path}'" in error["message"], error
        assert "start" in error["hint"] and BACKENDS[backend][0] in error["hint"], error


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_socket_that_may_not_be_opened_is_told(backend):
    cell = Cell(backend, {}, uid=65534)
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(f"{cell.dir}/root.sock")
        s.listen(8)
        os.chmod(f"{cell.dir}/root.sock", 0o600)
        error = error_of(cell, backend, f"{cell.dir}/root.sock")
    assert "denied" in error["message"].lower() and f"group that owns the socket (usually '{backend}')" in error["hint"], error
    assert not cell.remove()


class Elsewhere(BaseRequestHandler):
    """Speaks first, and no HTTP."""

    def handle(self):
        self.request.sendall(b"220 mail.example ESMTP\r\n")
        self.request.recv(4096)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_speaks_something_else_is_told(alone, backend):
    with UnixStreamServer(f"{alone.dir}/mail.sock", Elsewhere) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        error = error_of(alone, backend, f"{alone.dir}/mail.sock")
        server.shutdown()
    assert error["hint"] and f"{alone.dir}/mail.sock" in error["message"], error


def test_no_engine_is_told_with_what_to_do(alone):
    err = alone.fails("--", "true", env={"DOCKER_HOST": "ssh://somewhere"})
    assert "ssh" in err and "forward" in err


def test_an_engine_that_is_too_old_is_told(alone, fake):
    fake({"/_ping": (200, {"Api-Version": "1.38"}, "OK")})
    err = alone.fails("--", "true")
    assert "1.38" in err and "update" in err


@pytest.mark.parametrize("answers", [{"/_ping": (200, {}, "hello")}, {}, {"/_ping": (200, {"Api-Version": "two"}, "OK")},
    {"/_ping": (200, PING, "OK"), "/info": (200, {}, "<html>")}, {"/_ping": (200, PING, "OK")}])
def test_what_is_no_engine_is_told(alone, fake, answers):
    engine = fake(answers)
    error = error_of(alone, "docker", engine.path)
    assert ("no container engine" in error["message"] or "no JSON" in error["message"]) and error["hint"], error


def test_the_version_is_the_newest_both_speak(alone, fake):
    engine = fake({"/_ping": (200, {"Api-Version": "1.99"}, "OK"), "/info": (200, {}, "{}")})
    alone.fails("--", "true")
    assert any(path.startswith("/v1.47/info") for _, path, _, _ in engine.asked), engine.asked


def login_of(engine):
    pulls = [h for m, p, h, _ in engine.asked if m == "POST" and "/images/create" in p]
    assert pulls, engine.asked
    value = pulls[-1].get("X-Registry-Auth")
    return json.loads(base64.urlsafe_b64decode(value)) if value else None


def test_logins_come_from_docker_s_configuration(alone, fake):
    engine = fake({"/_ping": (200, PING, "OK"), "/info": (200, {}, "{}"),
        "/images/create": (200, {}, json.dumps({"error": "denied by the test"}) + "\n")})
    config = alone.dir / "home" / ".docker"
    config.mkdir()
    (config / "config.json").write_text(json.dumps({
        "auths": {"registry.test:5000": {"auth": base64.b64encode(b"me:secret").decode()}},
        "credHelpers": {"helped.test": "celltest"}}))
    helper = alone.dir / "docker-credential-celltest"
    helper.write_text('#!/bin/sh\nread server\nprintf \'{"Username":"helped","Secret":"%s"}\' "$server"\n')
    helper.chmod(0o755)
    alone.env["PATH"] += f":{alone.dir}"
    err = alone.fails("--", "true", image="registry.test:5000/a/b:1")
    assert "denied by the test" in err
    assert login_of(engine) == {"serveraddress": "registry.test:5000", "username": "me", "password": "secret"}
    alone.fails("--", "true", image="helped.test/x")
    assert login_of(engine) == {"serveraddress": "helped.test", "username": "helped", "password": "helped.test"}
    alone.fails("--", "true", image="elsewhere.test/x")
    assert login_of(engine) is None
    assert "secret" not in err


def openssl(directory, *args):
    subprocess.run(["openssl", *map(str, args)], cwd=directory, check=True, capture_output=True)


def make_certificates(directory):
    directory.mkdir()
    openssl(directory, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test ca", "-keyout", "ca.key",
        "-out", "ca.pem")
    for name, more in (("server", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth"), ("client", "extendedKeyUsage=clientAuth")):
        (directory / "ext").write_text(more)
        openssl(directory, "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", "csr")
        openssl(directory, "x509", "-req", "-in", "csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "ext", "-out", f"{name}.crt")
    os.link(directory / "client.crt", directory / "cert.pem")
    os.link(directory / "client.key", directory / "key.pem")
    return directory


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_an_engine_over_tls_by_environment_and_by_context(tmp_path):
    certs, other, port = make_certificates(tmp_path / "certs"), make_certificates(tmp_path / "other"), free_port()
    with started(Docker, "--host", f"tcp://127.0.0.1:{port}", "--tlsverify", "--tlscacert", certs / "ca.pem", "--tlscert",
            certs / "server.crt", "--tlskey", certs / "server.key") as engine:
        cell = Cell("docker", {"DOCKER_HOST": f"tcp://127.0.0.1:{port}", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(certs)})
        r = cell.run("--", "echo", "over TLS")
        assert (r.code, r.out) == (0, "over TLS\n"), r.err
        assert "cannot promise workspace" in cell.fails("-w", cell.workspace, "--", "true")
        cell.ok("create", "named", "--backend", "docker", "--image", "cell-test")
        assert cell.ok("exec", "named", "--", "echo", "again") == "again\n"
        # the record knows where, whatever the environment says by then
        cell.ok("rm", "named", env={"DOCKER_HOST": "unix:///nowhere"})
        err = cell.fails("--", "true", env={"DOCKER_CERT_PATH": str(other)})
        assert "certificate" in err
        config, digest = cell.dir / "home" / ".docker", hashlib.sha256(b"away").hexdigest()
        (config / "contexts/meta" / digest).mkdir(parents=True)
        (config / "contexts/meta" / digest / "meta.json").write_text(json.dumps({"Name": "away",
            "Endpoints": {"docker": {"Host": f"tcp://127.0.0.1:{port}", "SkipTLSVerify": False}}}))
        keys = config / "contexts/tls" / digest / "docker"
        keys.mkdir(parents=True)
        for name in ("ca.pem", "cert.pem", "key.pem"):
            os.link(certs / name, keys / name)
        (config / "config.json").write_text('{"currentContext": "away"}')
        for name in ("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
            del cell.env[name]
        r = cell.run("--", "echo", "by context")
        assert (r.code, r.out) == (0, "by context\n"), r.err
        assert "no host" in cell.fails("--", "true", env={"DOCKER_CONTEXT": "nobody"})
        assert not cell.remove()
        wait_for(lambda: not engine.containers(), "no container is left")


def test_a_runtime_with_a_kernel_of_its_own(tmp_path):
    config = tmp_path / "daemon.json"
    config.write_text(json.dumps({"runtimes": {"runsc": {"path": "/usr/bin/runsc",
        "runtimeArgs": ["--network=none", "--ignore-cgroups"]}}}))
    if not os.access("/usr/bin/runsc", os.X_OK):
        pytest.skip("runsc is not installed: tools/setup engines")
    with started(Docker, "--config-file", config) as engine:
        cell = Cell("docker", engine.env)
        os.chown(cell.workspace, 65532, 65532)
        r = cell.run("--runtime", "runsc", "-w", cell.workspace, "--", "sh", "-c", "cat /proc/version; echo hi > made")
        assert r.code == 0, r.err
        with open("/proc/version", encoding="utf-8") as f:
            assert r.out != f.read()
        assert (cell.workspace / "made").read_text() == "hi\n"
        assert not cell.remove()
        wait_for(lambda: not engine.containers(), "no container is left")
