# %% int
1 + 1
# %% big int
2 ** 200
# %% float
0.1 + 0.2
# %% float whole
2.0
# %% float inf
float("inf"), float("nan"), -0.0
# %% complex
complex(1, -2)
# %% bool
not True
# %% none
None
# %% ellipsis
...
# %% not implemented
NotImplemented
# %% string
'it\'s "quoted"'
# %% string escapes
'tab\tnewline\nnul\0bell\a'
# %% string unicode
'äöü 日本 \U0001f600'
# %% string multi-line
"""a
b"""
# %% lone surrogate in a string
'\ud800 and \udc80'
# %% bytes
b'\x00\xffabc'
# %% bytearray
bytearray(b'xyz')
# %% memoryview length
len(memoryview(b'abc'))
# %% long string
'word ' * 60
# %% empty containers
[], (), {}, set(), frozenset()
# %% list short
[1, 2, 3]
# %% list of strings
['a', 'b', 'c']
# %% list at the edge 79
[111111111, 222222222, 333333333, 444444444, 555555555, 666666666, 777777777, 8]
# %% list at the edge 80
[111111111, 222222222, 333333333, 444444444, 555555555, 666666666, 777777777, 88]
# %% list at the edge 81
[111111111, 222222222, 333333333, 444444444, 555555555, 666666666, 777777777, 888]
# %% list long
list(range(100))
# %% list very long
list(range(1500))
# %% list of exactly 1000
list(range(1000))
# %% list of 1001
list(range(1001))
# %% list of long strings
['x' * 50, 'y' * 50, 'z' * 50]
# %% one long string in a list
['x' * 200]
# %% one long string then more
['x' * 200, 1, 2]
# %% nested lists
[[i * j for j in range(10)] for i in range(10)]
# %% nested deep
[[[[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]]]]
# %% nested long in short
[1, [2, list(range(40))], 3]
# %% tuple of one
(1,)
# %% tuple long
tuple(range(60))
# %% tuples of one nested
((((1,),),),)
# %% dict short
{'a': 1, 'b': [1, 2]}
# %% dict long
{f'key{i}': i for i in range(20)}
# %% dict with long values
{'a': list(range(40)), 'b': {'x': 1, 'y': list(range(5))}}
# %% dict of dicts
{f'k{i}': {'name': 'n' * i, 'values': list(range(i))} for i in range(8)}
# %% dict unsorted
{3: 'c', 1: 'a', 2: 'b'}
# %% dict mixed keys
{1: 'a', 'b': 2, (1, 2): 3, None: 4}
# %% dict very long
dict.fromkeys(range(1200))
# %% set sorted
{3, 1, 2}
# %% set of strings
{'pear', 'apple', 'fig'}
# %% set mixed
{1, 'a'} == {'a', 1}
# %% set long
set(range(100))
# %% frozenset
frozenset([3, 2, 1])
# %% frozenset long
frozenset(range(50))
# %% set of tuples
{(2, 'b'), (1, 'a')}
# %% list that holds itself
loop_list = [1]; loop_list.append(loop_list)
loop_list
# %% dict that holds itself
loop_dict = {}; loop_dict['me'] = loop_dict
loop_dict
# %% range
range(5)
# %% slice
slice(1, 2)
# %% type builtin
int
# %% type of a value
type([])
# %% exception class
ValueError
# %% exception value
ValueError('bad', 3)
# %% exception long
ValueError('x' * 60, 'y' * 60)
# %% exception empty
KeyError()
# %% oserror value
FileNotFoundError(2, 'No such file or directory')
# %% builtin function
len
# %% builtin print
print
# %% builtin method
[].append.__name__
# %% lambda
(lambda x, y=2: x)
# %% generator type
type(i for i in [])
# %% module function
import json; json.dumps
# %% module
import math; math
# %% re pattern
import re; re.compile(r'a+\d', re.I)
# %% re pattern plain
re.compile('x')
# %% re match
re.match('a', 'abc')
# %% defaultdict
from collections import defaultdict, OrderedDict, Counter, deque, namedtuple, ChainMap
defaultdict(list, {'a': [1]})
# %% defaultdict long
defaultdict(int, {f'key{i}': i for i in range(20)})
# %% ordereddict
OrderedDict([('a', 1), ('b', 2)])
# %% ordereddict empty
OrderedDict()
# %% ordereddict long
OrderedDict((f'key{i}', i) for i in range(20))
# %% counter
Counter('abracadabra')
# %% counter empty
Counter()
# %% deque
deque([1, 2, 3])
# %% deque maxlen
deque([1, 2, 3], maxlen=5)
# %% deque long
deque(range(50))
# %% namedtuple
Point = namedtuple('Point', 'x y'); Point(1, 2)
# %% namedtuple in list
[Point(i, i) for i in range(12)]
# %% chainmap
ChainMap({'a': 1}, {'b': 2})
# %% simplenamespace
from types import SimpleNamespace, MappingProxyType
SimpleNamespace(a=1, b='x')
# %% simplenamespace long
SimpleNamespace(**{f'key{i}': 'v' * i for i in range(15)})
# %% mappingproxy
MappingProxyType({'a': 1})
# %% datetime
import datetime; datetime.datetime(2020, 1, 2, 3, 4)
# %% dates in a list
[datetime.date(2020, 1, d) for d in range(1, 9)]
# %% timedelta
datetime.timedelta(days=1, seconds=5)
# %% decimal
from decimal import Decimal; Decimal('1.10')
# %% fraction
from fractions import Fraction; Fraction(1, 3)
# %% path
from pathlib import Path; Path('/tmp/x')
# %% uuid
import uuid; uuid.UUID(int=5)
# %% enum
import enum
class Color(enum.Enum):
    RED = 1
    BLUE = 2
