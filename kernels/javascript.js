/* SPDX-License-Identifier: Apache-2.0 */
/*
 * javascript.js: the driver of a JavaScript kernel, for Node 18 and later. It is given to `node` as text at fd 4 and talks
 * to the guest on fd 3 (docs/languages.md says what comes of it). Code is evaluated by V8 itself in the mode that DevTools'
 * console uses, through the inspector of this same process (no port is opened): declarations can be made again,
 * `await` works at the top, and the value of the last expression comes back.
 *
 * Three things watch for an interrupt (SIGINT). While code runs that the driver called, vm's breakOnSigint does; while
 * a run awaits something, a timer looks for it; and when a callback of such a run never returns, a thread (the guard,
 * started with the first run that awaits or leaves something running) ends what V8 executes. Node must be started with
 * --no-force-async-hooks-checks: it would take what was ended inside a timer for a fault of its own.
 */
(function (require) {
'use strict';

const fs = require('fs'), vm = require('vm'), util = require('util'), v8 = require('v8');
const { readSync, writeSync, closeSync } = fs;
const { inspect } = util;
const { setImmediate, setInterval, setTimeout, clearInterval } = globalThis;
const exitNow = process.reallyExit.bind(process);
const CONTROL = 3, TEXT = 4;
const BUNDLE_MAX = 16 << 20;	/* bytes of a MIME bundle */
const JSON_MAX = 1 << 20;	/* bytes of a value as JSON, beside its text */
const SOURCES_KEPT = 200;
const GLOBALS = ['display', 'prompt', 'input', '__import'];
const nap = new Int32Array(new SharedArrayBuffer(4));

let run = null;			/* the one that is going on */
let count = 0;

/* ---- the control channel ---- */

let socket = null, received = Buffer.alloc(0), isBlocking = false;
const inbox = [];		/* messages that came while another one was waited for */

function sleep(ms) {
	Atomics.wait(nap, 0, 0, ms);
}

function writeAll(fd, bytes) {
	for (let at = 0, wait = 0.1; at < bytes.length;) {
		try {
			at += writeSync(fd, bytes, at, Math.min(bytes.length - at, 1 << 20));
			wait = 0.1;
		} catch (e) {
			if (e.code !== 'EAGAIN')	/* somebody made it non-blocking */
				throw e;
			sleep(wait);
			wait = Math.min(wait * 2, 10);
		}
	}
}

function send(head, payload = '') {
	const body = Buffer.from(payload), head_ = Buffer.from(`${head} ${body.length}\n`);

	try {
		writeAll(CONTROL, Buffer.concat([head_, body]));
	} catch (e) {
		exitNow(1);		/* the guest is gone */
	}
}

function sendJSON(head, value) {
	send(head, JSON.stringify(value));
	if (run)
		run.lastFd = CONTROL;	/* what is written next must not overtake it */
}

/* The first whole message of what was received, or null. */
function takeMessage() {
	const end = received.indexOf(10);

	if (end < 0)
		return null;
	const words = received.toString('latin1', 0, end).split(' ');
	const stop = end + 1 + Number(words[words.length - 1]);
	if (received.length < stop)
		return null;
	const payload = received.subarray(end + 1, stop);
	received = received.subarray(stop);
	return { kind: words[0], words, payload };
}

function setBlocking(on) {
	if (isBlocking !== on && socket && socket._handle && socket._handle.setBlocking) {
		socket._handle.setBlocking(on);
		isBlocking = on;
	}
}

/* Wait, without the event loop, for a message of one of these kinds. isPatient: it may take long, and an interrupt
 * must get through. */
function waitFor(kinds, isPatient) {
	const chunk = Buffer.allocUnsafe(65536);

	for (let wait = 0.1;;) {
		for (let m; (m = takeMessage());) {
			if (kinds.includes(m.kind))
				return m;
			inbox.push(m);
		}
		setBlocking(!isPatient);
		try {
			const n = readSync(CONTROL, chunk, 0, chunk.length);
			if (n === 0)
				exitNow(0);
			received = Buffer.concat([received, chunk.subarray(0, n)]);
		} catch (e) {
			if (e.code !== 'EAGAIN')
				exitNow(1);
			sleep(wait);
			wait = Math.min(wait * 2, isPatient ? 20 : 1);
		}
	}
}

/* The stream stops reading with every chunk: what is needed beyond it is read here, and a run may read for itself. */
function onChunk(n, buffer) {
	received = Buffer.concat([received, buffer.subarray(0, n)]);
	setImmediate(pump);
	return false;
}

function pump() {
	for (let m; !run && (m = inbox.shift() || takeMessage());)
		handle(m);
	for (let m; run && run.asks.length && (m = inbox.shift() || takeMessage());)
		answerInput(m);
	socket.resume();		/* also when nothing is expected: it keeps the process */
}

/* ---- stdout and stderr ---- */

function writeStream(fd, bytes) {
	if (run) {
		if (run.lastFd && run.lastFd !== fd) {
			send('mark');
			waitFor(['ok'], false);
		}
		run.lastFd = fd;
	}
	writeAll(fd, bytes);
}

/* Ways back to stdout and stderr for when the code has closed them: Node cannot copy an fd, but opening takes the lowest. */
const spares = [1, 2].map((fd) => {
	try {
		return fs.openSync(`/proc/self/fd/${fd}`, 'w');
	} catch (e) {
		return -1;
	}
});

function isOpen(fd) {
	try {
		fs.fstatSync(fd);
		return true;
	} catch (e) {
		return false;
	}
}

function reopenStreams() {
	if (isOpen(1) && isOpen(2))
		return;
	try {
		const low = isOpen(0) ? -1 : fs.openSync('/dev/null', 'r');
		for (const fd of [1, 2]) {
			if (!isOpen(fd) && spares[fd - 1] >= 0)
				fs.openSync(`/proc/self/fd/${spares[fd - 1]}`, 'w');
		}
		if (low > 2)
			closeSync(low);
	} catch (e) {
		/* they stay closed */
	}
}

function openStream(name, fd) {
	let stream = null;

	function make() {
		const { Writable } = require('stream');

		stream = new Writable({
			decodeStrings: true,
			write(chunk, encoding, done) {
				try {
					writeStream(fd, chunk);
				} catch (e) {
					if (e.code !== 'EBADF')	/* closed by the user: lost, and open again in the next run */
						return done(e);
				}
				done();
			},
			destroy(error, done) {
				done(error);
			},
		});
		stream.fd = fd;
		stream._isStdio = true;
		stream._type = 'pipe';
		stream.destroySoon = stream.destroy;
		return stream;
	}
	Object.defineProperty(process, name, {
		configurable: true,
		enumerable: true,
		get: () => stream || make(),
		set(other) {
			stream = other;
		},
	});
}

/* Node's own console tells the inspector of every line, with a stack trace, which takes three times as long. */
function openConsole() {
	const own = new console.Console({ stdout: process.stdout, stderr: process.stderr });

	for (const [name, method] of Object.entries(own)) {
		if (typeof method === 'function' && typeof console[name] === 'function' && name !== 'Console')
			console[name] = method;
	}
}

/* ---- evaluating ---- */

let session = null;
const TAKE = Symbol.for('cell.take');
let taken;

function post(method, parameters) {
	let answer;

	session.post(method, parameters, (error, result) => {
		if (error)
			throw error;
		answer = result;
	});
	return answer;
}

/* The value itself behind what the inspector says of it. */
function valueOf(remote) {
	if (remote.objectId) {
		post('Runtime.callFunctionOn', {
			objectId: remote.objectId,
			arguments: [{ objectId: remote.objectId }],
			functionDeclaration: "function (v) { globalThis[Symbol.for('cell.take')](v); }",
			silent: true,
		});
		const v = taken;
		taken = undefined;
		return v;
	}
	if (remote.unserializableValue !== undefined) {
		const text = remote.unserializableValue;
		return text.endsWith('n') ? BigInt(text.slice(0, -1)) : Number(text);
	}
	return remote.type === 'undefined' ? undefined : remote.value;
}

/* Evaluate; then(isOk, value, details) as soon as it is settled, which may be much later. */
function evaluate(code, name, then) {
	let held = null;
	/* A promise that nothing refers to any more would be collected while the inspector still waits for it. */
	let stop = v8.promiseHooks.onInit((promise) => {
		held = promise;
		stop();
		stop = null;
	});
	session.post('Runtime.evaluate', {
		expression: `${code}\n//# sourceURL=${name}`,
		replMode: true,
		objectGroup: 'run',
	}, (error, reply) => {
		forsaken.delete(held);
		if (error) {
			const isEnded = /terminated/.test(error.message);
			return then(false, isEnded ? new Interrupted('the run was interrupted') : new Error(error.message), null);
		}
		const value = valueOf(reply.exceptionDetails && reply.exceptionDetails.exception ||
			reply.result);
		then(!reply.exceptionDetails, value, reply.exceptionDetails);
	});
	if (stop)
		stop();
	forsaken.add(held);
}
const forsaken = new Set();

/* A variable's value by its name; throws where reading it does. */
function lookUp(name) {
	const reply = post('Runtime.evaluate', { expression: name, objectGroup: 'run', silent: true });
	const value = valueOf(reply.exceptionDetails && reply.exceptionDetails.exception || reply.result);

	if (reply.exceptionDetails)
		throw value;
	return value;
}

function lexicalNames() {
	return new Set(post('Runtime.globalLexicalScopeNames', {}).names);
}

/* ---- interrupts ---- */

/* Signals are told by threads, which may have their turn only when the next run is under way. One that sleeps has none to tell. */
const tellers = [];		/* fds of their /proc files */
const tellerState = Buffer.alloc(512);

function addTeller(thread) {
	try {
		tellers.push(fs.openSync(`/proc/self/task/${thread}/stat`, 'r'));
	} catch (e) {
		/* no /proc here: a signal that comes at the very end of a run may hit the next */
	}
}

function isAsleep(fd) {
	try {
		const n = readSync(fd, tellerState, 0, tellerState.length, 0);
		return tellerState[tellerState.lastIndexOf(41, n) + 2] === 83;	/* behind its name: S */
	} catch (e) {
		return true;
	}
}

/* Whatever was sent until now has been told. */
function hearAll() {
	for (const fd of tellers) {
		for (let i = 0; i < 10000 && !isAsleep(fd); i++)
			sleep(0.2);
	}
}

/* An interrupt was sent during the run before, for certain: if nothing of it was heard, it is on its way. Unless the code
 * has taken it for itself, which is why this has an end. */
function hearLate() {
	for (let i = 0; i < 5000 && !isHeard && !wasInterrupted(); i++)
		sleep(0.2);
}

function threads() {
	try {
		return fs.readdirSync('/proc/self/task');
	} catch (e) {
		return [];
	}
}

const signals = (() => {
	try {
		const b = process.binding('contextify');
		const before = threads();
		/* Twice: stopping one of two forgets a signal and leaves the handler where it is. */
		b.startSigintWatchdog();
		b.startSigintWatchdog();
		threads().filter((t) => !before.includes(t)).forEach(addTeller);
		return {
			isPending: () => b.watchdogHasPendingSigint(),
			forget() {
				b.stopSigintWatchdog();
				b.startSigintWatchdog();
			},
		};
	} catch (e) {
		/* This Node does not show them: the event loop receives the signal. */
		let isSet = false;
		process.on('SIGINT', () => {
			isSet = true;
		});
		return {
			isPending: () => isSet,
			forget() {
				isSet = false;
			},
		};
	}
})();

/* Node would put a handler of its own in the place of ours as soon as the user's code listens for SIGINT. It need not:
 * listeners are called from here. */
function keepSignal(event, name) {
	for (const f of process.listeners(event)) {
		if (f.name !== name)
			continue;
		process.removeListener(event, f);
		process.on(event, (type, listener) => {
			if (type !== 'SIGINT')
				f(type, listener);
		});
	}
}

class Interrupted extends Error {}
Interrupted.prototype.name = 'Interrupted';

let job = null;
Object.defineProperty(globalThis, Symbol.for('cell.job'), {
	value() {
		delete process.listenerCount;
		return job();
	},
});
const watchedCall = new vm.Script("globalThis[Symbol.for('cell.job')]()", { filename: '<cell>' });

function setWatching(is) {
	if (guardFlags)
		Atomics.store(guardFlags, 3, is);
}

/* Call f; an interrupt ends it. */
function watched(f) {
	job = f;
	setWatching(1);
	/* vm would put the user's listeners aside and bring them back afterwards, also those that are gone by then. */
	process.listenerCount = () => 0;
	try {
		return watchedCall.runInThisContext({ breakOnSigint: true });
	} catch (e) {
		if (e && e.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED') {
			isHeard = true;
			throw new Interrupted('the run was interrupted');
		}
		throw e;
	} finally {
		setWatching(0);
		job = null;
	}
}

/* In the guard's thread: sleep until a signal comes that nobody else takes, and say so. When the main thread then does not
 * come back to its event loop though it works (hundredths of a second of processor time), end what it executes. */
const GUARD = `
	const fs = require('fs'), vm = require('vm'), inspector = require('inspector'), { workerData, parentPort } = require('worker_threads');
	const flags = new Int32Array(workerData), session = new inspector.Session();
	session.connectToMainThread();
	try {
		flags[5] = Number(fs.readlinkSync('/proc/thread-self').replace(/.*\\//, ''));
	} catch (e) {}
	globalThis.wait = () => {
		Atomics.store(flags, 4, 1);
		Atomics.notify(flags, 4);
		Atomics.wait(flags, 0, 0);
	};
	const used = () => {
		const words = fs.readFileSync('/proc/self/task/' + process.pid + '/stat', 'latin1').replace(/.*\\) /, '').split(' ');
		return Number(words[11]) + Number(words[12]);
	};
	const script = new vm.Script('wait()');
	for (let n = 0; ; n++) {
		while (Atomics.load(flags, 3))	/* who begins to watch last is told first, and that should be the main thread */
			Atomics.wait(flags, 0, 0, 5);
		try {
			script.runInThisContext({ breakOnSigint: true });
			break;
		} catch (e) {
			if (Atomics.load(flags, 3)) {	/* the main thread watches for itself: pass it on */
				process.kill(process.pid, 'SIGINT');
				Atomics.wait(flags, 0, 0, 20);
				continue;
			}
			Atomics.add(flags, 1, 1);
			const before = Atomics.load(flags, 2);
			parentPort.postMessage(n);
			const start = used();
			while (Atomics.wait(flags, 2, before, 20) === 'timed-out' && !Atomics.load(flags, 3)) {
				if (used() - start >= 6) {
					session.post('Runtime.terminateExecution');
					break;
				}
			}
		}
	}
	session.disconnect();
	Atomics.add(flags, 2, 1);
	Atomics.notify(flags, 2);`;
let guardFlags = null;		/* [wake, interrupts, signs of life, main thread watches, is ready, id of its thread] */
let guardSeen = 0;
let isHeard = false;		/* an interrupt, since this run began */
let idleResources = 8;

function startGuard() {
	if (guardFlags)
		return;
	guardFlags = new Int32Array(new SharedArrayBuffer(24));
	try {
		const { Worker } = require('worker_threads');
		const guard = new Worker(GUARD, { eval: true, workerData: guardFlags.buffer, env: {}, execArgv: [],
			stdout: false, stderr: false, resourceLimits: { maxOldGenerationSizeMb: 16 } });
		guard.on('error', () => {});
		guard.on('message', () => {
			Atomics.add(guardFlags, 2, 1);
			Atomics.notify(guardFlags, 2);
			notice();
		});
		guard.unref();
		Atomics.wait(guardFlags, 4, 0, 1000);	/* what runs from now on is guarded */
		addTeller(guardFlags[5]);
	} catch (e) {
		/* too few threads: then a callback that never returns is ended by the guest */
	}
}

/* Node waits for those who are connected to its inspector. */
function endGuard() {
	if (!guardFlags)
		return;
	const before = Atomics.load(guardFlags, 2);
	Atomics.store(guardFlags, 0, 1);
	Atomics.notify(guardFlags, 0);
	Atomics.wait(guardFlags, 2, before, 300);
}

function wasInterrupted() {
	const n = guardFlags ? Atomics.load(guardFlags, 1) : 0;
	const isNew = n !== guardSeen || signals.isPending();

	guardSeen = n;
	isHeard = isHeard || isNew;
	return isNew;
}

/* ---- a run ---- */

const sources = new Map();	/* code by name, to show lines of it */

function keepSource(name, code) {
	if (code.length > 1 << 18)
		return;
	sources.set(name, code.split('\n'));
	if (sources.size > SOURCES_KEPT)
		sources.delete(sources.keys().next().value);
}

/* What is waiting: microtasks and process.nextTick. */
function tick() {
	process._tickCallback();
}

function startRun(number, flags, code) {
	const me = { number, canAsk: flags.includes('i'), asks: [], lastFd: 0, isSettled: false, outcome: null, timer: null };

	count = number;
	run = me;
	reopenStreams();
	if (flags.includes('l'))
		hearLate();
	hearAll();
	signals.forget();
	wasInterrupted();
	isHeard = false;
	renewRequire();
	const name = `Cell[${number}]`;
	keepSource(name, code);
	try {
		watched(() => {
			evaluateTolerantly(prepare(code), code, name, (isOk, value, details) => settle(me, isOk, value, details));
			tick();
		});
	} catch (e) {
		me.outcome = { isOk: false, value: e, details: null };
	}
	if (me.outcome)
		finish(me);
	else
		keepWaiting(me);
}

/* let, const and class are made again by V8 itself. What it refuses is to change between those and var or function. */
function evaluateTolerantly(code, original, name, then) {
	evaluate(code, name, (isOk, value, details) => {
		const clash = !isOk && value instanceof SyntaxError &&
			/^Identifier '(.+)' has already been declared$/.exec(value.message);
		const other = clash && redeclare(code, clash[1]);

		if (other)
			return evaluateTolerantly(other, original, name, then);
		then(isOk, value, details);
	});
}

/* The value of a run is there, unless it is a promise: that is awaited, as agents' last line is often `main()`. */
function settle(me, isOk, value, details, isFinal = false) {
	if (me.outcome || me.isSettled && !isFinal)
		return;
	if (isOk && util.types.isPromise(value)) {
		me.isSettled = true;
		Promise.prototype.then.call(value, (v) => settle(me, true, v, null, true),
			(e) => settle(me, false, e, null, true));
		return;
	}
	me.outcome = { isOk, value, details };
	if (me.timer)
		setImmediate(() => finish(me));
}

function keepWaiting(me) {
	startGuard();
	me.timer = setInterval(notice, 15);
	pump();
}

/* Has the run that awaits something been interrupted? */
function notice() {
	if (!run || !run.timer || !wasInterrupted())
		return;
	signals.forget();
	setTimeout(() => {}, 1);	/* code that was ended inside a timer leaves the others waiting for a new one */
	if (!process.emit('SIGINT', 'SIGINT', 2))
		settle(run, false, new Interrupted('the run was interrupted'), null, true);
}

function finish(me) {
	if (run !== me)
		return;
	clearInterval(me.timer);
	let { isOk, value, details } = me.outcome;
	if (isOk && wasInterrupted()) {
		isOk = false;
		value = new Interrupted('the run was interrupted');
	}
	let bundle = null, error = null;
	try {
		watched(() => {
			if (isOk && value !== undefined)
				bundle = bundleOf(value);
			tick();
		});
	} catch (e) {
		isOk = false;
		value = e;
	}
	if (me.lateError && isOk) {
		isOk = false;
		value = me.lateError.value;
	}
	if (!isOk) {
		try {
			watched(() => {
				error = describeError(value, details);
			});
		} catch (e) {
			error = { name: 'Error', message: 'the error cannot be shown', traceback: [] };
		}
	}
	run = null;
	if (error)
		sendJSON('error', error);
	else if (bundle)
		sendJSON('result', bundle);
	try {
		post('Runtime.releaseObjectGroup', { objectGroup: 'run' });
		post('Runtime.discardConsoleEntries', {});
	} catch (e) {
		/* nothing was kept, then */
	}
	if (!guardFlags && process.getActiveResourcesInfo && process.getActiveResourcesInfo().length > idleResources)
		startGuard();		/* it has left something running */
	send(isOk ? 'done ok' : 'done error');
	setImmediate(pump);
}

/* What nobody caught ends the run that is going on; between runs it is late output. */
function onUncaught(error) {
	if (run) {
		if (run.outcome)
			run.lateError = run.lateError || { value: error };
		else
			settle(run, false, error, null, true);
		return;
	}
	try {
		writeStream(2, Buffer.from(`Uncaught ${describeError(error, null).traceback.join('\n')}\n`));
	} catch (e) {
		/* stderr is closed */
	}
}

/* ---- values ---- */

const REPRS = {
	_repr_html_: 'text/html', _repr_markdown_: 'text/markdown', _repr_svg_: 'image/svg+xml', _repr_png_: 'image/png',
	_repr_jpeg_: 'image/jpeg', _repr_latex_: 'text/latex', _repr_json_: 'application/json',
};
const JUPYTER = Symbol.for('Jupyter.display');

function asData(type, value) {
	if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) {
		const bytes = Buffer.from(value.buffer || value, value.byteOffset || 0, value.byteLength);
		return /^text\/|[+/]xml$/.test(type) ? bytes.toString() : bytes.toString('base64');
	}
	if (/json$/.test(type))
		return value;
	return String(value);
}

/* Nothing but what JSON can say, so that nothing is lost or called on the way. */
function isJSON(v, depth = 0, seen = []) {
	if (v === null || typeof v === 'string' || typeof v === 'boolean')
		return true;
	if (typeof v === 'number')
		return Number.isFinite(v) && !Object.is(v, -0);
	if (typeof v !== 'object' || depth > 64 || util.types.isProxy(v) || seen.includes(v))
		return false;
	const inner = [...seen, v];
	if (Array.isArray(v)) {
		if (Object.keys(v).length !== v.length)
			return false;
		return v.every((x) => isJSON(x, depth + 1, inner));
	}
	const proto = Object.getPrototypeOf(v);
	if (proto !== null && Object.getPrototypeOf(proto) !== null)
		return false;
	return Object.getOwnPropertySymbols(v).length === 0 && Object.keys(v).every((k) => {
		const d = Object.getOwnPropertyDescriptor(v, k);
		return 'value' in d && isJSON(d.value, depth + 1, inner);
	});
}

function toJSON(v) {
	if (!isJSON(v))
		return undefined;
	const text = JSON.stringify(v);
	return text.length > JSON_MAX ? undefined : v;
}

function rich(value) {
	const data = {};
	let metadata = {};

	if (value === null || typeof value !== 'object' && typeof value !== 'function' || util.types.isProxy(value))
		return { data, metadata };
	if (typeof value[JUPYTER] === 'function') {
		for (const [type, v] of Object.entries(value[JUPYTER]() || {}))
			data[type] = asData(type, v);
	} else if (typeof value._repr_mimebundle_ === 'function') {
		let bundle = value._repr_mimebundle_() || {};
		if (Array.isArray(bundle))
			[bundle, metadata = {}] = bundle;
		for (const [type, v] of Object.entries(bundle))
			data[type] = asData(type, v);
	} else {
		for (const [method, type] of Object.entries(REPRS)) {
			const v = typeof value[method] === 'function' ? value[method]() : undefined;
			if (v !== undefined && v !== null)
				data[type] = asData(type, v);
		}
	}
	return { data, metadata };
}

/* A bundle that is too big loses its biggest parts, and says so. */
function bounded(bundle) {
	const sizes = Object.entries(bundle.data).map(([type, v]) =>
		[type, typeof v === 'string' ? v.length : JSON.stringify(v).length]).sort((a, b) => b[1] - a[1]);
	let total = sizes.reduce((n, s) => n + s[1], 0);

	for (const [type, size] of sizes) {
		if (total <= BUNDLE_MAX)
			break;
		delete bundle.data[type];
		total -= size;
		(bundle.metadata.dropped = bundle.metadata.dropped || {})[type] = size;
	}
	if (bundle.metadata.dropped && !bundle.data['text/plain'])
		bundle.data['text/plain'] = `[too big to show: ${Object.keys(bundle.metadata.dropped).join(', ')}]`;
	return bundle;
}

function bundleOf(value) {
	const bundle = rich(value);

	if (bundle.data['text/plain'] === undefined)
		bundle.data['text/plain'] = inspect(value, { showProxy: true });
	if (typeof value === 'object' && value !== null && bundle.data['application/json'] === undefined) {
		const json = toJSON(value);
		if (json !== undefined)
			bundle.data['application/json'] = json;
	}
	return bounded(bundle);
}

/* ---- errors ---- */

const FOREIGN = /\((?:node:|<cell>)|^\s+at (?:node:|<cell>|async node:|evalmachine)|\(<anonymous>\)$|^\s+at new Promise|__import/;

function isForeign(line) {
	return /^\s+at /.test(line) && FOREIGN.test(line);
}

/* As Node shows it: the line, a mark below it, the error, and the frames that are the user's. */
function describeError(e, details) {
	if (!util.types.isNativeError(e) && !(e instanceof Error)) {
		const text = inspect(e);
		return { name: 'Uncaught', message: typeof e === 'string' ? e : text, traceback: [`Uncaught ${text}`] };
	}
	if (e instanceof Interrupted)
		return { name: 'Interrupted', message: 'the run was interrupted', traceback: ['Interrupted: the run was interrupted'] };
	const name = String(e.name || 'Error'), message = String(e.message);
	let lines = inspect(e).split('\n').filter((line) => !isForeign(line));
	let place = lines.map((line) => /(Cell\[\d+\]):(\d+):(\d+)\)?$/.exec(line)).find(Boolean);
	if (!place && details && e instanceof SyntaxError && details.lineNumber !== undefined) {
		const at = [...sources.keys()].pop();
		const last = sources.get(at);
		const row = Math.min(details.lineNumber, last ? last.length - 1 : 0);
		const column = row === details.lineNumber ? details.columnNumber : (last ? last[row].length : 0);
		place = [null, at, row + 1, column + 1];
		lines = [`${name}: ${message}`];
	}
	const source = place && sources.get(place[1]);
	const text = source && source[place[2] - 1];
	if (text !== undefined && text !== false && text !== null && text.length <= 400) {
		const pad = text.slice(0, place[3] - 1).replace(/[^\t]/g, ' ');
		lines.unshift(`${place[1]}:${place[2]}`, text, `${pad}^`, '');
	}
	return { name, message, traceback: lines };
}

/* ---- modules ---- */

const { createRequire, Module } = (() => {
	const m = require('module');
	return { createRequire: m.createRequire, Module: m.Module || m };
})();
let requireDir = null, ownRequire = null, importer = null;

/* require() and import() look where the working directory is now. */
function renewRequire() {
	let dir;

	try {
		dir = process.cwd();
	} catch (e) {
		return;			/* it was removed */
	}
	if (dir === requireDir)
		return;
	const isOurs = requireDir === null || globalThis.require === ownRequire;
	requireDir = dir;
	importer = null;
	ownRequire = createRequire(`${dir}/[cell]`);
	if (isOurs)
		Object.defineProperty(globalThis, 'require', { value: ownRequire, configurable: true, writable: true, enumerable: false });
}

async function importModule(specifier, options, names) {
	const url = require('url');
	let where = String(specifier);

	renewRequire();
	if (/^\.{0,2}\//.test(where))
		where = url.pathToFileURL(require('path').resolve(where)).href;
	if (!importer) {
		const m = new Module(`${requireDir}/[cell].js`);
		m.filename = `${requireDir}/[cell].js`;
		m.paths = Module._nodeModulePaths(requireDir);
		m._compile('module.exports = (s, o) => o ? import(s, o) : import(s);', m.filename);
		importer = m.exports;
	}
	const found = await importer(where, options);
	for (const name of names || []) {
		if (!(name in found))
			throw new SyntaxError(`The requested module '${specifier}' does not provide an export named '${name}'`);
	}
	return found;
}
Object.defineProperty(importModule, 'meta', {
	get() {
		const dirname = process.cwd();
		const href = require('url').pathToFileURL(`${dirname}/[cell].js`).href;
		return { url: href, dirname, filename: `${dirname}/[cell].js`, resolve: (s) => require('url').pathToFileURL(ownRequire.resolve(s)).href };
	},
});

/* ---- the code's text: only what V8's console mode cannot do is changed, and no line moves ---- */

const BEFORE_REGEX = new Set(['return', 'typeof', 'case', 'do', 'else', 'in', 'instanceof', 'new', 'void', 'delete', 'throw', 'await', 'yield', 'of']);
const WORD = /[\p{ID_Continue}$\u200c\u200d\\]+/uy;
const SPACE = /(?:\s+|\/\/[^\n\u2028\u2029]*|\/\*[^]*?\*\/)+/y;
const REGEX = /\/(?:[^\\/[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y;
const STRING = /'(?:[^'\\\n]|\\[^])*'|"(?:[^"\\\n]|\\[^])*"/y;
const METHOD_BODY = /^(?:[^\S\n]|\/\*[^]*?\*\/)*\{/;

function matchAt(pattern, text, at) {
	pattern.lastIndex = at;
	const m = pattern.exec(text);
	return m ? m[0] : null;
}

/* Words that are not properties, each with its place, how deep it is, and whether a statement may begin there. null
 * when the text makes no sense. */
function scan(text) {
	const words = [], stack = [];
	let last = null, lastEnd = 0, at = 0, isAfterLine = true;

	if (text.startsWith('#!'))
		at = text.search(/\n|$/);
	function template() {		/* at is behind ` or } */
		for (; at < text.length; at++) {
			if (text[at] === '\\') {
				at++;
			} else if (text[at] === '`') {
				at++;
				return true;
			} else if (text[at] === '$' && text[at + 1] === '{') {
				at += 2;
				stack.push({ open: '${' });
				last = '{';
				return true;
			}
		}
		return false;
	}
	while (at < text.length) {
		let m = matchAt(SPACE, text, at);
		if (m) {
			isAfterLine = isAfterLine || m.includes('\n');
			at += m.length;
			continue;
		}
		const c = text[at];
		if (c === '`') {
			at++;
			last = 'value';
			if (!template())
				return null;
		} else if (c === "'" || c === '"') {
			m = matchAt(STRING, text, at);
			if (!m)
				return null;
			at += m.length;
			last = 'value';
		} else if ((m = matchAt(WORD, text, at))) {
			if (last !== '.' && last !== '#') {
				const isStart = isAfterLine || last === null || last === ';' || last === '}' || last === '{';
				words.push({ word: m, at, end: at + m.length, depth: stack.length, isStart });
			}
			at += m.length;
			last = last === '.' || last === '#' ? 'value' : BEFORE_REGEX.has(m) ? 'operator' : /^(?:if|while|for|with)$/.test(m) ? 'head' : 'value';
		} else if (c === '/' && last !== 'value' && last !== ')' && last !== ']' && (m = matchAt(REGEX, text, at))) {
			at += m.length;
			last = 'value';
		} else if (c === '(' || c === '[' || c === '{') {
			const before = words[words.length - 1];
			const called = c === '(' && last === 'value' && before && before.word === 'import' && before.end === lastEnd ? before : null;
			stack.push({ open: c, isHead: last === 'head', called });
			last = c;
			at++;
		} else if (c === ')' || c === ']' || c === '}') {
			const opened = stack.pop();
			if (!opened)
				return null;
			at++;
			if (opened.called)	/* import(a) { is a method of that name */
				opened.called.isMethod = METHOD_BODY.test(text.slice(at));
			last = opened.isHead ? ';' : c;
			if (opened.open === '${') {
				last = 'value';
				if (c !== '}' || !template())
					return null;
			}
		} else {
			last = c === '.' && text.startsWith('...', at) ? 'operator' : c === '?' && text[at + 1] === '.' ? '.' : c;
			at += last === 'operator' ? 3 : last === '.' && c === '?' ? 2 : 1;
		}
		isAfterLine = false;
		lastEnd = at;
	}
	return stack.length ? null : words;
}

const NAME = '[\\p{ID_Start}$_][\\p{ID_Continue}$\\u200c\\u200d]*';
const GAP = '(?:\\s|\\/\\/[^\\n]*\\n|\\/\\*[^]*?\\*\\/)';
const QUOTED = `'(?:[^'\\\\\\n]|\\\\.)*'|"(?:[^"\\\\\\n]|\\\\.)*"`;
const ATTRIBUTES = `(?:${GAP}*(?:with|assert)${GAP}*(?<attributes>\\{[^}]*\\}))?`;
const IMPORT = new RegExp(`import(?:${GAP}*(?:(?<main>${NAME})${GAP}*(?:,${GAP}*)?)?(?:\\*${GAP}*as${GAP}+(?<space>${NAME})|\\{(?<list>[^}]*)\\})?` +
	`${GAP}*from)?${GAP}*(?<spec>${QUOTED})${ATTRIBUTES}`, 'uy');
const EXPORT_FROM = new RegExp(`export${GAP}*(?:\\*(?:${GAP}*as${GAP}+${NAME})?|\\{[^}]*\\})(?:${GAP}*from${GAP}*(?<spec>${QUOTED})${ATTRIBUTES})?`, 'uy');
const EXPORT = new RegExp(`export(?:${GAP}+default\\b)?(?=${GAP}*[^\\s:.,;=)(])`, 'uy');

function importStatement({ main, space, list, spec, attributes }) {
	const named = (list || '').replace(/\/\/[^\n]*|\/\*[^]*?\*\//g, '').split(',').map((s) => s.trim()).filter(Boolean)
		.map((s) => s.split(/\s+as\s+/)).map(([from, to]) => ({ from, to: to || from }));
	const wanted = named.map((n) => (/^['"]/.test(n.from) ? n.from : JSON.stringify(n.from)));
	const call = `await __import(${spec}, ${attributes ? `{with: ${attributes}}` : 'undefined'}, [${main ? ["'default'", ...wanted] : wanted}])`;
	const names = (main ? [`default: ${main}`] : []).concat(named.map((n) => (n.from === n.to ? n.from : `${n.from}: ${n.to}`)));

	if (space)
		return `let ${space} = ${call}${main ? `, {${names}} = ${space}` : ''};`;
	return names.length ? `let {${names}} = ${call};` : `${call};`;
}

function blank(text) {
	return text.replace(/[^\n]/g, ' ');
}

/* const at the top becomes let, so that a later run may declare it again as anything; modules' syntax becomes calls. */
function prepare(code) {
	if (!/\b(?:import|export|const)\b/.test(code) && !code.startsWith('#!'))
		return code;
	const words = scan(code);
	if (!words)
		return code;
	let out = '', done = 0;
	function replace(at, length, by) {
		out += code.slice(done, at) + by;
		done = at + length;
	}
	for (const { word, at, depth, isStart, isMethod } of words) {
		if (at < done || isMethod)
			continue;
		if (word === 'const' && depth === 0) {
			replace(at, 5, 'let  ');
		} else if (word === 'import') {
			const rest = code.slice(at + 6, at + 200).replace(/^(?:\s|\/\*[^]*?\*\/)*/, '')[0];
			IMPORT.lastIndex = at;
			const m = rest !== '(' && rest !== '.' && depth === 0 && isStart ? IMPORT.exec(code) : null;
			if (m)
				replace(at, m[0].length, importStatement(m.groups) + blank(m[0]).replace(/ /g, ''));
			else if (rest === '(' || rest === '.')
				replace(at, 6, '__import');
		} else if (word === 'export' && depth === 0 && isStart) {
			EXPORT_FROM.lastIndex = EXPORT.lastIndex = at;
			let m = EXPORT_FROM.exec(code);
			if (m)
				replace(at, m[0].length, (m.groups.spec ? importStatement(m.groups) : '') + blank(m[0]));
			else if ((m = EXPORT.exec(code)))
				replace(at, m[0].length, blank(m[0]));
		}
	}
	out += code.slice(done);
	return out.startsWith('#!') ? `//${out.slice(2)}` : out;
}

/* The code with its declaration of this name made one of the kind that is there already; null when that is no help. */
function redeclare(code, name) {
	const words = scan(code);

	if (!words)
		return null;
	const isLexical = lexicalNames().has(name);
	if (!isLexical && !Object.prototype.hasOwnProperty.call(globalThis, name))
		return null;
	for (let i = 0; i < words.length; i++) {
		const { word, at, depth, isStart } = words[i];
		const next = words[i + 1];
		if (depth !== 0 || !isStart && word !== 'function' || !next)
			continue;
		const isNamed = next.word === name;
		if (/^(?:var|let)$/.test(word) && (word === 'var') === isLexical) {
			let end = i + 1;
			while (end < words.length && !(words[end].isStart && words[end].depth === 0))
				end++;
			if (words.slice(i + 1, end).some((w) => w.word === name))
				return `${code.slice(0, at)}${isLexical ? 'let' : 'var'}${code.slice(at + 3)}`;
		} else if (isNamed && (word === 'class' && !isLexical || word === 'function' && isLexical)) {
			const isAsync = i > 0 && words[i - 1].word === 'async';
			const from = isAsync ? words[i - 1].at : at;
			return `${code.slice(0, from)}${name} = ${code.slice(from)}`;
		}
	}
	return null;
}

/* ---- what the user's code is given ---- */

function show(bundle, options = {}) {
	const event = bounded({ data: bundle.data, metadata: { ...bundle.metadata, ...options.metadata } });

	if (options.id !== undefined)
		event.id = String(options.id);
	if (options.update)
		event.update = true;
	sendJSON('display', event);
}

function display(value, options) {
	show(bundleOf(value), options);
}

function showAs(type, plain) {
	return (value, options) => show({ data: { [type]: asData(type, value), 'text/plain': plain(value) }, metadata: {} }, options);
}

Object.assign(display, {
	html: showAs('text/html', String),
	markdown: showAs('text/markdown', String),
	md: showAs('text/markdown', String),
	latex: showAs('text/latex', String),
	svg: showAs('image/svg+xml', () => '[an image]'),
	png: showAs('image/png', () => '[an image]'),
	jpeg: showAs('image/jpeg', () => '[an image]'),
	json: showAs('application/json', (v) => inspect(v)),
	text: showAs('text/plain', String),
	mime(data, options) {
		const all = {};
		for (const [type, v] of Object.entries(data))
			all[type] = asData(type, v);
		show({ data: all, metadata: {} }, options);
	},
	update: (id, value) => show(bundleOf(value), { id, update: true }),
	clear: (wait = false) => sendJSON('clear', { wait: Boolean(wait) }),
});

function ask(text, isSecret) {
	sendJSON('input', { prompt: text === undefined ? '' : String(text), password: Boolean(isSecret) });
}

/* As in a browser: a line, or null when there is none. */
function prompt(text, fallback) {
	if (!run)
		return null;
	ask(text, false);
	const m = waitFor(['input', 'eof'], true);
	if (m.kind === 'eof')
		return null;
	return m.payload.length ? m.payload.toString() : fallback === undefined ? '' : String(fallback);
}

/* The same, while timers and everything else go on; an error at the end of the input. */
function input(text, { password = false } = {}) {
	if (!run)
		return Promise.reject(new Error('no run is going on: there is nobody to ask'));
	return new Promise((resolve, reject) => {
		run.asks.push({ resolve, reject });
		ask(text, password);
		setImmediate(pump);
	});
}

function answerInput(m) {
	const waiting = run.asks.shift();

	if (m.kind === 'input') {
		waiting.resolve(m.payload.toString());
	} else {
		const e = new Error('there is no more input');
		e.name = 'EOFError';
		waiting.reject(e);
	}
}

/* ---- questions ---- */

const IDENTIFIER = new RegExp(`^${NAME}$`, 'u');
let before = null;		/* globals that are not the user's */

function userNames() {
	const names = lexicalNames();

	for (const name of Object.getOwnPropertyNames(globalThis)) {
		if (!before.has(name))
			names.add(name);
	}
	return [...names].sort();
}

function typeName(v) {
	if (v === null)
		return 'null';
	if (typeof v === 'function')
		return /^class\b/.test(Function.prototype.toString.call(v)) ? 'class' : 'function';
	if (typeof v !== 'object')
		return typeof v;
	if (util.types.isProxy(v))
		return 'Proxy';
	const proto = Object.getPrototypeOf(v), d = proto && Object.getOwnPropertyDescriptor(proto, 'constructor');
	return d && typeof d.value === 'function' && d.value.name || 'Object';
}

function shapeOf(v) {
	if (Array.isArray(v))
		return [v.length];
	if (util.types.isTypedArray(v))
		return [v.length];
	if (util.types.isMap(v) || util.types.isSet(v))
		return [v.size];
	return null;
}

/* Bytes, where they are easily told. */
function sizeOf(v) {
	if (typeof v === 'string')
		return Buffer.byteLength(v);
	if (ArrayBuffer.isView(v) || util.types.isAnyArrayBuffer(v))
		return v.byteLength;
	return typeof v === 'number' ? 8 : null;
}

function shortly(v) {
	const text = inspect(v, { depth: 1, maxArrayLength: 10, maxStringLength: 100, breakLength: Infinity, compact: 3 }).replace(/\s*\n\s*/g, ' ');
	return text.length > 120 ? `${text.slice(0, 119)}…` : text;
}

function answerVars() {
	const list = [], lexical = lexicalNames();

	for (const name of userNames()) {
		try {
			const d = lexical.has(name) ? null : Object.getOwnPropertyDescriptor(globalThis, name);
			const v = d && d.get ? undefined : lookUp(name);
			list.push({ name, type: d && d.get ? 'getter' : typeName(v), shape: shapeOf(v), size: sizeOf(v), repr: d && d.get ? '[Getter]' : shortly(v) });
		} catch (e) {
			/* declared, never given a value */
		}
	}
	return list;
}

function check(name) {
	if (!IDENTIFIER.test(name))
		throw new SyntaxError(`'${name}' is not a name`);
}

function answerGet(name) {
	check(name);
	const v = lookUp(name), bundle = bundleOf(v);
	const answer = { name, type: typeName(v), shape: shapeOf(v), size: sizeOf(v), data: bundle.data };
	const json = toJSON(v);
	if (json !== undefined)
		answer.value = json;
	return answer;
}

function answerSet(text) {
	const end = text.indexOf('\n');
	const name = end < 0 ? text : text.slice(0, end);

	check(name);
	const value = JSON.parse(text.slice(end + 1));
	if (!lexicalNames().has(name)) {
		globalThis[name] = value;
	} else {
		taken = value;
		Object.defineProperty(globalThis, '__value', { value, configurable: true });
		try {
			const reply = post('Runtime.evaluate', { expression: `${name} = __value; 0`, silent: true });
			if (reply.exceptionDetails)
				throw valueOf(reply.exceptionDetails.exception);
		} finally {
			delete globalThis.__value;
			taken = undefined;
		}
	}
	return { name, type: typeName(value) };
}

const KEYWORDS = ('async await break case catch class const continue debugger default delete do else export extends false finally for function if ' +
	'import in instanceof let new null of return static super switch this throw true try typeof undefined var void while yield').split(' ');

function completions(head) {
	const module = /(?:require|import)\s*\(\s*['"]([\w:/.@-]*)$|\bfrom\s+['"]([\w:/.@-]*)$/.exec(head);
	if (module) {
		const word = module[1] || module[2] || '';
		return [word, require('module').builtinModules.filter((n) => !n.startsWith('_'))];
	}
	const chain = /((?:[\p{ID_Start}$_][\p{ID_Continue}$]*\s*\??\.\s*)*)([\p{ID_Continue}$]*)$/u.exec(head);
	const [, path, word] = chain;
	if (!path)
		return [word, [...new Set([...userNames(), ...Object.getOwnPropertyNames(globalThis), ...KEYWORDS])].filter((n) => !n.startsWith('__'))];
	const reply = post('Runtime.evaluate', { expression: path.replace(/\s*\??\.\s*$/, ''), throwOnSideEffect: true, silent: true, objectGroup: 'run', timeout: 500 });
	if (reply.exceptionDetails)
		return [word, []];
	let v = valueOf(reply.result);
	const names = new Set();
	for (v = v === null || v === undefined ? null : Object(v); v; v = Object.getPrototypeOf(v))
		Object.getOwnPropertyNames(v).forEach((n) => IDENTIFIER.test(n) && names.add(n));
	return [word, [...names]];
}

function answerComplete(payload) {
	const end = payload.indexOf(10);
	const cursor = Number(payload.toString('latin1', 0, end)), code = payload.subarray(end + 1);
	const [word, names] = completions(code.toString('utf8', 0, cursor));

	return {
		matches: names.filter((n) => n.startsWith(word)).sort().slice(0, 1000),
		start: cursor - Buffer.byteLength(word),
		end: cursor,
	};
}

function answer(what, payload) {
	let reply;

	signals.forget();
	try {
		reply = watched(() => {
			switch (what) {
			case 'vars':
				return answerVars();
			case 'get':
				return answerGet(payload.toString());
			case 'set':
				return answerSet(payload.toString());
			case 'complete':
				return answerComplete(payload);
			default:
				throw new Error(`unknown question '${what}'`);
			}
		});
		post('Runtime.releaseObjectGroup', { objectGroup: 'run' });
	} catch (e) {
		sendJSON('error', describeError(e, null));
		return send('done error');
	}
	sendJSON('answer', reply);
	send('done ok');
}

/* ---- beginning, and what comes in ---- */

async function begin(payload) {
	const failed = {};
	let isFailed = false, preload = [];

	for (const line of payload.toString().split('\n')) {
		const at = line.indexOf('='), key = line.slice(0, at), value = at < 0 ? '' : decodeURIComponent(line.slice(at + 1));
		if (key === 'cwd')
			process.chdir(value);
		else if (key.startsWith('env.'))
			process.env[key.slice(4)] = value;
		else if (key === 'preload')
			preload = value.split(',').filter(Boolean);
	}
	renewRequire();
	for (const name of preload) {
		try {
			await importModule(name);
		} catch (e) {
			isFailed = true;
			failed[name] = `${e.name}: ${e.message}`;
		}
	}
	before = new Set(Object.getOwnPropertyNames(globalThis));
	sendJSON('ready', { language: 'javascript', version: process.versions.node, executable: process.execPath, ...isFailed && { preload_failed: failed } });
}

function handle(m) {
	switch (m.kind) {
	case 'begin':
		begin(m.payload);
		break;
	case 'run':
		startRun(Number(m.words[1]), m.words[2], m.payload.toString());
		break;
	case 'ask':
		answer(m.words[1], m.payload);
		break;
	default:			/* the answer to a question of a run that is over */
	}
}

function start() {
	closeSync(TEXT);
	for (const [name, fd] of [['stdout', 1], ['stderr', 2]])
		openStream(name, fd);
	openConsole();
	Object.defineProperty(globalThis, TAKE, { value: (v) => {
		taken = v;
	} });
	const values = { display, prompt, input, __import: importModule };
	for (const name of GLOBALS)
		Object.defineProperty(globalThis, name, { value: values[name], configurable: true, writable: true, enumerable: false });
	try {
		const inspector = require('inspector');
		session = new inspector.Session();
		session.connect();
	} catch (e) {
		writeSync(2, `cell: this Node cannot run a kernel: it has no inspector (${e.message})\n`);
		exitNow(70);
	}
	process.argv = [process.argv[0]];
	process.execArgv = [];
	keepSignal('newListener', 'startListeningIfSignal');
	keepSignal('removeListener', 'stopListeningIfSignal');
	process.on('uncaughtException', onUncaught);
	process.on('unhandledRejection', onUncaught);
	/* process.exit() and the end of exit handlers lead here. */
	process.reallyExit = (code) => {
		if (run) {
			run = null;
			send('done exit', String(code || 0));
		}
		endGuard();
		exitNow(code || 0);
	};
	const { Socket } = require('net');
	socket = new Socket({ fd: CONTROL, readable: true, writable: false, onread: { buffer: Buffer.allocUnsafe(65536), callback: onChunk } });
	socket.on('error', () => exitNow(1));
	socket.on('end', () => exitNow(0));
	socket.on('close', () => exitNow(0));
	socket.resume();
}

start();
})(require);
