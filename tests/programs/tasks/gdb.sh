# gdb runs a program without address randomisation
# needs: gdb gcc
# not: strict
printf 'int main(void){return 42;}' >a.c
gcc -g a.c -o a
gdb -batch -ex 'break main' -ex run -ex cont ./a | grep -q 'exited with code 052'
