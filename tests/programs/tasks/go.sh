# go builds and runs
# needs: go
printf 'module a\n\ngo 1.18\n' >go.mod
printf 'package main\n\nimport (\n\t"fmt"\n\t"net"\n\t"os/exec"\n)\n\nfunc main() {\n\tl, err := net.Listen("tcp", "127.0.0.1:0")\n\tif err != nil {\n\t\tpanic(err)\n\t}\n\tgo func() { c, _ := net.Dial("tcp", l.Addr().String()); fmt.Fprint(c, "x"); c.Close() }()\n\tc, _ := l.Accept()\n\tb := make([]byte, 1)\n\tc.Read(b)\n\tif err := exec.Command("true").Run(); err != nil {\n\t\tpanic(err)\n\t}\n\tfmt.Println(string(b))\n}\n' >main.go
GOCACHE="$PWD/cache" GOPATH="$PWD/path" go build -o a .
[ "$(./a)" = x ]
