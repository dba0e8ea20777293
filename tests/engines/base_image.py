# SPDX-License-Identifier: Apache-2.0
"""The image of images/base, built by `cell image build` once for this build directory: as an archive for engines, and in a store of
Cell's for back ends without one."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from engines import KINDS, need

TOP = Path(__file__).resolve().parent.parent.parent
RECIPE = TOP / "images" / "base"
KEPT = TOP / "build" / "test-images"
ARCHIVE, STORE = KEPT / "base.tar", KEPT / "store"
NAME = "base"


def build():
    """It is there afterwards. Missing when this machine cannot build images; a build that fails is an error."""
    need("debootstrap")
    KEPT.mkdir(parents=True, exist_ok=True)
    stamp, wanted = KEPT / "stamp", hashlib.sha256((RECIPE / "recipe.yaml").read_bytes()).hexdigest()
    with open(KEPT / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == wanted:
            return
        stamp.unlink(missing_ok=True)
        shutil.rmtree(STORE, ignore_errors=True)
        cell = os.environ.get("CELL_BIN_PLAIN", TOP / "build" / "cell")
        env = {"PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin", "HOME": str(KEPT), "CELL_IMAGE_DIR": str(STORE),
            "CELL_STATE_DIR": str(KEPT / "state")}
        made = subprocess.run([cell, "image", "build", "--name", NAME, "--output", ARCHIVE, RECIPE], env=env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False)
        if made.returncode:
            raise RuntimeError(f"cell image build {RECIPE}: {made.stderr}")
        stamp.write_text(wanted)


def give(engine):
    """To an engine, or to what takes images from Cell's own store. Its environment says how to call it."""
    build()
    if engine.backend == "containerd":
        engine.load_image(archive=ARCHIVE.read_bytes())
        return {}
    if engine.backend in KINDS:
        with open(ARCHIVE, "rb") as archive:
            status, text = engine.ask("POST", "/v1.41/images/load", archive, "application/x-tar")
        assert status == 200 and b"error" not in text, text
        return {}
    return {"CELL_IMAGE_DIR": str(STORE)}
