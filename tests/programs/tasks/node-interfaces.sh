# node lists the network interfaces
# needs: node
# not: strict
node -e 'require("os").networkInterfaces()'
