# SPDX-License-Identifier: Apache-2.0
"""A Debian kernel to boot: its package is fetched with apt-get and unpacked, never installed, and kept in a cache."""

import io
import lzma
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cell" / "vm"
# What the machine itself needs, then what cells need or must be refused: each with what it rests on.
MACHINE = ["crc32c_generic", "crc32c_intel", "virtio_pci", "virtio_blk", "ext4", "9p", "9pnet_virtio"]
MODULES = ["overlay", "tun", "veth", "dummy", "loop", "fuse", "bfq", "af_alg", "algif_hash", "af_packet", "vsock",
    "nf_tables", "nft_chain_nat", "nft_masq", "nft_nat", "nft_ct", "nft_reject_inet", "nft_fib_inet", "nfnetlink"]


class NoKernel(Exception):
    """Says what is missing and what would help."""


def output(command, **more):
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL, **more).stdout
    except FileNotFoundError as e:
        raise NoKernel(f"there is no '{command[0]}' here; on a machine without it, give a kernel's .deb: KERNEL=PATH") from e
    except subprocess.CalledProcessError as e:
        last = (e.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise NoKernel(f"{' '.join(command)}: {last}") from e


def archives():
    """Where this machine gets Debian's packages and its security updates from, as (URL, is_security)."""
    fields = "$(ORIGIN)\t$(LABEL)\t$(REPO_URI)"
    lines = {tuple(line.split("\t")) for line in output(["apt-get", "indextargets", "--format", fields]).splitlines()}
    found = {(url, label == "Debian-Security") for origin, label, url in lines
        if origin == "Debian" and label in ("Debian", "Debian-Security")}
    if not any(not is_security for _, is_security in found):
        raise NoKernel("this machine's apt knows no archive of Debian's (apt-get update makes it read its sources); "
            "give a kernel's .deb: KERNEL=PATH")
    return sorted(found)


def options_in(place):
    return ["-o", f"Dir::Etc::sourcelist={place}/sources.list", "-o", "Dir::Etc::sourceparts=/dev/null",
        "-o", f"Dir::State::lists={place}/lists", "-o", f"Dir::Cache={place}/cache"]


def options_for(release):
    """For apt: this machine's own lists, or lists of another release of Debian's, kept in the cache."""
    options = ["-q", "-o", "APT::Sandbox::User="]
    if not release:
        return options
    place = CACHE / f"apt-{release}"
    for name in ("lists/partial", "cache/archives/partial"):
        (place / name).mkdir(parents=True, exist_ok=True)
    key = f"[signed-by={KEYRING}] " if KEYRING.exists() else ""
    text = "".join(f"deb {key}{url} {release}{'-security' if is_security else ''} main\n" for url, is_security in archives())
    sources = place / "sources.list"
    is_same = sources.exists() and sources.read_text(encoding="utf-8") == text
    sources.write_text(text, encoding="utf-8")
    options += options_in(place)
    if not is_same or not any((place / "lists").glob("*_Packages*")):
        output(["apt-get", *options, "update"])
    return options


def resolve(package, options):
    """linux-image-amd64 only names the package that has the kernel."""
    for _ in range(4):
        found = re.findall(r"^ *Depends: (linux-image-\S+)", output(["apt-cache", *options, "depends", package]), re.MULTILINE)
        if not found:
            return package
        package = found[0]
    return package


def latest(kernel):
    """A link to what this name last stood for: for the day without a network."""
    return CACHE / f"{kernel.replace('/', '_')}.latest"


def fetch(kernel):
    """The path of the package's .deb: of the cache when the newest is there or none can be fetched."""
    CACHE.mkdir(parents=True, exist_ok=True)
    release, _, package = kernel.rpartition("/")
    try:
        options = options_for(release)
        name = resolve(package, options)
        shown = output(["apt-cache", *options, "show", "--no-all-versions", name])
        version = re.search(r"^Version: (\S+)$", shown, re.MULTILINE)
        wanted = CACHE / f"{name}_{(version[1] if version else '').replace(':', '%3a')}"
        if (wanted / "vmlinuz").exists():
            return None, wanted
        tmp = Path(tempfile.mkdtemp(prefix="fetch.", dir=CACHE))
        try:
            output(["apt-get", *options, "download", name], cwd=tmp)
            deb = next(tmp.glob("*.deb"))
            return deb, wanted
        except (NoKernel, StopIteration):
            shutil.rmtree(tmp, ignore_errors=True)
            raise
    except NoKernel:
        alias = latest(kernel)
        if alias.exists() and (alias / "vmlinuz").exists():
            return None, alias.resolve()
        raise


def members(deb):
    """Each regular file of the package: its path and a function that gives its bytes."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE) as child:
        with tarfile.open(fileobj=child.stdout, mode="r|") as tar:
            for m in tar:
                if m.isfile():
                    yield m.name.removeprefix("./"), lambda m=m: tar.extractfile(m).read()
    if child.returncode:
        raise NoKernel(f"dpkg-deb cannot read '{deb}'")


def module_name(path):
    found = re.match(r".*/([^/]+)\.ko(\.xz)?$", path)
    return found[1].replace("-", "_") if found else None


def plain(path, data):
    return lzma.LZMAFile(io.BytesIO(data)).read() if path.endswith(".xz") else data


def depends(data):
    """The modules a module names in its section .modinfo."""
    found = re.search(rb"\0depends=([^\0]*)\0", data)
    return [w.replace("-", "_") for w in (found[1].decode() if found else "").split(",") if w]


def in_order(wanted, needs):
    """Each module after what it rests on; one that this kernel has built in, or has not, is left out."""
    order = []

    def add(name):
        if name in needs and name not in order:
            for other in needs[name]:
                add(other)
            if name not in order:
                order.append(name)

    for name in wanted:
        add(name)
    return order


def unpack(deb, where):
    needs, kernel = {}, None
    for path, data in members(deb):
        if name := module_name(path):
            needs[name] = depends(plain(path, data()))
        elif path.startswith("boot/vmlinuz-"):
            kernel = data()
    if not kernel:
        raise NoKernel(f"'{deb}' has no boot/vmlinuz-*: give a package linux-image-* of Debian")
    order = in_order([*MACHINE, *MODULES], needs)
    tmp = Path(tempfile.mkdtemp(prefix="unpack.", dir=CACHE))
    try:
        (tmp / "modules").mkdir()
        for path, data in members(deb):
            if (name := module_name(path)) in order:
                (tmp / "modules" / f"{name}.ko").write_bytes(plain(path, data()))
        (tmp / "order").write_text("\n".join(order) + "\n", encoding="utf-8")
        (tmp / "vmlinuz").write_bytes(kernel)
        shutil.rmtree(where, ignore_errors=True)
        tmp.rename(where)
    finally:
        shutil.rmtree(tmp, ignore_errors=True)


def get(kernel):
    """A directory with vmlinuz, modules/ and their order. `kernel`: [RELEASE/]PACKAGE, or a .deb."""
    if kernel.endswith(".deb"):
        deb = Path(kernel)
        if not deb.is_file():
            raise NoKernel(f"there is no file '{kernel}'")
        CACHE.mkdir(parents=True, exist_ok=True)
        where = CACHE / deb.name.removesuffix(".deb")
        stamp = where / "vmlinuz"
        if not stamp.exists() or stamp.stat().st_mtime < deb.stat().st_mtime:
            unpack(deb, where)
        return where
    deb, where = fetch(kernel)
    if deb:
        try:
            unpack(deb, where)
        finally:
            shutil.rmtree(deb.parent, ignore_errors=True)
    alias = latest(kernel)
    if alias.is_symlink() or alias.exists():
        alias.unlink()
    alias.symlink_to(where.name)
    return where
