# SPDX-License-Identifier: Apache-2.0
"""The shell kernel by itself, spoken to as the guest speaks to it, and compared with bash -c."""

import os
import signal
import subprocess

import pytest

from driver import Died
from languages import ARGV, Starter, interrupt_and_finish, wait_for


@pytest.fixture
def start(tmp_path):
    starter = Starter("shell", tmp_path)
    yield starter
    starter.close()


@pytest.fixture
def d(start):
    return start()


# ---- state ----


def test_says_what_it_is(d):
    bash = ARGV["shell"]()[0]
    version = subprocess.run([bash, "-c", "echo ${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}.${BASH_VERSINFO[2]}"], capture_output=True, text=True).stdout.strip()
    assert (d.ready["language"], d.ready["version"]) == ("shell", version)


def test_everything_stays(d, tmp_path):
    d.run("x=40; export E=env; arr=(1 '2 3'); declare -A m=([k]=v); f() { echo \"f $1\"; }; mkdir -p sub; cd sub; alias hi='echo aliased'; set -- p1 p2; exec 5>out5; umask 077; shopt -s nullglob; set -o pipefail")
    r = d.run("echo $((x + 2)) $(printenv E) \"${arr[1]}\" ${m[k]}; f 1; basename $PWD; hi; echo $2; echo five >&5; cat out5; umask; echo *.none; false | true; echo $?")
    assert r.out == "42 env 2 3 v\nf 1\nsub\naliased\np2\nfive\n0077\n\n1\n"
    assert r.status == "ok"


def test_the_status_stays(d):
    d.run("(exit 5)")
    assert d.run("echo $?").out == "5\n"
    assert d.run("echo $?").out == "0\n"


def test_nothing_of_the_driver_is_in_the_way(d):
    assert d.ask("vars") == []
    assert d.run("history; echo ${HISTFILE-none} ${PS1-none}$PROMPT_COMMAND").out == "none\n"
    assert d.run("ls -l /proc/self/fd").out.count(" -> socket") == 0
    assert not {"253", "254"} & set(d.run("ls /proc/self/fd").out.split())


# The same code in bash -c: stdout, stderr (without the name of the shell) and status.
SNIPPETS = [
    "echo hi", "printf 'a\\tb\\n'; printf 'c'", "false", "true", "(exit 7)", "ls /nonexistent-dir", "echo a >&2; echo b",
    "for i in 1 2 3; do echo $i; done", "i=0; while ((i < 3)); do ((i++)); echo $i; done", "f() { return 4; }; f", "f() { local v=1; echo $v; }; f; echo \"[$v]\"",
    "cat <<EOF\nline $((1 + 1))\n  two\nEOF", "cat <<'EOF'\n$HOME\nEOF", "cat <<-EOF\n\ttab\n\tEOF", "x='a  b'; echo $x; echo \"$x\"", "echo {1..5} a{b,c}d",
    "arr=(a b c); echo ${#arr[@]} ${arr[@]:1} ${!arr[@]}", "declare -A m=([a]=1 [b]=2); echo ${m[a]}${m[b]}", "s=hello; echo ${s^} ${s:1:3} ${s/l/L} ${s#he} ${#s}",
    "echo $(echo nested $(echo deep))", "echo one | tr a-z A-Z | rev", "[[ abc == a* ]] && echo yes", "case x in y) echo no ;; x) echo yes ;; esac",
    "echo 'single \"quoted\"' \"double 'quoted'\"", "echo $'tab\\there'", "true && false || echo fallback", "! true", "if false; then echo a; else echo b; fi",
    "set -e\necho a\nfalse\necho b", "set -e; f() { false; echo no; }; f; echo no", "set -e; f() { false; echo shown; }; f || true; echo after", "set -e; if false; then :; fi; echo after",
    "set -e; x=$(false); echo no", "set -eo pipefail; false | true; echo no", "set -u\necho $undefined_variable\necho no", "echo ${undefined:-default}", "echo ${undefined:?must be set}\necho no",
    "readonly r=1; r=2; echo no", "nonexistent_command_xyz", "nonexistent_command_xyz || echo $?", "set -x; echo t; set +x" if False else "echo t",
    "exec 3>&1; echo three >&3", "echo a > f.txt; cat f.txt; echo b >> f.txt; wc -l < f.txt", "{ echo out; echo err >&2; } 2>&1", "diff <(echo a) <(echo b)", "read a b <<< 'x y z'; echo \"$b\"",
    "while IFS= read -r l; do echo \"[$l]\"; done < <(printf 'a\\n b\\n')", "mapfile -t lines < <(seq 3); echo ${lines[2]}", "echo a; return 3; echo b" if False else "echo b", "trap 'echo trapped' USR1; kill -USR1 $$; echo after",
    "sleep 0 & wait; echo waited", "sleep 0 & wait $!; echo $?", "time_is=$(date +%Y); [ ${#time_is} = 4 ] && echo ok", "echo \"$@\" $#", "select_none=1; echo ${!select_*}", "printf '%s|' a 'b c'; echo", "eval 'echo evaluated'",
    "echo é漢; s=é漢; echo ${#s}", "shopt -s extglob\ncase ab in @(ab|c)) echo ext ;; esac", "alias ll='echo aliased'\nunalias ll", "let 'x = 5 * 5'; echo $x", "echo $BASH_SUBSHELL; (echo $BASH_SUBSHELL)", "unset -f nofunc; echo ok",
    "# only a comment", "", "  \n\n", "echo last; # comment", "echo a \\\n  b", "cd /; pwd; cd - > /dev/null; [ \"$PWD\" != / ] && echo back", "kill -TERM $BASHPID & wait $!; echo $?", "(kill -9 $BASHPID); echo $?",
]  # fmt: skip


