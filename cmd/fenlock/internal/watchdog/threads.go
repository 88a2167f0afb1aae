//go:build linux || darwin || freebsd

package watchdog

import (
	"runtime"
	"sync"
)

// spareThreads are for calls to the system that take long at the same time, and one to wait
// meanwhile.
const spareThreads = 3

// prepareThreads makes the threads that this process may ever need. Go makes one when a call takes
// longer, and ends the process if it cannot. That happens when the command has started as many
// processes as its user may have, which is no time for its watchdog to end.
func prepareThreads() {
	var made sync.WaitGroup
	done := make(chan struct{})
	for range spareThreads {
		made.Add(1)
		go func() {
			runtime.LockOSThread()
			made.Done()
			<-done
			runtime.UnlockOSThread() // the thread stays
		}()
	}
	made.Wait()
	close(done)
}