Color.RED
# %% enum class
Color
# %% enum list
list(Color)
# %% dataclass
from dataclasses import dataclass
@dataclass
class Item:
    name: str
    price: float = 1.5
Item('a')
# %% dataclass long
Item('n' * 100, 2.0)
# %% dataclass class
Item
# %% class
class Thing:
    pass
Thing
# %% object
Thing()
# %% objects in a list
[Thing(), Thing()]
# %% class with repr
class Shown:
    def __repr__(self):
        return 'Shown!'
Shown()
# %% repr over lines
class Tall:
    def __repr__(self):
        return 'Tall(\n  1,\n)'
Tall()
# %% repr over lines in a list
[Tall(), Tall()]
# %% repr over lines in a dict
{'a': Tall(), 'b': 1}
# %% class with str only
class Said:
    def __str__(self):
        return 'said'
Said()
# %% list subclass
class MyList(list):
    pass
MyList([1, 2])
# %% list subclass with repr
class MyList2(list):
    def __repr__(self):
        return 'L2'
MyList2([1])
# %% dict subclass
class MyDict(dict):
    pass
MyDict(a=1)
# %% tuple subclass
class MyTuple(tuple):
    pass
MyTuple((1, 2))
# %% str subclass
class MyStr(str):
    pass
MyStr('abc')
# %% int subclass
class MyInt(int):
    pass
MyInt(5)
# %% set subclass
class MySet(set):
    pass
MySet([2, 1])
# %% metaclass with repr
class Meta(type):
    def __repr__(cls):
        return 'META'
class WithMeta(metaclass=Meta):
    pass
WithMeta
# %% nested class
class Outer:
    class Inner:
        pass
Outer.Inner
# %% function
def simple(a, *args, b: int = 3, **kw) -> str:
    return ''
simple
# %% method
class WithMethod:
    def m(self, x):
        pass
WithMethod.m
# %% bound method name
WithMethod().m.__name__
# %% async function
async def co(x):
    pass
co
# %% functools partial
import functools; functools.partial(int, base=2)
# %% property
type(property())
# %% super
class Base:
    def f(self):
        return super()
isinstance(Base().f(), super)
# %% repr pretty
class Pretty:
    def _repr_pretty_(self, p, cycle):
        with p.group(4, 'Pretty(', ')'):
            for i in range(3):
                if i:
                    p.text(',')
                    p.breakable()
                p.pretty([i] * 10)
Pretty()
# %% repr pretty in a list
[Pretty()]
# %% repr pretty text
class PrettyText:
    def _repr_pretty_(self, p, cycle):
        p.text('cycle' if cycle else 'pretty text')
PrettyText()
# %% repr pretty in a dict
{'k': PrettyText(), 'l': [PrettyText()] * 8}
# %% repr pretty with breaks
class PrettyBreak:
    def _repr_pretty_(self, p, cycle):
        p.text('a')
        p.break_()
        p.text('b')
PrettyBreak()
# %% repr pretty begin end
class PrettyGroup:
    def _repr_pretty_(self, p, cycle):
        p.begin_group(2, '<<')
        p.text('x' * 50)
        p.breakable()
        p.text('y' * 50)
        p.end_group(2, '>>')
PrettyGroup()
# %% environ type
import os; type(os.environ)
# %% ipaddress
import ipaddress; ipaddress.ip_address('10.0.0.1')
# %% array
import array; array.array('i', [1, 2, 3])
# %% struct time
import time; time.gmtime(0)
# %% weekday
import calendar; calendar.MONDAY
# %% zip type
type(zip())
# %% dict keys
{'a': 1, 'b': 2}.keys()
# %% dict items long
{f'key{i}': i for i in range(20)}.items()
# %% dict values
{'a': 1}.values()
# %% file closed
open('/dev/null').closed
# %% mixed table
[{'id': i, 'name': f'name {i}', 'tags': ['a', 'b'], 'nested': {'x': None, 'y': (1.5, True)}} for i in range(6)]
# %% json like
{'users': [{'id': 1, 'email': 'a@example.org', 'roles': ['admin', 'dev'], 'profile': {'age': 30, 'langs': {'de', 'en'}}}], 'total': 1, 'next': None}
# %% wide unicode list
['日本語' * 8, '中文' * 8, 'ü' * 20]
