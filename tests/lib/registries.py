# SPDX-License-Identifier: Apache-2.0
"""Registries for the tests: Debian's docker-registry, and one that can be told to lie."""

import base64
import contextlib
import gzip
import hashlib
import http.server
import io
import json
import os
import platform
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest
from serving import serving

OCI = "application/vnd.oci.image.manifest.v1+json"
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


def layer():
    """A tar with busybox and a directory to work in."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("bin", "etc", "app"):
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        program = Path("/bin/busybox").read_bytes()
        info = tarfile.TarInfo("bin/busybox")
        info.size, info.mode = len(program), 0o755
        tar.addfile(info, io.BytesIO(program))
        for name in ("sh", "env", "pwd", "id"):
            info = tarfile.TarInfo(f"bin/{name}")
            info.type, info.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(info)
    return out.getvalue()


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def file_layer(name, content):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


class Image:
    """A manifest, an index that leads to it, and the blobs they name: a layer with busybox (or `base`), and `more` of `size` random bytes,
    so that there is something to fetch."""

    def __init__(self, tag=b"", config=None, base=None, more=0, size=1 << 20):
        tars = [(base or layer()) + tag * 512] + [file_layer(f"random-{i}", os.urandom(size)) for i in range(more)]
        packed = [gzip.compress(t, 1 if more else 9, mtime=0) for t in tars]
        whole = {"architecture": ARCH, "os": "linux", "config": config or {"Env": ["FROM_IMAGE=yes"]},
                 "rootfs": {"type": "layers", "diff_ids": [digest(t) for t in tars]}}
        self.config = json.dumps(whole).encode()
        self.layer = packed[0]
        self.blobs = {digest(b): b for b in (self.config, *packed)}
        self.manifest = json.dumps({
            "schemaVersion": 2, "mediaType": OCI,
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest(self.config),
                       "size": len(self.config)},
            "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": digest(b), "size": len(b)}
                       for b in packed]}).encode()
        self.index = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [
            {"mediaType": OCI, "digest": "sha256:" + "0" * 64, "size": 2, "platform": {"os": "linux", "architecture": "s390x"}},
            {"mediaType": OCI, "digest": digest(self.manifest), "size": len(self.manifest),
             "platform": {"os": "linux", "architecture": ARCH}}]}).encode()


class Scripted(http.server.ThreadingHTTPServer):
    """A registry of one repository, in this process. `lie` maps a path to an answer (status, headers, body)."""

    daemon_threads = True

    def __init__(self, image, repo="team/base", token=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.image, self.repo, self.token, self.lie, self.seen = image, repo, token, {}, []
        self.host = f"127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        pass  # a client that hangs up is what some tests are about

    def ref(self, tag=":latest"):
        return f"{self.host}/{self.repo}{tag}"

    def answer(self, path, authorization):
        if path in self.lie:
            return self.lie[path]
        if path.startswith("/token"):
            if authorization != "Basic " + base64.b64encode(b"ann:secret").decode():
                return 401, {}, b"{}"
            return 200, {}, json.dumps({"token": self.token}).encode()
        if self.token and authorization != f"Bearer {self.token}":
            return 401, {"WWW-Authenticate": f'Bearer realm="http://{self.host}/token",service="reg",scope="*"'}, b"{}"
        manifests = {"latest": self.image.index, digest(self.image.index): self.image.index,
                     digest(self.image.manifest): self.image.manifest}
        base = f"/v2/{self.repo}"
        if path.startswith(f"{base}/manifests/") and path.rpartition("/")[2] in manifests:
            return 200, {}, manifests[path.rpartition("/")[2]]
        if path.startswith(f"{base}/blobs/") and path.rpartition("/")[2] in self.image.blobs:
            return 200, {}, self.image.blobs[path.rpartition("/")[2]]
        return 404, {}, json.dumps({"errors": [{"code": "NAME_UNKNOWN", "message": "never heard of it\x1b[31m"}]}).encode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        authorization = self.headers.get("Authorization")
        self.server.seen.append((self.path, authorization))
        status, headers, body = self.server.answer(self.path, authorization)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def log_message(self, *args):
        pass


def scripted(image, **kwargs):
    return serving(Scripted(image, **kwargs))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Registry:
    """Debian's docker-registry with a password, on loopback. A test without its programs is skipped."""

    def __init__(self, port=None, user="ann", password="secret"):
        for program in ("docker-registry", "htpasswd"):
            if not shutil.which(program):
                pytest.skip(f"{program} is not installed: tools/setup engines")
        self.dir = Path(tempfile.mkdtemp(prefix="cr-", dir="/tmp"))
        self.host, self.user, self.password = f"127.0.0.1:{port or free_port()}", user, password
        self.login = base64.b64encode(f"{user}:{password}".encode()).decode()
        hashed = subprocess.run(["htpasswd", "-Bbn", user, password], check=True, capture_output=True, text=True).stdout
        (self.dir / "htpasswd").write_text(hashed.strip() + "\n")
        (self.dir / "config.yml").write_text(f"""version: 0.1
storage: {{filesystem: {{rootdirectory: {self.dir}/data}}}}
http: {{addr: "{self.host}"}}
auth: {{htpasswd: {{realm: test, path: {self.dir}/htpasswd}}}}
log: {{level: error}}
""")

    def __enter__(self):
        with open(self.dir / "log", "wb") as log:
            self.process = subprocess.Popen(["docker-registry", "serve", self.dir / "config.yml"], stdout=log, stderr=log)
        end = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(self.host.partition(":")[2])), 1):
                return self
            assert self.process.poll() is None and time.monotonic() < end, (self.dir / "log").read_text()
            time.sleep(0.05)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)
        assert not self.dir.exists()

    def call(self, method, path, body, kind="application/octet-stream"):
        request = urllib.request.Request(f"http://{self.host}{path}", data=body, method=method,
            headers={"Authorization": f"Basic {self.login}", "Content-Type": kind})
        with urllib.request.urlopen(request, timeout=20) as reply:
            return reply.headers

    def push(self, image, repo="team/base", tag="1.0"):
        """Its name there."""
        for name, data in image.blobs.items():
            where = self.call("POST", f"/v2/{repo}/blobs/uploads/", b"")["Location"]
            path = where.partition(self.host)[2] if "://" in where else where
            self.call("PUT", f"{path}{'&' if '?' in path else '?'}digest={name}", data)
        self.call("PUT", f"/v2/{repo}/manifests/{tag}", image.manifest, OCI)
        return f"{self.host}/{repo}:{tag}"
