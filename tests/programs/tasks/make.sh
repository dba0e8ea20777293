# make runs jobs in parallel
# needs: make
printf 'all: a b c d\na b c d:\n\techo $@ >$@\n' >Makefile
make -j4
[ -e d ]
