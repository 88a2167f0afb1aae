package sim

import "sync"

// Runs makes n runs from a first seed on, several at a time, and tells each of
// their results in the order of the seeds. It stops early if each returns false.
func Runs(first uint64, n, workers int, opt Options, each func(Result) bool) {
	// The queue bounds how far the fastest may be ahead of the slowest.
	queue, slots, stop := make(chan chan Result, 4*workers), make(chan struct{}, workers), make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		for i := range n {
			result := make(chan Result, 1)
			select {
			case queue <- result:
			case <-stop:
				return
			}
			slots <- struct{}{}
			wait.Go(func() {
				result <- Run(first+uint64(i), opt)
				<-slots
			})
		}
	})
	for range n {
		if !each(<-<-queue) {
			break
		}
	}
	close(stop)
	wait.Wait()
}