@pytest.mark.parametrize("code", SNIPPETS)
def test_as_bash_does(d, tmp_path, code):
    # Job messages and line numbers are for who watches or has a script; bash -c says them elsewhere.
    bash = ARGV["shell"]()[0]
    other = tmp_path / "other"
    other.mkdir()
    want = subprocess.run([bash, "--norc", "-c", code, "bash"], capture_output=True, text=True, cwd=other, stdin=subprocess.DEVNULL, env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(other)})
    r = d.run(code)
    status = 0 if r.status == "ok" else int(r.error["message"].split("exit status ")[1].split(" ")[0].rstrip(")"))
    assert r.out == want.stdout
    # Unset variables end bash -c with 127, and an interactive shell's command with 1.
    assert status == want.returncode or (status, want.returncode) == (1, 127)
    if "line " not in want.stderr:
        assert r.err == want.stderr


def test_what_ends_a_line_ends_the_code(d):
    """A division by zero ends a line of bash -c; here it ends them all, as an error should."""
    r = d.run("echo $((1 / 0))\necho no")
    assert (r.status, r.out) == ("error", "") and "division by 0" in r.err


@pytest.mark.parametrize("code", ["if [", "echo 'open", "for x in", "echo )", "case x in", "f() {", "echo $(", "done"])
def test_a_syntax_error_is_one_and_nothing_runs(d, code):
    r = d.run("echo before\n" + code)
    assert r.status == "error" and r.error["name"] == "SyntaxError" and r.out == ""
    assert r.error["message"].startswith("line ")
    assert d.run("echo fine").out == "fine\n"


def test_break_and_return_do_not_leave_the_driver(d):
    assert d.run("break; continue 5; echo on").out == "on\n"
    r = d.run("return 3\necho still")
    assert (r.status, r.out) == ("ok", "still\n")
    assert d.run("echo there").out == "there\n"


# ---- errors and ends ----


def test_a_status_is_an_error(d):
    r = d.run("(exit 3)")
    assert (r.status, r.error["name"], r.error["message"]) == ("error", "ExitStatus", "exit status 3")
    assert d.run("sh -c 'kill -SEGV $$'").error["message"] == "exit status 139 (SIGSEGV)"


def test_set_e_keeps_the_state(d):
    r = d.run("set -euo pipefail\nkept=7\nfalse\nkept=lost")
    assert r.status == "error" and r.error["message"] == "exit status 1" and r.err == ""
    assert d.run("echo $kept; [[ -o errexit ]] && echo e").out == "7\ne\n"
    assert d.run("f() { (exit 9); echo no; }\nf\necho no").error["message"] == "exit status 9"
    assert d.run("set +eu; false; echo on").out == "on\n"


