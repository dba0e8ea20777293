# git clones, commits and checks out
# needs: git
git init -q origin
cd origin
git config user.email a@b.c
git config user.name n
echo one >file
git add file
git commit -qm one
cd ..
git clone -q "file://$PWD/origin" copy
git clone -q origin linked
cd copy
git checkout -qb other
git -c gc.auto=1 gc -q
git fsck
[ "$(cat file)" = one ]
