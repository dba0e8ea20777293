# SPDX-License-Identifier: Apache-2.0
"""Container engines from Debian's packages, each started with directories and a socket of its own and stopped with
everything it began. Nothing of an engine that runs on this machine is used or touched."""

import hashlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
import urllib.parse
from io import BytesIO
from pathlib import Path

IMAGE = "cell-test:latest"
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
PROGRAMS = ("sh cat echo printf sleep env ls head tail true false stty id kill wc dd mkdir rm ln touch sort tr pwd seq mv cp"
    " grep chmod readlink sha256sum date").split()


class Missing(Exception):
    """What an engine needs and this machine has not got."""


class NotStarted(RuntimeError):
    """The engine is there, but does not run on this machine."""


def need(*programs, root=True):
    for name in programs:
        if not shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
            raise Missing(f"{name} is not installed: tools/setup engines")
    if root and os.geteuid() != 0:
        raise Missing("engines are started as root")


def root_archive():
    """A root file system of busybox alone, as a tar archive."""
    out = BytesIO()
    busybox = Path(os.path.realpath(shutil.which("busybox")))
    with tarfile.open(fileobj=out, mode="w") as tar:
        def directory(name, mode=0o755):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)

        def text(name, content):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, BytesIO(content.encode()))

        for name in ("bin", "etc", "root", "usr", "usr/bin", "var", "dev", "proc", "sys", "home"):
            directory(name)
        directory("tmp", 0o1777)
        # what tests of paths make beside the workspace, where / is not theirs
        for name in ("outside", "workspace-not-it"):
            directory(name, 0o1777)
        tar.add(busybox, "bin/busybox")
        for name in PROGRAMS:
            entry = tarfile.TarInfo(f"bin/{name}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
        text("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
        text("etc/group", "root:x:0:\nnogroup:x:65534:\n")
        text("etc/os-release", 'PRETTY_NAME="Image of the tests"\n')
    return out.getvalue()


def image_archive(name, layer=None, **config):
    """An OCI layout of one layer, as a tar archive, as registries and `docker save` have it."""
    layer = root_archive() if layer is None else layer
    blobs = []

    def blob(kind, content):
        blobs.append(content)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": "sha256:" + hashlib.sha256(content).hexdigest(),
            "size": len(content)}

    parts = {"config": blob("config.v1+json", json.dumps({"architecture": ARCHITECTURE, "os": "linux", "config": config,
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}).encode()),
        "layers": [blob("layer.v1.tar", layer)]}
    manifest = blob("manifest.v1+json", json.dumps({"schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json"} | parts).encode())
    index = {"schemaVersion": 2, "manifests": [manifest | {"annotations": {"io.containerd.image.name": name}}]}
    out = BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": json.dumps(index).encode()}
        files |= {"blobs/sha256/" + hashlib.sha256(b).hexdigest(): b for b in blobs}
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, BytesIO(content))
    return out.getvalue()


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("engine", timeout=120)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(120)
        self.sock.connect(str(self.path))


