# SPDX-License-Identifier: Apache-2.0
# The Python kernel of a cell: runs code piece by piece in one interpreter that remembers, Python 3.8 and later.
#
# The guest starts it as   python3 -c BOOT   with its control socket at fd 3 and this text at fd 4. BOOT is
#
#   import os;T=os.pread(4,os.fstat(4).st_size,0);exec(compile(T[:T.find(b"\n#: part ")],"<cell>","exec"),{"__name__":"cell","T":T})
#
# so only what stands above the first line that begins with "#: part" is compiled by it. The parts below are compiled
# by part(): those of the core at once, one by one, since compiling takes memory by the length of the text; the others
# when they are first needed. The core imports nothing but what every interpreter has loaded anyway: start-up and
# memory are what each context pays for.
#
# Interrupts: the handler of SIGINT raises KeyboardInterrupt only where the code of the user, or a call of ours that
# may be cut off there, is what is interrupted (see on_interrupt). Everywhere else it is remembered, and raised when
# the user's code goes on. The code may have signal handlers of its own that raise, so what must not be torn, reading
# from and writing to the control socket, keeps its state in lists that change in one step (list.extend of a map).
here = globals()
offsets = {}  # where each part is in the text


def find_parts(text):
    at = text.find(b"\n#: part ")
    while at >= 0:
        end = text.index(b"\n", at + 1)
        following = text.find(b"\n#: part ", end)
        offsets[text[at + 9 : end].decode()] = (end, following if following >= 0 else len(text))
        at = following


def part(name):
    where = offsets.get(name)
    if where is not None:
        text = here["T"]
        lines = b"\n" * text.count(b"\n", 0, where[0])
        exec(compile(lines + text[where[0] : where[1]], "<cell>", "exec"), here)
        offsets.pop(name, None)  # only now: a handler of the user's may have raised before


find_parts(here["T"])
for name in ("base", "control", "streams", "running", "stubs", "imports", "loop"):
    part(name)
start()


#: part base
import _signal
import _thread
import builtins
import io
import os
import sys
from time import monotonic, sleep

FROM_GUEST = (3,)
PLAIN = (int, float, bool, complex, str, bytes)
SOURCES_MAX = 4000  # pieces of code whose text is kept for tracebacks and inspect
main_module = sys.modules["__main__"]
user = main_module.__dict__
lock = _thread.RLock()
main_thread = _thread.get_ident()

is_running = False  # a run is under way
is_child = False  # after a fork: the control socket is the parent's
is_idle = True
may_ask = False  # input() has somebody to ask
is_asking = False  # and does: what comes from the guest is the answer
pending = False  # an interrupt that waits for the user's code to go on
count = 0
async_task = None  # of a run with await at its top level
modules_seen = len(sys.modules)
native_flush = None  # of C's stdio, when there is foreign C code that may use it
sources = {}  # name of a piece of code -> its text
future = 0  # flags of `from __future__ import`, which hold for later runs, too
last_value = None


#: part control
chunks = [None]  # the message that is being looked at, then what was read and is not yet taken
unsent = []  # a frame, then how many bytes went out, write by write
held = []  # the frame of a run's value: it goes out with the next one, which is `done` at once. Two would wake the guest twice


def take():
    """The next message: its words and its payload. False at the end. The same again until taken() is called."""
    while chunks[0] is None:
        if len(chunks) > 1:
            data = chunks[1] if len(chunks) == 2 else b"".join(chunks[1:])
            end = data.find(b"\n")
            if end >= 0:
                words = data[:end].split(b" ")
                stop = end + 1 + int(words[-1])
                have = len(data)
                if have >= stop:
                    message = words, data[end + 1 : stop]
                    chunks[:] = [message, data[stop:]] if have > stop else [message]
                    break
                chunks[:] = [None, data]
                while have < stop:
                    chunks.extend(map(os.read, FROM_GUEST, (1 << 20,)))
                    if not chunks[-1]:
                        return False
                    have += len(chunks[-1])
                continue
        chunks.extend(map(os.read, FROM_GUEST, (65536,)))
        if not chunks[-1]:
            return False
    return chunks[0]


def taken():
    chunks[0] = None


def send(head, payload=b""):
    if is_child:
        return
    frame = b"%s %d\n%s" % (head, len(payload), payload)
    with lock:
        while unsent or held:
            push()
        unsent.append(frame)
        while unsent:
            push()


def push():
    if not unsent:
        unsent.extend(map(list.pop, (held,)))  # never in none of both
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
        if "\0" in v:  # many who read JSON have no NUL
            v = v.replace("\0", "\u2400")
        return quote(v)
    if v is None:
        return "null"
    if t is bool:
        return "true" if v else "false"
    if t is int:
        return repr(v)
    if t is float:
        return repr(v) if v - v == 0 else "null"  # JSON has no NaN, no infinity
    if t is dict:
        return "{%s}" % ", ".join(["%s: %s" % (json_text(str(k)), json_text(x)) for k, x in v.items()])
    if t is list or t is tuple:
        return "[%s]" % ", ".join(map(json_text, v))
    part("json")
    return json_any(v)


def event(kind, v):
    """Something to see: what was printed before must be on its way first."""
    global current
    flush_streams()
    send(kind, json_text(v).encode())
    current = after_event


def hold_result(v):
    """The last event of a run, unless something goes wrong yet."""
    global current
    flush_streams()
    payload = json_text(v).encode()
    if len(payload) > 4096:
        send(b"result", payload)
    elif not is_child:
        held.append(b"result %d\n%s" % (len(payload), payload))
    current = after_event


def display(*objects, **how):
    """Show objects as they show best: HTML, pictures, text. With display_id it can be updated later."""
    part("display")
    return show(objects, **how)


#: part streams
#
# Lines go out as they are written, until they are many; then, and for what is no whole line, a thread of ours
# flushes some fifty times a second. At most one of the streams holds something back: whoever writes to another one
# than before flushes the former, and where the file differs tells the guest (mark), which reads both empty. The same
# after something was shown. So the order of all of it is exact.

BURST = 32  # lines written at once within TICK_S
TICK_S = 0.004
POLL_S = 0.02
current = None  # what was written to last in this run
burst_from = 0.0
burst = 0
is_polling = False  # a thread will flush soon
is_poller = False  # there is that thread
poll_pipe = None
interrupted_at = 0.0  # when the handler of SIGINT ran last
text_write = io.TextIOWrapper.write


class AfterEvent:
    """Stands for a stream after something was shown: what is written next must not overtake it."""

    fd = 3

    @staticmethod
    def flush():
        pass


after_event = AfterEvent()


def switch(stream):
    global current
    old, current = current, stream
    if old is None:
        return
    try:
        old.flush()
    except (OSError, ValueError):
        pass
    if old.fd != stream.fd:
        mark()


def mark():
    """Has the guest take in all that was written and sent so far."""
    if is_running and not is_child and not is_asking and lock.acquire(False):
        try:
            send(b"mark")
            is_answered = False
            while not is_answered:
                message = take()
                is_answered = not message or message[0][0] == b"ok"
                taken()
        finally:
            lock.release()


def is_quiet():
    """Whether this line may be written at once."""
    global burst, burst_from
    if is_child:
        return True
    now = monotonic()
    if now - burst_from > TICK_S:
        burst_from, burst = now, 0
    burst += 1
    return burst < BURST


def poll_start():
    """Sees to it that what is held back goes out soon."""
    part("polling")
    start_polling()


def flush_streams():
    try:
        if current is not None:
            current.flush()
    except (OSError, ValueError, AttributeError):
        pass


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
            part("polling")
            self.binary = Bytes(super().buffer.raw, 65536)
            self.binary.fd = self.fd
        return self.binary

    def write(self, s):
        if current is not self:
            switch(self)
        n = text_write(self, s)
        if burst < BURST and s[-1:] == "\n" and is_quiet():
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


MAY_CUT = {Text.write.__code__, flush_streams.__code__, switch.__code__}


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


#: part running
def run(text, flags):
    """One piece of code, to its `done`."""
    global may_ask, pending, user_trace
    open_run()
    may_ask = "i" in flags
    problem = value = None
    try:
        if pending:
            pending = False
            raise KeyboardInterrupt
        if user_trace is not None:
            sys.settrace(user_trace)
        value, is_shown = execute(text, "Cell In[%d]" % count)
        user_trace = quiet_trace()
        if "matplotlib.pyplot" in sys.modules:
            part("figures")
            show_figures(value)
        if is_shown:
            show_result(value)
    except BaseException as e:
        problem = e
        user_trace = quiet_trace()
    if is_child:
        leave_child(child_status(problem))
    if problem is not None:
        part("errors")
        fail(problem)
    close_run()


def open_run():
    global is_running, is_idle, status
    open_streams()
    if user_interrupt is not None:
        _signal.signal(_signal.SIGINT, user_interrupt)
    if is_poller:
        watch_signals()
    concluded.clear()
    status = b"ok"
    is_running, is_idle = True, False
    taken()


def quiet_trace():
    """Our own work is nothing for the user's tracer."""
    tracer = sys.gettrace()
    if tracer is not None:
        sys.settrace(None)
    return tracer


def show_result(value):
    global last_value
    if type(value) in PLAIN:
        data, metadata = {"text/plain": repr(value)}, {}
        if len(data["text/plain"]) > 1000000:
            part("display")
            data, metadata = bounded(data, metadata)
    else:
        part("display")
        data, metadata = bundle(value)
        if data is None:  # it has shown itself
            return
    if pending:
        raise_pending()
    if getattr(builtins, "_", last_value) is last_value:  # as in the plain interpreter; gettext may have it
        last_value = builtins._ = value
    hold_result({"data": data, "metadata": metadata})


user_trace = None
user_interrupt = None


def close_run():
    """The end of a run, whatever came before. When a handler of the user's raises within, serve() comes back to it."""
    global is_running, is_idle, user_interrupt, pending
    if not concluded:
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name, None)
            if stream is not streams[name]:
                try:
                    stream.flush()
                except BaseException:
                    pass
        flush_streams()
        if len(sys.modules) != modules_seen:
            part("native")
            look_for_native_code()
        if native_flush is not None:
            native_flush(None)
        handler = _signal.getsignal(_signal.SIGINT)
        if handler is not on_interrupt:
            user_interrupt = handler
            _signal.signal(_signal.SIGINT, on_interrupt)
        else:
            user_interrupt = None
        is_idle = True
        pending = False
        with lock:
            while unsent:
                push()
            frame = b"%sdone %s 0\n" % (b"".join(held), status)
            list(map(list.__setitem__, (unsent, concluded, held), (ALL, ALL, ALL), ((frame,), (True,), ())))  # all or none
    with lock:
        while unsent:
            push()
    is_running = False


ALL = slice(None)
status = b"ok"
concluded = []  # not empty: the `done` of this run is on its way


def execute(text, name):
    """(value, whether to show it) of the last statement."""
    global future
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
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
        cache.cache[name] = (len(text), None, [line + "\n" for line in text.split("\n")], name)
    except (AttributeError, TypeError):
        pass


#: part stubs
# What is called from outside; what it does is compiled when it comes to that.


def on_interrupt(_number, frame):
    global interrupted_at
    interrupted_at = monotonic()
    part("interrupts")
    interrupt(frame)


def on_urge(_number, _frame):
    pass


def before_fork():
    part("forks")
    prepare_fork()


def after_fork_child():
    become_child()


def flushed(function):
    """A function that starts a program, which may print: what was printed before comes first."""

    def start_program(*args, **kwargs):
        before_program()
        return function(*args, **kwargs)

    start_program.__name__ = function.__name__
    start_program.__doc__ = function.__doc__
    start_program.__wrapped__ = function
    return start_program


def before_program():
    flush_streams()
    if current is not None:
        mark()
    if pending:
        raise_pending()


def input(prompt="", /):
    """Read a line from the client. EOFError when there is nobody to ask or no more to come."""
    part("asking")
    return ask_user(str(prompt), False)


class Quitter:
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return "Use %s() to raise SystemExit" % self.name

    def __call__(self, code=None):
        raise SystemExit(code)


def getpass(prompt="Password: ", stream=None, **_):
    """Ask the client for a line that is not shown."""
    part("asking")
    return ask_user(str(prompt), True)


