#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Real programs under the system call filters: the filter must not be what breaks them. Prints TAP.
#
#	realwork.sh PATH_OF_under_filter PROFILE
#
# Each task runs without the filter first: where that fails too, or the tool is missing, it is skipped
# and says why. Nothing is fetched from anywhere.
set -u
under=$(realpath "$1") profile=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
n=0 bad=0
export HOME="$work/home" npm_config_offline=true GOFLAGS=-mod=mod GOTOOLCHAIN=local GO111MODULE=on GOPROXY=off \
	PIP_DISABLE_PIP_VERSION_CHECK=1 CARGO_NET_OFFLINE=true GIT_CONFIG_NOSYSTEM=1
# Where the toolchains of this machine are kept, since HOME is another one now.
user_home=$(getent passwd "$(id -u)" | cut -d: -f6)
for pair in CARGO_HOME=.cargo RUSTUP_HOME=.rustup PYENV_ROOT=.pyenv; do
	name=${pair%%=*}
	eval "set_already=\${$name:-}"
	[ -n "$set_already" ] || [ ! -d "$user_home/${pair#*=}" ] || export "$name=$user_home/${pair#*=}"
done
mkdir -p "$HOME"

# Without this everything below would be skipped, or prove nothing.
n=1
if [ "$("$under" none sed -n 's/^Seccomp:.//p' /proc/self/status)" != 2 ] &&
	[ "$("$under" "$profile" sed -n 's/^Seccomp:.//p' /proc/self/status)" = 2 ]; then
	echo "ok $n - the $profile filter is on when it should be"
else
	echo "not ok $n - the $profile filter is on when it should be"
	bad=1
fi

# task NAME TOOL... : the script on stdin runs with sh -eu in a directory of its own.
task() {
	name=$1 missing=
	shift
	n=$((n + 1))
	for tool; do command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"; done
	cat >"$work/task"
	if [ -n "$missing" ]; then
		echo "ok $n - $name # SKIP not installed:$missing"
		return
	fi
	if ! once none "$name"; then
		echo "ok $n - $name # SKIP fails without the filter too: $(tail -n 1 "$work/log" | tr -d '#' | cut -c 1-120)"
		return
	fi
	if once "$profile" "$name"; then
		echo "ok $n - $name under the $profile filter"
	else
		echo "not ok $n - $name under the $profile filter"
		sed 's/^/# /' "$work/log" | tail -n 30
		bad=1
	fi
}

once() {
	rm -rf "$work/dir"
	mkdir "$work/dir"
	(cd "$work/dir" && timeout 300 "$under" "$1" sh -eu "$work/task" >"$work/log" 2>&1 </dev/null)
}

task 'pip installs a local wheel' python3 <<'END'
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
END

task 'npm makes a project' npm node <<'END'
npm init -y
node -e 'if (!require("./package.json").version) process.exit(1)'
END

task 'git clones, commits and checks out' git <<'END'
git init -q origin
cd origin
git config user.email a@b.c
git config user.name n
echo one >file
git add file
git commit -qm one
cd ..
git clone -q "file://$PWD/origin" copy
git clone -q origin linked
cd copy
git checkout -qb other
git -c gc.auto=1 gc -q
git fsck
[ "$(cat file)" = one ]
END

task 'gcc compiles and links' gcc <<'END'
printf '#include <pthread.h>\n#include <stdio.h>\nstatic void *f(void *p){return p;}\nint main(void){pthread_t t;if(pthread_create(&t,0,f,0))return 1;pthread_join(t,0);puts("ok");return 0;}\n' >a.c
gcc -O2 -pthread a.c -o a
[ "$(./a)" = ok ]
END

task 'make runs jobs in parallel' make <<'END'
printf 'all: a b c d\na b c d:\n\techo $@ >$@\n' >Makefile
make -j4
[ -e d ]
END

task 'pytest runs tests' pytest <<'END'
printf 'import subprocess, sys\ndef test_it(tmp_path):\n    assert subprocess.check_output([sys.executable, "-c", "print(1)"]) == b"1\\n"\n' >test_a.py
pytest -q -p no:cacheprovider test_a.py
END

task 'node runs workers, children and a server' node <<'END'
cat >a.js <<'JS'
const { Worker, isMainThread, parentPort } = require("worker_threads");
const fs = require("fs"), net = require("net"), cp = require("child_process");
if (!isMainThread) { parentPort.postMessage(7); }
else {
	const server = net.createServer(s => s.end("hi")).listen(0, "127.0.0.1", () => {
		net.connect(server.address().port, "127.0.0.1").on("data", d => {
			if (String(d) !== "hi") process.exit(1);
			server.close();
			new Worker(__filename).on("message", m => {
				fs.writeFileSync("x", String(m));
				if (cp.execFileSync("cat", ["x"]).toString() !== "7") process.exit(2);
			});
		});
	});
}
JS
node a.js
[ "$(cat x)" = 7 ]
END

