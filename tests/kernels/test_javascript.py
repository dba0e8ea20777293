# SPDX-License-Identifier: Apache-2.0
"""The JavaScript kernel by itself, spoken to as the guest speaks to it."""

import json
import signal
import subprocess
import time

import pytest

from driver import Died
from languages import Starter, interrupt_at_display, node_argv, wait_for


@pytest.fixture
def start(tmp_path):
    starter = Starter("javascript", tmp_path)
    yield starter
    starter.close()


@pytest.fixture
def d(start):
    return start()


def kept(d):
    assert d.run("kept").value == "7"


# ---- state and values ----


def test_says_what_it_is(d):
    assert d.ready["language"] == "javascript"
    assert d.ready["version"] == subprocess.run([node_argv()[0], "-p", "process.versions.node"], capture_output=True, text=True).stdout.strip()


def test_variables_stay(d):
    d.run("let a = 1; const b = 2; var c = 3; function f() { return a + b + c } class K { m() { return 'k' } }")
    assert d.run("f()").value == "6"
    assert d.run("new K().m()").value == "'k'"


KINDS = {"let": "let v = {}", "const": "const v = {}", "var": "var v = {}", "function": "function v() {{ return {} }}", "class": "class v {{ static x = {} }}"}
READ = {"function": "v()", "class": "v.x"}


@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
def test_a_name_is_declared_again(d, first, second):
    assert d.run(KINDS[first].format(1)).status == "ok"
    assert d.run(READ.get(first, "v")).value == "1"
    r = d.run(KINDS[second].format(2))
    assert r.status == "ok", r
    assert d.run(READ.get(second, "v")).value == "2"


def test_twice_in_one_run_is_an_error(d):
    r = d.run("let twice = 1; let twice = 2")
    assert r.error["name"] == "SyntaxError" and "twice" in r.error["message"]


def test_destructuring_is_declared_again(d):
    d.run("const {q, w: [e]} = {q: 1, w: [2]}")
    d.run("const {q, w: [e]} = {q: 3, w: [4]}")
    assert d.run("[q, e]").value == "[ 3, 4 ]"


# The same expressions in `node -p`, shown as the REPL shows them.
EXPRESSIONS = [
    "1 + 1", "-0", "NaN", "10n ** 20n", "'a\\n\"b'", "`t${1 + 1}`", "null", "true", "[1, , 2]", "[]", "({})", "({a: 1, b: {c: [1, {d: 2}]}})",
    "new Map([[1, {a: 2}]])", "new Set('ab')", "Symbol('s')", "/a\\/b/g", "new Date(0)", "(x) => x", "class A extends Map {}", "new Error('e').message",
    "Buffer.from('hi')", "new Uint8Array(3)", "Array(200).fill(0)", "'x'.repeat(20000)", "Object.create(null)", "new (class Foo { a = 1 })",
    "[undefined, null]", "({get a() { return 1 }})", "new Proxy({a: 1}, {})", "globalThis === global", "[1.5, 'a', true, null, {}]", "new WeakMap()",
    "(function () { return arguments })(1, 2)", "new ArrayBuffer(4)", "process.versions.v8.length > 0", "Promise", "async () => {}", "function* g() {}",
    "const {a, b = 2} = {a: 1}; a + b", "for (let i = 0; i < 3; i++) i", "if (true) { 5 } else { 6 }", "let z = 1; z++; z", "var u = 3", "{a: 1}",
    "try { null.x } catch (e) { e.constructor.name }", "label: for (;;) { break label }", "x = 5, x * 2", "switch (1) { case 1: 'one' }",
]  # fmt: skip


def test_values_are_those_of_node(d):
    script = """
    const vm = require('vm'), util = require('util');
    const out = JSON.parse(require('fs').readFileSync(0, 'utf8')).map((code) => {
        const v = vm.runInThisContext('{' + '}\\n' && code);
        return v === undefined ? null : util.inspect(v, {showProxy: true});
    });
    console.log(JSON.stringify(out));
    """
    singles = []
    for code in EXPRESSIONS:
        done = subprocess.run([node_argv()[0], "-e", script], input=json.dumps([code]), capture_output=True, text=True, check=True)
        singles += json.loads(done.stdout)
    assert [d.run(code).value for code in EXPRESSIONS] == singles


def test_values_as_json_where_nothing_is_lost(d):
    assert d.run("({a: [1, 'x', null, {b: true}]})").data["application/json"] == {"a": [1, "x", None, {"b": True}]}
    for code in ("({a: undefined})", "({a: () => 1})", "new Map()", "[NaN]", "const o = {}; o.o = o; o", "[1,,2]", "5", "({get a() { return 1 }})"):
        assert "application/json" not in d.run(code).data, code


