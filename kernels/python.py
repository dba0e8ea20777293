# SPDX-License-Identifier: Apache-2.0
# The Python kernel of a cell: runs code piece by piece in one interpreter that remembers, Python 3.8 and later.
#
# The guest starts it as   python3 -c BOOT   with its control socket at fd 3 and this text at fd 4. BOOT is
#
#   import os;T=os.pread(4,os.fstat(4).st_size,0);exec(compile(T[:T.find(b"\n#: part ")],"<cell>","exec"),{"__name__":"cell","T":T})
#
# so only what stands above the first line that begins with "#: part" is compiled at the start. It imports nothing
# but what every interpreter has loaded anyway: start-up and memory are what a parked or a first run pays for. The
# parts below are compiled when first needed, by part().
#
# Interrupts: the handler of SIGINT raises KeyboardInterrupt only where the code of the user, or a call of ours that
# may be cut off there, is what is interrupted (see on_interrupt). Everywhere else it is remembered, and raised when
# the user's code goes on. The code may have signal handlers of its own that raise, so what must not be torn, reading
# from and writing to the control socket, keeps its state in lists that change in one step (list.extend of a map).
import _signal
import _thread
import builtins
import io
import os
import sys
from time import monotonic

FROM_GUEST = (3,)
PLAIN = (int, float, bool, complex, str, bytes)
SOURCES_MAX = 4000  # pieces of code whose text is kept for tracebacks and inspect
main_module = sys.modules["__main__"]
user = main_module.__dict__
here = globals()
lock = _thread.RLock()
main_thread = _thread.get_ident()

is_running = False  # a run is under way
is_child = False  # after a fork: the control socket is the parent's
is_idle = True
may_ask = False  # input() has somebody to ask
pending = False  # an interrupt that waits for the user's code to go on
count = 0
sources = {}  # name of a piece of code -> its text
future = 0  # flags of `from __future__ import`, which hold for later runs, too
last_value = None


# ---- parts compiled when needed ----

offsets = {}


def find_parts(text):
    at = text.find(b"\n#: part ")
    while at >= 0:
        end = text.index(b"\n", at + 1)
        following = text.find(b"\n#: part ", end)
        offsets[text[at + 9 : end].decode()] = (end, following if following >= 0 else len(text))
        at = following


def part(name):
    where = offsets.pop(name, None)
    if where:
        text = here["T"]
        lines = b"\n" * text.count(b"\n", 0, where[0])
        exec(compile(lines + text[where[0] : where[1]], "<cell>", "exec"), here)


# ---- the control socket ----

chunks = []  # read and not yet taken
unsent = []  # a frame, then how many bytes went out, write by write


def take():
    """The next message: its words and its payload. None at the end."""
    while True:
        if chunks:
            data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
            end = data.find(b"\n")
            if end >= 0:
                words = data[:end].split(b" ")
                stop = end + 1 + int(words[-1])
                if len(data) >= stop:
                    payload = data[end + 1 : stop]
                    chunks[:] = [data[stop:]] if len(data) > stop else []
                    return words, payload
                chunks[:] = [data]
                have = len(data)
                while have < stop:
                    chunks.extend(map(os.read, FROM_GUEST, (1 << 20,)))
                    if not chunks[-1]:
                        return None
                    have += len(chunks[-1])
                continue
        chunks.extend(map(os.read, FROM_GUEST, (65536,)))
        if not chunks[-1]:
            return None


def send(head, payload=b""):
    if is_child:
        return
    frame = b"%s %d\n%s" % (head, len(payload), payload)
    with lock:
        while unsent:
            push()
        unsent.append(frame)
        while unsent:
            push()


def push():
    frame = unsent[0]
    gone = sum(unsent[1:])
    if gone >= len(frame):
        unsent.clear()
        return
    rest = memoryview(frame)[gone:] if gone else frame
    unsent.extend(map(os.write, FROM_GUEST, (rest,)))
    if sum(unsent[1:]) >= len(frame):
        unsent.clear()


try:
    from _json import encode_basestring as quote
except ImportError:
    from json.encoder import py_encode_basestring as quote


