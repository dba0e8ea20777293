# %% display
display('text')
# %% display several
display(1, 'a', [1, 2])
# %% display and value
display(1)
2
# %% display none
display(None)
# %% display import
from IPython.display import display, HTML, Markdown, Latex, Math, JSON, SVG, Image, Javascript, Pretty, Code, clear_output, update_display, publish_display_data, IFrame
display(5)
# %% html
HTML('<b>bold</b>')
# %% display html
display(HTML('<i>x</i>'))
# %% markdown
Markdown('# title')
# %% latex
Latex('$x$')
# %% math
Math('x^2')
# %% json
JSON({'a': [1, 2]})
# %% svg
SVG('<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"></svg>')
# %% javascript
Javascript('1')
# %% pretty
Pretty('pretty')
# %% iframe
IFrame('http://example.org', 10, 20)
# %% image
import base64
png = base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==')
Image(png)
# %% image size
Image(png, width=10, height=20)
# %% image in file
open('cell-diff.png', 'wb').write(png)
Image('cell-diff.png')
# %% image file removed
import os; os.remove('cell-diff.png')
# %% image url
Image(url='http://example.org/x.png')
# %% raw
display({'text/plain': 'p', 'text/html': '<p>'}, raw=True)
# %% raw png
display({'text/plain': 'p', 'image/png': 'aGk='}, raw=True)
# %% repr html
class H:
    def _repr_html_(self): return '<h1>'
H()
# %% repr markdown
class M:
    def _repr_markdown_(self): return '*m*'
    def __repr__(self): return 'M'
M()
# %% repr png
class P:
    def _repr_png_(self): return png
    def __repr__(self): return 'P'
P()
# %% repr jpeg
class J:
    def _repr_jpeg_(self): return b'\xff\xd8\xff'
    def __repr__(self): return 'J'
J()
# %% repr svg
class S:
    def _repr_svg_(self): return '<svg></svg>'
    def __repr__(self): return 'S'
S()
# %% repr json
class Js:
    def _repr_json_(self): return {'k': [1, None, True]}
    def __repr__(self): return 'Js'
Js()
# %% repr latex
class L:
    def _repr_latex_(self): return '$l$'
    def __repr__(self): return 'L'
L()
# %% repr none
class N:
    def _repr_html_(self): return None
    def __repr__(self): return 'N'
N()
# %% repr metadata
class Md:
    def _repr_html_(self): return '<b>', {'isolated': True}
    def __repr__(self): return 'Md'
Md()
# %% repr mimebundle
class B:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'text/plain': 'bundle', 'text/html': '<b>', 'application/x-mine': {'a': 1}}
B()
# %% repr mimebundle with metadata
class B2:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'text/plain': 'b2', 'text/html': '<b>'}, {'text/html': {'m': 1}}
B2()
# %% repr mimebundle without plain
class B3:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'text/html': '<b3>'}
    def __repr__(self): return 'B3'
B3()
# %% ipython display
class Id:
    def _ipython_display_(self): print('shows itself')
Id()
# %% ipython display in display
display(Id())
# %% several reprs
class All:
    def _repr_html_(self): return '<a>'
    def _repr_latex_(self): return '$a$'
    def _repr_markdown_(self): return '**a**'
    def __repr__(self): return 'All'
All()
# %% class with repr html
H
# %% getattr everything
class Every:
    def __getattr__(self, name): return lambda *a, **k: 'every'
    def __repr__(self): return 'Every'
Every()
# %% mock
from unittest.mock import MagicMock
type(MagicMock())
# %% list of html
[H.__name__, 1]
# %% display id
h = display('one', display_id='cell-test')
# %% display update
h.update('two')
# %% update display
update_display('three', display_id='cell-test')
# %% display metadata
display('m', metadata={'text/plain': {'x': 1}})
# %% publish
publish_display_data({'text/plain': 'published', 'text/html': '<p>'})
# %% clear output
print('a'); clear_output(); print('b')
# %% clear output wait
clear_output(wait=True)
# %% display in function
def shows():
    display(HTML('<f>'))
    return 'returned'
shows()
# %% display in loop
for i in range(3): display(i)
# %% print between displays
print('a'); display(1); print('b'); display(2); print('c')
# %% display dict
display({'a': 1})
# %% display long list
display(list(range(50)))
# %% include
display(All(), include=['text/html', 'text/plain'])
# %% exclude
display(All(), exclude=['text/latex'])
# %% failing repr html
class Fh:
    def _repr_html_(self): raise NotImplementedError
    def __repr__(self): return 'Fh'
Fh()
# %% numpy array
import numpy as np
np.arange(5)
# %% numpy 2d
np.arange(12).reshape(3, 4)
# %% numpy long
np.arange(2000)
# %% numpy scalar
np.float64(1.5)
# %% numpy bool
np.bool_(True)
# %% numpy in list
[np.arange(3), np.eye(2)]
# %% numpy in dict
{'a': np.arange(30), 'b': np.zeros((2, 2))}
# %% numpy in tuple
(np.array([1.5, 2.5]), 'x')
# %% numpy error
np.zeros(3) + np.zeros(4)
# %% numpy dtype
np.dtype('float32')
# %% numpy structured
np.array([(1, 'a')], dtype=[('n', 'i4'), ('s', 'U1')])
# %% dataframe
import pandas as pd
df = pd.DataFrame({'a': [1, 2, 3], 'b': ['x', 'y', 'z'], 'c': [1.5, None, 2.5]})
df
# %% dataframe display
display(df)
# %% dataframe print
print(df)
# %% dataframe head
df.head(1)
# %% dataframe empty
pd.DataFrame()
# %% dataframe long
pd.DataFrame({'n': range(200)})
# %% dataframe wide
pd.DataFrame([range(40)])
# %% series
df['a']
# %% series value
df['a'].sum()
# %% dataframe describe
df.describe()
# %% dataframe shape
df.shape
# %% dataframe info
df.info()
# %% dataframe groupby
df.groupby('b')['a'].sum()
# %% dataframe index
df.index
# %% dataframe columns
df.columns
# %% dataframe in list
[df.head(1)]
# %% dataframe key error
df['nope']
# %% timestamps
pd.Timestamp('2020-01-02')
# %% multiindex
pd.DataFrame({'a': [1]}, index=pd.MultiIndex.from_tuples([('x', 1)]))
# %% duplicate columns
pd.DataFrame([[1, 2]], columns=['a', 'a'])
# %% to_dict
df.to_dict('records')
# %% styler type
type(df.dtypes)
# %% plot
import matplotlib.pyplot as plt
plt.plot([1, 2, 3]);
# %% plot with show
plt.plot([1, 2, 3]); plt.show()
# %% two figures
plt.figure(); plt.plot([1]); plt.figure(); plt.plot([2]);
# %% no figure left
plt.get_fignums()
# %% print and plot
print('before'); plt.plot([1, 2]); plt.title('t'); plt.show(); print('after')
# %% plot value
plt.plot([1, 2])
# %% hist value
plt.hist([1, 2, 2])[0]
# %% subplots
fig, ax = plt.subplots(); ax.bar(['a'], [1]);
# %% figure as value
fig2 = plt.figure(); fig2.gca().plot([1]); plt.close(fig2); fig2
# %% closed figure
plt.plot([1]); plt.close()
# %% savefig
import io
plt.plot([1]); buf = io.BytesIO(); plt.savefig(buf); plt.close(); buf.getvalue()[:4]
# %% pandas plot
df['a'].plot();
# %% plot then error
plt.plot([1]); 1 / 0
# %% matplotlib magic
%matplotlib inline
