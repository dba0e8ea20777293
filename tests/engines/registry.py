# SPDX-License-Identifier: Apache-2.0
"""Debian's docker-registry with a password on loopback, and images of several layers to put in it."""

import base64
import gzip
import hashlib
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
from io import BytesIO
from pathlib import Path

from engines import Missing, root_archive

OCI = "application/vnd.oci.image."
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def file_layer(name, content):
    out = BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        tar.addfile(entry, BytesIO(content))
    return out.getvalue()


class Image:
    """busybox, and layers of random bytes, so that there is something to fetch."""

    def __init__(self, layers=2, size=1 << 20, config=None):
        tars = [root_archive()] + [file_layer(f"random-{i}", os.urandom(size)) for i in range(layers)]
        packed = [gzip.compress(t, 1, mtime=0) for t in tars]
        self.config = json.dumps({"architecture": ARCH, "os": "linux", "config": config or {"Env": ["FROM_IMAGE=yes"]},
            "rootfs": {"type": "layers", "diff_ids": [digest(t) for t in tars]}}).encode()
        self.blobs = {digest(b): b for b in (self.config, *packed)}
        self.manifest = json.dumps({"schemaVersion": 2, "mediaType": OCI + "manifest.v1+json",
            "config": {"mediaType": OCI + "config.v1+json", "digest": digest(self.config), "size": len(self.config)},
            "layers": [{"mediaType": OCI + "layer.v1.tar+gzip", "digest": digest(b), "size": len(b)} for b in packed]}).encode()
        self.digest = digest(self.manifest)


class Registry:
    def __init__(self, port, user="ann", password="secret"):
        for program in ("docker-registry", "htpasswd"):
            if not shutil.which(program):
                raise Missing(f"{program} is not installed: tools/setup engines")
        self.dir = Path(tempfile.mkdtemp(prefix="cr-", dir="/tmp"))
        self.host, self.user, self.password = f"127.0.0.1:{port}", user, password
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
            try:
                with socket.create_connection(("127.0.0.1", int(self.host.partition(":")[2])), 1):
                    return self
            except OSError:
                assert self.process.poll() is None and time.monotonic() < end, (self.dir / "log").read_text()
            time.sleep(0.05)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def call(self, method, path, body, kind="application/octet-stream"):
        request = urllib.request.Request(f"http://{self.host}{path}", data=body, method=method,
            headers={"Authorization": f"Basic {self.login}", "Content-Type": kind})
        with urllib.request.urlopen(request, timeout=20) as reply:
            return reply.headers

    def push(self, image, repo, tag="1.0"):
        for name, data in image.blobs.items():
            where = self.call("POST", f"/v2/{repo}/blobs/uploads/", b"")["Location"]
            path = where.partition(self.host)[2] if "://" in where else where
            self.call("PUT", f"{path}{'&' if '?' in path else '?'}digest={name}", data)
        self.call("PUT", f"/v2/{repo}/manifests/{tag}", image.manifest, OCI + "manifest.v1+json")
        return f"{self.host}/{repo}:{tag}"