def utf8(text):
    """What cannot be said in UTF-8 (lone surrogates) is shown as an escape."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


def json_text(v):
    """JSON of plain things, without the json module."""
    t = type(v)
    if t is str:
        try:
            v.encode()
        except UnicodeEncodeError:
            v = utf8(v).decode()
        return quote(v)
    if v is None:
        return "null"
    if t is bool:
        return "true" if v else "false"
    if t is int:
        return repr(v)
    if t is dict:
        return "{%s}" % ", ".join(["%s: %s" % (json_text(str(k)), json_text(x)) for k, x in v.items()])
    if t is list or t is tuple:
        return "[%s]" % ", ".join(map(json_text, v))
    part("json")
    return json_any(v)


def event(kind, v):
    """Something to see: what was printed before must be on its way first."""
    flush_streams()
    send(kind, json_text(v).encode())


# ---- stdout and stderr ----
#
# Lines go out as they are written, until they are many; then, and for what is no whole line, a thread of ours
# flushes some fifty times a second. At most one of the streams holds something back: whoever writes to another one
# than before flushes the former, and where the file differs tells the guest (mark), which reads both empty. So the
# order of the two is exact.

BURST = 32  # lines written at once within TICK_S
TICK_S = 0.004
POLL_S = 0.02
current = None  # what was written to last in this run
burst_from = 0.0
burst = 0
is_polling = False
poll_lock = None
text_write = io.TextIOWrapper.write
bytes_write = io.BufferedWriter.write


def switch(stream):
    global current
    old, current = current, stream
    if old is None:
        return
    try:
        old.flush()
    except (OSError, ValueError):
        pass
    if old.fd != stream.fd and is_running and not is_child and lock.acquire(False):
        try:
            send(b"mark")
            while True:
                message = take()
                if message is None or message[0][0] == b"ok":
                    break
        finally:
            lock.release()


def is_quiet():
    """Whether this line may be written at once."""
    global burst, burst_from
    now = monotonic()
    if now - burst_from > TICK_S:
        burst_from, burst = now, 0
    burst += 1
    return burst < BURST


def poll_start():
    """Sees to it that what is held back goes out soon."""
    global is_polling, poll_lock
    if is_child:
        current.flush()
        return
    is_polling = True
    if poll_lock is None:
        poll_lock = _thread.allocate_lock()
        poll_lock.acquire()
        try:
            _thread.start_new_thread(poll, (poll_lock,))
        except RuntimeError:  # no thread to be had: write at once
            poll_lock, is_polling = None, False
            current.flush()
    else:
        try:
            poll_lock.release()
        except RuntimeError:
            pass


def poll(mine):
    global is_polling
    while True:
        idle = 0
        while idle < 5:
            mine.acquire(True, POLL_S)
            idle = 0 if is_running else idle + 1
            flush_streams()
        is_polling = False
        flush_streams()
        mine.acquire()


def flush_streams():
    try:
        if current is not None:
            current.flush()
    except (OSError, ValueError, AttributeError):
        pass


class Bytes(io.BufferedWriter):
    def write(self, b):
        if current is not self:
            switch(self)
        n = bytes_write(self, b)
        if is_quiet():
            self.flush()
        elif not is_polling:
            poll_start()
        if pending:
            raise_pending()
        return n


class Text(io.TextIOWrapper):
    def __init__(self, fd, name):
        raw = io.FileIO(fd, "wb", closefd=False)
        raw.name = name
        super().__init__(io.BufferedWriter(raw, 65536), "utf-8", "backslashreplace", "\n")
        self.fd = fd
        self.mode = "w"
        self.binary = None

    @property
    def buffer(self):
        if self.binary is None:
            self.binary = Bytes(super().buffer.raw, 65536)
            self.binary.fd = self.fd
        return self.binary

    def write(self, s):
        if current is not self:
            switch(self)
        n = text_write(self, s)
        if s[-1:] == "\n" and is_quiet():
            self.flush()
        elif not is_polling:
            poll_start()
        if pending:
            raise_pending()
        return n

    def close(self):
        if self.binary is not None:
            self.binary.flush()
        super().close()


MAY_CUT = {Text.write.__code__, Bytes.write.__code__, flush_streams.__code__, switch.__code__}


def open_streams():
    """Stdout and stderr as a run finds them: what the code closed is open again; what it put there stays."""
    global current
    current = None
    for fd, name in ((1, "stdout"), (2, "stderr")):
        try:
            os.fstat(fd)
        except OSError:
            os.dup2(spare[fd], fd)
        ours = streams.get(name)
        if ours is None or is_closed(ours):
            theirs = streams[name] = Text(fd, "<%s>" % name)
            for attribute in (name, "__%s__" % name):
                if getattr(sys, attribute, None) is ours or ours is None:
                    setattr(sys, attribute, theirs)
        now = getattr(sys, name, None)
        if now is not streams[name] and (now is None or isinstance(now, io.IOBase) and is_closed(now)):
            setattr(sys, name, streams[name])


def is_closed(stream):
    try:
        return stream.closed
    except ValueError:  # detached
        return True


streams = {}
spare = {}


# ---- interrupts ----


def on_interrupt(_number, frame):
    global pending
    ours = frame is None or frame.f_code.co_filename == "<cell>"
    if is_idle:
        # Between runs: meant for the run that is over, unless one is waiting to be read.
        import select

        if chunks or select.select(FROM_GUEST, (), (), 0)[0]:
            pending = True
            if not ours:  # a task of an event loop keeps us from reading it
                raise KeyboardInterrupt
    elif ours and frame.f_code not in MAY_CUT:
        pending = True
    else:
        raise KeyboardInterrupt


def raise_pending():
    global pending
    if _thread.get_ident() == main_thread and not is_idle:
        pending = False
        raise KeyboardInterrupt


# ---- forks ----


def before_fork():
    flush_streams()
    lock.acquire()


def after_fork():
    lock.release()


def after_fork_child():
    global is_child, is_polling, poll_lock, lock, main_thread
    is_child, is_polling, poll_lock = True, False, None
    lock = _thread.RLock()
    main_thread = _thread.get_ident()


def leave_child(status):
    """A fork of the user's that came back to us has nothing to do here."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass
    os._exit(status)


