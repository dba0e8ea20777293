# strace traces a child
# needs: strace
# not: strict
strace -f -o log sh -c 'true; ls >/dev/null'
grep -q execve log