def test_undefined_is_no_value(d):
    assert d.run("undefined").value is None
    assert d.run("let nothing = 1").value is None


def test_top_level_await(d):
    assert d.run("let v = await new Promise(r => setTimeout(r, 5, 4)); v * 2").value == "8"
    assert d.run("v").value == "4"
    assert d.run("for await (const x of (async function* () { yield 1; yield 2 })()) console.log(x)").out == "1\n2\n"


def test_a_promise_at_the_end_is_awaited(d):
    r = d.run("async function main() { await new Promise(r => setTimeout(r, 5)); console.log('in'); return 3 }\nmain()")
    assert (r.out, r.value) == ("in\n", "3")
    r = d.run("main().then(() => { throw new RangeError('no') })")
    assert r.error["name"] == "RangeError"


# ---- modules ----


def test_modules(d, tmp_path):
    (tmp_path / "cjs.js").write_text("exports.x = 'cjs'")
    (tmp_path / "esm.mjs").write_text("export default 'main'; export const y = 'esm', z = 2;")
    package = tmp_path / "node_modules" / "thing"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"name": "thing", "main": "i.js"}')
    (package / "i.js").write_text("module.exports = 'thing'")
    assert d.run("require('./cjs.js').x").value == "'cjs'"
    assert d.run("require('thing')").value == "'thing'"
    assert d.run("import m, { y, z as two } from './esm.mjs'\n[m, y, two]").value == "[ 'main', 'esm', 2 ]"
    assert d.run("import * as ns from './esm.mjs'; ns.y").value == "'esm'"
    assert d.run("import thing from 'thing'; thing").value == "'thing'"
    assert d.run("import 'fs'\nimport d2, * as all from './esm.mjs'; [d2, all.z]").value == "[ 'main', 2 ]"
    assert d.run("(await import('./esm.mjs')).z").value == "2"
    assert d.run("import.meta.dirname").value == repr(str(tmp_path))
    r = d.run("1\nimport { nope } from './esm.mjs'")
    assert r.error["name"] == "SyntaxError" and "nope" in r.error["message"]
    assert d.run("import x from './missing.mjs'").error["name"] == "Error"


def test_modules_follow_the_directory(d, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "here.js").write_text("exports.x = 'here'")
    assert d.run("require('./here.js')").error
    d.run("process.chdir('sub')")
    assert d.run("require('./here.js').x").value == "'here'"


def test_exports_are_declarations(d):
    assert d.run("export const a = 1; export function f() { return 2 }\nexport { a }").status == "ok"
    assert d.run("a + f()").value == "3"
    assert d.run("export default { k: 1 }").status == "ok"


def test_words_that_only_look_like_modules(d):
    code = "const o = {import: 1, export: 2, const: 3}; const s = 'import x from y', t = `export ${'const'} `, r = /import (a)/; // import q\no.import + o.export + o.const + s + t + r"
    assert d.run(code).value == "'6import x from yexport const /import (a)/'"
    assert d.run("const half = 4 / 2 / 1; const re = [/'/, 1]; half").value == "2"


def test_methods_named_import(d, tmp_path):
    (tmp_path / "m.mjs").write_text("export const z = 2")
    code = "class A { static import(a, b = (1)) /* so */ { return a + b } #import() { return 'own' } run() { return this.#import() } }\n"
    code += "const o = { import(x) { return x }, async *b() {}, other: import('./m.mjs') };"
    assert d.run(code + "\n[A.import(1), A . import(2, 3), A?.import(4), new A().run(), o.import(7), (await o.other).z]").value == "[ 2, 5, 5, 'own', 7, 2 ]"
    assert d.run("let n = 0; if ((await import('./m.mjs')).z) { n = 1 }\nfor (const k in await import('./m.mjs')) { n++ }\nn").value == "2"


# ---- streams ----


def test_order_of_stdout_and_stderr(d):
    r = d.run("for (let i = 0; i < 300; i++) { console.log('o' + i); console.error('e' + i) }")
    want = []
    for i in range(300):
        want += [("stdout", b"o%d\n" % i), ("stderr", b"e%d\n" % i)]
    assert r.merged == want


def test_output_comes_before_what_is_shown(d):
    r = d.run("process.stdout.write('a'); display(1); process.stdout.write('b'); display.html('<b>'); 5")
    assert [kind for kind, _ in r.events] == ["stdout", "display", "stdout", "display", "result"]


def test_much_output(d):
    r = d.run("for (let i = 0; i < 100; i++) process.stdout.write('x'.repeat(1e6))")
    assert len(r.out) == 100_000_000


