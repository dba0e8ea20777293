# npm installs a package from a tarball
# needs: npm node tar
mkdir -p src/package app
printf '{"name":"probe","version":"1.2.3","main":"i.js"}' >src/package/package.json
echo 'module.exports = 42' >src/package/i.js
tar czf probe-1.2.3.tgz -C src package
cd app
npm init -y >/dev/null
npm install --offline --no-audit --no-fund ../probe-1.2.3.tgz
[ "$(node -p 'require("probe")')" = 42 ]
