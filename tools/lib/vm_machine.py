# SPDX-License-Identifier: Apache-2.0
"""One virtual machine: an initramfs, an empty disk, directories of the host, and qemu."""

import ctypes
import os
import signal
import stat
import subprocess
from pathlib import Path

PR_SET_PDEATHSIG = 1
# Of the host's /etc only what programs of its /usr need to start.
ETC = ["ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "nsswitch.conf", "ssl/openssl.cnf", "protocols", "services"]


class Cpio:
    """The archive a kernel unpacks as its first root (the format `newc`)."""

    def __init__(self):
        self.parts, self.made, self.number = [], set(), 0

    def add(self, path, mode, data=b""):
        path = path.strip("/")
        parent = os.path.dirname(path)
        if parent and parent not in self.made:
            self.add(parent, stat.S_IFDIR | 0o755)
        if path in self.made:
            return
        self.made.add(path)
        self.number += 1
        name = path.encode() + b"\0"
        fields = (self.number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
        head = b"070701" + b"".join(b"%08x" % f for f in fields) + name
        self.parts += [head, b"\0" * (-len(head) % 4), data, b"\0" * (-len(data) % 4)]

    def file(self, path, data, mode=0o644):
        self.add(path, stat.S_IFREG | mode, data)

    def copy(self, source, path):
        """A file, a link or a tree as it is on the host; what cannot be read is left out."""
        source = Path(source)
        if source.is_symlink():
            self.add(path, stat.S_IFLNK | 0o777, os.readlink(source).encode())
        elif source.is_dir():
            for entry in sorted(source.iterdir()):
                self.copy(entry, f"{path}/{entry.name}")
        elif source.is_file() and os.access(source, os.R_OK):
            self.file(path, source.read_bytes(), source.stat().st_mode & 0o755)

    def write(self, path):
        self.add("TRAILER!!!", 0)
        Path(path).write_bytes(b"".join(self.parts))


def write_initramfs(path, kernel, busybox, init):
    cpio = Cpio()
    cpio.copy(busybox, "bin/busybox")
    cpio.file("init", Path(init).read_bytes(), 0o755)
    for name in (kernel / "order").read_text(encoding="utf-8").split():
        cpio.copy(kernel / "modules" / f"{name}.ko", f"modules/{name}.ko")
    cpio.copy(kernel / "order", "modules/order")
    for name in ETC:
        if os.path.lexists(f"/etc/{name}"):
            cpio.copy(f"/etc/{name}", f"etc/{name}")
    cpio.write(path)


def share(tag, path, is_read_only):
    return ["-fsdev", f"local,id={tag},path={path},security_model=none,multidevs=remap" + (",readonly=on" if is_read_only else ""),
        "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]


def command(qemu, kernel, tmp, shares, accel, cpus, memory_mib):
    return [
        qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-M", "q35",
        "-accel", "tcg,thread=multi" if accel == "tcg" else accel, "-cpu", "max", "-smp", str(cpus), "-m", str(memory_mib),
        "-kernel", str(kernel / "vmlinuz"), "-initrd", str(tmp / "initramfs"),
        "-append", "console=ttyS0 loglevel=4 panic=-1 mitigations=off random.trust_cpu=on tsc=reliable no_timer_check "
        "cryptomgr.notests systemd.unified_cgroup_hierarchy=1",
        "-chardev", f"file,id=console,path={tmp / 'console.log'}", "-serial", "chardev:console",
        "-drive", f"file={tmp / 'disk'},format=raw,if=none,id=disk,cache=unsafe,discard=unmap",
        "-device", "virtio-blk-pci,drive=disk",
        *[word for s in shares for word in share(*s)],
    ]


def _die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def start(words, log):
    """The running qemu. It ends with us, however we end; Ctrl-C is for us to handle."""
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        preexec_fn=_die_with_parent)


def stop(child):
    if child.poll() is None:
        child.kill()
    child.wait()
