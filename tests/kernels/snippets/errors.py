# %% zero division
1 / 0
# %% name error
undefined_variable
# %% type error
'a' + 1
# %% value error
int('x')
# %% key error
{}['missing']
# %% index error
[][0]
# %% attribute error
(5).nothing
# %% import error
import no_such_module_here
# %% from import error
from os import no_such_name
# %% assertion
assert 1 == 2
# %% assertion message
assert 1 == 2, 'must be equal'
# %% raise bare class
raise ValueError
# %% raise with message
raise RuntimeError('broken')
# %% raise with several arguments
raise RuntimeError('a', 'b')
# %% custom exception
class MyError(Exception):
    pass
raise MyError('mine')
# %% custom str
class StrError(Exception):
    def __str__(self):
        return 'as text'
raise StrError(1)
# %% chained
try:
    1 / 0
except ZeroDivisionError as e:
    raise ValueError('outer') from e
# %% context
try:
    1 / 0
except ZeroDivisionError:
    {}['x']
# %% from none
try:
    1 / 0
except ZeroDivisionError:
    raise ValueError('alone') from None
# %% in function
def inner(): raise LookupError('deep')
def outer(): inner()
outer()
# %% in a later run
outer()
# %% in lambda
(lambda: 1 / 0)()
# %% in generator
list(1 / x for x in [1, 0])
# %% in thread pool
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(1) as ex:
    ex.submit(lambda: 1 / 0).result()
# %% output before
print('before'); 1 / 0
# %% syntax error
x = = 1
# %% syntax unclosed
print('a'
# %% syntax string
'abc
# %% indentation
def f():
x = 1
# %% unexpected indent
  x = 1
# %% tab error
if 1:
	x = 1
        y = 2
# %% return outside
return 5
# %% break outside
break
# %% yield outside
yield 1
# %% bad assignment
1 = x
# %% bad decorator
@
def f(): pass
# %% nonlocal at top
nonlocal x
# %% duplicate argument
def f(a, a): pass
# %% syntax on third line
a = 1
b = 2
c = )
# %% print statement
print 'hello'
# %% keyword as name
class = 5
# %% missing colon
if True
    pass
# %% unmatched
(1, 2]
# %% f-string error
f'{'
# %% null byte
eval('1\0')
# %% exec syntax error
exec('x = = 1')
# %% eval error
eval('1 +')
# %% compile error in file name
compile('1 +', 'myfile.py', 'eval')
# %% system exit
import sys; sys.exit()
# %% system exit code
sys.exit(3)
# %% system exit message
sys.exit('goodbye')
# %% raise SystemExit
raise SystemExit(1)
# %% keyboard interrupt raised
raise KeyboardInterrupt
# %% keyboard interrupt message
raise KeyboardInterrupt('by hand')
# %% generator exit
raise GeneratorExit
# %% stop iteration
next(iter([]))
# %% base exception
raise BaseException('base')
# %% recursion
def r(): return r()
r()
# %% recursion mutual
def r1(): return r2()
def r2(): return r1()
r1()
# %% recursion repr
l = []
for _ in range(100000): l = [l]
repr(l)
# %% memory error
raise MemoryError('none left')
# %% os error
open('/no/such/file')
# %% permission like
raise PermissionError(13, 'Permission denied', '/x')
# %% is a directory
open('/')
# %% unicode decode
b'\xff'.decode('utf-8')
# %% unicode encode
'\ud800'.encode('utf-8')
# %% overflow
2.0 ** 10000
# %% json error
import json; json.loads('{')
# %% subprocess error
import subprocess; subprocess.run(['false'], check=True)
# %% subprocess missing
subprocess.run(['no-such-program-here'])
# %% timeout
subprocess.run(['sleep', '5'], timeout=0.05)
# %% unpack
a, b = 1
# %% unpack too many
a, b = 1, 2, 3
# %% call wrong
len(1, 2)
# %% missing argument
def need(x): pass
need()
# %% unexpected keyword
need(y=1)
# %% not callable
5()
# %% not iterable
for i in 5: pass
# %% not subscriptable
5[0]
# %% unhashable
{[]: 1}
# %% unbound local
def ub():
    print(zz)
    zz = 1
ub()
# %% broken repr
class BadRepr:
    def __repr__(self): raise ValueError('no repr')
BadRepr()
# %% broken str in exception
class BadStr(Exception):
    def __str__(self): raise ValueError('no str')
try:
    raise BadStr()
except BadStr:
    print('caught')
# %% exception group
raise ExceptionGroup('several', [ValueError('a'), TypeError('b')])
# %% exception group nested
raise ExceptionGroup('out', [ExceptionGroup('in', [KeyError('k')]), OSError('o')])
# %% notes
e = ValueError('noted'); e.add_note('look here'); raise e
# %% async error
import asyncio
async def fails(): raise ValueError('in async')
await fails()
# %% await non awaitable
await 5
# %% async cancelled
raise asyncio.CancelledError('c')
# %% async timeout
await asyncio.wait_for(asyncio.sleep(5), 0.01)
# %% gather error
await asyncio.gather(fails(), asyncio.sleep(0))
# %% task group
async with asyncio.TaskGroup() as tg:
    tg.create_task(fails())
# %% del missing
del not_there
# %% bad import star
from os import *; no_such_os_name
# %% relative import
from . import x
# %% circular attribute
import math; math.nothing
# %% dataclass missing
from dataclasses import dataclass
@dataclass
class D:
    a: int
D()
# %% enum missing
import enum
class E(enum.Enum):
    A = 1
E('nope')
# %% abstract
import abc
class Ab(abc.ABC):
    @abc.abstractmethod
    def f(self): ...
Ab()
# %% frozen
from dataclasses import FrozenInstanceError
@dataclass(frozen=True)
class Fz:
    a: int
Fz(1).a = 2
# %% slots
class Sl:
    __slots__ = ('a',)
Sl().b = 1
# %% multi-line message
raise ValueError('line one\nline two\n  line three')
# %% empty message
raise ValueError('')
# %% unicode message
raise ValueError('日本語 ü')
# %% long message
raise ValueError('x' * 5000)
# %% raise non exception
raise 5
# %% except non exception
try:
    1 / 0
except 5:
    pass
# %% warnings as errors
import warnings
with warnings.catch_warnings():
    warnings.simplefilter('error')
    warnings.warn('now an error')
# %% error in finally
try:
    1 / 0
finally:
    {}['f']
# %% state after errors
'still here'
# %% partial state
kept_before = 1
1 / 0
kept_after = 2
# %% partial state seen
kept_before, 'kept_after' in globals()
