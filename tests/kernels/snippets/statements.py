# %% print
print('hello')
# %% print several
print(1, 'a', None, sep='-', end='!\n')
# %% print no newline
print('no newline', end='')
# %% print and value
print('out'); 'value'
# %% stderr
import sys; print('err', file=sys.stderr)
# %% sys.stdout.write
n = sys.stdout.write('written\n')
# %% value of write
sys.stdout.write('abc\n')
# %% several statements
a = 1
b = 2
a + b
# %% last is an assignment
c = 5
# %% last is an if
if True:
    5
# %% last is a for
for i in range(3):
    i
# %% last in with
import contextlib
with contextlib.nullcontext():
    42
# %% semicolon
5;
# %% semicolon with comment
5;  # quiet
# %% semicolon in a string
'a;'
# %% semicolon between
1; 2
# %% comment last
7
# the end
# %% comment only
# nothing
# %% empty

# %% blank lines

3

# %% indented block
if 1:
    x = 10

x
# %% underscore
_
# %% walrus
(y := 9)
# %% tuple expression
1, 2
# %% starred
[*range(3)]
# %% lambda call
(lambda: 5)()
# %% conditional
'yes' if x else 'no'
# %% multi-line expression
(1 +
 2 +
 3)
# %% backslash
1 + \
  2
# %% docstring first
"""doc"""
v = 1
# %% string only
"""only"""
# %% fstring
f'{x=} {x:>5} {x!r}'
# %% del
del a
# %% global state kept
counter = 0
def bump():
    global counter
    counter += 1
    return counter
bump(); bump()
# %% state seen
counter
# %% closures
def make(n):
    return lambda: n
[f() for f in [make(i) for i in range(3)]]
# %% comprehension scope
[x for x in range(3)], x
# %% class body
class K:
    z = [i for i in range(3)]
K.z
# %% generator
list(i * i for i in range(5))
# %% try finally
try:
    r = 1
finally:
    print('finally')
# %% name
__name__
# %% main module
import __main__; __main__.counter
# %% module of a class
K.__module__
# %% future annotations
from __future__ import annotations
def ann(x: undefined_name) -> other: pass
ann.__annotations__
# %% future persists
def ann2(x: undefined_name2): pass
ann2.__annotations__
# %% type hints
import typing
class H:
    a: int
    b: 'H'
typing.get_type_hints(H)
# %% dataclass inheritance
from dataclasses import dataclass, field, asdict
@dataclass
class P:
    a: int
@dataclass
class Q(P):
    b: list = field(default_factory=list)
asdict(Q(1, [2]))
# %% pickle
import pickle
class Pick:
    def __init__(self): self.v = 1
pickle.loads(pickle.dumps(Pick())).v
# %% pickle function
pickle.loads(pickle.dumps(bump)) is bump
# %% getsource
import inspect
def sourced(q):
    return q  # yes
print(inspect.getsource(sourced))
# %% getsource later
print(inspect.getsource(bump))
# %% signature
inspect.signature(sourced)
# %% exec
exec('e1 = 7')
e1
# %% eval
eval('e1 + 1')
# %% globals
'e1' in globals()
# %% locals is globals
locals() is globals()
# %% input module isatty
sys.stdout.isatty()
# %% encoding
sys.stdout.encoding
# %% subprocess output captured
import subprocess
subprocess.run(['echo', 'hi'], capture_output=True, text=True).stdout
# %% os.getcwd type
import os; type(os.getcwd())
# %% threads
import threading
t = threading.Thread(target=lambda: print('in thread'))
t.start(); t.join()
# %% thread pool
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(3) as ex:
    got = list(ex.map(lambda v: v * v, range(5)))
got
# %% multiprocessing fork
import multiprocessing
def square(v): return v * v
with multiprocessing.get_context('fork').Pool(2) as pool:
    sq = pool.map(square, range(4))
sq
# %% redirect_stdout
import io
s = io.StringIO()
with contextlib.redirect_stdout(s):
    print('captured')
