# pip installs a local wheel
# needs: python3
python3 - <<'PY'
import base64, hashlib, zipfile
files = {"cell_probe.py": "ANSWER = 42\n",
	"cell_probe-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: cell-probe\nVersion: 1.0\n",
	"cell_probe-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
record = "".join("%s,sha256=%s,%d\n" % (n, base64.urlsafe_b64encode(hashlib.sha256(t.encode()).digest()).rstrip(b"=").decode(), len(t))
	for n, t in files.items())
with zipfile.ZipFile("cell_probe-1.0-py3-none-any.whl", "w") as z:
	for n, t in files.items(): z.writestr(n, t)
	z.writestr("cell_probe-1.0.dist-info/RECORD", record + "cell_probe-1.0.dist-info/RECORD,,\n")
PY
python3 -m venv env
env/bin/pip install --no-index ./cell_probe-1.0-py3-none-any.whl
env/bin/python -c 'import cell_probe; assert cell_probe.ANSWER == 42'
