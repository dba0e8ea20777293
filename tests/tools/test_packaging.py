# SPDX-License-Identifier: Apache-2.0
"""Units and the container recipe, as far as they can be checked without systemd and a registry: that they parse, name what there is, and leave
out what would break the cells. They are not run here."""

import re
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent.parent
UNITS = TOP / "packaging" / "systemd"
RECIPE = TOP / "packaging" / "container" / "Containerfile"
# A filter of these is inherited by cells, or gives the service a mount namespace in which the launcher cannot work.
BREAKS_CELLS = {
    "SystemCallFilter", "RestrictNamespaces", "RestrictSUIDSGID", "MemoryDenyWriteExecute", "RestrictAddressFamilies", "ProtectSystem", "ProtectHome", "PrivateTmp",
    "PrivateDevices", "PrivateMounts", "PrivateUsers", "PrivateNetwork", "ProtectKernelTunables", "ProtectControlGroups", "ProtectProc", "DynamicUser", "User"}


def parse(name):
    sections, section = {}, None
    for n, line in enumerate((UNITS / name).read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if m := re.fullmatch(r"\[(\w+)\]", line):
            section = sections.setdefault(m[1], {})
            continue
        m = re.fullmatch(r"([A-Z]\w*)=(.*)", line)
        assert m and section is not None, f"{name}:{n}: {line}"
        assert m[1] not in section, f"{name}:{n}: twice"
        section[m[1]] = m[2]
    return sections


def test_the_service_is_what_the_server_needs():
    unit = parse("cell.service.in")
    service = unit["Service"]
    assert service["Type"] == "notify" and service["KillMode"] == "process" and service["Delegate"] == "yes"
    assert service["OOMPolicy"] == "continue" and service["NoNewPrivileges"] == "yes"
    assert not BREAKS_CELLS & set(service)
    assert unit["Unit"]["Requires"] == "cell.socket" and "WantedBy" in unit["Install"]
    options = (TOP / "src" / "cli" / "cmd_serve.c").read_text()
    for option in re.findall(r"--([a-z-]+)", service["ExecStart"]):
        assert f'{{"{option}"' in options, option


def test_the_socket_and_the_user():
    socket = parse("cell.socket")["Socket"]
    assert socket["ListenStream"].startswith("/run/") and socket["SocketMode"] == "0660"
    user = [line.split() for line in (UNITS / "cell.sysusers").read_text().splitlines() if line and line[0] != "#"]
    assert [u[:2] for u in user] == [["u", "cell"]] and socket["SocketGroup"] == "cell"


KNOWN = {"FROM", "RUN", "COPY", "ENV", "WORKDIR", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT"}


def instructions():
    text = re.sub(r"\\\n", " ", "\n".join(line for line in RECIPE.read_text().splitlines() if not line.startswith("#")))
    return [line.split(None, 1) for line in text.splitlines() if line.strip()]


def test_the_recipe_parses_and_follows_the_usual_rules():
    all_of_it = instructions()
    assert all_of_it[0][0] == "FROM" and {i[0] for i in all_of_it} <= KNOWN
    bases = [rest.split()[0] for word, rest in all_of_it if word == "FROM"]
    assert all(":" in b and not b.endswith(":latest") for b in bases), bases
    for word, rest in all_of_it:
        if word == "RUN" and "apt-get install" in rest:
            assert "--no-install-recommends" in rest and "rm -rf /var/lib/apt/lists" in rest and "apt-get update" in rest
        if word in ("ENTRYPOINT", "HEALTHCHECK"):
            assert "[" in rest, f"{word}: a list, so that signals reach the program"
        if word == "COPY" and "--from" not in rest:
            assert (TOP / rest.split()[0]).exists()
    entry = next(rest for word, rest in all_of_it if word == "ENTRYPOINT")
    assert '"--user", "cell"' in entry


@pytest.mark.parametrize("bad", ["[Service]\nno equals\n", "Type=notify\n", "[Service]\nType=a\nType=b\n"])
def test_the_check_itself_finds_what_is_wrong(tmp_path, monkeypatch, bad):
    (tmp_path / "x").write_text(bad)
    monkeypatch.setattr("test_packaging.UNITS", tmp_path)
    with pytest.raises(AssertionError):
        parse("x")