task 'python runs threads, processes and shared memory' python3 <<'END'
cat >a.py <<'PY'
import concurrent.futures as cf, multiprocessing as mp, sqlite3, tempfile, threading
def f(x): return x * x
if __name__ == "__main__":
	ts = [threading.Thread(target=f, args=(i,)) for i in range(64)]
	[t.start() for t in ts]; [t.join() for t in ts]
	for method in ("fork", "spawn", "forkserver"):
		with mp.get_context(method).Pool(4) as p: assert p.map(f, range(20))[19] == 361
	with cf.ProcessPoolExecutor(2) as e: assert list(e.map(f, [3])) == [9]
	a = mp.Array("i", 3); l = mp.Lock(); q = mp.Queue(); q.put(1); assert q.get() == 1
	db = sqlite3.connect("x.db"); db.execute("pragma journal_mode=wal"); db.execute("create table t(a)"); db.commit()
PY
python3 a.py
END

task 'python runs asyncio with sockets and subprocesses' python3 <<'END'
cat >a.py <<'PY'
import asyncio, sys
async def serve(r, w):
	w.write((await r.readline()).upper()); await w.drain(); w.close()
async def main():
	for make, join in ((lambda: asyncio.start_server(serve, "127.0.0.1", 0), None), (lambda: asyncio.start_unix_server(serve, "s"), "s")):
		s = await make()
		r, w = await (asyncio.open_unix_connection("s") if join else asyncio.open_connection(*s.sockets[0].getsockname()[:2]))
		w.write(b"abc\n"); assert await r.readline() == b"ABC\n"; w.close(); s.close()
	p = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(5)", stdout=asyncio.subprocess.PIPE)
	assert (await p.communicate())[0] == b"5\n"
	await asyncio.to_thread(sum, [1, 2])
asyncio.run(main())
PY
python3 a.py
END

task 'java compiles and runs threads' java javac <<'END'
java -version
printf 'public class A { public static void main(String[] a) throws Exception { int[] n = {0}; Thread[] t = new Thread[8]; for (int i = 0; i < 8; i++) { t[i] = new Thread(() -> { synchronized (n) { n[0]++; } }); t[i].start(); } for (Thread x : t) x.join(); System.gc(); Process p = new ProcessBuilder("true").start(); if (n[0] != 8 || p.waitFor() != 0) System.exit(1); } }' >A.java
javac A.java
java A
END

task 'go builds and runs' go <<'END'
printf 'module a\n\ngo 1.18\n' >go.mod
printf 'package main\n\nimport (\n\t"fmt"\n\t"net"\n\t"os/exec"\n)\n\nfunc main() {\n\tl, err := net.Listen("tcp", "127.0.0.1:0")\n\tif err != nil {\n\t\tpanic(err)\n\t}\n\tgo func() { c, _ := net.Dial("tcp", l.Addr().String()); fmt.Fprint(c, "x"); c.Close() }()\n\tc, _ := l.Accept()\n\tb := make([]byte, 1)\n\tc.Read(b)\n\tif err := exec.Command("true").Run(); err != nil {\n\t\tpanic(err)\n\t}\n\tfmt.Println(string(b))\n}\n' >main.go
GOCACHE="$PWD/cache" GOPATH="$PWD/path" go build -o a .
[ "$(./a)" = x ]
END

task 'cargo builds a crate' cargo <<'END'
mkdir -p a/src
printf '[package]\nname = "a"\nversion = "0.1.0"\nedition = "2021"\n' >a/Cargo.toml
printf 'use std::thread;\nfn main() { let h: Vec<_> = (0..4).map(|i| thread::spawn(move || i)).collect(); let s: i32 = h.into_iter().map(|t| t.join().unwrap()).sum(); println!("{}", s); }\n' >a/src/main.rs
cd a
cargo build --offline
[ "$(target/debug/a)" = 6 ]
END

task 'tar, gzip, xz and find work' tar gzip xz find <<'END'
mkdir d
echo x >d/f
ln -s f d/l
tar czf a.tgz d
tar cJf a.txz d
rm -r d
tar xzf a.tgz
[ "$(find d | wc -l)" -eq 3 ]
END

# Not in strict: netlink and ptrace.
if [ "$profile" != strict ]; then
	task 'node lists the network interfaces' node <<'END'
node -e 'require("os").networkInterfaces()'
END

	task 'strace traces a child' strace <<'END'
strace -f -o log sh -c 'true; ls >/dev/null'
grep -q execve log
END

	task 'gdb runs a program without address randomisation' gdb gcc <<'END'
printf 'int main(void){return 42;}' >a.c
gcc -g a.c -o a
gdb -batch -ex 'break main' -ex run -ex cont ./a | grep -q 'exited with code 052'
END

	task 'sanitizers find a leak' gcc <<'END'
printf '#include <stdlib.h>\nint main(void){void *volatile p=malloc(10);p=0;return 0;}' >a.c
gcc -fsanitize=address a.c -o a
if ./a 2>log; then exit 1; fi
grep -q LeakSanitizer log
END
fi

echo "1..$n"
exit $bad