def test_children_write_too(d):
    r = d.run("require('child_process').execFileSync('sh', ['-c', 'echo out; echo err >&2'], {stdio: 'inherit'}); 1")
    assert (r.out, r.err, r.value) == ("out\n", "err\n", "1")
    r = d.run("require('child_process').execFileSync('ls', ['-l', '/proc/self/fd'], {encoding: 'utf8'}).replace(/.*\\d -> /g, '')")
    assert "memfd" not in r.value and r.value.count("socket") <= 3, r.value  # Node's own pipes to it are sockets


def test_a_replaced_write_is_used_and_can_be_put_back(d):
    r = d.run("const seen = []; const w = process.stdout.write; process.stdout.write = s => { seen.push(s); return true }; console.log('x'); process.stdout.write = w; console.log('y'); seen")
    assert (r.out, r.value) == ("y\n", "[ 'x\\n' ]")


@pytest.mark.parametrize("code", ["fs.closeSync(1)", "fs.closeSync(1); fs.closeSync(2)", "fs.closeSync(0); fs.closeSync(1); fs.closeSync(2)"])
def test_a_closed_stdout_is_open_again_in_the_next_run(d, code):
    r = d.run(f"var fs = require('fs'); {code}; console.log('lost'); 5")
    assert (r.status, r.value, r.out) == ("ok", "5", "")
    r = d.run("console.log('there'); console.error('too'); 6")
    assert (r.value, r.out, r.err) == ("6", "there\n", "too\n")
    assert d.run("require('child_process').execSync('echo child', {stdio: 'inherit'}); 7").out == "child\n"


# ---- errors ----


def test_an_error_shows_the_users_lines_only(d):
    d.run("function inner() {\n  throw new RangeError('deep')\n}")
    r = d.run("function outer() { inner() }\n\nouter()")
    assert r.status == "error"
    assert r.error["name"] == "RangeError" and r.error["message"] == "deep"
    text = "\n".join(r.error["traceback"])
    assert "Cell[1]:2:9" in text and "Cell[2]:1:20" in text and "Cell[2]:3:1" in text
    assert r.error["traceback"][:3] == ["Cell[1]:2", "  throw new RangeError('deep')", "        ^"]
    assert "node:" not in text and "<cell>" not in text


def test_a_syntax_error_shows_its_place(d):
    r = d.run("let ok = 1\nlet = = 2")
    assert r.error["name"] == "SyntaxError"
    assert r.error["traceback"][:2] == ["Cell[1]:2", "let = = 2"]
    assert d.run("typeof ok").value == "'undefined'"


@pytest.mark.parametrize("code, name, message", [
    ("nope", "ReferenceError", "nope is not defined"),
    ("null.x", "TypeError", "null"),
    ("throw 5", "Uncaught", "5"),
    ("throw 'text'", "Uncaught", "text"),
    ("throw {a: 1}", "Uncaught", "{ a: 1 }"),
    ("throw undefined", "Uncaught", "undefined"),
    ("throw Object.assign(new Error('m'), {name: 'Mine'})", "Mine", "m"),
    ("(function f() { f() })()", "RangeError", "call stack"),
    ("JSON.parse('{')", "SyntaxError", "JSON"),
    ("foo(", "SyntaxError", "Unexpected end"),
    ("Promise.reject(new TypeError('r'))", "TypeError", "r"),
    ("await Promise.reject(new TypeError('r'))", "TypeError", "r"),
    ("Promise.reject(new TypeError('aside')); 5", "TypeError", "aside"),
    ("setTimeout(() => { throw new Error('timer') }, 1); await new Promise(() => {})", "Error", "timer"),
])  # fmt: skip
def test_errors(d, code, name, message):
    r = d.run(code)
    assert r.status == "error" and r.error["name"] == name and message in r.error["message"]
    assert d.run("1 + 1").value == "2"


def test_an_error_between_runs_is_late_output(d):
    r = d.run("setTimeout(() => { console.log('tick'); throw new Error('between') }, 50); 0")
    assert r.value == "0"
    late = [e for e in r.events if e[0] != "result"]  # on a busy machine it may be there before we read of the run's end

    def has_come():
        late.extend(d.late_output())
        return b"between" in b"".join(v for _, v in late)

    wait_for(has_come, "the error")
    assert ("stdout", b"tick\n") in late
    assert d.run("2").value == "2"


def test_timers_go_on_between_runs(d):
    d.run("var n = 0; var t = setInterval(() => n++, 5)")
    wait_for(lambda: int(d.run("n").value) > 3, "the timer")
    d.run("clearInterval(t)")


# ---- display ----