#: part imports
HOOKED = {
    "threading", "getpass", "subprocess", "linecache", "asyncio.tasks", "multiprocessing.reduction", "matplotlib", "matplotlib.pyplot", "pandas",
    "IPython.core.display_functions", "IPython.core.display", "IPython.display",
}  # fmt: skip


class Finder:
    """First in sys.meta_path."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in HOOKED:
            return None
        part("hooks")
        return hooked_spec(name, path, target)


class LastFinder:
    """Last in sys.meta_path: what is not installed, and people import all the same."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if not name.startswith("IPython"):
            return None
        part("ipython")
        return ipython_spec(name)


#: part loop
def begin(payload):
    part("begin")
    begin_with(payload)


def wait():
    """The next message, while tasks of the user's event loop, if there are any, go on."""
    if "asyncio" in sys.modules and len(chunks) == 1 and chunks[0] is None:
        part("await")
        run_tasks()
    return take()


def serve():
    global count
    while True:
        if is_running:
            close_run()
        with lock:
            message = wait()
        if is_child:
            leave_child(0)
        if not message:
            return
        words, payload = message
        kind = words[0]
        if kind == b"run":
            count = int(words[1])
            run(payload.decode("utf-8", "surrogateescape"), words[2].decode())
        elif kind == b"ask":
            part("ask")
            ask(words[1], payload)
        else:
            taken()
            if kind == b"begin":
                begin(payload)
        message = words = payload = None


def out_of_the_way(fd):
    """A copy with a number that code does not expect to be free; where few are allowed, with any."""
    import fcntl

    for number in (200, 50, 20, 5):
        try:
            return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, number)
        except OSError:
            continue
    return os.dup(fd)


def start():
    global Expression
    from _ast import Expression

    for fd in (3, 4):
        os.set_inheritable(fd, False)
    for fd in (1, 2):
        spare[fd] = out_of_the_way(fd)
    os.close(4)
    for name in [n for n in user if not n.startswith("__")]:
        del user[name]
    sys.argv = [""]
    builtins.input = input
    builtins.display = display
    sys.meta_path.insert(0, Finder)
    sys.meta_path.append(LastFinder)
    for name in ("exit", "quit"):
        setattr(builtins, name, Quitter(name))
    for name in ("system", "posix_spawn", "posix_spawnp"):
        if hasattr(os, name):
            setattr(os, name, flushed(getattr(os, name)))
    open_streams()
    os.register_at_fork(before=before_fork, after_in_child=after_fork_child)
    _signal.signal(_signal.SIGINT, on_interrupt)
    _signal.signal(_signal.SIGURG, on_urge)
    while True:
        try:
            serve()
            break
        except BrokenPipeError:
            break
        except BaseException as e:  # a handler of the user's that raises while we are at work, or a mistake of ours
            if is_child:
                leave_child(1)
            if isinstance(e, (OSError, SystemError)) and e.__traceback__ is not None and is_broken():
                os._exit(70)


def is_broken():
    """Whether the control socket is no more what it was: the code closed it, or put something else there."""
    import stat

    try:
        return not stat.S_ISSOCK(os.fstat(3).st_mode)
    except OSError:
        return True


#: part interrupts
def interrupt(frame):
    global pending, is_repeated
    ours = frame is None or frame.f_code.co_filename == "<cell>"
    was_repeated, is_repeated = is_repeated, False
    if is_idle:
        # The guest interrupts a run only when it has been read: without one, this is for the run that is over.
        pending = not was_repeated and (len(chunks) > 1 or chunks[0] is not None)
    elif async_task is not None and cancel_task():
        pending = False
    elif ours and frame.f_code not in MAY_CUT:
        if not pending:
            pending = True
            try:
                _thread.start_new_thread(repeat, ())
            except RuntimeError:
                pass
    else:
        pending = False
        raise KeyboardInterrupt


is_repeated = False


def repeat():
    """An interrupt that came in the midst of our own work comes again, until it meets the user's code."""
    global is_repeated
    _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
    while True:
        sleep(0.001)
        if not pending or is_idle:
            return
        is_repeated = True
        os.kill(os.getpid(), _signal.SIGINT)


def raise_pending():
    global pending
    if _thread.get_ident() == main_thread and not is_idle:
        pending = False
        raise KeyboardInterrupt


#: part forks
def prepare_fork():
    global is_poller, is_polling
    flush_streams()
    if is_poller:  # since 3.12 a fork with threads about is worth a warning: not because of ours
        is_poller = is_polling = False
        tasks = count_tasks()
        os.write(poll_pipe[1], STOP)
        deadline = monotonic() + 2
        while tasks and count_tasks() >= tasks and monotonic() < deadline:
            sleep(0.0002)


def count_tasks():
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 0


def become_child():
    global is_child, poll_pipe, lock, main_thread, burst
    is_child = True
    burst = 0
    if poll_pipe is not None:
        other = _signal.set_wakeup_fd(-1)
        if other not in (-1, poll_pipe[1]):
            _signal.set_wakeup_fd(other)
        for fd in poll_pipe:
            os.close(fd)
        poll_pipe = None
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


#: part asking
def ask_user(prompt, is_secret):
    global is_asking
    flush_streams()
    if is_child or not may_ask or is_asking:
        raise EOFError("EOF when reading a line")
    import select

    with lock:  # nobody waits for the answer to a mark
        is_asking = True
    try:
        send(b"input", json_text({"prompt": prompt, "password": is_secret}).encode())
        while True:
            if len(chunks) == 1 and chunks[0] is None:
                wait_readable(select)
            message = take()
            if not message:
                raise EOFError("EOF when reading a line")
            words, payload = message
            taken()
            if words[0] == b"input":
                return payload.decode("utf-8", "surrogateescape")
            if words[0] == b"eof":
                raise EOFError("EOF when reading a line")
    finally:
        is_asking = False


def wait_readable(select):
    if pending:
        raise_pending()
    select.select(FROM_GUEST, (), ())


MAY_CUT.add(wait_readable.__code__)


#: part polling
# The thread that flushes also looks after interrupts. Where there are threads, Python may miss that a signal came and
# block in the next call: then the signal's byte is in the pipe (signal.set_wakeup_fd), no handler has run, and a
# signal that does nothing (SIGURG) gets the main thread out of its call.
WAKE, STOP = b"\0", b"\xff"


def start_polling():
    global is_polling, poll_pipe, is_poller
    if is_child:  # as a program's own: half a line waits for its end, so that children do not tear each other's
        return
    is_polling = True
    if poll_pipe is None:
        pipe = os.pipe()
        poll_pipe = tuple([out_of_the_way(fd) for fd in pipe])
        for fd in pipe:
            os.close(fd)
        for fd in poll_pipe:
            os.set_blocking(fd, False)
    if is_poller:
        os.write(poll_pipe[1], WAKE)
        return
    is_poller = True
    try:
        _thread.start_new_thread(poll, poll_pipe)
    except RuntimeError:  # no thread to be had: write at once
        is_poller = is_polling = False
        current.flush()
        return
    watch_signals()


def watch_signals():
    if _thread.get_ident() == main_thread:
        other = _signal.set_wakeup_fd(poll_pipe[1], warn_on_full_buffer=False)
        if other not in (-1, poll_pipe[1]):  # an event loop of the user's has it
            _signal.set_wakeup_fd(other)


def poll(r, _w):
    global is_polling, burst
    import select

    _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())  # they are to wake the main thread
    idle = 0
    while True:
        if idle >= 5:
            is_polling = False
            flush_streams()
        ready = select.select((r,), (), (), POLL_S if idle < 5 else None)[0]
        said = os.read(r, 4096) if ready else b""
        if STOP in said:
            return
        if _signal.SIGINT in said and monotonic() - interrupted_at > 0.05:
            urge()
        idle = 0 if is_running or WAKE in said else idle + 1
        burst = 0
        flush_streams()


def urge():
    for delay in (0.001, 0.005, 0.02, 0.1, 0.5):
        since = interrupted_at
        sleep(delay)
        if interrupted_at != since or not is_running or is_child:
            return
        _signal.pthread_kill(main_thread, _signal.SIGURG)


bytes_write = io.BufferedWriter.write


class Bytes(io.BufferedWriter):
    def write(self, b):
        if current is not self:
            switch(self)
        n = bytes_write(self, b)
        if burst < BURST and is_quiet():
            self.flush()
        elif not is_polling:
            poll_start()
        if pending:
            raise_pending()
        return n


MAY_CUT.add(Bytes.write.__code__)


#: part json
def json_any(v):
    import json

    try:
        text = json.dumps(v, ensure_ascii=False, allow_nan=False, default=json_other)
        text.encode()
        if "\\u0000" not in text:
            return text
    except ValueError:  # NaN or a lone surrogate within, or it holds itself
        pass
    return json_text(json_plain(v, []))


def json_other(v):
    item = getattr(v, "item", None)  # numbers of numpy and the like
    if item is not None and getattr(v, "shape", None) == ():
        return item()
    if isinstance(v, (bytes, bytearray, memoryview)):
        return base64(v)
    return str(v)


def json_plain(v, seen):
    if isinstance(v, bool) or v is None:
        return v
    if isinstance(v, int):
        return int(v)
    if isinstance(v, float):
        return float(v)
    if isinstance(v, str):
        return str(v)
    if any(v is x for x in seen):
        return None
    if isinstance(v, dict):
        return {str(k): json_plain(x, seen + [v]) for k, x in v.items()}
    if isinstance(v, (list, tuple)):
        return [json_plain(x, seen + [v]) for x in v]
    return str(json_other(v))


def base64(b):
    import binascii

    return binascii.b2a_base64(bytes(b), newline=False).decode()


#: part begin
def open_user_site():
    """In a cell's environment pip installs for the user. Python looks only at a directory that was there when it started, so there is one."""
    site = sys.modules.get("site")
    if site is None or not site.ENABLE_USER_SITE or sys.prefix == sys.base_prefix:
        return
    path = site.getusersitepackages()
    if path in sys.path:
        return
    try:
        os.makedirs(path, exist_ok=True)
    except OSError:
        return
    own = [i for i, place in enumerate(sys.path) if place.startswith(sys.prefix)]
    sys.path.insert(own[-1] + 1 if own else len(sys.path), path)


def begin_with(payload):
    """cwd, environment and modules of a new context; also later, for an interpreter that waited for its user."""
    failed = {}
    preload = []
    is_parked = False
    for line in payload.decode("utf-8", "surrogateescape").split("\n"):
        key, _, value = line.partition("=")
        value = unquote(value)
        if key == "cwd":
            try:
                os.chdir(value)
            except OSError as e:
                failed["cwd"] = str(e)
        elif key.startswith("env."):
            set_environment(key[4:], value)
        elif key == "park":
            is_parked = value == "1"
        elif key == "preload":
            preload += [name.strip() for name in value.split(",") if name.strip()]
    fresh_random()
    open_user_site()
    for name in preload:
        try:
            __import__(name)
        except BaseException as e:
            failed[name] = "%s: %s" % (type(e).__name__, e)
    about = {
        "language": "python",
        "version": "%d.%d.%d" % sys.version_info[:3],
        "implementation": sys.implementation.name,
        "executable": sys.executable,
        "prefix": sys.prefix,
    }
    if failed:
        about["failed"] = failed
    if is_parked:
        warm_up()
    event(b"ready", about)


def warm_up():
    """While it waits for its user: what a first run would pay for."""
    import gc

    for name in ("json", "display", "pretty", "errors", "interrupts", "polling", "forks", "hooks", "magic"):
        part(name)
    value, _ = execute("x = [1, 'a']\nx", "<warm>")
    bundle(value)
    pretty_text({"a": [list(range(50))]})
    try:
        execute("1/0", "<warm>")
    except ZeroDivisionError as e:
        json_text(explain(e))
    user.pop("x", None)
    sources.pop("<warm>", None)
    cache = sys.modules.get("linecache")
    if cache is not None:
        cache.cache.pop("<warm>", None)
    value = None
    gc.collect()
    gc.freeze()


def unquote(text):
    if "%" not in text:
        return text
    pieces = text.encode("utf-8", "surrogateescape").split(b"%")
    return os.fsdecode(pieces[0] + b"".join([bytes([int(p[:2], 16)]) + p[2:] for p in pieces[1:]]))


