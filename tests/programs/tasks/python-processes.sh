# python runs threads, processes and shared memory
# needs: python3
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