def test_display(d):
    r = d.run("display({a: 1}); display.html('<b>x</b>'); display.png(Buffer.from('img')); display.json({k: [1]}); display.markdown('*m*'); display.mime({'text/latex': '$x$'}); display.clear()")
    data = [v["data"] for v in r.displays]
    assert data[0]["application/json"] == {"a": 1}
    assert data[1]["text/html"] == "<b>x</b>"
    assert data[2]["image/png"] == "aW1n"
    assert data[3]["application/json"] == {"k": [1]}
    assert data[4]["text/markdown"] == "*m*" and data[5] == {"text/latex": "$x$"}
    assert r.one("clear") == {"wait": False}


def test_display_with_an_id_is_updated(d):
    r = d.run("display(1, {id: 'p'}); display.update('p', 2)")
    assert [(v["id"], v.get("update")) for v in r.displays] == [("p", None), ("p", True)]


def test_values_show_themselves(d):
    assert d.run("({_repr_html_() { return '<i>' }})").data["text/html"] == "<i>"
    assert d.run("({[Symbol.for('Jupyter.display')]() { return {'text/html': '<u>', 'text/plain': 'u'} }})").data == {"text/html": "<u>", "text/plain": "u"}


def test_a_bundle_that_is_too_big_is_cut(d):
    r = d.run("display.html('x'.repeat(17 << 20))")
    assert "text/html" in r.displays[0]["metadata"]["dropped"]
    assert "too big" in r.displays[0]["data"]["text/plain"]


# ---- input ----


def test_input(d):
    assert d.run("prompt('who?') + '!'", answers=["Ada"]).value == "'Ada!'"
    r = d.run("await input('who?', {password: true}) + await input()", answers=["a", "b"])
    assert r.value == "'ab'" and r.all("input") == [{"prompt": "who?", "password": True}, {"prompt": "", "password": False}]


def test_no_input(d):
    assert d.run("prompt('x')").value == "null"
    assert d.run("await input('x')").error["name"] == "EOFError"


# ---- interrupts and ends ----


@pytest.mark.parametrize("code", [
    "display(0); while (true) {}",
    "display(0); await 1; while (true) {}",
    "await 1; display(0); while (true) {}",
    "display(0); await new Promise(() => {})",
    "await new Promise(r => setTimeout(r, 1)); display(0); while (true) {}",
    "setTimeout(() => { display(0); while (true) {} }, 1); await new Promise(() => {})",
    "require('fs').readFile('/dev/null', () => { display(0); while (true) {} }); await new Promise(() => {})",
    "process.nextTick(() => { display(0); while (true) {} })",
    "({[Symbol.for('nodejs.util.inspect.custom')]() { display(0); while (true) {} }})",
    "display(0); require('child_process').spawnSync('sleep', ['1000'])",
    "display(0); try { while (true) {} } catch { while (true) {} }",
])  # fmt: skip
def test_an_interrupt_keeps_the_state(d, code):
    d.run("let kept = 7")
    r = interrupt_at_display(d, code)
    assert r.status == "error" and r.error["name"] == "Interrupted"
    kept(d)
    assert d.run("await new Promise(r => setTimeout(r, 1, 'timers work'))").value == "'timers work'"


def test_an_interrupt_while_input_is_waited_for(d):
    d.run("let kept = 7")
    for code in ("prompt('q')", "await input('q')"):
        d.start(code, "i")
        d.until(("input",))
        d.interrupt()
        assert d.finish().error["name"] == "Interrupted"
        kept(d)


def test_an_interrupt_that_came_too_late_stops_nothing(d):
    """Between two runs, when it is for neither. Node hears of it from another thread, which may come late."""
    d.run("let kept = 7")
    for _ in range(100):
        d.interrupt()
        assert d.run("for (let i = 0; i < 200000; i++); kept").value == "7"


def test_a_late_interrupt_of_the_run_before_is_waited_for(d):
    """The guest says that it has sent one, and nothing was heard of it: it is for nobody, however late it comes."""
    d.run("let kept = 7")
    d.start("await new Promise(r => setTimeout(r, 1000)); kept", "-l")
    time.sleep(0.05)
    d.interrupt()
    r = d.finish()
    assert (r.status, r.value) == ("ok", "7")


def test_an_interrupt_that_was_heard_is_not_waited_for_again(d):
    interrupt_at_display(d, "display(0); await new Promise(() => {})")
    d.start("setTimeout(() => display(1), 1); await new Promise(() => {})", "-l")
    d.until(("display",))
    d.interrupt()
    assert d.finish().error["name"] == "Interrupted"


