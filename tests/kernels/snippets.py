# SPDX-License-Identifier: Apache-2.0
"""The snippets of snippets/*.py: pieces of code with a name, run one after the other in one interpreter for each file."""

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent


def files():
    return sorted(p.stem for p in (HERE / "snippets").glob("*.py"))


def snippets(name):
    """[(name, code)] of one file."""
    text = (HERE / "snippets" / f"{name}.py").read_text()
    pieces = re.split(r"^# %% (.*)\n", text, flags=re.M)[1:]
    found = [(title.strip(), code[:-1] if code.endswith("\n") else code) for title, code in zip(pieces[::2], pieces[1::2])]
    assert len({title for title, _ in found}) == len(found), "two snippets of one name"
    return found


def normalized(text):
    """Without what differs from one process to the next, and from one name of a piece of code to the other."""
    text = re.sub(r"0x[0-9a-f]{6,}", "0xADDRESS", text)
    text = text.replace("\r\n", "\n")  # of a terminal, which IPython gives to commands
    text = re.sub(r"timed out after [0-9.]+ seconds", "timed out", text)
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    text = re.sub(r"/tmp/ipykernel_\d+/\d+\.py", "CODE", text)
    text = re.sub(r"\b\d{5,}\.py\b", "CODE", text)
    text = re.sub(r"<ipython-input-[^>]*>", "CODE", text)
    return re.sub(r"Cell In\[\d+\]", "CODE", text)


def pictures(data):
    """Pictures are compared by being there: two renderings need not be the same bytes."""
    return {
        k: ("picture" if len(v) > 400 else v.rstrip("\n")) if k in ("image/png", "image/jpeg") else v for k, v in data.items()
    }


TABLE = "application/vnd.dataresource+json"


def facts(result, directory):
    """What two kernels must agree on, by aspect. The directory it ran in is its own."""

    def normal(text):
        return normalized(text.replace(str(directory), "DIRECTORY"))

    def rich(data):
        return {k: normal(v) if isinstance(v, str) else v for k, v in pictures(data).items() if k != TABLE}

    found = {
        "status": result.status,
        "stdout": normal(result.stream("stdout").decode("utf-8", "backslashreplace")),
        "stderr": normal(result.stream("stderr").decode("utf-8", "backslashreplace")),
        "value": [normal(r["data"].get("text/plain", "")) for r in result.all("result")],
        "rich": [{k: v for k, v in rich(r["data"]).items() if k != "text/plain"} for r in result.all("result")],
        "metadata": [r["metadata"] for r in result.all("result")],
        "data": [d["data"][TABLE] for d in result.all("result") + result.all("display") if TABLE in d["data"]],
        "display": [dict(d, data=rich(d["data"])) for d in result.all("display")],
        "clear": result.all("clear"),
        "error": [(e["name"], normal(e["message"])) for e in result.all("error")],
        "order": [kind for kind, _ in merged_kinds(result)],
    }
    return found


def merged_kinds(result):
    found = []
    for kind, v in result.events:
        if not (found and found[-1][0] == kind and kind in ("stdout", "stderr")):
            found.append((kind, v))
    return found