class Engine:
    """One engine: start() it, ask() it, stop() it; kill() it with its containers left as they are."""

    backend = ""
    uid = None  # whose the command has to be, when not root's
    patience_s = 60

    def __init__(self):
        self.dir = Path(tempfile.mkdtemp(prefix="ce-", dir="/tmp"))  # short: sockets have short names
        self.socket = self.dir / f"{self.backend}.sock"
        self.process = None
        self.env = {"CELL_TEST_IMAGE": IMAGE}
        with socket.socket() as s:  # where a registry of the tests would be
            s.bind(("127.0.0.1", 0))
            self.registry_port = s.getsockname()[1]

    def command(self):
        raise NotImplementedError

    def start(self):
        if not self.process:
            with open(self.dir / "log", "ab") as log:
                self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    start_new_session=True, env=self.engine_env())
        end = time.monotonic() + self.patience_s
        while True:
            try:
                if self.ask("GET", "/_ping")[0] == 200:
                    break
            except (OSError, http.client.HTTPException):
                pass
            if self.process.poll() is not None or time.monotonic() > end:
                log = (self.dir / "log").read_text(errors="replace")[-2000:]
                self.stop()
                raise NotStarted(f"{self.backend} did not start:\n{log}")
            time.sleep(0.05)
        return self

    def engine_env(self):
        return {"PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin", "HOME": str(self.dir)}

    def ask(self, method, path, body=None, kind="application/json"):
        connection = UnixConnection(self.socket)
        try:
            headers = {"Content-Type": kind} if body is not None else {}
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def load_image(self):
        status, text = self.ask("POST", "/v1.41/images/create?fromSrc=-&repo=cell-test&tag=latest", root_archive(),
            "application/x-tar")
        assert status == 200, text

    def make_image(self, name, **config):
        """The image of the tests with settings, under NAME:latest."""
        words = {"Entrypoint": "ENTRYPOINT", "Cmd": "CMD", "User": "USER", "WorkingDir": "WORKDIR", "Env": "ENV"}
        changes = [f"{words[key]} {' '.join(value) if key == 'Env' else value if isinstance(value, str) else json.dumps(value)}"
            for key, value in config.items()]
        query = urllib.parse.urlencode([("fromSrc", "-"), ("repo", name), ("tag", "latest"), *(("changes", c) for c in changes)])
        status, text = self.ask("POST", f"/v1.41/images/create?{query}", root_archive(), "application/x-tar")
        assert status == 200, text

    def containers(self):
        status, text = self.ask("GET", "/v1.41/containers/json?all=1")
        assert status == 200, text
        # one that is being removed has no name any more
        return [(c["Names"] or [c["Id"]])[0].lstrip("/") for c in json.loads(text)]

    def snapshot_images(self):
        status, text = self.ask("GET", "/v1.41/images/json")
        assert status == 200, text
        return sorted(t for i in json.loads(text) for t in i["RepoTags"] or [] if "cell-snapshot" in t)

    def remove_image(self, name):
        assert self.ask("DELETE", f"/v1.41/images/{name}")[0] == 200

    def unpause(self, name):
        assert self.ask("POST", f"/v1.41/containers/{name}/unpause")[0] == 204

    def make_container(self, name, labels):
        status, text = self.ask("POST", f"/v1.41/containers/create?name={name}", json.dumps({"Image": "cell-test", "Cmd": ["true"],
            "Labels": labels}))
        assert status == 201, text

    def remove_container(self, name):
        assert self.ask("DELETE", f"/v1.41/containers/{name}?force=1")[0] in (200, 204)

    def kill(self):
        """The engine alone, as a crash would."""
        self.process.kill()
        self.process.wait()
        self.process = None

    def remove_containers(self):
        for name in self.containers():
            self.ask("DELETE", f"/v1.41/containers/{name}?force=1&v=1")

    def stop(self):
        if self.process and self.process.poll() is None:
            try:
                self.remove_containers()
            except Exception:  # noqa: BLE001, it is ended whatever it says
                pass
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None
        self.end_helpers()
        unmount_below(self.dir)
        shutil.rmtree(self.dir, ignore_errors=True)

    def end_helpers(self):
        """What it started and may have outlived it names our directory in its command line, or in its environment, as the
        process that holds a rootless Podman's namespaces."""
        for _ in range(200):
            left = pids_naming(str(self.dir))
            if not left:
                return
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.05)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


def pids_naming(text):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if any(text.encode() in (entry / name).read_bytes() for name in ("cmdline", "environ")):
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


def unmount_below(directory):
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        below = [line.split()[4] for line in f if line.split()[4].startswith(f"{directory}/")]
    for path in sorted(below, key=len, reverse=True):
        subprocess.run(["umount", "-l", path], check=False, capture_output=True)


