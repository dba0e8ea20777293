# SPDX-License-Identifier: Apache-2.0
"""Figures and tables in an image that was built from Debian packages: matplotlib and pandas as they come, without a line of set-up.

The image is built by `cell image build` from images/data and kept, as the tarball that --output writes, in build/test-images/ under the hash of
its recipe: the next run imports that. Remove it to build it again. Building needs root, debootstrap and a Debian archive.
"""

import base64
import hashlib
import json
import os
import shutil
import struct
import subprocess

import pytest

from conftest import CELL, TOP, make_jail

RECIPE = TOP / "images" / "data" / "recipe.yaml"
SCRIPT = TOP / "src" / "cli" / "image_build.sh"
PLAIN = os.environ.get("CELL_BIN_PLAIN", CELL)
DATA_RESOURCE = "application/vnd.dataresource+json"
pytestmark = pytest.mark.slow(2400)  # whichever is the first builds the image


def build(path, directory):
    """The image as a file. Half a file never has the name that counts."""
    if os.geteuid() != 0 or not shutil.which("debootstrap", path="/usr/sbin:/usr/bin"):
        pytest.skip("building an image needs root and debootstrap")
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(f".{os.getpid()}")
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "CELL_STATE_DIR": str(directory / "state"), "TMPDIR": str(directory)}
    made = subprocess.run([PLAIN, "image", "build", "--output", half, RECIPE.parent], env=env, capture_output=True, text=True, check=False,
        timeout=1800)
    assert made.returncode == 0, made.stderr
    digest = made.stdout.strip()
    assert digest.startswith("sha256:"), made.stdout
    half.rename(path)


@pytest.fixture(scope="module")
def tarball(tmp_path_factory):
    name = hashlib.sha256(RECIPE.read_bytes() + SCRIPT.read_bytes()).hexdigest()[:16]
    path = TOP / "build" / "test-images" / f"data-{name}.tar"
    if not path.exists():
        build(path, tmp_path_factory.mktemp("build"))
    return path


@pytest.fixture(scope="module", params=["rootful", "rootless"])
def data(request, tarball):
    """The command, as root and as an ordinary user, with the image imported as `data`."""
    j = make_jail(request.param == "rootful")
    try:
        j.ok("image", "import", "--name", "data", tarball, timeout=900)
        yield j
        left = list((j.dir / "state").glob("cells/*"))
        assert not left, f"left behind: {left}"
    finally:
        shutil.rmtree(j.dir, ignore_errors=True)


def code(data, text, *options):
    r = data("code", "--json", "--image", "data", *options, "-c", text, timeout=300)
    assert r.code == 0, r
    result = r.json
    assert result["error"] is None and result["ok"], result
    return result


def picture(results):
    """The one picture among them: its bytes, width and height."""
    found = [r["data"]["image/png"] for r in results if "image/png" in r["data"]]
    assert len(found) == 1, results
    raw = base64.b64decode(found[0], validate=True)
    assert raw.startswith(b"\x89PNG\r\n\x1a\n") and raw.endswith(b"IEND\xaeB`\x82"), raw[:64]
    return raw, *struct.unpack(">II", raw[16:24])


def test_the_code_runs_on_the_images_own_programs(data):
    """What is seen is the image: its name, its packages, and nothing of this machine's programs."""
    said = code(data, f"""
import matplotlib, os, pandas, sys
print(open('/etc/hostname').read().strip())
print(os.path.exists({str(TOP)!r}))
print(matplotlib.__file__, pandas.__file__)
""")["stdout"].splitlines()
    assert os.path.exists(TOP)
    assert said[:2] == ["cell", "False"], said
    assert said[2] == "/usr/lib/python3/dist-packages/matplotlib/__init__.py /usr/lib/python3/dist-packages/pandas/__init__.py", said


def test_a_figure_is_a_picture(data):
    r = code(data, "import matplotlib.pyplot as plt\nplt.figure(figsize=(4, 3), dpi=50)\nplt.plot([1, 4, 9]); None")
    raw, width, height = picture(r["results"])
    assert 100 < width <= 220 and 80 < height <= 170 and len(raw) > 1000, (width, height, len(raw))
    assert r["stderr"] == "", "nothing to say about fonts, caches or displays"


def test_a_figure_shown_in_between_comes_in_order(data):
    r = code(data, "import matplotlib.pyplot as plt\nplt.bar(['a', 'b'], [1, 2])\nplt.show()\n'after'")
    kinds = [(e["type"], "image/png" in e["data"]) for e in r["results"]]
    assert kinds == [("display", True), ("result", False)] and r["value"] == "'after'", r["results"]


def test_a_table_is_html_and_data(data):
    shown = code(data, "import pandas\npandas.DataFrame({'name': ['ada', 'bob'], 'n': [1, 2]})")["results"][-1]["data"]
    assert "<table" in shown["text/html"] and "<td>ada</td>" in shown["text/html"], shown
    table = shown[DATA_RESOURCE]
    table = json.loads(table) if isinstance(table, str) else table
    assert [(row["name"], row["n"]) for row in table["data"]] == [("ada", 1), ("bob", 2)], table
    assert {f["name"] for f in table["schema"]["fields"]} >= {"name", "n"}, table
    assert "ada" in shown["text/plain"]


def test_an_interpreter_started_ahead_is_the_images(data):
    """With kernels.warm the first run finds pandas imported, by an interpreter with the environment of the image."""
    (data.workspace / "cell.yaml").write_text("kernels:\n  warm: [python]\n  preload: [pandas]\n")
    try:
        data.ok("create", "--image", "data", "--env", "PYTHONHASHSEED=7", "ahead")
        r = data.ok("code", "--json", "-s", "ahead", "-c", "import os, sys\n'pandas' in sys.modules, os.environ['PYTHONHASHSEED']", timeout=300).json
        assert r["value"] == "(True, '7')", r
    finally:
        (data.workspace / "cell.yaml").unlink()
        data("rm", "-f", "ahead")


def test_both_in_a_session_over_a_file(data):
    """Steps as an agent takes them: read, look, draw."""
    name = "steps"
    (data.workspace / "sales.csv").write_text("month,sales\n1,10\n2,40\n3,90\n")
    try:
        data.ok("create", "--image", "data", "--workspace", data.workspace, name)
        step = lambda text: data.ok("code", "--json", "-s", name, "-c", text, timeout=300).json  # noqa: E731
        assert step("import pandas as pd\nd = pd.read_csv('sales.csv')\nd.sales.sum()")["value"] == "140"
        assert "<table" in step("d.describe()")["results"][-1]["data"]["text/html"]
        picture(step("d.plot(x='month', y='sales'); None")["results"])
        row = next(v for v in data.ok("context", "vars", "--json", name).json["variables"] if v["name"] == "d")
        assert row["type"] == "pandas.DataFrame" and row["shape"] == [3, 2], row
    finally:
        data("rm", "-f", name)
