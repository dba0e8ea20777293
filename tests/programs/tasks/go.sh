# go builds and runs
# needs: go
printf 'module a\n\ngo 1.18\n' >go.mod
cat >main.go <<'GO'
package main

import (
	"os"
	"sync"
)

func main() {
	var wg sync.WaitGroup
	c := make(chan int, 8)
	for i := 0; i < 8; i++ {
		wg.Add(1)
		go func() { defer wg.Done(); c <- 1 }()
	}
	wg.Wait()
	p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	if err != nil {
		panic(err)
	}
	s, err := p.Wait()
	if err != nil || !s.Success() || len(c) != 8 {
		os.Exit(1)
	}
	os.Stdout.WriteString("x\n")
}
GO
CGO_ENABLED=0 GOCACHE="$PWD/cache" GOPATH="$PWD/path" go build -o a .
[ "$(./a)" = x ]
