// Goroutines that compute for a while, others that wait for them; prints the process's CPU time, ns.
package main

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

func cpu() int64 {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return usage.Utime.Nano() + usage.Stime.Nano()
}

func main() {
	file, err := os.Create(os.Args[1])
	if err != nil {
		panic(err)
	}
	var group sync.WaitGroup
	done := make(chan bool)
	for worker := 0; worker < 20; worker++ {
		go func() { <-done }()
	}
	for worker := 0; worker < 2; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for sum, end := 0, time.Now().Add(800*time.Millisecond); time.Now().Before(end); sum++ {
			}
		}()
	}
	for line := 0; line < 100; line++ {
		fmt.Fprintln(file, line)
		time.Sleep(5 * time.Millisecond)
	}
	group.Wait()
	close(done)
	fmt.Println(cpu())
}
