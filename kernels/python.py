# The smallest driver that can run code: a placeholder until the real one is here.
import ast, json, os, socket, sys, traceback

sock = socket.socket(fileno=3)
os.set_inheritable(3, False)
rx = sock.makefile("rb")


def send(head, payload=b""):
    sock.sendall(b"%s %d\n%s" % (head, len(payload), payload))


def send_json(head, value):
    send(head, json.dumps(value).encode())


space = {"__name__": "__main__", "__builtins__": __builtins__}


def run(code, count):
    try:
        tree = ast.parse(code, "<cell %d>" % count)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        exec(compile(tree, "<cell %d>" % count, "exec"), space)
        if last:
            value = eval(compile(last, "<cell %d>" % count, "eval"), space)
            if value is not None:
                sys.stdout.flush()
                send_json(b"result", {"data": {"text/plain": repr(value)}, "metadata": {}})
        return b"ok"
    except BaseException as e:
        sys.stdout.flush()
        send_json(b"error", {"name": type(e).__name__, "message": str(e), "traceback": traceback.format_exc().splitlines()})
        return b"error"
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


while True:
    try:
        line = rx.readline().split()
        if not line:
            break
        payload = rx.read(int(line[-1]))
        if line[0] == b"begin":
            send_json(b"ready", {"language": "python", "version": "%d.%d.%d" % sys.version_info[:3]})
        elif line[0] == b"run":
            send(b"done " + run(payload.decode(), int(line[1])))
        elif line[0] == b"ask":
            send_json(b"answer", [])
            send(b"done ok")
    except KeyboardInterrupt:
        pass