class Containerd:
    """A containerd of its own."""

    def __init__(self, directory):
        self.dir, self.address = directory, directory / "containerd.sock"
        self.dir.mkdir()
        self.process = None

    def start(self):
        config = self.dir / "config.toml"
        config.write_text(f'version = 2\nroot = "{self.dir}/data"\nstate = "{self.dir}/run"\n'
            f'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\naddress = "{self.address}"\n')
        with open(self.dir / "log", "ab") as log:
            self.process = subprocess.Popen(["containerd", "--config", config], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, env={"PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"})
        end = time.monotonic() + 60
        while True:
            try:
                with socket.socket(socket.AF_UNIX) as s:
                    s.connect(str(self.address))
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError((self.dir / "log").read_text(errors="replace")[-2000:]) from None
            time.sleep(0.05)

    def stop(self):
        if self.process:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None


class Docker(Engine):
    backend = "docker"

    def __init__(self, *options):
        need("dockerd", "containerd", "runc", "busybox")
        super().__init__()
        self.options = options
        self.containerd = Containerd(self.dir / "c")
        self.env["DOCKER_HOST"] = f"unix://{self.socket}"

    def start(self):
        if not self.containerd.process:
            self.containerd.start()
        return super().start()

    def end_helpers(self):
        self.containerd.stop()
        super().end_helpers()

    def kill(self):
        super().kill()
        (self.dir / "pid").unlink(missing_ok=True)

    def command(self):
        return ["dockerd", "--containerd", self.containerd.address, "--data-root", self.dir / "data", "--exec-root", self.dir / "exec", "--pidfile", self.dir / "pid",
            "--host", f"unix://{self.socket}", "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false",
            "--ip-masq=false", *self.options]


class Podman(Engine):
    backend = "podman"

    def __init__(self):
        need("podman", "conmon", "runc", "busybox")
        super().__init__()
        self.env["CONTAINER_HOST"] = f"unix://{self.socket}"

    def engine_env(self):
        (self.dir / "registries.conf").write_text(
            f'[[registry]]\nlocation = "127.0.0.1:{self.registry_port}"\ninsecure = true\n'
            '[[registry]]\nlocation = "127.0.0.1:9"\ninsecure = true\n')
        return super().engine_env() | {"CONTAINERS_REGISTRIES_CONF": str(self.dir / "registries.conf")}

    def command(self):
        return ["podman", "--root", self.dir / "data", "--runroot", self.dir / "run", "--tmpdir", self.dir / "tmp",
            "--network-config-dir", self.dir / "net", "--storage-driver", "overlay", "--cgroup-manager", "cgroupfs", "--runtime", "runc",
            "--events-backend", "file", "system", "service", "--time", "0", f"unix://{self.socket}"]


class RootlessPodman(Podman):
    """Podman's service of an ordinary user who is known to it alone: passwd and the ranges of ids are files of a mount namespace. The user is
    `uid`, on whose behalf the command has to be run too."""

    uid = 21000

    def __init__(self):
        super().__init__()
        need("newuidmap", "setpriv", "unshare", "slirp4netns")
        for name, text in (("passwd", f"root:x:0:0::/root:/bin/sh\nrootless:x:{self.uid}:{self.uid}::{self.dir}/home:/bin/sh\n"),
                ("group", f"root:x:0:\nrootless:x:{self.uid}:\n"), ("subuid", "rootless:300000:65536\n"), ("subgid", "rootless:300000:65536\n")):
            if not Path("/etc", name).exists():
                raise Missing(f"there is no /etc/{name}")
            (self.dir / name).write_text(text)
        for name in ("home", "runtime"):
            (self.dir / name).mkdir(mode=0o700)
            os.chown(self.dir / name, self.uid, self.uid)
        os.chown(self.dir, self.uid, self.uid)
        os.chmod(self.dir, 0o755)

    def engine_env(self):
        return super().engine_env() | {"HOME": f"{self.dir}/home", "XDG_RUNTIME_DIR": f"{self.dir}/runtime"}

    def command(self):
        mounts = "".join(f"mount --bind {self.dir}/{name} /etc/{name} && " for name in ("passwd", "group", "subuid", "subgid"))
        as_user = f"cd / && exec setpriv --reuid {self.uid} --regid {self.uid} --init-groups --inh-caps=-all"
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", f'{mounts}{as_user} "$@"', "sh",
            *map(str, super().command())]


