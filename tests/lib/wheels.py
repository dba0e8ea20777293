# SPDX-License-Identifier: Apache-2.0
"""Wheels made by hand, good ones and others, and a simple index that serves them on loopback."""

import base64
import hashlib
import http.server
import io
import json
import tarfile
import threading
import zipfile
from pathlib import Path


def record_hash(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def wheel_name(name, version="1.0", tag="py3-none-any"):
    return f"{name.replace('-', '_')}-{version}-{tag}.whl"


def make_wheel(directory, name, version="1.0", requires=(), files=None, tag="py3-none-any", scripts=(), requires_python=None,
               record=None, drop_from_record=(), extra=(), metadata_name=None, info=None, compress=zipfile.ZIP_DEFLATED):
    """A wheel with a module of its name that says its version. files: {path: text} besides. record: {path: line} to lie with."""
    stem = f"{name.replace('-', '_')}-{version}"
    content = {f"{name.replace('-', '_')}.py": f"version = {version!r}\n\ndef main():\n    print({name!r}, version)\n"}
    content.update(files or {})
    metadata = f"Metadata-Version: 2.1\nName: {metadata_name or name}\nVersion: {version}\n"
    if requires_python:
        metadata += f"Requires-Python: {requires_python}\n"
    metadata += "".join(f"Requires-Dist: {r}\n" for r in requires)
    content[f"{info or stem}.dist-info/METADATA"] = metadata
    content[f"{info or stem}.dist-info/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n"
    if scripts:
        content[f"{info or stem}.dist-info/entry_points.txt"] = "[console_scripts]\n" + "".join(f"{s}\n" for s in scripts)
    lines = []
    for path, text in content.items():
        data = text if isinstance(text, bytes) else text.encode()
        if path not in drop_from_record:
            lines.append((record or {}).get(path, f"{path},{record_hash(data)},{len(data)}"))
    lines += [line for path, line in (record or {}).items() if path not in content]
    content[f"{info or stem}.dist-info/RECORD"] = "\n".join([*lines, f"{info or stem}.dist-info/RECORD,,", ""])
    path = Path(directory) / wheel_name(name, version, tag)
    with zipfile.ZipFile(path, "w", compress) as z:
        for entry, text in content.items():
            z.writestr(entry, text)
        for entry in extra:
            z.writestr(*entry)
    return path


def make_tgz(directory, name, version="1.0.0", dependencies=None, files=None, extra=(), **package):
    """An npm package whose module says its version. extra: (TarInfo, bytes) to lie with."""
    content = {"index.js": f"module.exports = {{version: {json.dumps(version)}}};\n",
               "package.json": json.dumps({"name": name, "version": version, "dependencies": dependencies or {}, **package})}
    content.update(files or {})
    path = Path(directory) / f"{name.lstrip('@').replace('/', '-')}-{version}.tgz"
    with tarfile.open(path, "w:gz") as tar:
        for entry, text in content.items():
            data = text.encode()
            info = tarfile.TarInfo(f"package/{entry}")
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
        for info, data in extra:
            tar.addfile(info, io.BytesIO(data))
    return path


class Server:
    """What answers on 127.0.0.1 until the `with` around it ends."""

    def serve(self, handler, path=""):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}{path}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Registry(Server):
    """An npm registry over a directory of .tgz files made by make_tgz, on 127.0.0.1."""

    def __init__(self, directory, wrong=False):
        directory = Path(directory)

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def answer(self, status, body):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                if self.path.startswith("/-/"):
                    self.answer(200, (directory / self.path[3:]).read_bytes())
                    return
                name = self.path[1:].replace("%2f", "/")
                versions = {}
                for p in directory.glob("*.tgz"):
                    with tarfile.open(p) as tar:
                        package = json.load(tar.extractfile("package/package.json"))
                    if package["name"] == name:
                        digest = base64.b64encode(hashlib.sha512(p.read_bytes() + (b"x" if wrong else b"")).digest()).decode()
                        versions[package["version"]] = {"dist": {"tarball": f"http://{self.headers['Host']}/-/{p.name}", "integrity": "sha512-" + digest}}
                self.answer(200 if versions else 404, json.dumps({"name": name, "versions": versions}).encode())

        self.serve(Handler)


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


class Index(Server):
    """A simple index (PEP 503, or 691 with as_json) over a directory of wheels, on 127.0.0.1."""

    def __init__(self, directory, as_json=False, with_hashes=True):
        self.directory, self.as_json, self.with_hashes = Path(directory), as_json, with_hashes
        self.asked = []
        self.wrong_bytes = False
        self.hold = None  # an Event: files are given only when it is set
        index = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, status, kind, body, **headers):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                for k, v in headers.items():
                    self.send_header(k, v)
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                index.asked.append(self.path)
                parts = self.path.strip("/").split("/")
                if parts[0] == "simple" and len(parts) == 2:
                    self.page(parts[1])
                elif parts[0] == "moved":
                    self.answer(302, "text/plain", b"", Location=f"/files/{parts[1]}")
                elif parts[0] == "files" and (index.directory / parts[1]).is_file():
                    data = (index.directory / parts[1]).read_bytes()
                    if index.hold:
                        self.send_response(200)
                        self.send_header("Content-Length", str(len(data)))
                        self.end_headers()
                        self.wfile.write(data[:10])
                        self.wfile.flush()
                        index.hold.wait(60)
                        data = data[10:]
                        self.wfile.write(data)
                        return
                    self.answer(200, "application/octet-stream", data + b"x" if index.wrong_bytes else data)
                else:
                    self.answer(404, "text/plain", b"no")

            def page(self, name):
                found = [p for p in sorted(index.directory.glob("*.whl")) if p.name.split("-")[0].replace("_", "-").lower() == name]
                if not found:
                    self.answer(404, "text/plain", b"no")
                elif index.as_json:
                    files = [{"filename": p.name, "url": f"../../moved/{p.name}", "hashes": {"sha256": sha256(p)} if index.with_hashes else {},
                              "yanked": False} for p in found]
                    self.answer(200, "application/vnd.pypi.simple.v1+json", json.dumps({"files": files}).encode())
                else:
                    links = "".join(f'<a href="../../files/{p.name}{"#sha256=" + sha256(p) if index.with_hashes else ""}">{p.name}</a>' for p in found)
                    self.answer(200, "text/html; charset=utf-8", f"<html><body>{links}</body></html>".encode())

        self.serve(Handler, "/simple")

    def __exit__(self, *_):
        if self.hold:
            self.hold.set()
        super().__exit__()
