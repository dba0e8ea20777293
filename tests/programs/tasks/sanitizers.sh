# sanitizers find a leak
# needs: gcc
# not: strict
printf '#include <stdlib.h>\nint main(void){void *volatile p=malloc(10);p=0;return 0;}' >a.c
gcc -fsanitize=address a.c -o a
if ./a 2>log; then exit 1; fi
grep -q LeakSanitizer log