class ContainerdEngine(Engine):
    """Containerd without Docker, asked by its own program."""

    backend = "containerd"
    space = "cell"

    def __init__(self):
        need("containerd", "ctr", "runc", "busybox")
        super().__init__()
        self.containerd = Containerd(self.dir / "c")
        self.socket = self.containerd.address
        self.env["CONTAINERD_ADDRESS"] = str(self.socket)

    def start(self):
        self.containerd.start()
        self.process = self.containerd.process
        self.ctr("version")
        return self

    def ctr(self, *args, **kwargs):
        done = subprocess.run(["ctr", "-a", self.socket, "-n", self.space, *map(str, args)], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=60, **kwargs)
        assert done.returncode == 0, (args, done.stdout, done.stderr)
        return done.stdout

    def load_image(self, name=f"docker.io/library/{IMAGE}", archive=None):
        path = self.dir / "image.tar"
        path.write_bytes(archive or image_archive(name))
        self.ctr("images", "import", path)
        path.unlink()

    def make_image(self, name, **config):
        full = f"docker.io/library/{name}:latest"
        self.load_image(full, image_archive(full, **config))

    def containers(self):
        """All there may be of one: container, task, snapshot of its own, lease."""
        found = set(self.ctr("containers", "ls", "-q").split()) | set(self.ctr("tasks", "ls", "-q").split())
        for line in self.ctr("snapshots", "ls").splitlines()[1:]:
            if line.split()[-1] != "Committed":
                found.add(line.split()[0])
        return sorted(found | set(self.ctr("leases", "ls", "-q").split()))

    def snapshot_images(self):
        return sorted(line.split()[0] for line in self.ctr("images", "ls").splitlines() if "cell-snapshot" in line)

    def remove_image(self, name):
        self.ctr("images", "rm", "--sync", name)

    def unpause(self, name):
        self.ctr("tasks", "resume", name)

    def make_container(self, name, labels):
        options = [word for pair in labels.items() for word in ("--label", "=".join(pair))]
        self.ctr("containers", "create", *options, f"docker.io/library/{IMAGE}", name, "true")

    def remove_container(self, name):
        self.ctr("containers", "rm", name)

    def shims(self):
        return [pid for pid in pids_naming(str(self.socket)) if pid != self.process.pid]

    def mounts(self):
        with open("/proc/self/mountinfo", encoding="utf-8") as f:
            return [line.split()[4] for line in f if line.split()[4].startswith(f"{self.dir}/")]

    def kill(self):
        super().kill()
        self.containerd.process = None

    def remove_containers(self):
        for name in self.containers():
            for command in (("tasks", "rm", "-f", name), ("containers", "rm", name), ("snapshots", "rm", name)):
                try:
                    self.ctr(*command)
                except AssertionError:
                    pass  # it has not got that


class Oci:
    """No engine: a runtime. A cell whose record a test broke leaves empty cgroups, which the next one sweeps a minute later; here
    nobody waits for that."""

    backend = "oci"

    def __init__(self):
        need(os.environ.get("CELL_OCI_RUNTIME", "runc"), "busybox", root=False)
        self.dir = Path(tempfile.mkdtemp(prefix="ce-", dir="/tmp"))
        self.dir.chmod(0o755)
        self.env = {"CELL_TEST_IMAGE": str(self.dir / "root.tar")}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir, ignore_errors=True)
        for group in Path("/sys/fs/cgroup").glob("**/cell-oci-*"):
            try:
                group.rmdir()
            except OSError:
                pass  # somebody's

    def load_image(self):
        (self.dir / "root.tar").write_bytes(root_archive())

    def containers(self):
        return []


KINDS = {"docker": Docker, "podman": Podman, "containerd": ContainerdEngine}
