# sed, awk, diff, patch and find edit files
# needs: sed awk diff find sort xargs
printf 'b\na\n' >x
sort x >y
diff x y >d || [ $? -eq 1 ]
sed -i s/a/c/ x
awk 'END { if (NR != 2) exit 1 }' x
find . -type f -print0 | xargs -0 wc -l >/dev/null
