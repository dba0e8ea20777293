# SPDX-License-Identifier: Apache-2.0
"""A server under load, somebody who kills, and what must hold all the same.

`World` is the server with everything its clients were promised. `Load` is one client: it makes sessions, runs commands that print
counters, follows them, writes files and ends sessions, everything with an Idempotency-Key and again until there is an answer.
`Killer` ends processes with SIGKILL. `World.check()` is called while nobody asks for anything, and looks at all of it from outside.
"""

import contextlib
import fcntl
import http.client
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import threading
import time
import uuid

from harness import CELL, Client, Server

PATIENCE_S = float(os.environ.get("CHAOS_PATIENCE_S", "120"))
RETRY = {409, 429, 502, 503}


class Broken(AssertionError):
    """An invariant does not hold."""


# ---- processes ----


def processes():
    """pid -> (parent, command line)."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError):
            with open(f"/proc/{name}/stat", "rb") as f:
                fields = f.read().rpartition(b")")[2].split()
            with open(f"/proc/{name}/cmdline", "rb") as f:
                line = f.read().replace(b"\0", b" ").decode(errors="replace").strip()
            if fields[0] != b"Z":
                found[int(name)] = (int(fields[1]), line)
    return found


def below(pids, roots):
    ours, grew = set(roots), True
    while grew:
        more = {p for p, (parent, _) in pids.items() if parent in ours} - ours
        ours |= more
        grew = bool(more)
    return ours


def cell_of(line):
    """The cell a guest's title names."""
    return line.split(":")[1] if line.startswith("cell-guest:") else None


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


# ---- what was promised ----


class Exec:
    """A command, and what it is to print: the lines 0 to n - 1, on one stream or both."""

    def __init__(self, session, key, n, is_appending):
        self.session, self.key, self.n, self.is_appending = session, key, n, is_appending
        self.id = None
        self.end = None
        self.is_killed = False  # its processes were
        self.text = {"stdout": "", "stderr": ""}

    def command(self):
        if self.is_appending:
            return f"echo {self.key} >> log; echo 0"
        pause = random.choice(["", "sleep 0.02;"]) if self.n <= 50 else ""
        return f"i=0; while [ $i -lt {self.n} ]; do echo $i; echo $i >&2; i=$((i+1)); {pause} done"

    def want(self, stream):
        if self.is_appending:
            return "0\n" if stream == "stdout" else ""
        return "".join(f"{i}\n" for i in range(self.n))


class Session:
    def __init__(self, key, kind):
        self.key, self.kind = key, kind
        self.id = None
        self.is_hit = False  # somebody killed its guest
        self.is_deleting = self.is_gone = False
        self.execs = []
        self.files = {}
        self.lock = threading.Lock()


class Patient(Client):
    """Asks until there is an answer, as a client with keys may: nothing is done twice."""

    def ask(self, method, path, /, body=None, headers=None, **query):
        key = {"Idempotency-Key": str(uuid.uuid4())} if method != "GET" else {}
        headers = {**key, **(headers or {})}
        end = time.monotonic() + PATIENCE_S
        a = None
        while time.monotonic() < end:
            try:
                a = self.call(method, path, body, headers, **query)
                if a.status not in RETRY:
                    return a
            except (http.client.HTTPException, OSError, AssertionError):
                self.connection = None
            time.sleep(random.uniform(0.02, 0.2))
        raise Broken(f"no answer to {method} {path}: {a}")


