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
import threading
import time
import urllib.request
from pathlib import Path

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


class Image:
    """A manifest, an index that leads to it, and the blobs they name."""

    def __init__(self, tag=b"", config=None):
        tar = layer() + tag * 512
        packed = gzip.compress(tar, mtime=0)
        whole = {"architecture": ARCH, "os": "linux", "config": config or {"Env": ["FROM_IMAGE=yes"]},
                 "rootfs": {"type": "layers", "diff_ids": [digest(tar)]}}
        self.config = json.dumps(whole).encode()
        self.layer = packed
        self.blobs = {digest(b): b for b in (self.config, packed)}
        self.manifest = json.dumps({
            "schemaVersion": 2, "mediaType": OCI,
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest(self.config),
                       "size": len(self.config)},
            "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": digest(packed),
                        "size": len(packed)}]}).encode()
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


@contextlib.contextmanager
def scripted(image, **kwargs):
    server = Scripted(image, **kwargs)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def call(host, method, path, body=None, headers=None):
    request = urllib.request.Request(f"http://{host}{path}", data=body, method=method, headers=headers or {})
    with urllib.request.urlopen(request, timeout=20) as reply:
        return reply.headers


def push(host, repo, image, headers):
    for name, data in image.blobs.items():
        where = call(host, "POST", f"/v2/{repo}/blobs/uploads/", b"", headers)["Location"]
        path = where.partition(host)[2] if "://" in where else where
        call(host, "PUT", f"{path}{'&' if '?' in path else '?'}digest={name}", data,
             {**headers, "Content-Type": "application/octet-stream"})
    call(host, "PUT", f"/v2/{repo}/manifests/1.0", image.manifest, {**headers, "Content-Type": OCI})


@contextlib.contextmanager
def docker_registry(directory, user="ann", password="secret"):
    """Debian's docker-registry with a password file, on loopback. Yields its host:port and the header to push with."""
    port = free_port()
    hashed = subprocess.run(["htpasswd", "-Bbn", user, password], check=True, capture_output=True, text=True).stdout
    (directory / "htpasswd").write_text(hashed.strip() + "\n")
    (directory / "config.yml").write_text(f"""version: 0.1
storage: {{filesystem: {{rootdirectory: {directory}/data}}}}
http: {{addr: "127.0.0.1:{port}"}}
auth: {{htpasswd: {{realm: test, path: {directory}/htpasswd}}}}
log: {{level: error}}
""")
    with open(directory / "log", "wb") as log:
        server = subprocess.Popen(["docker-registry", "serve", directory / "config.yml"], stdout=log, stderr=log)
    try:
        end = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert server.poll() is None and time.monotonic() < end, (directory / "log").read_text()
            time.sleep(0.05)
        pair = base64.b64encode(f"{user}:{password}".encode()).decode()
        yield f"127.0.0.1:{port}", {"Authorization": f"Basic {pair}"}
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(directory, ignore_errors=True)
        assert not os.path.exists(directory)
