# SPDX-License-Identifier: Apache-2.0
"""cell image: the store, and images from registries: a real one, and one that lies."""

import base64
import json
import os
import shutil
import stat
import sys
from pathlib import Path

import pytest

from conftest import wait_until
from jail_modes import jail  # noqa: F401
from test_jail_image import saved_image

sys.path.append(str(Path(__file__).resolve().parent.parent / "lib"))
from registries import Image, Registry, digest, scripted  # noqa: E402


def log_in(c, host, user="ann", password="secret"):
    config = c.dir / "docker"
    config.mkdir(exist_ok=True)
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    (config / "config.json").write_text(json.dumps({"auths": {host: {"auth": pair}}}))
    return {"DOCKER_CONFIG": str(config)}


def nothing_is_left(c):
    tmp = c.state / "images" / "tmp"
    assert not tmp.exists() or not list(tmp.iterdir()), list(tmp.iterdir())


# ---- the store ----

def test_an_image_is_imported_listed_verified_and_removed(jail):
    path = saved_image(jail, {})
    made = jail.ok("image", "import", "--name", "t/x:1", path).text.strip()
    listed = jail.ok("image", "ls", "--json").json["images"]
    assert [(i["digest"], i["names"], i["layers"]) for i in listed] == [(made, ["t/x:1"], 1)]
    assert listed[0]["bytes"] > 100000
    assert jail.ok("image", "ls", "-q").text == made + "\n"
    assert "t/x:1" in jail.ok("image", "ls").text
    assert jail.ok("run", "--image", "t/x:1", "--", "/bin/sh", "-c", "echo in").text == "in\n"
    jail.ok("image", "verify", "t/x:1")
    jail.ok("image", "rm", "t/x:1")
    assert jail.ok("image", "ls", "--json").json["images"] == []
    assert jail.ok("image", "prune", "--json").json["bytes"] > 100000
    assert not list((jail.state / "images" / "layers").iterdir())
    jail.fails("image", "rm", "t/x:1", says=["t/x:1"])


def test_a_changed_file_of_a_layer_is_found(jail):
    jail.ok("image", "import", "--name", "x", saved_image(jail, {}))
    program = next((jail.state / "images" / "layers").glob("*/bin/busybox"))
    program.write_bytes(program.read_bytes() + b"!")
    jail.fails("image", "verify", "x", says=["layer"])


def test_what_is_no_image_is_refused(cell):
    cell.fails("image", "import", cell.put("x.tar", b"no tar" * 1000), says=["x.tar"])
    cell.fails("image", "import", "nowhere.tar", says=["nowhere.tar"])
    cell.fails("image", "frobnicate", says=["there is no verb 'image frobnicate'"])


# ---- names ----

@pytest.mark.parametrize("name", ["", "UPPER", "a//b", "a/", "-a", "a b", "a:", "a:-x", "a@sha256:123", "a@md5:0", "x" * 300, "h.o.s.t/",
                                  "a:b:c", "ho;st.x/a", "../../etc/passwd"])
def test_what_is_no_name_is_refused_before_anything_is_asked(cell, name):
    cell.fails("image", "pull", "--", name, says=["no name of an image"])


# ---- a real registry ----

@pytest.fixture
def registry():
    with Registry() as r:
        yield r


def test_an_image_is_pulled_from_a_registry_and_run(jail, registry):
    host, image = registry.host, Image()
    registry.push(image)
    ref = f"{host}/team/base:1.0"
    jail.fails("image", "pull", ref, says=["does not give", "docker login"])
    wrong = log_in(jail, host, password="wrong")
    jail.fails("image", "pull", ref, env=wrong, says=["does not give", "were refused"])
    right = log_in(jail, host)
    got = jail.ok("image", "pull", "--json", ref, env=right).json
    assert got["manifest"] == digest(image.manifest) and got["digest"] == digest(image.config)
    assert (got["layers"], got["fetched"], got["bytes"]) == (1, 1, len(image.layer))
    assert jail.ok("run", "--image", ref, "--", "/bin/sh", "-c", "echo $FROM_IMAGE").text == "yes\n"
    again = jail.ok("image", "pull", "--json", f"{host}/team/base@{digest(image.manifest)}", env=right).json
    assert (again["digest"], again["fetched"]) == (got["digest"], 0), "the layer is here already"
    jail.ok("run", "--image", f"{host}/team/base@{digest(image.manifest)}", "--", "/bin/sh", "-c", "true")
    jail.fails("image", "pull", f"{host}/team/base:2.0", env=right, says=["has no image '2.0'"])
    jail.fails("image", "pull", f"{host}/team/base@sha256:{'0' * 64}", env=right, says=["has no image"])
    nothing_is_left(jail)


