# %% shell
!echo hello
# %% shell and value
!echo hello
5
# %% shell variable
name = 'world'
!echo hello {name}
# %% shell dollar
!echo hello $name
# %% shell expression
!echo {1 + 2} {name.upper()}
# %% shell dollar of the shell
!X=5; echo $$X
# %% shell awk
!echo "a b" | awk '{print $2}'
# %% shell pipe
!printf 'b\na\n' | sort
# %% shell in a loop
for i in range(3):
    !echo {i}
# %% shell in a function
def sh():
    !echo from function
sh()
# %% shell captured
out = !printf 'one\ntwo\n'
out
# %% shell captured joined
out.n, out.s
# %% shell captured type
isinstance(out, list)
# %% shell captured with variable
got = !echo {name}
got[0]
# %% shell continued
!echo a \
  b
# %% shell quotes
!echo "it's"
# %% shell exit code
!exit 3
# %% exit code
_exit_code
# %% string that looks like a magic
s = """
!not a command
%not a magic
"""
s
# %% percent operator
7 % 4
# %% percent continued
x = (10
  % 4)
x
# %% pwd
import os
get_cwd = %pwd
get_cwd == os.getcwd()
# %% cd
os.makedirs('cell-diff-dir', exist_ok=True)
before = os.getcwd()
%cd -q cell-diff-dir
# %% cd back
%cd -
# %% cd seen
os.getcwd() == before
# %% cd missing
%cd /no/such/dir
# %% cleanup
os.rmdir('cell-diff-dir')
# %% env set
%env CELL_MAGIC=abc
# %% env get
%env CELL_MAGIC
# %% env missing
%env CELL_NO_SUCH
# %% env in shell
!echo $CELL_MAGIC
# %% time value
v = 5
_t = v + 1
# %% timeit quiet
r = %timeit -n 2 -r 2 -q -o 1 + 1
r.repeat
# %% writefile
%%writefile cell-diff.txt
line one
line two
# %% writefile read
print(open('cell-diff.txt').read())
# %% writefile append
%%writefile -a cell-diff.txt
line three
# %% writefile overwrite
%%writefile cell-diff.txt
new
# %% writefile removed
print(open('cell-diff.txt').read()); os.remove('cell-diff.txt')
# %% bash
%%bash
echo one
for i in 1 2; do echo $i; done
# %% bash state is not kept
%%bash
X=5
# %% sh
%%sh
echo from sh
# %% html
%%html
<b>x</b>
# %% markdown
%%markdown
# title
# %% capture
%%capture cap
print('captured')
# %% captured
cap.stdout
# %% unknown magic
%no_such_magic
# %% unknown cell magic
%%no_such_magic
x
# %% run
open('cell-diff-run.py', 'w').write('ran = 41 + 1\nprint("running", __name__)\n');
# %% run it
%run cell-diff-run.py
# %% ran
os.remove('cell-diff-run.py'); ran
# %% assignment in indent
if True:
    lines = !echo x
lines
# %% help
len?
# %% magic and syntax error
!echo a
x = = 1
# %% two magics
!echo 1
!echo 2
# %% comment before
# comment
!echo after comment
# %% matplotlib
%matplotlib inline
