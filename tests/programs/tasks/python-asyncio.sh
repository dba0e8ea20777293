# python runs asyncio with sockets and subprocesses
# needs: python3
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