def set_environment(name, value):
    os.environ[name] = value
    if name == "TZ":
        from time import tzset

        tzset()
    elif name == "PYTHONPATH":
        at = 1 if sys.path[:1] == [""] else 0
        for p in reversed(value.split(os.pathsep)):
            if p and p not in sys.path:
                sys.path.insert(at, p)


def fresh_random():
    """What was imported before the user came must not be what another one got."""
    modules = sys.modules
    if "random" in modules:
        modules["random"].seed()
    if "numpy.random" in modules:
        modules["numpy.random"].seed()
    if "tempfile" in modules:
        modules["tempfile"]._name_sequence = None
        modules["tempfile"].tempdir = None


#: part native
import importlib.machinery

native_suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
native_home = os.path.dirname(os.__file__)


def look_for_native_code():
    """Foreign C code may print with stdio, which holds back what goes to a pipe: it is flushed after each run."""
    global modules_seen, native_flush
    modules_seen = len(sys.modules)
    if native_flush is not None:
        return
    for name, module in list(sys.modules.items()):
        try:
            path = module.__dict__.get("__file__") or ""
        except AttributeError:
            continue
        if name == "ctypes" or type(path) is str and path.endswith(native_suffixes) and "lib-dynload" not in path:
            if name != "ctypes" and path.startswith(native_home) and "-packages" not in path:
                continue
            try:
                import ctypes

                native_flush = ctypes.CDLL(None).fflush
            except (ImportError, OSError, AttributeError):
                native_flush = lambda _: None
            modules_seen = len(sys.modules)
            return


#: part display
part("json")

BUNDLE_MAX = 16 << 20
TABLE_ROWS = 500
MIME_METHODS = (
    ("text/html", "_repr_html_"),
    ("text/markdown", "_repr_markdown_"),
    ("image/svg+xml", "_repr_svg_"),
    ("image/png", "_repr_png_"),
    ("image/jpeg", "_repr_jpeg_"),
    ("application/pdf", "_repr_pdf_"),
    ("text/latex", "_repr_latex_"),
    ("application/json", "_repr_json_"),
    ("application/javascript", "_repr_javascript_"),
)
NO_METHODS = PLAIN + (list, tuple, dict, set, frozenset, type(None), range, type(len), type(display))


def method_of(v, name):
    """A method an object has for us. Objects that have every attribute have none."""
    if isinstance(v, type):
        return None
    try:
        if callable(getattr(v, "_cell_no_object_has_this_", None)):
            return None
        found = getattr(v, name, None)
    except Exception:
        return None
    return found if callable(found) else None


def bundle(v):
    """(data, metadata) by MIME type; (None, None) when it has shown itself."""
    if type(v) in NO_METHODS:
        return bounded({"text/plain": plain(v)}, {})
    itself = method_of(v, "_ipython_display_")
    if itself is not None:
        try:
            itself()
            return None, None
        except NotImplementedError:
            pass
    data, metadata = {}, {}
    whole = method_of(v, "_repr_mimebundle_")
    if whole is not None:
        found = tolerant(whole, True)
        if type(found) is tuple and len(found) == 2:
            found, metadata = found[0], dict(found[1] or {})
        data = {k: encoded(k, x) for k, x in (found or {}).items()}
    for mime, name in MIME_METHODS:
        if mime in data:
            continue
        method = method_of(v, name)
        found = tolerant(method) if method is not None else None
        if type(found) is tuple and len(found) == 2:
            found, metadata[mime] = found
        if found is not None:
            data[mime] = encoded(mime, found)
    add_special(v, data)
    if "text/plain" not in data:
        data = dict([("text/plain", plain(v))], **data)
    return bounded(data, metadata)


def tolerant(method, is_bundle=False):
    """What a repr method gives. One that fails says so on stderr, and the others are still asked."""
    try:
        if not is_bundle:
            return method()
        try:
            return method(include=None, exclude=None)
        except TypeError as e:
            if "argument" not in str(e):
                raise
            return method()
    except NotImplementedError:
        return None
    except Exception as e:
        part("errors")
        print("\n".join(explain(e)[2]), file=sys.stderr)
        return None


def encoded(mime, v):
    if isinstance(v, (bytes, bytearray, memoryview)):
        is_text = mime.startswith("text/") or mime == "image/svg+xml"
        return bytes(v).decode("utf-8", "backslashreplace") if is_text else base64(v)
    if mime.startswith(("text/", "image/")) and not isinstance(v, str):
        return str(v)
    return v


def add_special(v, data):
    kind = type(v)
    home = getattr(kind, "__module__", None)
    if not isinstance(home, str):
        return
    if home.startswith("pandas.") and kind.__name__ in ("DataFrame", "Series"):
        add_table(v, data)
    elif home.startswith("polars.") and kind.__name__ == "DataFrame":
        try:
            rows = v.head(TABLE_ROWS)
            fields = [{"name": n, "type": str(t)} for n, t in zip(v.columns, v.dtypes)]
            data["application/vnd.dataresource+json"] = {
                "schema": {"fields": fields, "pandas_version": None}, "data": rows.to_dicts(), "rows": len(v),
            }  # fmt: skip
        except Exception:
            pass
    elif home == "matplotlib.figure" and kind.__name__ == "Figure" and "image/png" not in data:
        part("figures")
        data.pop("text/html", None)
        data.update(picture(v))


