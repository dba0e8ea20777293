# gcc compiles and links
# needs: gcc
printf '#include <pthread.h>\n#include <stdio.h>\nstatic void *f(void *p){return p;}\nint main(void){pthread_t t;if(pthread_create(&t,0,f,0))return 1;pthread_join(t,0);puts("ok");return 0;}\n' >a.c
gcc -O2 -pthread a.c -o a
[ "$(./a)" = ok ]