@pytest.mark.parametrize("code, exit_code, out", [("exit 3", b"3", ""), ("false; exit", b"1", ""), ("trap 'echo bye' EXIT; exit 4", b"4", "bye\n"), ("f() { exit 5; }; f; echo no", b"5", ""), ("(exit 2); echo $?; x=$(exit 3); exit 6", b"6", "2\n")])
def test_exit_ends_it(d, code, exit_code, out):
    r = d.run(code)
    assert (r.status, r.code, r.out, r.err) == ("exit", exit_code, out, "")
    wait_for(lambda: d.process.poll() is not None, "its end")


def test_being_killed(d):
    with pytest.raises(Died) as e:
        d.run("kill -9 $$")
    assert e.value.status == -signal.SIGKILL


def test_it_ends_with_its_guest(d):
    d.control.close()
    wait_for(lambda: d.process.poll() is not None, "its end")


# ---- streams ----


def test_much_output(d):
    assert len(d.run("head -c 100000000 /dev/zero").stream("stdout")) == 100_000_000


def test_a_redirected_and_a_closed_stdout(d, tmp_path):
    assert d.run("exec 8>&1 >file; echo hidden").out == ""
    assert d.run("echo more; exec >&8; echo shown").out == "shown\n"
    assert (tmp_path / "file").read_text() == "hidden\nmore\n"
    assert d.run("exec >&-; echo lost").status == "error"
    assert d.run("exec >&8; echo again").out == "again\n"


def test_background_jobs_go_on(d, tmp_path):
    r = d.run("(while [ ! -e go ]; do sleep 0.02; done; echo from behind) & echo started $!")
    assert r.out.startswith("started ") and r.err == ""
    (tmp_path / "go").touch()
    late = []

    def has_come():
        late.extend(d.late_output())
        return b"from behind\n" in b"".join(v for _, v in late)

    wait_for(has_come, "the job")
    assert d.run("wait; echo $?").out == "0\n"


def test_traced_code(d):
    assert d.run("set -x; echo a; set +x").err.splitlines()[0].endswith("+ echo a")
    d.run("set -x")
    r = d.run("echo b")
    assert r.err.endswith("+ echo b\n") and "__cell" not in r.err
    d.run("set +x")
    assert d.run("echo c").err == ""


# ---- input ----


def test_input(d):
    r = d.run("read -p 'who? ' name; echo \"<$name>\"", answers=["Ada L"])
    assert r.out == "<Ada L>\n" and r.all("input") == [{"prompt": "who? ", "password": False}]
    r = d.run("while read -r line; do echo \"[$line]\"; done; echo end", answers=["a", "b"])
    assert r.out == "[a]\n[b]\nend\n"
    assert d.run("read -rs secret; echo ${#secret}", answers=["abc"]).all("input") == [{"prompt": "", "password": True}]
    assert d.run("read x < /etc/hostname; echo a | { read y; echo $y; }", answers=["unused"]).all("input") == []


def test_no_input(d):
    r = d.run("read name; echo \"$? [$name]\"; cat; echo eof")
    assert r.out == "1 []\neof\n"
    d.run("read q", answers=["x"])
    assert d.run("type -t read").out == "builtin\n"


# ---- interrupts ----


@pytest.mark.parametrize("code", [
    "sleep 1000; kept=lost",
    "while :; do :; done; kept=lost",
    "f() { sleep 1000; }\nfor i in 1 2 3; do f; done\nkept=lost",
    "cat /dev/zero | cat > /dev/null; kept=lost",
    "x=$(sleep 1000); kept=lost",
    "(sleep 1000); kept=lost",
    "sleep 1000 & wait; kept=lost",
    "set -e; sleep 1000; kept=lost",
])  # fmt: skip
def test_an_interrupt_keeps_the_state(d, tmp_path, code):
    d.run("kept=7")
    d.start(": > started; " + code)
    wait_for((tmp_path / "started").exists, "the code")
    r = interrupt_and_finish(d)
    assert r.status == "error" and r.error["name"] in ("Interrupted", "ExitStatus") and "130" in r.error["message"]
    assert d.run("set +e; echo $kept").out == "7\n"
    (tmp_path / "started").unlink()
    d.start(": > started; sleep 1000")
    wait_for((tmp_path / "started").exists, "the code")
    assert interrupt_and_finish(d).status == "error"