def add_table(v, data):
    """The first rows as data, in the form of a Frictionless "table" resource as pandas writes it."""
    import json

    try:
        if type(v).__name__ == "DataFrame" and not v.columns.is_unique:
            return
        rows = max(1, min(TABLE_ROWS, 50000 // max(1, len(getattr(v, "columns", "x")))))
        table = json.loads(v.head(rows).to_json(orient="table", date_format="iso", default_handler=str))
    except Exception:
        return  # what has no JSON
    table["rows"] = len(v)
    data["application/vnd.dataresource+json"] = table


def bounded(data, metadata):
    """At most BUNDLE_MAX in all: the biggest are left out, and the metadata say so. Text is cut instead."""
    sizes = {k: size_of(x) for k, x in data.items()}
    while sum(sizes.values()) > BUNDLE_MAX:
        biggest = max(sizes, key=lambda k: sizes[k])
        left = metadata.setdefault("cell", {}).setdefault("left_out", [])
        left.append({"type": biggest, "bytes": sizes[biggest]})
        if biggest == "text/plain":
            data[biggest] = data[biggest][: BUNDLE_MAX // 16] + "... (%d characters in all)" % len(data[biggest])
            sizes[biggest] = size_of(data[biggest])
        else:
            del data[biggest], sizes[biggest]
    return data, metadata


def size_of(v):
    return len(v) if isinstance(v, str) and v.isascii() else len(utf8(v)) if isinstance(v, str) else len(json_text(v))


def plain(v):
    """text/plain. Short plain containers need no layout."""
    if type(v) in PLAIN:
        return repr(v)
    if type(v) in (list, tuple, dict) and len(v) < 20 and is_flat(v.values() if type(v) is dict else v):
        text = repr(v)
        if len(text) < 80 and "\n" not in text:
            return text
    part("pretty")
    return pretty_text(v)


def is_flat(items):
    return all([type(x) in PLAIN or x is None for x in items])


handles = 0


class DisplayHandle:
    """What was displayed, to be shown anew in its place."""

    def __init__(self, display_id=None):
        if display_id is None or display_id is True:
            global handles
            handles += 1
            display_id = "%d-%d" % (os.getpid(), handles)
        self.display_id = display_id

    def __repr__(self):
        return "<DisplayHandle display_id=%s>" % self.display_id

    def display(self, obj, **how):
        show((obj,), display_id=self.display_id, **how)

    def update(self, obj, **how):
        show((obj,), display_id=self.display_id, update=True, **how)


def show(objects, include=None, exclude=None, metadata=None, transient=None, display_id=None, raw=False, clear=False, update=False, **_):  # fmt: skip
    handle = None
    if display_id is None and transient:
        display_id = transient.get("display_id")
    if display_id is not None and display_id is not False:
        handle = DisplayHandle(display_id)
    if clear:
        clear_output(wait=True)
    for v in objects:
        if raw:
            data, about = bounded({k: encoded(k, x) for k, x in v.items()}, {})
        else:
            data, about = bundle(v)
            if data is None:
                continue
        if include:
            data = {k: x for k, x in data.items() if k in include}
        if exclude:
            data = {k: x for k, x in data.items() if k not in exclude}
        if metadata:
            about.update(metadata)
        publish(data, about, handle and handle.display_id, update)
        if sys.modules.get("matplotlib.pyplot") is not None:
            part("figures")
            shown_figures.append(id(v))
    return handle


def publish(data, metadata, display_id=None, update=False):
    if is_child or not is_running:  # nobody to show it to: as text
        print(data.get("text/plain", ""))
        return
    message = {"data": data, "metadata": metadata}
    if display_id:
        message["id"] = str(display_id)
    if update:
        message["update"] = True
    event(b"display", message)
    if pending:
        raise_pending()


def update_display(obj, *, display_id, **how):
    how["update"] = True
    show((obj,), display_id=display_id, **how)


def publish_display_data(data, metadata=None, source=None, *, transient=None, update=False, **_):
    display_id = (transient or {}).get("display_id")
    publish(*bounded({k: encoded(k, x) for k, x in data.items()}, dict(metadata or {})), display_id, update)


def clear_output(wait=False):
    """Forget the output of this run so far; with wait, when something new comes."""
    if is_running and not is_child:
        event(b"clear", {"wait": bool(wait)})


#: part pretty
# Values as text the way people know it from notebooks: what fits in a line stays in one, what does not is broken at
# the outermost commas first. The names of the printer's methods are those that _repr_pretty_ methods call.
import types

LINE_MAX = 79
SEQUENCE_MAX = 1000
HIDDEN_MODULES = (None, "builtins", "exceptions")


class Group:
    def __init__(self, depth):
        self.depth = depth
        self.is_broken = False


class Printer:
    max_seq_length = SEQUENCE_MAX
    max_width = LINE_MAX
    verbose = False

    def __init__(self):
        self.output = []
        self.column = 0
        self.indentation = 0
        self.held = []  # (text, group whose break it is or None, indentation) since the last sure line end
        self.held_width = 0
        self.groups = [Group(0)]
        self.stack = []  # ids of what is being printed

    def text(self, text):
        if self.held:
            self.held.append((text, None, 0))
            self.held_width += len(text)
            self.fit()
        else:
            self.output.append(text)
            self.column += len(text)

    def breakable(self, sep=" "):
        group = self.groups[-1]
        if group.is_broken:
            self.flush()
            self.newline(self.indentation)
        else:
            self.held.append((sep, group, self.indentation))
            self.held_width += len(sep)
            self.fit()

    def break_(self):
        self.break_outermost()
        self.flush()
        self.newline(self.indentation)

    def newline(self, indentation):
        self.output.append("\n" + " " * indentation)
        self.column = indentation

    def flush(self):
        for text, _, _ in self.held:
            self.output.append(text)
        self.column += self.held_width
        self.held, self.held_width = [], 0

    def fit(self):
        while self.column + self.held_width > self.max_width:
            if not self.break_outermost():
                return

    def break_outermost(self):
        """Puts the items of the outermost group that is still in one line on lines of their own."""
        breaks = [group for _, group, _ in self.held if group is not None and not group.is_broken]
        if not breaks:
            for group in self.groups:
                group.is_broken = True
            return False
        chosen = min(breaks, key=lambda g: g.depth)
        for group in self.groups:
            if group.depth <= chosen.depth:
                group.is_broken = True
        chosen.is_broken = True
        following = max([i for i, (_, group, _) in enumerate(self.held) if group is chosen]) + 1
        while following < len(self.held) and self.held[following][1] is None:
            following += 1
        for text, group, indentation in self.held[:following]:
            self.held_width -= len(text)
            if group is chosen:
                self.newline(indentation)
            else:
                self.output.append(text)
                self.column += len(text)
        self.held = self.held[following:]
        return True

    def begin_group(self, indent=0, open=""):
        if open:
            self.text(open)
        self.groups.append(Group(len(self.groups)))
        self.indentation += indent

    def end_group(self, dedent=0, close=""):
        self.indentation -= dedent
        self.groups.pop()
        if close:
            self.text(close)

    def group(self, indent=0, open="", close=""):
        return Within(self, indent, open, close)

    def indent(self, indent):
        return Within(self, indent, None, None)

    def pretty(self, v):
        is_cycle = id(v) in self.stack
        self.stack.append(id(v))
        self.begin_group()
        try:
            self.choose(v, is_cycle)
        finally:
            self.end_group()
            self.stack.pop()

    def choose(self, v, is_cycle):
        kind = getattr(v, "__class__", None) or type(v)
        if not isinstance(kind, type):
            kind = type(v)
        for base in kind.__mro__:
            special = layouts.get(base)
            if special is not None:
                return special(v, self, is_cycle)
            own = base.__dict__
            if "_repr_pretty_" in own and callable(own["_repr_pretty_"]):
                return base._repr_pretty_(v, self, is_cycle)
            if base is not object and callable(own.get("__repr__")):
                return lay_repr(v, self, is_cycle)
        return lay_object(v, self, is_cycle)

    def items(self, sequence):
        for i, v in enumerate(sequence):
            if i:
                self.text(",")
                self.breakable()
            if i >= self.max_seq_length:
                self.text("...")
                return
            yield v

    def finish(self):
        self.flush()
        return "".join(self.output)


class Within:
    def __init__(self, printer, indent, open, close):
        self.printer, self.size, self.open, self.shut = printer, indent, open, close

    def __enter__(self):
        if self.open is None:
            self.printer.indentation += self.size
        else:
            self.printer.begin_group(self.size, self.open)

    def __exit__(self, *_):
        if self.open is None:
            self.printer.indentation -= self.size
        else:
            self.printer.end_group(self.size, self.shut)


def pretty_text(v):
    printer = Printer()
    printer.pretty(v)
    return printer.finish()


def lay_repr(v, p, is_cycle):
    lines = repr(v).splitlines()
    with p.group():
        for i, line in enumerate(lines):
            if i:
                p.break_()
            p.text(line)


def lay_object(v, p, is_cycle):
    kind = type(v)
    if kind.__repr__ is not object.__repr__:
        return lay_repr(v, p, is_cycle)
    p.begin_group(1, "<")
    p.pretty(kind)
    p.text(" at 0x%x" % id(v))
    if is_cycle:
        p.text(" ...")
    p.end_group(1, ">")


def has_own_repr(v, base):
    return type(v) is not base and type(v).__repr__ is not base.__repr__


def lay_sequence(base, start, end):
    def lay(v, p, is_cycle):
        if has_own_repr(v, base):
            return p.text(repr(v))
        if is_cycle:
            return p.text(start + "..." + end)
        p.begin_group(len(start), start)
        for x in p.items(v):
            p.pretty(x)
        if base is tuple and len(v) == 1:
            p.text(",")
        p.end_group(len(start), end)

    return lay


def lay_set(base, start, end):
    def lay(v, p, is_cycle):
        if has_own_repr(v, base):
            return p.text(repr(v))
        if is_cycle:
            return p.text(start + "..." + end)
        if not v:
            return p.text(base.__name__ + "()")
        p.begin_group(len(start), start)
        for x in p.items(in_order(v) if len(v) <= p.max_seq_length else v):
            p.pretty(x)
        p.end_group(len(start), end)

    return lay


def in_order(items):
    for how in (None, str):
        try:
            return sorted(items, key=how)
        except Exception:
            continue
    return list(items)


def lay_dict(v, p, is_cycle):
    if has_own_repr(v, dict):
        return p.text(repr(v))
    lay_mapping(v, p, is_cycle)


def lay_mapping(v, p, is_cycle):
    if is_cycle:
        return p.text("{...}")
    p.begin_group(1, "{")
    for k in p.items(v):
        p.pretty(k)
        p.text(": ")
        p.pretty(v[k])
    p.end_group(1, "}")


def lay_type(v, p, is_cycle):
    if type(v).__repr__ is not type.__repr__:  # a metaclass with a repr of its own
        return lay_repr(v, p, is_cycle)
    p.text(qualified(v))


def qualified(v):
    try:
        name = v.__qualname__
        if not isinstance(name, str):
            name = v.__name__
    except Exception:
        name = getattr(v, "__name__", None)
        if not isinstance(name, str):
            name = "<unknown type>"
    home = getattr(v, "__module__", None)
    return name if home in HIDDEN_MODULES or not isinstance(home, str) else home + "." + name


def lay_function(v, p, is_cycle):
    import inspect

    name = qualified(v)
    try:
        name += str(inspect.signature(v))
    except Exception:
        pass
    p.text("<function %s>" % name)


def lay_exception(v, p, is_cycle):
    if type(v).__repr__ is not BaseException.__repr__:
        return lay_repr(v, p, is_cycle)
    name = qualified(type(v))
    p.begin_group(len(name) + 1, name + "(")
    for i, x in enumerate(getattr(v, "args", ())):
        if i:
            p.text(",")
            p.breakable()
        p.pretty(x)
    p.end_group(len(name) + 1, ")")


def lay_super(v, p, is_cycle):
    p.begin_group(8, "<super: ")
    p.pretty(v.__thisclass__)
    p.text(",")
    p.breakable()
    p.pretty(v.__self__)
    p.end_group(8, ">")


def lay_call(p, name, arguments, keywords=()):
    p.begin_group(len(name) + 1, name + "(")
    is_first = True
    for key, x in [(None, x) for x in arguments] + list(keywords):
        if not is_first:
            p.text(",")
            p.breakable()
        is_first = False
        if key is not None:
            with p.group(len(key) + 1, key + "="):
                p.pretty(x)
        else:
            p.pretty(x)
    p.end_group(len(name) + 1, ")")


def lay_defaultdict(v, p, is_cycle):
    name = type(v).__name__
    if is_cycle:
        return p.text(name + "(...)")
    lay_call(p, name, (v.default_factory, dict(v)))


def lay_ordered(v, p, is_cycle):
    name = type(v).__name__
    if is_cycle:
        return p.text(name + "(...)")
    lay_call(p, name, (list(v.items()),) if v else ())


def lay_deque(v, p, is_cycle):
    name = type(v).__name__
    if is_cycle:
        return p.text(name + "(...)")
    lay_call(p, name, (list(v),), (("maxlen", v.maxlen),) if v.maxlen is not None else ())


def lay_counter(v, p, is_cycle):
    name = type(v).__name__
    if is_cycle:
        return p.text(name + "(...)")
    lay_call(p, name, (dict(v.most_common()),) if v else ())


def lay_namespace(v, p, is_cycle):
    name = "namespace" if type(v) is types.SimpleNamespace else type(v).__name__
    if is_cycle:
        return p.text(name + "(...)")
    lay_call(p, name, (), v.__dict__.items())


def lay_proxy(v, p, is_cycle):
    p.begin_group(13, "mappingproxy(")
    p.pretty(dict(v))
    p.end_group(13, ")")


def lay_environ(v, p, is_cycle):
    p.begin_group(7, "environ")
    lay_mapping(v, p, is_cycle)
    p.end_group(7)


def lay_pattern(v, p, is_cycle):
    import re

    p.text("re.compile(")
    p.text("r" + repr(v.pattern).replace("\\\\", "\\"))
    if v.flags:
        p.text(",")
        p.breakable()
        is_first = True
        flags = v.flags
        for flag in ("TEMPLATE", "IGNORECASE", "LOCALE", "MULTILINE", "DOTALL", "UNICODE", "VERBOSE", "DEBUG"):
            bit = getattr(re, flag, 0)
            if bit and flags & bit:
                if not is_first:
                    p.text("|")
                is_first = False
                p.text("re." + flag)
    p.text(")")


class Layouts(dict):
    """By type. Those of modules that may never be loaded are found by name."""

    LATER = {
        ("collections", "defaultdict"): lay_defaultdict,
        ("collections", "OrderedDict"): lay_ordered,
        ("collections", "deque"): lay_deque,
        ("collections", "Counter"): lay_counter,
        ("re", "Pattern"): lay_pattern,
        ("os", "_Environ"): lay_environ,
    }

    def get(self, kind):
        found = dict.get(self, kind)
        if found is None and kind.__module__ in ("collections", "re", "os"):
            found = self.LATER.get((kind.__module__, kind.__name__))
        return found


layouts = Layouts({
    list: lay_sequence(list, "[", "]"),
    tuple: lay_sequence(tuple, "(", ")"),
    set: lay_set(set, "{", "}"),
    frozenset: lay_set(frozenset, "frozenset({", "})"),
    dict: lay_dict,
    type: lay_type,
    types.FunctionType: lay_function,
    types.BuiltinFunctionType: lay_function,
    types.SimpleNamespace: lay_namespace,
    types.MappingProxyType: lay_proxy,
    BaseException: lay_exception,
    super: lay_super,
})  # fmt: skip


#: part errors
MESSAGE_MAX = 1 << 20
FRAMES_MAX = 60
library_home = os.path.dirname(os.__file__) + os.sep


def fail(problem):
    """An error of the user's code, told as well as there is room for."""
    global status
    status = b"error"
    try:
        if "matplotlib.pyplot" in sys.modules:
            part("figures")
            show_figures(None)
    except BaseException:
        pass
    try:
        report(problem)
    except BaseException:  # out of memory or of stack, or interrupted once more
        event(b"error", {"name": type(problem).__name__, "message": "", "traceback": []})


def report(problem):
    name, message, lines = explain(problem)
    event(b"error", {"name": name, "message": message, "traceback": lines})


def explain(e):
    """(name, message, lines) of an exception."""
    return type(e).__name__, cut(text_of(e)), exception_lines(e, set())


def cut(text):
    return text if len(text) <= MESSAGE_MAX else text[:MESSAGE_MAX] + "... (%d characters in all)" % len(text)


def text_of(e):
    try:
        return str(e)
    except BaseException:
        return "<exception str() failed>"


def exception_lines(e, seen):
    """As Python shows it, with what it came from before it, without our frames and those inside libraries."""
    lines = []
    seen.add(id(e))
    cause, context = e.__cause__, e.__context__
    if cause is not None and id(cause) not in seen:
        lines += exception_lines(cause, seen)
        lines += ["", "The above exception was the direct cause of the following exception:", ""]
    elif cause is None and context is not None and not e.__suppress_context__ and id(context) not in seen:
        lines += exception_lines(context, seen)
        lines += ["", "During handling of the above exception, another exception occurred:", ""]
    frames = frame_lines(e.__traceback__)
    if group_members(e) is not None:
        return lines + group_lines(e, frames, seen, True)
    if frames:
        lines.append("Traceback (most recent call last):")
    return lines + frames + last_lines(e)


def group_lines(e, frames, seen, is_outermost):
    """An exception group and what is in it, drawn as Python does."""
    members = group_members(e)
    head = ["Exception Group Traceback (most recent call last):"] if frames or is_outermost else []
    lines = ["| " + x for x in head + frames + last_lines(e)]
    if is_outermost:
        lines[0] = "+" + lines[0][1:]
    for i, member in enumerate(members[:15]):
        lines.append(("+-+" if i == 0 else "  +") + "---------------- %d ----------------" % (i + 1))
        if group_members(member) is not None:
            inner = group_lines(member, frame_lines(member.__traceback__), seen, False)
        else:
            inner = ["| " + x for x in exception_lines(member, seen)]
        lines += ["  " + x for x in inner]
    if len(members) > 15:
        lines += ["  +---------------- ... ----------------", "  | and %d more exceptions" % (len(members) - 15)]
    if not lines[-1].endswith("+------------------------------------"):
        lines.append("  +------------------------------------")
    return ["  " + x for x in lines] if is_outermost else lines


def group_members(e):
    group = getattr(builtins, "BaseExceptionGroup", None)
    return e.exceptions if group is not None and isinstance(e, group) else None


def last_lines(e):
    kind = type(e)
    if isinstance(e, SyntaxError) and e.filename is not None and e.lineno is not None:
        lines = syntax_lines(e)
        message = str(e.msg)
    else:
        lines, message = [], text_of(e)
    home = kind.__module__
    name = kind.__qualname__ if home in ("builtins", "__main__") else "%s.%s" % (home, kind.__qualname__)
    lines += cut("%s: %s" % (name, message) if message else name).split("\n")
    for note in getattr(e, "__notes__", None) or ():
        lines += (note if isinstance(note, str) else repr(note)).split("\n")
    return lines


def place(filename, number, name):
    where = filename if filename in sources else 'File "%s"' % filename
    return "  %s, line %s%s" % (where, number, ", in " + name if name and name != "<module>" else "")


def syntax_lines(e):
    lines = [place(e.filename, e.lineno, None)]
    text = sources.get(e.filename)
    if text is not None:  # our own copy: a magic was replaced in what was compiled
        all_lines = text.split("\n")
        text = all_lines[e.lineno - 1] if 0 < e.lineno <= len(all_lines) else e.text
    else:
        text = e.text
    if not isinstance(text, str):
        return lines
    text = text.rstrip("\n")
    bare = text.lstrip(" \n\t\f")
    lines.append("    " + bare)
    if isinstance(e.offset, int) and e.offset >= 1:
        at = e.offset - 1 - (len(text) - len(bare))
        end = getattr(e, "end_offset", None)
        width = end - e.offset if end and getattr(e, "end_lineno", None) == e.lineno and end > e.offset else 1
        if at >= 0:
            lines.append("    " + " " * at + "^" * max(1, min(width, len(bare) - at or 1)))
    return lines


def frame_lines(tb):
    """The user's frames. Those inside libraries are counted, and the last of them named."""
    lines, count, hidden, last, repeated = [], 0, [], None, 0
    frames = []
    while tb is not None:
        frames.append((tb.tb_frame, tb.tb_lineno, tb.tb_lasti))
        tb = tb.tb_next
    frames = [f for f in frames if f[0].f_code.co_filename != "<cell>"]
    while frames and is_library(frames[0][0].f_code.co_filename) and any(
        [not is_library(f[0].f_code.co_filename) for f in frames]
    ):
        del frames[0]  # an event loop's, below ours
    left_out = len(frames) - FRAMES_MAX
    for frame, number, lasti in frames:
        code = frame.f_code
        if is_library(code.co_filename):
            hidden.append((frame, number))
            continue
        lines += hidden_lines(hidden, False)
        hidden = []
        this = (code.co_filename, number, code.co_name)
        if this == last:
            repeated += 1
            if repeated > 2:
                continue
        else:
            lines += repeated_lines(repeated)
            last, repeated = this, 0
        count += 1
        if left_out > 0 and FRAMES_MAX // 3 < count <= FRAMES_MAX // 3 + left_out and repeated == 0:
            if count == FRAMES_MAX // 3 + 1:
                lines.append("  [%d more]" % left_out)
            continue
        lines.append(place(*this))
        lines += source_lines(code, number, lasti)
    lines += repeated_lines(repeated)
    return lines + hidden_lines(hidden, True)


def repeated_lines(repeated):
    if repeated <= 2:
        return []
    more = repeated - 2
    return ["  [Previous line repeated %d more time%s]" % (more, "s" if more > 1 else "")]


def hidden_lines(hidden, is_last):
    if not hidden:
        return []
    frame, number = hidden[-1]
    package = str(frame.f_globals.get("__name__", "?")).split(".")[0]
    many = "%d frame%s of %s" % (len(hidden), "s" if len(hidden) > 1 else "", package)
    code = frame.f_code
    if not is_last:
        return ["  [%s]" % many]
    return ["  [%s, the last: %s, line %d, in %s]" % (many, os.path.basename(code.co_filename), number, code.co_name)]


def is_library(filename):
    if filename in sources:
        return False
    if filename.startswith(library_home) or filename.startswith("<frozen "):
        return True
    return "/site-packages/" in filename or "/dist-packages/" in filename


def source_lines(code, number, lasti):
    text = sources.get(code.co_filename)
    if text is not None:
        all_lines = text.split("\n")
        line = all_lines[number - 1] if 0 < number <= len(all_lines) else ""
    elif code.co_filename.startswith("<"):
        return []
    else:
        try:
            import linecache

            line = linecache.getline(code.co_filename, number).rstrip("\n")
        except Exception:
            return []
    bare = line.strip()
    if not bare:
        return []
    lines = ["    " + cut(bare)]
    try:  # since 3.11 Python knows where in the line it was
        positions = list(code.co_positions())[lasti // 2]
        first, last, start, end = positions
        if first == last == number and start is not None:
            raw = line.encode()
            start, end = len(raw[:start].decode()), len(raw[:end].decode())
            margin = len(line) - len(line.lstrip())
            if 0 < end - start < len(bare):
                lines.append("    " + " " * (start - margin) + "^" * (end - start))
    except (AttributeError, IndexError, ValueError, TypeError):
        pass
    return lines


#: part hooks
def hooked_spec(name, path, target):
    """The module as it would be found without us, with a look at it once it is loaded."""
    for finder in sys.meta_path:
        if finder is Finder:
            continue
        find = getattr(finder, "find_spec", None)
        spec = find(name, path, target) if find is not None else None
        if spec is not None:
            break
    else:
        return None
    loader = spec.loader
    if getattr(loader, "exec_module", None) is None or isinstance(loader, type):
        return spec
    original = loader.exec_module

    def exec_module(module):
        prepare = here.get("before_" + name.replace(".", "_"))
        if prepare is not None:
            prepare()
        original(module)
        try:
            here["after_" + name.replace(".", "_")](module)
        except Exception as e:
            print("cell: %s is not set up: %s: %s" % (name, type(e).__name__, e), file=sys.stderr)

    try:
        loader.exec_module = exec_module
    except AttributeError:
        pass
    return spec


def before_subprocess():
    import _posixsubprocess

    if not hasattr(_posixsubprocess.fork_exec, "__wrapped__"):
        _posixsubprocess.fork_exec = flushed(_posixsubprocess.fork_exec)


def after_subprocess(module):
    pass


def after_linecache(module):
    for name, text in sources.items():
        add_lines(module, name, text)


def after_getpass(module):
    module.getpass = module.unix_getpass = getpass


def after_threading(module):
    shown = module.excepthook

    def excepthook(args):
        """As Python's own, with the lines of code that only we know."""
        if module.excepthook is not excepthook and shown is not excepthook or args.exc_type is SystemExit:
            return
        name = args.thread.name if args.thread is not None else _thread.get_ident()
        part("errors")
        lines = ["Exception in thread %s:" % name] + explain(args.exc_value)[2]
        if sys.stderr is not None:
            sys.stderr.write("\n".join(lines) + "\n")

    module.excepthook = excepthook
    module.__excepthook__ = excepthook


def after_multiprocessing_reduction(module):
    """A process that was spawned cannot import what was typed in: it would fail without end in the workers of a pool, where nobody sees
    it, so it is refused here."""
    import pickle
    import types

    def is_far():
        from multiprocessing import context, process

        if context.get_spawning_popen() is not None:
            return True
        children = [getattr(getattr(c, "_popen", None), "method", "fork") for c in list(process._children)]
        return bool(children) and "fork" not in children

    def reducer_override(self, obj):
        if isinstance(obj, (types.FunctionType, type)) and obj.__module__ == "__main__" and is_far():
            raise pickle.PicklingError(
                "%s was typed in, and a process that is started by spawn or forkserver cannot import it: "
                "use multiprocessing.get_context('fork'), or put it into a file and import it" % obj.__qualname__)
        return NotImplemented

    module.ForkingPickler.reducer_override = reducer_override


def after_asyncio_tasks(module):
    part("await")
    patch_tasks(module)


def before_matplotlib():
    if "MPLBACKEND" not in os.environ:
        os.environ["MPLBACKEND"] = "agg"
        here["is_backend_ours"] = True


def after_matplotlib(module):
    if here.pop("is_backend_ours", False):
        os.environ.pop("MPLBACKEND", None)


def after_matplotlib_pyplot(module):
    part("figures")
    patch_pyplot(module)


def after_pandas(module):
    """Pandas thinks that it is in a terminal and leaves out columns until its tables fit that."""
    if module.get_option("display.max_columns") == 0:
        module.set_option("display.max_columns", 20)


def after_IPython_display(module):
    part("display")
    for name in ("display", "clear_output", "update_display", "publish_display_data", "DisplayHandle"):
        if hasattr(module, name):
            setattr(module, name, here[name])


after_IPython_core_display = after_IPython_core_display_functions = after_IPython_display


#: part figures
part("display")
part("json")

shown_figures = []  # ids of those shown in this run by display()
figure_format = "png"
figure_scale = 1


def picture(figure):
    buffer = io.BytesIO()
    kind = figure_format
    canvas = figure.canvas
    if not hasattr(canvas, "print_" + kind):
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        canvas = FigureCanvasAgg(figure)
    canvas.print_figure(
        buffer, format=kind, dpi=figure.dpi * figure_scale, bbox_inches="tight",
        facecolor=figure.get_facecolor(), edgecolor=figure.get_edgecolor(),
    )  # fmt: skip
    if kind == "svg":
        return {"image/svg+xml": buffer.getvalue().decode()}
    return {"image/png": base64(buffer.getvalue())}


def show_figures(value):
    """All figures that pyplot has open and that were not shown; closes them."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    numbers = getattr(pyplot, "get_fignums", None)
    if numbers is None:  # half imported
        return
    try:
        for number in numbers():
            figure = pyplot.figure(number)
            if figure is value or id(figure) in shown_figures or not (figure.axes or figure.lines or figure.texts or figure.images or figure.patches):  # fmt: skip
                continue
            data = {"text/plain": repr(figure)}
            data.update(picture(figure))
            publish(*bounded(data, {}))
    finally:
        shown_figures.clear()
        if not is_child:
            pyplot.close("all")


def patch_pyplot(module):
    original = module.show

    def show(*args, **kwargs):
        """Show all open figures, now."""
        if is_child or not is_running:
            return original(*args, **kwargs)
        show_figures(None)

    show.__wrapped__ = original
    module.show = show


#: part magic
def compile_magic(text, name, flags, problem):
    part("magics")
    changed, problem = without_magics(text, name, flags, problem)
    if problem is not None:
        problem.__context__ = None
        raise problem.with_traceback(None)
    builtins.__cell_magic__ = magic
    return compile(changed, name, "exec", flags | 0x400, True)


def future_flags(tree, name):
    import __future__

    found = 0
    for node in tree.body:
        if type(node).__name__ == "ImportFrom" and node.module == "__future__":
            for alias in node.names:
                feature = getattr(__future__, alias.name, None)
                found |= feature.compiler_flag if feature is not None else 0
    return found


def ends_in_semicolon(text):
    import tokenize

    last = None
    skipped = (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.ENDMARKER, tokenize.DEDENT, tokenize.INDENT)
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type not in skipped:
                last = token
    except (tokenize.TokenError, SyntaxError):
        return text.rstrip().endswith(";")
    return last is not None and last.string == ";"


#: part await
kept_loop = None
is_cancelled = False


def event_loop():
    """The loop that lives as long as the context."""
    import asyncio

    global kept_loop
    if kept_loop is None or kept_loop.is_closed():
        kept_loop = current_loop() or asyncio.new_event_loop()
    asyncio.set_event_loop(kept_loop)
    return kept_loop


def current_loop():
    """The one that asyncio.get_event_loop() made for the main thread, if it did."""
    import asyncio

    try:
        loop = asyncio.events._event_loop_policy._local._loop
    except AttributeError:
        return None
    return loop if loop is not None and not loop.is_closed() else None


async def both(first, last):
    if first is not None:
        v = eval(first, user)
        if first.co_flags & 0x80:
            await v
    if last is not None:
        v = eval(last, user)
        return await v if last.co_flags & 0x80 else v


def run_async(first, last):
    import asyncio

    global async_task, is_cancelled
    loop = event_loop()
    is_cancelled = False
    async_task = task = loop.create_task(both(first, last))
    try:
        return loop.run_until_complete(task)
    except asyncio.CancelledError as e:
        if is_cancelled:
            raise KeyboardInterrupt().with_traceback(e.__traceback__) from None
        raise
    finally:
        async_task = None
        if not task.done():
            task.cancel()


def cancel_task():
    """An interrupt while the loop waits: cancels what the run waits for. In the midst of code it is raised there."""
    global is_cancelled
    import asyncio

    loop = kept_loop
    if loop is None or not loop.is_running() or asyncio.current_task(loop) is not None:
        return False
    is_cancelled = True
    loop.call_soon_threadsafe(async_task.cancel)
    return True


def run_tasks():
    """Between runs: what the code left in its event loop goes on until the guest has something to say."""
    import asyncio

    global kept_loop
    if kept_loop is None:
        kept_loop = current_loop()
    loop = kept_loop
    if loop is None or loop.is_closed() or loop.is_running():
        return
    if not (getattr(loop, "_ready", None) or getattr(loop, "_scheduled", None) or asyncio.all_tasks(loop)):
        return
    try:
        loop.add_reader(3, loop.stop)
        try:
            loop.run_forever()
        finally:
            loop.remove_reader(3)
    except KeyboardInterrupt:
        pass
    except BaseException as e:
        part("errors")
        print("\n".join(explain(e)[2]), file=sys.stderr)


def patch_tasks(module):
    """asyncio.create_task() outside of a coroutine: for the loop that goes on between runs, as in notebooks."""
    import asyncio

    original = module.create_task

    def create_task(coro, **how):
        if asyncio._get_running_loop() is None and is_running and _thread.get_ident() == main_thread:
            return event_loop().create_task(coro, **how)
        return original(coro, **how)

    create_task.__doc__ = original.__doc__
    create_task.__wrapped__ = original
    module.create_task = create_task


#: part magics
# Lines that are no Python but that people type in notebooks: !command, %magic, %%magic at the top of a piece of code,
# x = !command, thing?, and some commands without their sign (pip install). Each is replaced, where the compiler
# stumbles over it, by a call of __cell_magic__.
import re

ASSIGNED = re.compile(r"(\s*)([^=!%#'\"]+?)\s*=\s*([!%])\s*(.*)", re.S)
COMMANDS = ("cat", "cp", "ls", "mkdir", "mv", "rm", "rmdir", "less", "more", "man", "head", "tail", "which", "touch", "git", "echo")  # fmt: skip
BARE = re.compile(r"(\s*)(pip3?|conda|cd|%s)\s+([^=(\s].*)" % "|".join(COMMANDS))


def without_magics(text, name, flags, problem):
    """(the text with its magics replaced, what is wrong with it then)."""
    stripped = text.lstrip()
    if stripped.startswith("%%"):
        head, _, body = stripped[2:].partition("\n")
        word, _, rest = head.strip().partition(" ")
        lead = text[: len(text) - len(stripped)].count("\n")
        return "\n" * lead + "__cell_magic__(%r, %r, %r)" % (word, rest.strip(), "\n" * (lead + 1) + body), None
    lines = text.split("\n")
    changed = set()
    margin = re.match(r"(?:[ \t]*\n)*([ \t]+)", text)
    if margin:  # cut out of something indented
        lines = [re.sub("^[ \t]{1,%d}" % len(margin.group(1)), "", line) for line in lines]
        problem = compiles(lines, name, flags)
        if problem is None:
            return "\n".join(lines), None
    for _ in lines:
        at = candidate(lines, problem, changed)
        if at is None:
            return text, problem
        last = at
        while lines[last].endswith("\\") and last + 1 < len(lines):
            last += 1
        whole = "\n".join(lines[at : last + 1]).replace("\\\n", " ")
        lines[at : last + 1] = [replaced(whole)] + [""] * (last - at)
        changed.add(at)
        problem = compiles(lines, name, flags)
        if problem is None:
            return "\n".join(lines), None
    return text, problem


def compiles(lines, name, flags):
    try:
        compile("\n".join(lines), name, "exec", flags | 0x400, True)
    except SyntaxError as e:
        return e
    return None


def candidate(lines, problem, changed):
    """The line to replace: where the compiler stumbled, or else the nearest before it, or else the first."""
    found = [i for i, line in enumerate(lines) if i not in changed and replaced(line) is not None]
    if not found:
        return None
    at = (problem.lineno or 1) - 1
    before = [i for i in found if i <= at]
    return before[-1] if before else found[0]


def replaced(line):
    bare = line.lstrip()
    indent = line[: len(line) - len(bare)]
    bare = bare.rstrip()
    if bare.startswith("!!"):
        return "%s__cell_magic__('sx', %r)" % (indent, bare[2:])
    if bare.startswith("!"):
        return "%s__cell_magic__('!', %r)" % (indent, bare[1:])
    if bare.startswith("%") and bare[1:2].isalpha():
        word, _, rest = bare[1:].partition(" ")
        return "%s__cell_magic__(%r, %r)" % (indent, word, rest.strip())
    match = ASSIGNED.match(line)
    if match:
        word, _, rest = match.group(4).strip().partition(" ")
        if match.group(3) == "!":
            return "%s%s = __cell_magic__('sx', %r)" % (match.group(1), match.group(2), match.group(4))
        return "%s%s = __cell_magic__(%r, %r)" % (match.group(1), match.group(2), word, rest.strip())
    question = re.fullmatch(r"\?{1,2}\s*([\w.]+)|([\w.]+)\s*\?{1,2}", bare)
    if question:
        return "%s__cell_magic__('?', %r)" % (indent, question.group(1) or question.group(2))
    match = BARE.match(line)
    if match and match.group(2) not in user:
        word = match.group(2)
        if word in COMMANDS:
            return "%s__cell_magic__('!', %r)" % (indent, bare)
        return "%s__cell_magic__(%r, %r)" % (indent, word.replace("pip3", "pip"), match.group(3))
    return None


class UsageError(Exception):
    """A magic that is not there, or not used as it can be."""


UsageError.__module__ = "builtins"


def magic(name, line, body=None):
    table = LINE_MAGICS if body is None else CELL_MAGICS
    found = table.get(name)
    if found is None:
        sign = "%" if body is None else "%%"
        other = CELL_MAGICS if body is None else LINE_MAGICS
        if name in other:
            raise UsageError("%s%s is not there, but %s%s is" % (sign, name, "%%" if body is None else "%", name))
        there = " ".join(sorted(sign + n for n in table if n[0].isalpha()))
        raise UsageError("there is no %s%s here. There are: %s" % (sign, name, there))
    line = expanded(line) if name in EXPANDED else line
    return found(line) if body is None else found(line, body)


def expanded(line):
    """{expression} and $name of Python within a command; when one of them is none, the command is left as it is."""
    if "{" not in line and "$" not in line:
        return line
    import string

    pieces = []
    try:
        for text, field, form, conversion in string.Formatter().parse(line):
            pieces.append(re.sub(r"\$(\$|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)", dollar, text))
            if field is not None:
                v = eval(field, user) if field.strip() else None
                if not field.strip():
                    pieces.append("{}")
                    continue
                v = {"r": repr, "s": str, "a": ascii, None: lambda x: x}[conversion](v)
                pieces.append(format(v, form))
    except Exception:
        return re.sub(r"\$(\$|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)", dollar, line)
    return "".join(pieces)


def dollar(match):
    name = match.group(1)
    if name == "$":
        return "$"
    first = name.split(".")[0]
    if first not in user:
        return match.group(0)
    try:
        return str(eval(name, user))
    except Exception:
        return match.group(0)


def shell():
    for program in ("/bin/bash", "/usr/bin/bash"):
        if os.access(program, os.X_OK):
            return program
    return "/bin/sh"


def spawn(argv, out=None, given=None):
    """Runs a program to its end; its output goes where ours goes, or to a file. Interrupts end both."""
    actions = [(os.POSIX_SPAWN_DUP2, out, 1)] if out is not None else []
    if given is not None:
        actions.append((os.POSIX_SPAWN_DUP2, given, 0))
    pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=actions, setsigmask=())
    return pid


def ended(pid):
    if pending:
        raise_pending()
    status = os.waitpid(pid, 0)[1]
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)


def run_shell(line):
    user["_exit_code"] = ended(spawn([shell(), "-c", line]))


class SList(list):
    """Lines of output; .n and .s are them joined."""

    @property
    def l(self):  # noqa: E743
        return list(self)

    @property
    def n(self):
        return "\n".join(self)

    @property
    def s(self):
        return " ".join(self)

    def grep(self, pattern):
        return SList(x for x in self if re.search(pattern, x))

    def fields(self, *which):
        rows = [x.split() for x in self]
        if not which:
            return rows
        return SList(" ".join(r[i] for i in which if -len(r) <= i < len(r)) for r in rows)


def capture_shell(line):
    r, w = os.pipe()
    try:
        pid = spawn([shell(), "-c", line], w)
    finally:
        os.close(w)
    pieces = []
    try:
        while True:
            data = os.read(r, 1 << 16)
            if not data:
                break
            pieces.append(data)
    finally:
        os.close(r)
        user["_exit_code"] = ended(pid)
    return SList(b"".join(pieces).decode("utf-8", "backslashreplace").splitlines())


MAY_CUT.update((ended.__code__, capture_shell.__code__))


def run_program(argv, what):
    code = ended(spawn(argv))
    if code:
        raise UsageError("%s failed with exit code %d" % (what, code))


def pip(line):
    import importlib
    import shlex

    words = shlex.split(line)
    if words[:1] == ["uninstall"] and "-y" not in words and "--yes" not in words:
        words.insert(1, "-y")  # nobody can answer
    run_program([sys.executable, "-m", "pip"] + words, "pip")
    importlib.invalidate_caches()


def conda(line):
    raise UsageError("there is no conda here; use %pip")


last_directory = []


def cd(line):
    found, line = options(line, "", "qb")
    line = line.strip("\"'")
    before = os.getcwd()
    target = last_directory[-1] if line == "-" and last_directory else line
    if line == "-" and not last_directory:
        raise UsageError("no directory to go back to")
    os.chdir(os.path.expanduser(target or "~"))
    last_directory.append(before)
    if "q" not in found:
        print(os.getcwd())


def env(line):
    line = line.strip()
    if not line:
        return dict(os.environ)
    name, sign, value = line.partition("=")
    if not sign:
        name, sign, value = line.partition(" ")
    if not sign:
        if name not in os.environ:
            raise UsageError("Environment does not have key: %s" % name)
        return os.environ[name]
    name, value = name.strip(), value.strip()
    os.environ[name] = value
    print("env: %s=%s" % (name, value))


def seconds(s):
    """A time as people say it: 1min 3s, 2.5 s, 312 ms, 4.2 µs."""
    if s >= 60:
        parts, rest = [], int(s)
        for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
            if rest // size:
                parts.append("%d%s" % (rest // size, unit))
                rest %= size
        return " ".join(parts)
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if s >= size:
            return "%.3g %s" % (s / size, unit)
    return "%.3g ns" % (s * 1e9) if s > 0 else "0 ns"


def timed(line, body=None):
    from time import perf_counter

    text = line if body is None else body
    before, start = os.times(), perf_counter()
    try:
        value, is_shown = execute(text, "Cell In[%d]" % count if body is not None else "<timed>")
    finally:
        wall, after = perf_counter() - start, os.times()
        used_user, used_sys = after[0] - before[0], after[1] - before[1]
        total = seconds(used_user + used_sys)
        print("CPU times: user %s, sys: %s, total: %s" % (seconds(used_user), seconds(used_sys), total))
        print("Wall time: %s" % seconds(wall))
    return value


def options(line, with_value, flags):
    """-n 5 -q rest of the line -> ({"n": "5", "q": True}, "rest of the line")."""
    found = {}
    while True:
        match = re.match(r"\s*-([a-zA-Z])(\s*)(\S*)\s*", line)
        if match and match.group(1) in with_value and match.group(3):
            found[match.group(1)] = match.group(3)
            line = line[match.end() :]
        elif match and match.group(1) in flags and (match.group(2) or not match.group(3)):
            found[match.group(1)] = True
            line = line[match.end(2) :]
        else:
            return found, line.strip()


def timeit(line, body=None):
    import gc
    from time import perf_counter

    found, line = options(line, "nr", "qo")
    setup, text = (None, line) if body is None else (line or None, body)
    name = "<timeit>"
    remember(name, text)
    inner = "\n".join("            " + x for x in text.strip("\n").split("\n"))
    head = "def __cell_timed__(__n, __clock):\n    __start = __clock()\n    for __i in range(__n):\n        if 1:\n"
    space = dict(user)
    if setup:
        exec(compile(setup, name, "exec"), space)
    compile(text, name, "exec")  # a mistake is shown where the user made it
    exec(compile(head + inner + "\n    return __clock() - __start", name, "exec"), space)
    timed_loop = space["__cell_timed__"]
    number = int(found.get("n", 0))
    repeat = int(found.get("r", 7))
    if not number:
        number = 1
        while timed_loop(number, perf_counter) < 0.2 and number < 10**9:
            number *= 10
    was_on = gc.isenabled()
    gc.disable()
    try:
        runs = [timed_loop(number, perf_counter) / number for _ in range(repeat)]
    finally:
        if was_on:
            gc.enable()
    mean = sum(runs) / len(runs)
    spread = (sum((x - mean) ** 2 for x in runs) / len(runs)) ** 0.5
    text = "%s ± %s per loop (mean ± std. dev. of %d run%s, %s loop%s each)" % (
        seconds(mean), seconds(spread), repeat, "s" if repeat > 1 else "", "{:,}".format(number), "s" if number > 1 else "",
    )  # fmt: skip
    if "q" not in found:
        print(text)
    if "o" in found:
        import types

        return types.SimpleNamespace(average=mean, stdev=spread, best=min(runs), worst=max(runs), all_runs=runs, loops=number, repeat=repeat)  # fmt: skip


def script(program):
    def run_it(line, body):
        import shutil
        import tempfile

        words = (program + " " + line).split()
        found = shutil.which(words[0])
        if found is None:
            raise UsageError("there is no program %s here" % words[0])
        words[0] = found
        with tempfile.TemporaryFile() as f:
            f.write(body.lstrip("\n").encode("utf-8", "surrogateescape"))
            f.seek(0)
            code = ended(spawn(words, given=f.fileno()))
        if code:
            raise UsageError("the %s script ended with exit code %d" % (os.path.basename(found), code))

    return run_it


def any_script(line, body):
    if not line:
        raise UsageError("%%script needs the name of a program")
    script(line)("", body)


def write_file(line, body):
    found, name = options(line, "", "a")
    name = os.path.expanduser(name.strip("\"'"))
    if not name:
        raise UsageError("%%writefile needs the name of a file")
    print(("Appending to" if found else "Overwriting" if os.path.exists(name) else "Writing") + " " + name)
    text = body.lstrip("\n")
    with open(name, "a" if found else "w", encoding="utf-8") as f:
        f.write(text if text.endswith("\n") or not text else text + "\n")


class Captured:
    def __init__(self):
        self.stdout = self.stderr = ""

    def show(self):
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)

    __call__ = show

    def __str__(self):
        return self.stdout


def capture(line, body):
    names = [w for w in line.split() if not w.startswith("-")]
    result = Captured()
    kept = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err = io.StringIO(), io.StringIO()
    try:
        execute(body, "Cell In[%d]" % count)
    finally:
        sys.stdout, sys.stderr = kept
        result.stdout, result.stderr = out.getvalue(), err.getvalue()
        if names:
            user[names[0]] = result


def matplotlib_magic(line):
    """Figures are shown as it is."""
    kind = line.strip()
    if kind not in ("", "inline", "agg", "Agg", "--list", "-l"):
        raise UsageError("figures are shown inline here; there is no %s" % kind)


def config(line):
    global figure_format, figure_scale
    part("figures")
    match = re.match(r"InlineBackend\.figure_formats?\s*=\s*[{\[(]?\s*['\"](png|svg|retina|png2x)['\"]", line)
    if not match:
        raise UsageError("only %config InlineBackend.figure_format = 'png', 'svg' or 'retina' is there")
    figure_format = "svg" if match.group(1) == "svg" else "png"
    figure_scale = 2 if match.group(1) in ("retina", "png2x") else 1


def run_file(line):
    import shlex

    words = shlex.split(line)
    if not words or words[0].startswith("-"):
        raise UsageError("%run needs the name of a file; options are not there")
    path = os.path.expanduser(words[0])
    with open(path, "rb") as f:
        code = compile(f.read(), path, "exec", 0, True)
    argv, sys.argv = sys.argv, [path] + words[1:]
    had = user.get("__file__")
    user["__file__"] = path
    try:
        exec(code, user)
    finally:
        sys.argv = argv
        if had is None:
            user.pop("__file__", None)
        else:
            user["__file__"] = had


def reset(line):
    for name in list(user):
        if not name.startswith("__"):
            del user[name]


def who(line):
    names = sorted(n for n, v in user.items() if not n.startswith("_"))
    print("\t ".join(names) if names else "Interactive namespace is empty.")


def whos(line):
    part("ask")
    rows = [("Variable", "Type", "Data/Info")] + [(v["name"], v["type"], v["repr"].split("\n")[0][:60]) for v in variables()]
    widths = [max(len(r[i]) for r in rows) for i in (0, 1)]
    for i, row in enumerate(rows):
        print(row[0].ljust(widths[0] + 3) + row[1].ljust(widths[1] + 3) + row[2])
        if i == 0:
            print("-" * (sum(widths) + 15))


def describe(name):
    """What is known about an object: signature, documentation, file."""
    import inspect

    v = eval(name, user)
    lines = []
    try:
        if callable(v):
            lines.append("Signature: %s%s" % (name, inspect.signature(v)))
    except (TypeError, ValueError):
        pass
    if not callable(v):
        part("display")
        lines += ["Type:        %s" % type(v).__name__, "String form: %s" % str(v)[:200]]
    doc = inspect.getdoc(v)
    lines.append("Docstring:   %s" % doc if doc and "\n" not in doc else "Docstring:\n%s" % (doc or "<no docstring>"))
    try:
        lines.append("File:        %s" % inspect.getfile(v))
    except TypeError:
        pass
    lines.append("Type:        %s" % type(v).__name__)
    print("\n".join(lines if callable(v) else lines[:-1]))


def shown_as(mime, name):
    def show_it(line, body):
        part("display")
        publish({"text/plain": "<IPython.core.display.%s object>" % name, mime: body.lstrip("\n") + "\n"}, {})

    return show_it


def list_magics(line):
    print("Line magics:  " + " ".join("%" + n for n in sorted(LINE_MAGICS) if n[0].isalpha()))
    print("Cell magics:  " + " ".join("%%" + n for n in sorted(CELL_MAGICS)))


EXPANDED = ("!", "sx", "system", "pip", "cd", "sc", "ls", "run", "writefile", "bash", "sh", "script")
LINE_MAGICS = {
    "!": run_shell, "sx": capture_shell, "system": capture_shell, "?": describe, "pinfo": describe,
    "pip": pip, "conda": conda, "cd": cd, "pwd": lambda line: os.getcwd(), "ls": lambda line: run_shell("ls " + line),
    "env": env, "set_env": env, "time": timed, "timeit": timeit, "matplotlib": matplotlib_magic, "config": config,
    "run": run_file, "reset": reset, "who": who, "whos": whos, "lsmagic": list_magics,
}  # fmt: skip
CELL_MAGICS = {
    "bash": script("bash"), "sh": script("sh"), "script": any_script, "python3": script(sys.executable or "python3"),
    "time": timed, "timeit": timeit, "writefile": write_file, "file": write_file, "capture": capture,
    "html": shown_as("text/html", "HTML"), "HTML": shown_as("text/html", "HTML"),
    "markdown": shown_as("text/markdown", "Markdown"), "latex": shown_as("text/latex", "Latex"),
    "svg": shown_as("image/svg+xml", "SVG"), "javascript": shown_as("application/javascript", "Javascript"),
}  # fmt: skip


#: part ask
# Questions about the variables. They are answered between runs, so that nothing moves meanwhile. Looking must not
# change anything: no property is evaluated to find out what an object has.
part("json")

REPR_MAX = 200


def ask(what, payload):
    problem = None
    open_run()
    try:
        event(b"answer", QUESTIONS[what.decode()](payload.decode("utf-8", "surrogateescape")))
    except BaseException as e:
        problem = e
    if is_child:
        leave_child(1)
    if problem is not None:
        part("errors")
        fail(problem)
    close_run()


def of_user(name):
    return not name.startswith("_")


def variables(_=""):
    found = []
    for name, v in list(user.items()):
        if not isinstance(name, str) or not of_user(name) or type(v) is type(sys):
            continue
        about = {"name": name, "type": type_name(v), "repr": short_repr(v)}
        shape = shape_of(v)
        if shape is not None:
            about["shape"] = shape
        about["size"] = bytes_of(v)
        found.append(about)
    return found


def type_name(v):
    kind = type(v)
    home = kind.__module__
    return kind.__qualname__ if home in ("builtins", "__main__") else "%s.%s" % (home.split(".")[0], kind.__qualname__)


def is_known(v):
    """Arrays and tables whose attributes are safe to look at."""
    return type(v).__module__.split(".")[0] in ("numpy", "pandas", "polars", "torch", "jax", "jaxlib", "scipy", "xarray", "tensorflow", "pyarrow")  # fmt: skip


def shape_of(v):
    try:
        if is_known(v):
            return [int(n) for n in v.shape]
        if isinstance(v, (str, bytes, bytearray, list, tuple, dict, set, frozenset, range, memoryview)):
            return [len(v)]
    except Exception:
        pass
    return None


def bytes_of(v):
    try:
        if is_known(v):
            if type(v).__module__.startswith("pandas."):
                used = v.memory_usage()
                return int(used.sum() if hasattr(used, "sum") else used)
            return int(v.nbytes)
    except Exception:
        pass
    try:
        return sys.getsizeof(v)
    except Exception:
        return 0


def short_repr(v, depth=2):
    """Some words about a value; never a long one's whole repr."""
    kind = type(v)
    try:
        if kind in (str, bytes, bytearray) and len(v) > REPR_MAX:
            return repr(v[: REPR_MAX - 20]) + "..."
        if kind in (list, tuple, set, frozenset, dict):
            if depth == 0:
                return "..." if v else repr(v)
            import itertools

            some = list(itertools.islice(v.items() if kind is dict else v, 8))
            if kind is dict:
                inner = ["%s: %s" % (short_repr(k, depth - 1), short_repr(x, depth - 1)) for k, x in some]
            else:
                inner = [short_repr(x, depth - 1) for x in some]
            if len(v) > len(some):
                inner.append("...")
            left, right = {list: "[]", tuple: "()", dict: "{}", set: "{}", frozenset: ("frozenset({", "})")}[kind]
            if kind in (set, frozenset) and not v:
                return repr(v)
            if kind is tuple and len(v) == 1:
                right = ",)"
            text = left + ", ".join(inner) + right
        elif kind is int and v.bit_length() > 2000:
            return "<int of %d bits>" % v.bit_length()
        else:
            text = repr(v)
    except Exception as e:
        return "<%s: repr() failed with %s>" % (kind.__name__, type(e).__name__)
    return text if len(text) <= REPR_MAX else text[: REPR_MAX - 3] + "..."


def get(name):
    name = name.strip()
    if name in user:
        v = user[name]
    else:
        raise NameError("name %r is not defined" % name)
    part("display")
    data, metadata = bundle(v)
    answer = {"name": name, "type": type_name(v), "data": data or {}, "metadata": metadata or {}}
    shape = shape_of(v)
    if shape is not None:
        answer["shape"] = shape
    value, is_there = as_json(v, [])
    if is_there:
        text = json_text(value)
        if len(text) <= BUNDLE_MAX:
            answer["value"] = value
    return answer


def as_json(v, within):
    """(value, True) when JSON can say exactly that."""
    kind = type(v)
    if v is None or kind in (bool, int):
        return v, True
    if kind is str:
        return v, "\0" not in v and utf8(v).decode() == v
    if kind is float:
        return v, v - v == 0
    if kind.__module__ == "numpy":
        if getattr(v, "dtype", None) is not None and v.dtype.kind in "biufU" and v.size <= 1000000:
            return as_json(v.tolist(), within)
        return None, False
    if any([v is x for x in within]):
        return None, False
    within = within + [v]
    if kind in (list, tuple):
        found = [as_json(x, within) for x in v]
        return [x for x, _ in found], all([is_there for _, is_there in found])
    if kind is dict:
        if not all([type(k) is str for k in v]):
            return None, False
        found = {k: as_json(x, within) for k, x in v.items()}
        return {k: x for k, (x, _) in found.items()}, all([is_there for _, is_there in found.values()])
    return None, False


def set_variable(text):
    import json
    import keyword

    name, _, value = text.partition("\n")
    if not name.isidentifier() or keyword.iskeyword(name):
        raise NameError("%r cannot be the name of a variable" % name)
    user[name] = json.loads(value)
    return {"name": name, "type": type_name(user[name])}


def complete(text):
    cursor, _, code = text.partition("\n")
    raw = utf8(code)
    before = raw[: int(cursor)].decode("utf-8", "ignore")
    matches, length = completions(before)
    end = len(utf8(before))
    start = end - len(utf8(before[len(before) - length :]))
    return {"matches": matches[:1000], "start": start, "end": end}


def completions(before):
    """(what may stand there, how many characters of it are there already)."""
    import re

    line = before.rsplit("\n", 1)[-1]
    match = re.search(r"(?:^|;)\s*(?:from\s+([\w.]+)\s+import\s+(?:\(?[\w\s,]*,\s*|\(?\s*)(\w*)|(?:import|from)\s+(?:[\w., ]+,\s*)?([\w.]*))$", line)  # fmt: skip
    if match:
        if match.group(1):
            return members_of_module(match.group(1), match.group(2)), len(match.group(2))
        return module_names(match.group(3)), len(match.group(3).rpartition(".")[2])
    match = re.search(r"([A-Za-z_][\w.]*)\[\s*(['\"])([^'\"\[\]]*)$", line)
    if match:
        v, is_there = find(match.group(1))
        keys = keys_of(v) if is_there else []
        return sorted(k for k in keys if k.startswith(match.group(3))), len(match.group(3))
    match = re.search(r"%%?(\w*)$", line)
    if match and line.strip() == match.group(0):
        part("magics")
        table = CELL_MAGICS if match.group(0).startswith("%%") else LINE_MAGICS
        return sorted(n for n in table if n.startswith(match.group(1)) and n[0].isalpha()), len(match.group(1))
    match = re.search(r"([^\W\d][\w.]*|(?<=\.)\w*)$", line)
    if not match or re.search(r"[)\]}'\"]\.\w*$", line) or re.search(r"(?<![\w.])\d[\w.]*$", line):
        return [], 0
    whole = match.group(1)
    base, dot, word = whole.rpartition(".")
    if not dot:
        import keyword

        names = set(user) | set(dir(builtins)) | set(keyword.kwlist)
        names.discard("__cell_magic__")
    else:
        v, is_there = find(base)
        names = names_of(v) if is_there else ()
    found = [n for n in names if isinstance(n, str) and n.startswith(word)]
    if not word.startswith("_"):
        found = [n for n in found if not n.startswith("_")]
    return sorted(found), len(word)


def find(path):
    """The object of a.b.c, as far as nothing must be computed for it."""
    first, *rest = path.split(".")
    if first in user:
        v = user[first]
    elif hasattr(builtins, first):
        v = getattr(builtins, first)
    else:
        return None, False
    for name in rest:
        v, is_there = look(v, name)
        if not is_there:
            return None, False
    return v, True


def look(v, name):
    missing = []
    try:
        own = object.__getattribute__(v, "__dict__") if not isinstance(v, type) else {}
    except AttributeError:
        own = {}
    kinds = v.__mro__ if isinstance(v, type) else type(v).__mro__
    for kind in kinds:
        found = type.__getattribute__(kind, "__dict__").get(name, missing)
        if found is not missing:
            break
    if type(own) is dict and name in own and not hasattr(type(found), "__set__"):
        return own[name], True
    if found is missing:
        return None, False
    if isinstance(found, (staticmethod, classmethod)):
        return found.__func__, True
    import types

    if isinstance(found, (types.MemberDescriptorType,)) and not isinstance(v, type):
        try:
            return found.__get__(v), True
        except AttributeError:
            return None, False
    if hasattr(type(found), "__get__") and not isinstance(found, (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)):  # fmt: skip
        return None, False  # a property or the like
    return found, True


def names_of(v):
    names = set()
    try:
        own = object.__getattribute__(v, "__dict__")
        names.update(own)
    except (AttributeError, TypeError):
        pass
    for kind in v.__mro__ if isinstance(v, type) else type(v).__mro__:
        names.update(type.__getattribute__(kind, "__dict__"))
    if is_known(v) and type(v).__name__ == "DataFrame":
        names.update(c for c in keys_of(v) if c.isidentifier())
    return names


def keys_of(v):
    try:
        if type(v) is dict:
            keys = v.keys()
        elif is_known(v) and type(v).__name__ == "DataFrame":
            keys = v.columns
        elif type(v) is type(os.environ):
            keys = v.keys()
        else:
            return []
        return [k for k in keys if isinstance(k, str)][:1000]
    except Exception:
        return []


def module_names(text):
    import pkgutil

    base, dot, word = text.rpartition(".")
    if dot:
        return members_of_module(base, word, True)
    names = set(sys.builtin_module_names) | {m.name for m in pkgutil.iter_modules()}
    return sorted(n for n in names if n.startswith(word) and (word.startswith("_") or not n.startswith("_")))


def members_of_module(name, word, only_modules=False):
    """Of one that is imported: its names; else the files of its package. Nothing is imported to find out."""
    import pkgutil

    names = set()
    module = sys.modules.get(name)
    if module is not None:
        path = getattr(module, "__path__", None)
        if not only_modules:
            names.update(vars(module))
    else:
        try:
            from importlib.machinery import PathFinder

            path = None
            for i, piece in enumerate(name.split(".")):
                spec = PathFinder.find_spec(piece, path)
                path = spec.submodule_search_locations if spec is not None else None
                if path is None:
                    break
        except Exception:
            path = None
    if path:
        names.update(m.name for m in pkgutil.iter_modules(list(path)))
    return sorted(n for n in names if n.startswith(word) and (word.startswith("_") or not n.startswith("_")))


QUESTIONS = {"vars": variables, "get": get, "set": set_variable, "complete": complete}


#: part ipython
# Stands in for IPython where that is not installed: what notebooks import from it to show things.
part("display")


def ipython_spec(name):
    if name not in IPYTHON:
        return None
    from importlib.machinery import ModuleSpec

    return ModuleSpec(name, IPythonLoader, is_package=name in ("IPython", "IPython.core"))


class IPythonLoader:
    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        module.__doc__ = "What code for notebooks needs of IPython, which is not installed."
        for name, v in IPYTHON[module.__name__].items():
            setattr(module, name, v)


class DisplayObject:
    mime = "text/plain"

    def __init__(self, data=None, url=None, filename=None, metadata=None, **more):
        if data is not None and isinstance(data, os.PathLike):
            data, filename = None, os.fspath(data)
        if data is not None and isinstance(data, str) and url is None and filename is None:
            if data.startswith(("http://", "https://")) and type(self).takes_url:
                data, url = None, data
            elif type(self).takes_file and len(data) < 4096 and os.path.isfile(data):
                data, filename = None, data
        self.data, self.url, self.filename, self.metadata = data, url, filename, metadata or {}
        self.more = more
        if filename is not None:
            with open(filename, "rb") as f:
                self.data = f.read()
            if self.is_text:
                self.data = self.data.decode()

    takes_url = False
    takes_file = False
    is_text = True

    def __repr__(self):
        return "<IPython.core.display.%s object>" % type(self).__name__

    def _repr_mimebundle_(self, include=None, exclude=None):
        if self.data is None:
            return {}
        return {self.mime: self.data}, ({self.mime: self.metadata} if self.metadata else {})


class HTML(DisplayObject):
    mime = "text/html"

    def __html__(self):
        return self.data


class Markdown(DisplayObject):
    mime = "text/markdown"


class Latex(DisplayObject):
    mime = "text/latex"


class Math(Latex):
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/latex": r"$\displaystyle %s$" % self.data.strip("$")}


class SVG(DisplayObject):
    mime = "image/svg+xml"
    takes_file = True


class Javascript(DisplayObject):
    mime = "application/javascript"


class Pretty(DisplayObject):
    def _repr_pretty_(self, p, cycle):
        p.text(self.data)

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": self.data}


class JSON(DisplayObject):
    mime = "application/json"

    def __init__(self, data=None, url=None, filename=None, expanded=False, metadata=None, root="root", **more):
        if isinstance(data, str):
            import json

            data = json.loads(data)
        super().__init__(data, url, filename, {"expanded": expanded, "root": root, **(metadata or {})}, **more)
        if isinstance(self.data, str):
            import json

            self.data = json.loads(self.data)


class GeoJSON(JSON):
    mime = "application/geo+json"


class Code(DisplayObject):
    def __init__(self, data=None, url=None, filename=None, language=None):
        super().__init__(data, url, filename)
        self.language = language or ""

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": self.data, "text/markdown": "```%s\n%s\n```" % (self.language, self.data)}


class Image(DisplayObject):
    is_text = False
    takes_url = takes_file = True

    def __init__(self, data=None, url=None, filename=None, format=None, embed=None, width=None, height=None, **more):
        super().__init__(data, url, filename, **more)
        self.metadata = dict([(k, v) for k, v in (("width", width), ("height", height)) if v is not None], **self.metadata)
        self.format = (format or kind_of_picture(self.data)).lower().replace("jpg", "jpeg")

    def _repr_mimebundle_(self, include=None, exclude=None):
        if self.data is None:
            size = "".join([' %s="%d"' % item for item in self.metadata.items()])
            return {"text/html": '<img src="%s"%s/>' % (self.url, size)}
        mime = "image/svg+xml" if self.format == "svg" else "image/" + self.format
        return {mime: self.data}, {mime: self.metadata} if self.metadata else {}


def kind_of_picture(data):
    if isinstance(data, (bytes, bytearray)):
        for magic_bytes, kind in ((b"\x89PNG", "png"), (b"\xff\xd8", "jpeg"), (b"GIF8", "gif"), (b"<svg", "svg"), (b"<?xml", "svg")):  # fmt: skip
            if bytes(data[:5]).startswith(magic_bytes):
                return kind
        if data[8:12] == b"WEBP":
            return "webp"
    return "png"


class IFrame:
    def __init__(self, src, width, height, extras=None, **more):
        self.src, self.width, self.height = src, width, height

    def _repr_html_(self):
        return '<iframe width="%s" height="%s" src="%s" frameborder="0" allowfullscreen></iframe>' % (self.width, self.height, self.src)  # fmt: skip


class FileLink:
    def __init__(self, path, url_prefix="", **more):
        self.path, self.url_prefix = str(path), url_prefix

    def __repr__(self):
        return os.path.abspath(self.path)

    def _repr_html_(self):
        return "<a href='%s%s' target='_blank'>%s</a><br>" % (self.url_prefix, self.path, self.path)


def display_as(mime):
    def show_them(*objects, **how):
        show([{mime: x} if isinstance(x, (str, bytes)) else {mime: bundle(x)[0].get(mime)} for x in objects], raw=True, **how)

    return show_them


def get_ipython():
    """None: there is no IPython shell here."""
    return None


in_display = {
    c.__name__: c
    for c in (DisplayObject, HTML, Markdown, Latex, Math, SVG, Javascript, Pretty, JSON, GeoJSON, Code, Image, IFrame, FileLink, DisplayHandle, clear_output, update_display, publish_display_data, display)  # fmt: skip
}
for kind in in_display.values():
    if isinstance(kind, type):
        kind.__module__ = "IPython.core.display"
in_display.update({"display_" + n: display_as(m) for n, m in (("html", "text/html"), ("markdown", "text/markdown"), ("svg", "image/svg+xml"), ("png", "image/png"), ("latex", "text/latex"), ("json", "application/json"))})  # fmt: skip
IPYTHON = {
    "IPython": {"get_ipython": get_ipython, "display": None, "version_info": (0, 0, 0, ""), "__version__": "0.0.0"},
    "IPython.core": {},
    "IPython.display": in_display,
    "IPython.core.display": in_display,
    "IPython.core.display_functions": in_display,
    "IPython.core.getipython": {"get_ipython": get_ipython},
}
del IPYTHON["IPython"]["display"]
