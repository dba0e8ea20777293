# npm makes a project
# needs: npm node
npm init -y
node -e 'if (!require("./package.json").version) process.exit(1)'