def test_an_interrupt_while_input_is_waited_for(d):
    d.run("kept=7")
    d.start("read q", "i")
    d.until(("input",))
    d.interrupt()
    assert d.finish().error["name"] == "Interrupted"
    assert d.run("echo $kept").out == "7\n"


def test_the_users_own_trap_gets_it(d, tmp_path):
    d.run("trap 'echo mine; stop=1' INT")
    d.start(": > started; while [ -z \"$stop\" ]; do sleep 0.02; done; echo done")
    wait_for((tmp_path / "started").exists, "the code")
    r = interrupt_and_finish(d)
    assert (r.status, set(r.out.split())) == ("ok", {"mine", "done"})
    assert "echo mine" in d.run("trap -p INT").out


def test_an_interrupt_between_runs_is_nothing(d):
    d.run("kept=7")
    d.interrupt()
    d.interrupt()
    assert d.ask("get", "kept")["value"] == "7"
    assert d.run("echo $kept").out == "7\n"


def test_an_interrupt_that_came_too_late_stops_nothing(d):
    d.run("kept=7")
    for _ in range(100):
        d.interrupt()
        assert d.run("for ((i = 0; i < 300; i++)); do :; done; echo $kept").out == "7\n"


def test_many_interrupts(d, tmp_path):
    for i in range(30):
        d.start(f": > s{i}; sleep 1000")
        wait_for((tmp_path / f"s{i}").exists, "the code")
        assert interrupt_and_finish(d).error["name"] == "Interrupted"
    assert d.run("echo fine").out == "fine\n"


# ---- questions ----


def test_vars_get_set(d):
    d.run("s='a \"b\"'; declare -i n=5; list=(x 'y z'); declare -A map=([k]=v); f() { :; }")
    found = {v["name"]: (v["type"], v["shape"]) for v in d.ask("vars")}
    assert found == {"s": ("string", None), "n": ("integer", None), "list": ("array", [2]), "map": ("map", [1]), "f": ("function", None)}
    assert d.ask("get", "s")["value"] == 'a "b"'
    assert d.ask("get", "n")["value"] == 5
    assert d.ask("get", "list")["value"] == ["x", "y z"]
    assert d.ask("get", "map")["value"] == {"k": "v"}
    for name, json_text, shown in (
        ("t", '"q\\u00e9\\ud834\\udd1e\\n\\\\ \\"z\\""', 'qé𝄞\n\\ "z"'),
        ("t", "12.5", "12.5"),
        ("t", "true", "true"),
    ):
        d.ask("set", f"{name}\n{json_text}")
        assert d.run('printf %s "$t"').out == shown
    d.ask("set", 'list\n["a", 1, null]')
    assert d.run("declare -p list").out == 'declare -a list=([0]="a" [1]="1" [2]="")\n'
    d.ask("set", 'o\n{"k 1": "v", "z": 2}')
    assert d.run('echo "${o[k 1]}${o[z]}"').out == "v2\n"
    for what, payload in (("get", "nope"), ("get", "a b"), ("set", "a-b\n1"), ("set", "x\n[[1]]"), ("set", "x\n{"), ("set", "x\n1 2")):
        d.tell(f"ask {what}", payload.encode())
        assert d.finish().status == "error", payload


def test_complete(d, tmp_path):
    (tmp_path / "some-file").touch()
    d.run("my_variable=1; my_function() { :; }")
    assert "my_function" in d.ask("complete", "5\nmy_fu")["matches"]
    r = d.ask("complete", "10\necho $my_v")
    assert r["matches"] == ["my_variable"] and (r["start"], r["end"]) == (6, 10)
    assert d.ask("complete", "10\ncat some-f")["matches"] == ["some-file"]


def test_begin(start, tmp_path):
    (tmp_path / "w x").mkdir()
    d = start(begin=f"cwd={str(tmp_path).replace('/', '%2F')}/w%20x\nenv.K=a%3Db%5Cn")
    assert d.run("pwd; printenv K").out == f"{tmp_path}/w x\na=b\\n\n"


def test_long_code_nul_bytes_and_any_bytes(d):
    assert len(d.run("echo " + "a" * 300_000).out) == 300_001
    assert d.run(b"echo a\0b; echo c").out == "ab\nc\n"
    r = d.run(b"printf '\\377\\376'; x=$'\\xff'")
    assert r.stream("stdout") == b"\xff\xfe"
    assert d.ask("get", "x")["value"] == "\ufffd"