def test_credentials_come_from_a_helper_program(jail, registry):
    host = registry.host
    registry.push(Image())
    bin_dir, config = jail.dir / "bin", jail.dir / "docker"
    bin_dir.mkdir()
    config.mkdir()
    helper = bin_dir / "docker-credential-test"
    helper.write_text('#!/bin/sh\nread host\n[ "$1 $host" = "get %s" ] && printf \'{"Username": "ann", "Secret": "secret"}\'\n' % host)
    helper.chmod(0o755)
    env = {"DOCKER_CONFIG": str(config), "PATH": f"{bin_dir}:{jail.env['PATH']}"}
    (config / "config.json").write_text(json.dumps({"credHelpers": {host: "test"}}))
    jail.ok("image", "pull", f"{host}/team/base:1.0", env=env)
    helper.write_text("#!/bin/sh\necho broken; exit 1\n")
    jail.fails("image", "pull", f"{host}/team/base:1.0", env=env, says=["docker-credential-test"])
    (config / "config.json").write_text(json.dumps({"credHelpers": {host: "../evil"}}))
    jail.fails("image", "pull", f"{host}/team/base:1.0", env=env, says=["no name of a credential helper"])
    (config / "config.json").write_text("{nonsense")
    jail.fails("image", "pull", f"{host}/team/base:1.0", env=env, says=["config.json"])


# ---- tokens and redirects ----

def test_a_token_is_asked_for_with_the_credentials_and_for_reading_only(jail):
    with scripted(Image(), token="tok") as r:
        env = log_in(jail, r.host)
        jail.ok("image", "pull", r.ref(), env=env)
        asked = [path for path, _ in r.seen if path.startswith("/token")]
        assert asked == ["/token?service=reg&scope=repository%3Ateam%2Fbase%3Apull"]
        assert all(a == "Bearer tok" for path, a in r.seen[2:] if path.startswith("/v2/")), r.seen
        jail.fails("image", "pull", r.ref(), env=log_in(jail, r.host, password="wrong"), says=["were refused"])


def test_credentials_are_not_sent_where_the_registry_points(jail):
    """A registry that is not on this machine may not lead credentials to plain HTTP; one that is may not lead its token along."""
    image = Image()
    with scripted(image) as store, scripted(image, token="tok") as r:
        name = digest(image.layer)
        r.lie[f"/v2/team/base/blobs/{name}"] = (307, {"Location": f"http://{store.host}/v2/team/base/blobs/{name}"}, b"")
        jail.ok("image", "pull", r.ref(), env=log_in(jail, r.host))
        assert [(p, a) for p, a in store.seen] == [(f"/v2/team/base/blobs/{name}", None)]


def test_redirects_have_an_end(jail):
    image = Image()
    with scripted(image) as r:
        path = f"/v2/team/base/blobs/{digest(image.layer)}"
        r.lie[path] = (302, {"Location": path}, b"")
        jail.fails("image", "pull", r.ref(), says=["redirects without an end"])
        assert len(r.seen) < 20
        nothing_is_left(jail)


# ---- a registry that lies ----

def lies(image):
    layer_path, config_path = (f"/v2/team/base/blobs/{digest(b)}" for b in (image.layer, image.config))
    manifest = json.loads(image.manifest)
    escape = dict(manifest, layers=[dict(manifest["layers"][0], digest="sha256:../../../../etc/passwd")])
    huge = dict(manifest, layers=[dict(manifest["layers"][0], size=1 << 60)])
    negative = dict(manifest, layers=[dict(manifest["layers"][0], size=-1)])
    by_digest = f"/v2/team/base/manifests/{digest(image.manifest)}"
    tag = "/v2/team/base/manifests/latest"
    return {
        "other bytes": ({layer_path: (200, {}, image.layer[:-1] + b"?")}, "is something else"),
        "too few bytes": ({layer_path: (200, {}, image.layer[:-9])}, "is something else"),
        "too many bytes": ({layer_path: (200, {}, image.layer + b"more")}, "is something else"),
        "another configuration": ({config_path: (200, {}, image.config.replace(b"yes", b"no!"))}, "is something else"),
        "another manifest": ({by_digest: (200, {}, image.manifest + b" ")}, "do not use it"),
        "no manifest": ({tag: (200, {}, b"[]")}, "read the image"),
        "nonsense": ({tag: (200, {}, b"\x00\xff" * 100)}, "read the image"),
        "a digest that is a path": ({tag: (200, {}, json.dumps(escape).encode())}, "digest"),
        "a layer of an exabyte": ({tag: (200, {}, json.dumps(huge).encode())}, "larger than"),
        "a negative size": ({tag: (200, {}, json.dumps(negative).encode())}, "size"),
        "a manifest of 10 MB": ({tag: (200, {}, b" " * 10_000_000)}, "pull 'team/base'"),
        "an error page": ({layer_path: (500, {}, b"<html>" + b"x" * 200000)}, "answered 500"),
        "too many requests": ({tag: (429, {}, b"{}")}, "too many requests"),
        "a way to a file": ({layer_path: (302, {"Location": "file:///etc/passwd"}, b"")}, "not safe"),
        "a realm over plain HTTP elsewhere": (
            {tag: (401, {"WWW-Authenticate": 'Bearer realm="ftp://x/y"'}, b"")}, "not safe"),
    }