# ---- running code ----


def run(text, flags):
    """One piece of code, to its `done`."""
    global is_running, is_idle, may_ask, pending, user_trace, user_interrupt
    open_streams()
    may_ask = "i" in flags
    problem = None
    status = b"ok"
    if user_interrupt is not None:
        _signal.signal(_signal.SIGINT, user_interrupt)
    is_running, is_idle = True, False
    try:
        try:
            if pending:
                pending = False
                raise KeyboardInterrupt
            value, is_shown = execute(text)
            if is_shown:
                part("display")
                show_result(value)
        except BaseException as e:
            problem = e
        if is_child:
            leave_child(child_status(problem))
        if problem is not None:
            status = b"error"
            if user_trace is None:
                user_trace = sys.gettrace()
            sys.settrace(None)
            part("errors")
            try:
                report(problem)
            except BaseException as e:
                problem = e
                report_plainly(problem)
    finally:
        problem = value = None
        finish(status)


user_trace = None
user_interrupt = None


def child_status(problem):
    if problem is None:
        return 0
    if isinstance(problem, SystemExit):
        code = problem.code
        if code is None or isinstance(code, int):
            return (code or 0) & 255
        print(code, file=sys.stderr)
        return 1
    try:
        part("errors")
        print("\n".join(explain(problem)[2]), file=sys.stderr)
    except BaseException:
        pass
    return 1


def finish(status):
    """The end of a run, whatever came before."""
    global is_running, is_idle, user_interrupt, pending
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        if stream is not streams[name]:
            try:
                stream.flush()
            except BaseException:
                pass
    flush_streams()
    handler = _signal.getsignal(_signal.SIGINT)
    if handler is not on_interrupt:
        user_interrupt = handler
        _signal.signal(_signal.SIGINT, on_interrupt)
    else:
        user_interrupt = None
    pending = False
    is_running, is_idle = False, True
    send(b"done " + status)