def test_an_interrupt_that_never_comes_is_not_waited_for_long(d):
    d.start("40 + 2", "-l")
    assert d.finish().value == "42"


def test_the_users_own_handler_gets_it(d):
    d.run("process.on('SIGINT', () => console.log('mine'))")
    d.start("setTimeout(() => display(0), 1); await new Promise(r => process.once('SIGINT', r))")
    d.until(("display",))
    d.interrupt()
    r = d.finish()
    assert r.status == "ok" and "mine" in r.out


@pytest.mark.parametrize("code, exit_code", [("process.exit(3)", b"3"), ("process.exitCode = 4; process.exit()", b"4"), ("setTimeout(() => process.exit(5), 1); await new Promise(() => {})", b"5"), ("process.exit()", b"0")])
def test_exit_ends_it(d, code, exit_code):
    r = d.run("process.on('exit', () => console.log('bye'));" + code)
    assert (r.status, r.code, r.out) == ("exit", exit_code, "bye\n")
    wait_for(lambda: d.process.poll() is not None, "its end")


def test_out_of_memory_is_its_end(start):
    d = start(env={"NODE_OPTIONS": "--max-old-space-size=64"})
    with pytest.raises(Died) as e:
        d.run("const a = []; for (;;) a.push(new Array(1000).fill({}))")
    assert e.value.status == -signal.SIGABRT


def test_being_killed(d):
    with pytest.raises(Died) as e:
        d.run("process.kill(process.pid, 'SIGKILL')")
    assert e.value.status == -signal.SIGKILL


def test_it_ends_with_its_guest(d):
    d.control.close()
    wait_for(lambda: d.process.poll() is not None, "its end")


def test_a_promise_nobody_can_settle_does_no_harm(d):
    d.run("require('v8').setFlagsFromString('--expose-gc'); const gc = require('vm').runInNewContext('gc')")
    r = interrupt_at_display(d, "display(0); await new Promise(() => {})")
    assert r.error["name"] == "Interrupted"
    assert d.run("gc(); gc(); 1").value == "1"


# ---- questions ----


def test_vars_get_set(d):
    d.run("let n = 5; var list = [1, 2, 3]; const o = {a: 1}; function f() {} class K {} let late")
    found = {v["name"]: v for v in d.ask("vars")}
    assert {n: v["type"] for n, v in found.items()} == {"n": "number", "list": "Array", "o": "Object", "f": "function", "K": "class", "late": "undefined"}
    assert found["list"]["shape"] == [3] and found["list"]["repr"] == "[ 1, 2, 3 ]"
    assert d.ask("get", "o")["value"] == {"a": 1}
    assert "value" not in d.ask("get", "f")
    d.ask("set", 'n\n{"x": [1]}')
    d.ask("set", "fresh\n8")
    assert d.run("[n.x[0], fresh]").value == "[ 1, 8 ]"
    for what, payload in (("get", "nope"), ("get", "1+1"), ("set", "a b\n1"), ("set", "x\n{")):
        d.tell(f"ask {what}", payload.encode())
        assert d.finish().status == "error", payload


def test_complete(d):
    d.run("const myLongName = {alpha: 1, alps: 2}")
    assert d.ask("complete", "3\nmyL")["matches"] == ["myLongName"]
    r = d.ask("complete", "14\nmyLongName.alp")
    assert r["matches"][:2] == ["alpha", "alps"] and (r["start"], r["end"]) == (11, 14)
    assert d.ask("complete", "14\n'é'; process.s")["matches"]
    assert "fs" in d.ask("complete", "10\nrequire('f")["matches"]


def test_begin(start, tmp_path):
    (tmp_path / "w x").mkdir()
    d = start(begin=f"cwd={str(tmp_path).replace('/', '%2F')}/w%20x\nenv.K=a%3Db\npreload=path,no-such-module")
    assert d.run("process.cwd() + ' ' + process.env.K").value == f"'{tmp_path}/w x a=b'"
    assert list(d.ready["preload_failed"]) == ["no-such-module"]


def test_nothing_of_the_driver_is_in_the_way(d):
    assert d.ask("vars") == []
    assert d.run("Object.keys(globalThis).filter(k => /cell|import|display|prompt|input/.test(k))").value == "[]"
    assert d.run("let display = 1, prompt = 2, input = 3; display + prompt + input").value == "6"
    assert d.run("process.argv.length + process.execArgv.length").value == "1"


def test_a_long_code_and_all_of_unicode(d):
    text = "é漢𝄞" * 100_000
    assert d.run(f"'{text}'.length").value == str(len(text.encode("utf-16-le")) // 2)
    assert d.run("console.log('é漢𝄞')").out == "é漢𝄞\n"