@pytest.mark.parametrize("lie", sorted(lies(Image())))
def test_a_registry_that_lies_gives_an_error_and_nothing_is_kept(cell, lie):
    image = Image()
    answers, says = lies(image)[lie]
    with scripted(image) as r:
        r.lie.update(answers)
        cell.fails("image", "pull", r.ref(), says=[says])
    assert cell.ok("image", "ls", "--json").json["images"] == []
    nothing_is_left(cell)
    assert not list((cell.state / "images" / "layers").iterdir())


def test_what_a_registry_says_cannot_write_on_the_terminal(cell):
    with scripted(Image()) as r:
        said = cell.fails("image", "pull", f"{r.host}/other", says=["never heard of it"])
        assert b"\x1b" not in said.err


def test_a_registry_that_is_not_there(cell):
    cell.fails("image", "pull", "127.0.0.1:1/x", says=["127.0.0.1:1"])


def test_a_full_disk_is_said_and_leaves_nothing(jail):
    if not jail.is_root:
        pytest.skip("only root can make a small disk")
    small = jail.dir / "small"
    small.mkdir()
    image = Image()
    with scripted(image) as r:
        unshared = jail.program
        script = f"mount -t tmpfs -o size=100k,mode=700 none {small} && exec {unshared} image pull {r.ref()}"
        jail.program = "unshare"
        try:
            got = jail("--mount", "sh", "-c", script, env={"CELL_IMAGE_DIR": str(small)})
        finally:
            jail.program = unshared
    assert got.code == 125 and "No space left" in got.errors and "image prune" in got.errors, got


# ---- interrupted ----

def test_ctrl_c_in_the_middle_leaves_nothing(cell):
    image = Image()
    with scripted(image) as r:
        path = f"/v2/team/base/blobs/{digest(image.layer)}"
        r.lie[path] = (200, {"Content-Length": str(len(image.layer))}, image.layer[:100])
        child = cell.popen("image", "pull", r.ref())
        wait_until(lambda: any(p == path for p, _ in r.seen), what="the layer was asked for")
        child.send_signal(2)
        assert child.wait(20) == 130, child.stderr.read()
    nothing_is_left(cell)


def test_what_a_killed_pull_left_is_swept_by_the_next(cell):
    image = Image()
    with scripted(image) as r:
        path = f"/v2/team/base/blobs/{digest(image.layer)}"
        r.lie[path] = (200, {"Content-Length": str(len(image.layer))}, image.layer[:100])
        child = cell.popen("image", "pull", r.ref())
        wait_until(lambda: any(p == path for p, _ in r.seen), what="the layer was asked for")
        child.kill()
        child.wait()
        assert list((cell.state / "images" / "tmp").iterdir())
        del r.lie[path]
        cell.ok("image", "pull", r.ref())
    nothing_is_left(cell)


# ---- recipes ----

@pytest.mark.parametrize("text, says", [
    ("name: x\n", "a name and a suite"),
    ("[]", "a recipe is a mapping"),
    ("name: x\nsuite: y\nfrom: z\n", "unknown key 'from'"),
    ("name: x\nsuite: 'y; rm -rf /'\n", "do not belong there"),
    ("name: x\nsuite: y\npackages: ['--foo']\n", "no name of a Debian package"),
    ("name: x\nsuite: y\npackages: a\n", "list of Debian packages"),
    ("name: x\nsuite: y\nenv: [a]\n", "mapping of names"),
])
def test_a_recipe_that_is_none_is_refused_with_its_place(cell, text, says):
    cell.fails("image", "build", cell.put("recipe.yaml", text), says=[says, "recipe.yaml"])


def test_a_build_that_fails_says_why_and_leaves_nothing(jail):
    if not jail.is_root:
        jail.put("recipe.yaml", "name: x\nsuite: bookworm\n")
        jail.fails("image", "build", "recipe.yaml", says=["needs root"])
        return
    if not shutil.which("debootstrap"):
        pytest.skip("needs debootstrap")
    jail.put("r/recipe.yaml", "name: x\nsuite: bookworm\n")
    jail.fails("image", "build", "--mirror", "http://127.0.0.1:1/debian", "r", says=["building 'x' failed", "--verbose"])
    nothing_is_left(jail)
    assert stat.S_ISDIR(os.stat(jail.state / "images").st_mode)