def execute(text):
    """(value, whether to show it) of the last statement."""
    global future
    name = "Cell In[%d]" % count
    remember(name, text)
    flags = 0x2000 | future  # await at the top level
    try:
        tree = compile(text, name, "exec", flags | 0x400, True)
    except SyntaxError as e:
        part("magic")
        tree = compile_magic(text, name, flags, e)
    if "__future__" in text:
        part("magic")
        future |= future_flags(tree, name)
        flags |= future
    body = tree.body
    if not body:
        return None, False
    last = None
    if type(body[-1]).__name__ == "Expr":
        last = compile(Expression(body.pop().value), name, "eval", flags, True)
    first = compile(tree, name, "exec", flags, True) if body else None
    if (last is not None and last.co_flags & 0x80) or (first is not None and first.co_flags & 0x80):
        part("await")
        value = run_async(first, last)
    else:
        if first is not None:
            exec(first, user)
        if last is None:
            return None, False
        value = eval(last, user)
    if last is None or value is None or (";" in text and is_silenced(text)):
        return None, False
    return value, True


def is_silenced(text):
    part("magic")
    return ends_in_semicolon(text)


def remember(name, text):
    sources[name] = text
    if len(sources) > SOURCES_MAX:
        del sources[next(iter(sources))]
    cache = sys.modules.get("linecache")
    if cache is not None:
        add_lines(cache, name, text)


def add_lines(cache, name, text):
    try:
        cache.cache[name] = (len(text), None, text.splitlines(True), name)
    except (AttributeError, TypeError):
        pass


def report_plainly(problem):
    """When there is not even room to say what went wrong."""
    event(b"error", {"name": type(problem).__name__, "message": "", "traceback": []})


# ---- input() ----


def ask_user(prompt, is_secret):
    flush_streams()
    if is_child or not may_ask:
        raise EOFError("EOF when reading a line")
    import select

    with lock:
        send(b"input", json_text({"prompt": prompt, "password": is_secret}).encode())
        while True:
            if not chunks:
                wait_readable(select)
            message = take()
            if message is None:
                raise EOFError("EOF when reading a line")
            if message[0][0] == b"input":
                return message[1].decode("utf-8", "surrogateescape")
            if message[0][0] == b"eof":
                raise EOFError("EOF when reading a line")


def wait_readable(select):
    if pending:
        raise_pending()
    select.select(FROM_GUEST, (), ())


MAY_CUT.add(wait_readable.__code__)


def input(prompt="", /):
    """Read a line from the client. EOFError when there is nobody to ask or no more to come."""
    return ask_user(str(prompt), False)


class Quitter:
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return "Use %s() to raise SystemExit" % self.name

    def __call__(self, code=None):
        raise SystemExit(code)


# ---- the loop ----


def begin(payload):
    part("begin")
    begin_with(payload)


def wait():
    """The next message, while tasks of the user's event loop, if there are any, go on."""
    if "asyncio" in sys.modules and not chunks:
        part("await")
        run_tasks()
    return take()


def serve():
    global count, pending
    while True:
        with lock:
            message = wait()
        if is_child:
            leave_child(0)
        if message is None:
            return
        words, payload = message
        kind = words[0]
        if kind == b"run":
            count = int(words[1])
            run(payload.decode("utf-8", "surrogateescape"), words[2].decode())
        elif kind == b"ask":
            part("ask")
            ask(words[1], payload)
        elif kind == b"begin":
            begin(payload)
        message = words = payload = None


def start():
    global Expression, T
    from _ast import Expression

    find_parts(T)
    for fd in (3, 4):
        os.set_inheritable(fd, False)
    import fcntl

    for fd in (1, 2):
        spare[fd] = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 200)
    os.close(4)
    for name in [n for n in user if not n.startswith("__")]:
        del user[name]
    sys.argv = [""]
    builtins.input = input
    for name in ("exit", "quit"):
        setattr(builtins, name, Quitter(name))
    open_streams()
    os.register_at_fork(before=before_fork, after_in_parent=after_fork, after_in_child=after_fork_child)
    _signal.signal(_signal.SIGINT, on_interrupt)
    while True:
        try:
            serve()
            break
        except BrokenPipeError:
            break
        except BaseException as e:  # a handler of the user's that raises while we are at work
            if is_child:
                leave_child(1)
            if isinstance(e, (OSError, ValueError, SystemError, MemoryError)):
                os.write(2, ("cell: the kernel fails: %s: %s\n" % (type(e).__name__, e)).encode())
                os._exit(70)