s.getvalue()
# %% patched stdout and back
old = sys.stdout
sys.stdout = io.StringIO()
print('gone')
sys.stdout = old
print('back')
# %% warnings user
import warnings
warnings.simplefilter('ignore')
warnings.warn('quiet')
# %% logging
import logging
logging.getLogger('t').debug('not shown')
# %% await value
import asyncio
await asyncio.sleep(0, 'slept')
# %% await statement
w = await asyncio.sleep(0, 5)
w + 1
# %% async for
async def agen():
    for i in range(3):
        yield i
[i async for i in agen()]
# %% async with
class ACM:
    async def __aenter__(self): return 'in'
    async def __aexit__(self, *a): return False
async with ACM() as got:
    print(got)
# %% gather
await asyncio.gather(*[asyncio.sleep(0, i) for i in range(3)])
# %% create task then await
async def job():
    return 'done'
task = asyncio.create_task(job())
# %% await the task
await task
# %% match statement
match [1, 2]:
    case [a1, b1]:
        print(a1, b1)
# %% exception star
try:
    raise ExceptionGroup('g', [ValueError(1), TypeError(2)])
except* ValueError as g:
    print('v', g.exceptions)
except* TypeError as g:
    print('t', g.exceptions)
# %% textwrap
import textwrap; print(textwrap.dedent('''
    a
    b'''))
# %% pprint
import pprint; pprint.pprint({'a': list(range(30))})
# %% print flush
for i in range(3): print(i, end=' ', flush=True)
# %% carriage return
print('10%\r20%\r', end='')
# %% big output
print('x' * 100000)
# %% many lines
for i in range(500): print(i)
# %% print unicode
print('äöü 日本 \U0001f600')
# %% print to closed stringio
s2 = io.StringIO(); s2.close(); s2.closed
# %% help of str
help(str.upper)
# %% dir
[n for n in dir() if n in ('counter', 'bump')]
# %% vars main
type(vars())
# %% os.environ set
os.environ['CELL_TEST'] = 'x'; os.environ.get('CELL_TEST')
# %% json dump
import json; print(json.dumps({'a': [1, 2, {'b': None}]}, indent=2))
# %% sorted
sorted({'b': 1, 'a': 2}.items(), key=lambda kv: kv[1])
# %% time it
import time; time.sleep(0)
# %% recursion fine
def fact(n): return 1 if n < 2 else n * fact(n - 1)
fact(50)
# %% assert ok
assert True, 'never'
# %% decorators
import functools
@functools.lru_cache(None)
def fib(n): return n if n < 2 else fib(n-1) + fib(n-2)
fib(60)
# %% cache info
fib.cache_info()
# %% iterators
it = iter([1, 2]); next(it), next(it), next(it, 'end')
# %% bytes print
print(b'abc')
# %% star expression print
print(*range(5))
# %% global keyword
def setg():
    global newg
    newg = 'set'
setg(); newg
# %% nonlocal
def outer():
    n = 0
    def inner():
        nonlocal n
        n += 1
        return n
    inner(); return inner()
outer()
# %% type alias
from typing import List, Dict, Optional; Optional[List[int]]
# %% typing union
int | None
# %% regex findall
import re; re.findall(r'\d+', 'a1 b22 c333')
# %% csv
import csv
rows = list(csv.reader(io.StringIO('a,b\n1,2\n'))); rows
# %% sqlite
import sqlite3
db = sqlite3.connect(':memory:'); db.execute('create table t (a, b)'); db.execute("insert into t values (1, 'x')")
db.execute('select * from t').fetchall()
# %% tempfile
import tempfile
with tempfile.TemporaryDirectory() as d:
    p = os.path.join(d, 'f'); open(p, 'w').write('hi'); got = open(p).read()
got
# %% hash of int
hash(5)
# %% statistics
import statistics; statistics.mean([1, 2, 3, 4])
# %% itertools
import itertools; list(itertools.permutations('abc', 2))
# %% long line value
'-'.join(str(i) for i in range(60))
