# node runs workers, children and a server
# needs: node
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
