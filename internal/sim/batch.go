package sim

import (
	"sync"
)

// Runs makes n runs from a first seed on, several at a time, and tells each of
// their results in the order of the seeds. It stops early if each returns false.
func Runs(first uint64, n, workers int, each func(Result) bool) {
	type job struct {
		seed   uint64
		result chan Result
	}
	// The queue bounds how far the fastest may be ahead of the slowest.
	jobs, queue, stop := make(chan job), make(chan job, 4*workers), make(chan struct{})
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			for j := range jobs {
				j.result <- Run(j.seed, Options{})
			}
		})
	}
	wait.Go(func() {
		defer close(queue)
		defer close(jobs)
		for i := range n {
			j := job{first + uint64(i), make(chan Result, 1)}
			select {
			case queue <- j:
			case <-stop:
				return
			}
			select {
			case jobs <- j:
			case <-stop:
				return
			}
		}
	})
	for range n {
		j := <-queue
		if !each(<-j.result) {
			break
		}
	}
	close(stop)
	wait.Wait()
}
