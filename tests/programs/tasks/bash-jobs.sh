# bash has job control
# needs: bash
bash -c 'set -m
sleep 100 &
kill -STOP %1
for i in 1 2 3 4 5 6 7 8 9; do jobs -s | grep -q sleep && break; sleep 0.1; done
jobs -s | grep -q sleep
bg %1
kill %1
wait %1 || [ $? -eq 143 ]
x=$(cat <(echo inner))
[ "$x" = inner ]'
