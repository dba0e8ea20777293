# SPDX-License-Identifier: Apache-2.0
"""What an image says of itself is laid under what the spec says, as `docker run` does."""

import hashlib
import io
import json
import os
import sys
import tarfile
from pathlib import Path

from jail_modes import jail  # noqa: F401

sys.path.append(str(Path(__file__).resolve().parent.parent / "lib"))
from registries import ARCH, layer  # noqa: E402


def saved_image(jail, config):
    """A `docker save` archive with this configuration."""
    tar_bytes = layer()
    whole = {"architecture": ARCH, "os": "linux", "config": config,
             "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(tar_bytes).hexdigest()]}}
    config_bytes = json.dumps(whole).encode()
    config_name = hashlib.sha256(config_bytes).hexdigest() + ".json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": ["t:latest"], "Layers": ["l/layer.tar"]}]).encode()
    path = jail.dir / "image.tar"
    with tarfile.open(path, "w") as tar:
        for name, content in ((config_name, config_bytes), ("l/layer.tar", tar_bytes), ("manifest.json", manifest)):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    os.chmod(path, 0o644)
    return path


CONFIG = {"Env": ["PATH=/opt/bin:/bin", "FROM_IMAGE=yes", "BOTH=image", "broken", "=broken"], "WorkingDir": "/app", "User": "app",
          "Entrypoint": ["/bin/entry", "-x"], "Cmd": ["serve"]}


def variables(r):
    return dict(line.split("=", 1) for line in r.text.splitlines())


def test_the_environment_of_the_image_lies_under_the_specs(jail):
    image = saved_image(jail, CONFIG)
    env = variables(jail.ok("run", "--image", image, "--env", "BOTH=spec", "--", "env"))
    assert env["PATH"] == "/opt/bin:/bin" and env["FROM_IMAGE"] == "yes" and env["BOTH"] == "spec", env
    env = variables(jail.ok("run", "--image", image, "--env-from", "all", "--", "env", env={"FROM_IMAGE": "host", "OTHER": "host"}))
    assert env["FROM_IMAGE"] == "yes" and env["OTHER"] == "host", "the image wins over what merely passes"


def test_the_directory_of_the_image_is_where_commands_start(jail):
    image = saved_image(jail, CONFIG)
    assert jail.ok("run", "--image", image, "--", "pwd").text == "/app\n"
    assert jail.ok("run", "--image", image, "--cwd", "/etc", "--", "pwd").text == "/etc\n"
    assert jail.ok("run", "--image", image, "--workspace", jail.workspace, "--", "pwd").text == "/workspace\n"
    plain = saved_image(jail, {})
    assert jail.ok("run", "--image", plain, "--", "pwd").text == "/workspace\n"


def test_a_named_cell_keeps_both(jail):
    image = saved_image(jail, CONFIG)
    jail.ok("create", "--image", image, "web")
    assert jail.ok("exec", "web", "--", "pwd").text == "/app\n"
    assert variables(jail.ok("exec", "web", "--", "env"))["FROM_IMAGE"] == "yes"
    info = jail.ok("inspect", "--json", "web").json
    assert info["image_entrypoint"] == "/bin/entry -x" and info["image_cmd"] == "serve" and info["image_user"] == "app"
    assert info["image"].startswith("sha256:")


def test_the_user_of_the_image_is_the_cells_only_one(jail):
    image = saved_image(jail, CONFIG)
    assert jail.ok("run", "--image", image, "--", "id", "-u").text == "1000\n"
    jail.fails("run", "--image", image, "--user", "app", "--", "id", says=["user"])