def is_held(number):
    """A cell's number, by a launcher or by the cell itself."""
    place = "/run" if os.geteuid() == 0 else f"/run/user/{os.geteuid()}"
    try:
        with open(f"{place}/cell/{number}", "rb") as f:
            fcntl.flock(f, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def is_parked(name):
    return bool(name) and name.startswith("parked--")


class World:
    def __init__(self, directory, seed, config=""):
        self.server = Server(directory, config)
        self.server.start()
        self.random = random.Random(seed)
        self.sessions = []
        self.lock = threading.Lock()
        self.gate = threading.Event()  # the load may go on
        self.is_over = False
        self.errors = []
        self.cgroups = set()
        self.guests = set()  # every one ever seen
        self.counts = {}

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def client(self):
        return Patient(self.server, self.server.admin)

    # ---- from outside ----

    def family(self):
        """Ours among all processes: of the server, of its launcher, and guests by the names of their cells."""
        pids = processes()
        mine = {s.id for s in self.sessions if s.id} | {p.name for p in (self.server.state / "cells").glob("*")}
        roots = {p for p, (_, line) in pids.items() if (cell_of(line) or "").split(".")[0] in {m.split(".")[0] for m in mine}}
        if self.server.process:
            roots.add(self.server.process.pid)
        ours = below(pids, roots)
        self.guests |= {p for p in ours if cell_of(pids[p][1])}
        for p in self.guests & ours:
            with contextlib.suppress(OSError), open(f"/proc/{p}/cgroup", encoding="utf-8") as f:
                self.cgroups |= {line.split(":", 2)[2].strip() for line in f if "/cell/" in line}
        return {p: pids[p] for p in ours}

    def verify_audit(self):
        r = subprocess.run([CELL, "--config", self.server.config, "audit", "verify"], env=self.server.env, capture_output=True,
            text=True, cwd=self.server.dir, check=False)
        if r.returncode:
            raise Broken(f"audit verify: {r.returncode} {r.stdout} {r.stderr}")

    def rows(self):
        with contextlib.closing(sqlite3.connect(f"file:{self.server.state}/server/server.db?mode=ro", uri=True)) as db:
            if (word := db.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
                raise Broken(f"the database: {word}")
            return {row[0]: row[1:] for row in db.execute("SELECT id, state, lifecycle, error FROM sessions")}

    def strays(self, rows):
        """What is there without a session that owns it."""
        found = []
        for p in (self.server.state / "cells").glob("*"):
            owner = rows.get(p.name.split(".")[0])
            if not owner or owner[0] in ("lost", "failed"):
                found.append(f"cell {p.name} of {owner}")
        spools = [p for p in (self.server.state / "server" / "spool").glob("*") if p.name not in rows]
        ahead = [p for p in spools if p.name.startswith(".spare-")]
        found += [f"spool {p.name}" for p in spools if p not in ahead]
        found += [f"{len(ahead)} files made ahead"] if len(ahead) > 16 else []
        ours, all_of_them = self.family(), processes()
        for pid in self.guests - ours.keys():
            if is_parked(cell_of(all_of_them.get(pid, (0, ""))[1])):
                found.append(f"process {pid} waits for a launcher that is gone")
        for pid, (_, line) in ours.items():
            name = cell_of(line)
            owner = name and rows.get(name.split(".")[0])
            if is_parked(name):  # made ahead, below the server: nobody's yet
                continue
            if name and (not owner or owner[0] in ("lost", "failed")):
                found.append(f"process {pid}: {line} of {owner}")
        with open("/proc/mounts", encoding="utf-8", errors="replace") as f:
            found += [f"mount {line.split()[1]}" for line in f if str(self.server.state) + "/" in line]
        return found

    def check_rows(self, rows):
        found = []
        alive = {(cell_of(line) or "") for _, line in self.family().values()}
        for name, (state, lifecycle, error) in rows.items():
            if state in ("creating", "ending"):
                found.append(f"session {name} is {state} and nobody asked")
            elif state in ("lost", "failed") and not (error and json.loads(error).get("msg")):
                found.append(f"session {name} is {state} and does not say why")
            elif state == "ready" and lifecycle != "ephemeral":
                if not (self.server.state / "cells" / name / "cell.json").exists():
                    found.append(f"session {name} is ready and has no cell")
                elif name not in alive:
                    found.append(f"session {name} is ready and has no guest")
        return found

    def check(self):
        """While nobody asks for anything. What takes a moment (the sweep, an end) is given one."""
        self.verify_audit()
        end = time.monotonic() + PATIENCE_S
        while True:
            rows = self.rows()
            wrong = self.strays(rows) + self.check_rows(rows)
            if not wrong:
                break
            if time.monotonic() > end:
                raise Broken("\n".join(wrong))
            time.sleep(0.3)
        for s in self.sessions:
            if s.id and not s.is_gone:
                self.check_session(s, rows)
        self.sessions = [s for s in self.sessions if not s.is_gone]

    def check_session(self, s, rows):
        client = self.client()
        state = rows[s.id][0] if s.id in rows else "gone"
        if state == "gone":
            if not s.is_deleting:
                raise Broken(f"session {s.id} is gone, and nobody ended it")
            s.is_gone = True
            return
        if state != "ready" and not s.is_hit:
            raise Broken(f"session {s.id} is {state}, and nobody touched its guest: {rows[s.id]}")
        for e in s.execs:
            self.check_exec(client, s, e, state)
        s.execs = [e for e in s.execs if e.is_appending]
        if state != "ready" or s.kind == "ephemeral":
            return
        for path, text in s.files.items():
            a = client.ask("GET", f"/v1/sessions/{s.id}/files", path=path)
            if a.status != 200 or a.body != text:
                raise Broken(f"session {s.id}: {path} should be {text!r}: {a}")
        self.check_log(client, s)

    def check_log(self, client, s):
        """No command ran twice, and those that say they did ran."""
        a = client.ask("POST", f"/v1/sessions/{s.id}/exec", {"command": "cat log 2>/dev/null || true"})
        if a.status != 200 or a.json["exit_code"] != 0:
            raise Broken(f"session {s.id}: {a}")
        log = a.json["stdout"].split()
        for e in s.execs:
            times = log.count(e.key)
            did = e.end and e.end.get("exit_code") == 0
            if times > 1 or (did and times != 1):
                raise Broken(f"session {s.id}: command {e.id} with key {e.key} ran {times} times: {e.end}")

    def check_exec(self, client, s, e, state):
        if not e.id:
            return
        path = f"/v1/sessions/{s.id}/execs/{e.id}"
        end = time.monotonic() + PATIENCE_S
        while True:
            a = client.ask("GET", path)
            if a.status != 200:
                raise Broken(f"command {e.id} of session {s.id}: {a}")
            if a.json["state"] == "exited":
                break
            if time.monotonic() > end:
                raise Broken(f"command {e.id} of session {s.id} ({state}) does not end: {a}")
            time.sleep(0.1)
        e.end = a.json
        text = {"stdout": "", "stderr": ""}
        for event in client.ask("GET", path + "/output", headers={"Accept": "application/x-ndjson"}).lines:
            if event["type"] == "gap":
                raise Broken(f"command {e.id} of session {s.id}: bytes are missing: {event}")
            if event["type"] in text:
                if event["offset"] != len(text[event["type"]]):
                    raise Broken(f"command {e.id} of session {s.id}: {event} at {len(text[event['type']])}")
                text[event["type"]] += event["data"]
        for name, seen in e.text.items():
            if not text[name].startswith(seen):
                raise Broken(f"command {e.id} of session {s.id}: a follower saw other bytes of {name}: {seen[-60:]!r}")
        is_whole = e.end.get("exit_code") == 0
        if not is_whole and not e.is_killed and not s.is_hit:
            raise Broken(f"command {e.id} of session {s.id}: nobody touched it: {e.end}")
        for name, seen in text.items():
            want = e.want(name)
            if seen != want if is_whole else not want.startswith(seen):
                raise Broken(f"command {e.id} of session {s.id}: {name} has {len(seen)} of {len(want)} bytes: ...{seen[-60:]!r} {e.end}")
        self.count("commands whole" if is_whole else "commands cut short")

    def cgroups_left(self):
        """Empty, of a number that nobody holds."""
        left = []
        for path in self.cgroups:
            if is_held(path.rsplit("/", 1)[1]):
                continue
            for top in ("", "unified", "memory", "pids", "cpu", "cpuset", "blkio"):
                procs = f"/sys/fs/cgroup/{top}{path}/cgroup.procs"
                with contextlib.suppress(OSError), open(procs, encoding="utf-8") as f:
                    if not f.read().strip():
                        left.append(procs)
        return left

    def close(self):
        """The end: everything is deleted, and nothing is left."""
        client = self.client()
        for name in self.rows():
            a = client.ask("DELETE", f"/v1/sessions/{name}")
            if a.status not in (204, 404):
                raise Broken(f"delete {name}: {a}")
        end = time.monotonic() + PATIENCE_S
        while True:
            wrong = self.strays({}) + [f"row {r}" for r in self.rows()]
            if not wrong:
                break
            if time.monotonic() > end:
                raise Broken("left at the end:\n" + "\n".join(wrong))
            time.sleep(0.2)
        server = self.server.process.pid
        self.server.stop()
        end = time.monotonic() + PATIENCE_S
        left = [p for p in below(processes(), {server}) if p != server]
        if left:
            raise Broken(f"left by the server: {left}")
        # the launcher takes back what those that were killed have left; who comes in between may have taken a number over
        while left := self.cgroups_left():
            if time.monotonic() > end:
                raise Broken(f"cgroups are left: {left}")
            self.server.cell("run", "--", "true", check=False)
            time.sleep(0.2)
        self.verify_audit()
        text = self.server.log()
        for bad in ("ERROR: AddressSanitizer", "runtime error:", "ERROR: LeakSanitizer", "WARNING: ThreadSanitizer"):
            if bad in text:
                raise Broken(text[-8000:])

    def abandon(self):
        """After a failure: leave the machine as it was."""
        self.is_over = True
        self.gate.set()
        if self.server.process:
            self.server.kill()
        for p in (self.server.state / "cells").glob("*"):
            self.server.cell("rm", "-f", p.name, check=False)


# ---- load ----


class Load(threading.Thread):
    def __init__(self, world, number):
        super().__init__(daemon=True)
        self.world, self.random = world, random.Random(world.random.random())
        self.client = world.client()
        self.mine = []
        self.idle = threading.Event()
        self.number = number

    def run(self):
        try:
            while not self.world.is_over:
                if not self.world.gate.is_set():
                    self.idle.set()
                    self.world.gate.wait(1)
                    continue
                self.idle.clear()
                self.step()
        except BaseException as e:  # noqa: BLE001  whatever it is, the test must tell
            self.world.errors.append(e)
        self.idle.set()

    def step(self):
        self.mine = [s for s in self.mine if not s.is_gone and not s.is_deleting and not s.is_hit]
        if len(self.mine) < 2:
            self.create()
            return
        s = self.random.choice(self.mine)
        what = self.random.choices([self.count_up, self.append, self.write, self.end], [6, 4, 3, 1])[0]
        what(s)

    def create(self):
        s = Session(str(uuid.uuid4()), self.random.choices(["session", "persistent", "ephemeral"], [6, 2, 2])[0])
        body = {"lifecycle": s.kind, "labels": {"load": str(self.number)}}
        a = self.client.ask("POST", "/v1/sessions", body, {"Idempotency-Key": s.key})
        if a.status != 201:
            # its guest was killed while it was being made, or right behind that: it says so
            if a.status in (410, 500, 502, 504) and a.json.get("message"):
                self.world.count("sessions not made")
                return
            raise Broken(f"create: {a}")
        s.id = a.json["id"]
        again = self.client.ask("POST", "/v1/sessions", body, {"Idempotency-Key": s.key})
        if again.status == 201 and again.json["id"] != s.id:
            raise Broken(f"one key made two sessions: {a} {again}")
        self.world.sessions.append(s)
        self.mine.append(s)
        self.world.count("sessions")

    def begin(self, s, e):
        """Two at once with the same key, now and then."""
        s.execs.append(e)
        body, head = {"command": e.command(), "background": True}, {"Idempotency-Key": e.key}
        twin = None
        if self.random.random() < 0.3:
            twin = threading.Thread(target=lambda: self.world.client().ask("POST", f"/v1/sessions/{s.id}/exec", body, head))
            twin.start()
        a = self.client.ask("POST", f"/v1/sessions/{s.id}/exec", body, head)
        if twin:
            twin.join()
        if a.status == 202:
            e.id = a.json["id"]
        elif a.status in (404, 410, 501) and (s.is_hit or s.is_deleting):
            s.execs.remove(e)
        elif a.status in (410,):
            # its guest may have been killed a moment ago: the killer notes it before it does it
            raise Broken(f"session {s.id} is gone and nobody touched it: {a}")
        else:
            raise Broken(f"exec in {s.id}: {a}")
        return a.status == 202

    def count_up(self, s):
        e = Exec(s, str(uuid.uuid4()), self.random.choice([1, 50, 200, 2000]), False)
        if self.begin(s, e) and self.random.random() < 0.7:
            self.follow(s, e)

    def append(self, s):
        if s.kind != "ephemeral":
            self.begin(s, Exec(s, str(uuid.uuid4()), 1, True))

    def follow(self, s, e):
        """From where it stands, over and over, until the end or for a while."""
        end = time.monotonic() + self.random.uniform(0.2, 4)
        while time.monotonic() < end and self.world.gate.is_set():
            connection = None
            try:
                connection = self.world.server.connect(timeout=5)
                at = {k: len(v) for k, v in e.text.items()}
                connection.request("GET", f"/v1/sessions/{s.id}/execs/{e.id}/output?stdout_offset={at['stdout']}"
                    f"&stderr_offset={at['stderr']}", headers=self.client.headers({"Accept": "application/x-ndjson"}))
                r = connection.getresponse()
                if r.status in (404, 410) and s.is_deleting:
                    return
                if r.status != 200:
                    raise Broken(f"follow {e.id} of {s.id}: {r.status} {r.read()}")
                while line := r.readline():
                    if not line.endswith(b"\n"):
                        break  # the server died in the middle of it
                    event = json.loads(line)
                    if event["type"] == "exit":
                        return
                    if event["type"] in e.text:
                        if event["offset"] != len(e.text[event["type"]]):
                            raise Broken(f"follow {e.id} of {s.id}: {event} at {len(e.text[event['type']])}")
                        e.text[event["type"]] += event["data"]
                    if time.monotonic() > end:
                        return
            except (http.client.HTTPException, OSError, socket.timeout):
                time.sleep(0.05)
            finally:
                if connection:
                    connection.close()

    def write(self, s):
        if s.kind == "ephemeral":
            return
        path, text = f"f{self.random.randrange(5)}", os.urandom(self.random.choice([10, 5000, 200000])).hex().encode()
        a = self.client.ask("PUT", f"/v1/sessions/{s.id}/files", text, path=path)
        if a.status // 100 == 2:
            s.files[path] = text
        elif not s.is_hit:
            raise Broken(f"write {path} in {s.id}: {a}")

    def end(self, s):
        s.is_deleting = True
        a = self.client.ask("DELETE", f"/v1/sessions/{s.id}")
        if a.status not in (204, 404):
            raise Broken(f"delete {s.id}: {a}")
        self.world.count("sessions ended")


# ---- the killer ----


class Killer:
    def __init__(self, world):
        self.world, self.random = world, world.random

    def strike(self):
        what, weight = zip(*[(self.server, 6), (self.server_twice, 2), (self.stop, 1), (self.launcher, 3), (self.server_and_launcher, 2),
            (self.guest, 3), (self.command, 3), (self.keeper, 1)])
        chosen = self.random.choices(what, weight)[0]
        chosen()
        self.world.count("killed: " + chosen.__name__.replace("_", " "))
        return chosen.__name__

    def server(self):
        self.world.server.kill()
        time.sleep(self.random.choice([0, 0, 0.1, 0.5]))
        self.world.server.start()

    def server_twice(self):
        """Once more while it recovers."""
        world = self.world.server
        world.kill()
        for _ in range(self.random.choice([1, 2, 4])):
            with world.log_path.open("ab") as log:
                p = subprocess.Popen([CELL, "--config", world.config, "serve", "--listen", f"unix:{world.socket}", "--listen", "127.0.0.1:0"],
                    env=world.env, stdout=log, stderr=log, cwd=world.dir)
            time.sleep(self.random.uniform(0, 0.15))
            p.kill()
            p.wait()
        world.start()

    def stop(self):
        self.world.server.stop()
        self.world.server.start()

    def launchers(self):
        pids = self.world.family()
        return [p for p, (_, line) in pids.items() if line.split(" ")[0].rpartition("/")[2] == "cell-launcher"]

    def launcher(self):
        for p in self.launchers():
            kill(p)

    def server_and_launcher(self):
        pids = self.launchers()
        self.world.server.process.kill()
        for p in pids:
            kill(p)
        self.world.server.kill()
        self.world.server.start()

    def a_guest(self, is_keeper):
        """One that is the first of its cell, or one of its keepers."""
        pids = self.world.family()
        found = []
        for p, (parent, line) in pids.items():
            name = cell_of(line)
            if name and (cell_of(pids.get(parent, (0, ""))[1]) == name) == is_keeper:
                found.append((p, name.split(".")[0]))
        return self.random.choice(sorted(found)) if found else (None, None)

    def hit(self, name):
        for s in list(self.world.sessions):
            if s.id == name:
                s.is_hit = True
                return True
        return False  # its client does not know of it yet: it would not know why it is gone

    def guest(self):
        p, name = self.a_guest(False)
        if p and self.hit(name):
            kill(p)

    def keeper(self):
        p, name = self.a_guest(True)
        if p and self.hit(name):
            kill(p)

    def command(self):
        pids = self.world.family()
        found = [(p, cell_of(pids[parent][1]).split(".")[0]) for p, (parent, line) in pids.items()
            if not cell_of(line) and parent in pids and cell_of(pids[parent][1])]
        if not found:
            return
        p, name = self.random.choice(sorted(found))
        for s in list(self.world.sessions):
            if s.id == name:
                for e in s.execs:
                    e.is_killed = True
                kill(p)


def rounds(world, n, clients):
    """n times: load, somebody dies, everybody stops, everything is looked at."""
    loads = [Load(world, i) for i in range(clients)]
    for load in loads:
        load.start()
    killer = Killer(world)
    for number in range(n):
        world.gate.set()
        for _ in range(world.random.choice([1, 1, 2, 3])):
            time.sleep(world.random.uniform(0, 0.8))
            killer.strike()
        time.sleep(world.random.uniform(0, 0.5))
        world.gate.clear()
        for load in loads:
            load.idle.wait(2 * PATIENCE_S)
        if world.errors:
            raise Broken(f"round {number}") from world.errors[0]
        try:
            world.check()
        except Broken as e:
            raise Broken(f"round {number}: {e}") from e
        if number % 10 == 9:
            print(f"round {number + 1}: {world.counts}", flush=True)
    world.is_over = True
    world.gate.set()
    for load in loads:
        load.join(2 * PATIENCE_S)
