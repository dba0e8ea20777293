# SPDX-License-Identifier: Apache-2.0
"""Starts a kernel's driver as the guest does, and speaks its protocol: control socket at fd 3, the driver's text in a memfd at fd 4,
pipes for stdout and stderr, stdin /dev/null, a process group of its own. So a driver is tested without the guest, exactly."""

import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import termios
import time
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
PATIENCE_S = 60
BOOT = (
    'import os;T=os.pread(4,os.fstat(4).st_size,0);exec(compile(T[:T.find(b"\\n#: part ")],"<cell>","exec"),'
    '{"__name__":"cell","T":T})'
)


class Died(Exception):
    """The interpreter ended; `status` as of Popen."""

    def __init__(self, status, events):
        super().__init__(f"the interpreter ended with {status}; events {events!r}")
        self.status, self.events = status, events


class Broken(Exception):
    """What came from the driver is not the protocol."""


class Result:
    """The events of one run, in order: ("stdout", bytes), ("stderr", bytes), (kind, JSON value)..."""

    def __init__(self, events, status, code, late):
        self.events, self.status, self.code, self.late = events, status, code, late

    def stream(self, name):
        return b"".join(v for kind, v in self.events if kind == name)

    @property
    def out(self):
        return self.stream("stdout").decode()

    @property
    def err(self):
        return self.stream("stderr").decode()

    def all(self, kind):
        return [v for k, v in self.events if k == kind]

    def one(self, kind):
        found = self.all(kind)
        assert len(found) <= 1, found
        return found[0] if found else None

    @property
    def data(self):
        result = self.one("result")
        return result and result["data"]

    @property
    def value(self):
        return self.data and self.data["text/plain"]

    @property
    def error(self):
        return self.one("error")

    @property
    def displays(self):
        return self.all("display")

    @property
    def merged(self):
        """Streams as they came, runs of one stream joined."""
        found = []
        for kind, v in self.events:
            if kind in ("stdout", "stderr"):
                if found and found[-1][0] == kind:
                    found[-1] = (kind, found[-1][1] + v)
                else:
                    found.append((kind, v))
        return found

    def __repr__(self):
        return f"<{self.status} {self.events!r}>"


class Driver:
    def __init__(self, python="/usr/bin/python3", driver=TOP / "kernels" / "python.py", env=None, cwd=None, begin=None, argv=None):
        self.count = 0
        self.inbox = b""
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        text = os.memfd_create("driver")
        os.write(text, Path(driver).read_bytes())
        out_r, out_w = os.pipe()
        err_r, err_w = os.pipe()
        # Above what fd 3 and 4 will be, so that nothing is overwritten on the way.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 50) for fd in (theirs.fileno(), text)]

        def place():
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored in what was started in the background, and bash keeps it so
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)
            os.set_inheritable(3, True)
            os.set_inheritable(4, True)

        self.process = subprocess.Popen(
            argv or [python, "-c", BOOT], stdin=subprocess.DEVNULL, stdout=out_w, stderr=err_w, preexec_fn=place,
            close_fds=False, start_new_session=True, env=env, cwd=cwd,
        )
        for fd in (*high, out_w, err_w, text):
            os.close(fd)
        theirs.close()
        self.pipes = {out_r: "stdout", err_r: "stderr"}
        for fd in self.pipes:
            os.set_blocking(fd, False)
        self.late = []
        self.tell("begin", (begin or "").encode())
        self.ready = None
        events = self.until(("ready",))
        self.ready = events[-1][1]

    # ---- sending ----

    def tell(self, head, payload=b""):
        self.control.sendall(f"{head} {len(payload)}\n".encode() + payload)

    def interrupt(self):
        """As the guest does: when the driver has read what was sent to it."""
        deadline = time.monotonic() + PATIENCE_S
        while struct.unpack("i", fcntl.ioctl(self.control, termios.TIOCOUTQ, b"    "))[0] and time.monotonic() < deadline:
            time.sleep(0.0001)
        os.killpg(self.process.pid, signal.SIGINT)

    # ---- receiving ----

    def drain(self, events):
        """Both pipes empty, as the guest does."""
        got = False
        for fd, name in self.pipes.items():
            while True:
                try:
                    data = os.read(fd, 1 << 20)
                except BlockingIOError:
                    break
                if not data:
                    break
                events.append((name, data))
                got = True
        return got

    def message(self):
        """One whole message of what was received, or None."""
        end = self.inbox.find(b"\n")
        if end < 0:
            if len(self.inbox) > 200:
                raise Broken(f"header {self.inbox[:200]!r}")
            return None
        words = self.inbox[:end].decode().split(" ")
        if end > 200 or len(words) < 2 or not words[-1].isdigit():
            raise Broken(f"header {self.inbox[:200]!r}")
        stop = end + 1 + int(words[-1])
        if len(self.inbox) < stop:
            return None
        payload, self.inbox = self.inbox[end + 1 : stop], self.inbox[stop:]
        return words, payload

    def until(self, kinds, answers=(), on_event=None, patience_s=PATIENCE_S):
        """Events up to the first of one of these kinds, which is the last of them."""
        events, answers = [], list(answers)
        deadline = time.monotonic() + patience_s
        while True:
            m = self.message()
            if m is None:
                left = deadline - time.monotonic()
                if left < 0:
                    raise TimeoutError(f"no {kinds} within {patience_s} s; so far {events!r}"[:4000])
                ready = select.select([self.control, *self.pipes], [], [], left)[0]
                before = len(events)
                for fd in ready:
                    if fd is not self.control:
                        try:
                            data = os.read(fd, 1 << 20)
                        except BlockingIOError:
                            continue
                        if data:
                            events.append((self.pipes[fd], data))
                if self.control in ready:
                    try:
                        data = self.control.recv(1 << 20)
                    except ConnectionResetError:
                        data = b""
                    if not data:
                        self.drain(events)
                        raise Died(self.process.wait(PATIENCE_S), events)
                    self.inbox += data
                if on_event:
                    for e in events[before:]:
                        on_event(e)
                continue
            words, payload = m
            before = len(events)
            self.drain(events)
            kind = words[0]
            if kind == "mark":
                self.tell("ok")
            elif kind == "done":
                events.append(("done", (words[1], payload)))
            elif kind in ("display", "result", "error", "clear", "input", "answer", "ready"):
                events.append((kind, json.loads(payload)))
                if kind == "input" and kind not in kinds:
                    answer = answers.pop(0) if answers else None
                    if answer is None:
                        self.tell("eof")
                    else:
                        self.tell("input", answer.encode())
            else:
                raise Broken(f"message {words!r}")
            if on_event:
                for e in events[before:]:
                    on_event(e)
            if kind in kinds:
                return events

    def late_output(self):
        late = []
        self.drain(late)
        return late

    def start(self, code, flags="-"):
        self.count += 1
        self.tell(f"run {self.count} {flags}", code if isinstance(code, bytes) else code.encode("utf-8", "surrogatepass"))

    def finish(self, late=(), **how):
        events = self.until(("done",), **how)
        status, code = events.pop()[1]
        return Result(events, status, code, late)

    def run(self, code, answers=None, **how):
        late = self.late_output()
        self.start(code, "-" if answers is None else "i")
        return self.finish(late, answers=answers or (), **how)

    def ask(self, what, payload=""):
        self.tell(f"ask {what}", payload.encode())
        return self.finish().one("answer")

    def close(self):
        self.control.close()
        try:
            self.process.wait(0.5)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        for fd in self.pipes:
            os.close(fd)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