start()

#: part json
def json_any(v):
    import json

    return json.dumps(v, ensure_ascii=False, allow_nan=False, default=str)


#: part begin
def begin_with(payload):
    """cwd, environment and modules of a new context; also later, for an interpreter that waited for its user."""
    failed = {}
    preload = []
    for line in payload.decode("utf-8", "surrogateescape").split("\n"):
        key, _, value = line.partition("=")
        value = unquote(value)
        if key == "cwd":
            os.chdir(value)
        elif key.startswith("env."):
            os.environ[key[4:]] = value
        elif key == "preload":
            preload += [name for name in value.split(",") if name]
    for name in preload:
        try:
            __import__(name)
        except BaseException as e:
            failed[name] = "%s: %s" % (type(e).__name__, e)
    version = sys.version_info
    about = {
        "language": "python",
        "version": "%d.%d.%d" % version[:3],
        "implementation": sys.implementation.name,
        "executable": sys.executable,
    }
    if failed:
        about["preload_failed"] = failed
    event(b"ready", about)


def unquote(text):
    if "%" not in text:
        return text
    pieces = text.encode("utf-8", "surrogateescape").split(b"%")
    return os.fsdecode(pieces[0] + b"".join(bytes([int(p[:2], 16)]) + p[2:] for p in pieces[1:]))


#: part display
def show_result(value):
    global last_value
    if type(value) in PLAIN:
        data = {"text/plain": repr(value)}
    else:
        data = {"text/plain": repr(value)}
    last_value = builtins._ = value
    event(b"result", {"data": data, "metadata": {}})


#: part errors
def report(problem):
    name, message, lines = explain(problem)
    event(b"error", {"name": name, "message": message, "traceback": lines})


def explain(e):
    """(name, message, lines) of an exception. Our own frames are not shown."""
    name = type(e).__name__
    try:
        message = str(e)
    except BaseException:
        message = "<exception str() failed>"
    lines = ["Traceback (most recent call last):"]
    tb = e.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        if code.co_filename != "<cell>":
            where = "  %s, line %d" % (code.co_filename, tb.tb_lineno)
            lines.append(where + (", in " + code.co_name if code.co_name != "<module>" else ""))
            text = sources.get(code.co_filename)
            if text is not None:
                all_lines = text.split("\n")
                if tb.tb_lineno <= len(all_lines):
                    lines.append("    " + all_lines[tb.tb_lineno - 1].strip())
        tb = tb.tb_next
    lines.append(name + (": " + message if message else ""))
    return name, message, lines


#: part magic
def compile_magic(text, name, flags, problem):
    raise problem.with_traceback(None)


def future_flags(tree, name):
    import __future__

    found = 0
    for node in tree.body:
        if type(node).__name__ == "ImportFrom" and node.module == "__future__":
            for alias in node.names:
                found |= getattr(__future__, alias.name).compiler_flag
    return found


def ends_in_semicolon(text):
    import tokenize

    last = None
    skipped = (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.ENDMARKER, tokenize.DEDENT, tokenize.INDENT)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped:
            last = token
    return last is not None and last.string == ";"


#: part await
kept_loop = None


def run_async(first, last):
    import asyncio

    global kept_loop
    if kept_loop is None or kept_loop.is_closed():
        kept_loop = asyncio.new_event_loop()
    asyncio.set_event_loop(kept_loop)

    async def both():
        if first is not None:
            v = eval(first, user)
            if first.co_flags & 0x80:
                await v
        if last is not None:
            v = eval(last, user)
            return await v if last.co_flags & 0x80 else v

    return kept_loop.run_until_complete(both())


def run_tasks():
    pass


#: part ask
def ask(what, payload):
    send(b"answer", b'{"error": "not yet"}')
    send(b"done ok")
