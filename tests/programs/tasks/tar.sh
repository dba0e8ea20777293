# tar, gzip, xz and find work
# needs: tar gzip xz find
mkdir d
echo x >d/f
ln -s f d/l
tar czf a.tgz d
tar cJf a.txz d
rm -r d
tar xzf a.tgz
[ "$(find d | wc -l)" -eq 3 ]
