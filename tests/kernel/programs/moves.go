// Writes and reads back a file from several goroutines, past the C library.
package main

import (
	"os"
	"sync"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	file, err := os.Create("from-go")
	must(err)
	var all sync.WaitGroup
	for part := range 4 {
		all.Go(func() {
			for i := range 251 {
				_, err := file.WriteAt(make([]byte, 17), int64((part*251+i)*17))
				must(err)
			}
		})
	}
	all.Wait()
	for range 1004 {
		_, err := file.Read(make([]byte, 17))
		must(err)
	}
	must(file.Sync())
	must(file.Close())
}
