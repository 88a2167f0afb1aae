//go:build linux || darwin || freebsd

package filenode

import (
	"sync"

	"github.com/fenlock/fenlock/node"
)

// ends are those whose processes are waited for, by the first in a queue: the kernel tells that one, as it
// knows of no queue. Whoever is behind asks now and then, as the first may be gone as well.
type ends struct {
	mu   sync.Mutex
	tell map[node.Holder]string // the waiter, or "" if none of this node wants to know it any more
}

// mostEnds bounds the threads that wait in the kernel: a name has up to rule.MaxReaders holders, as one of many slots.
const mostEnds = 512

// watch has a waiter told when a holder's processes have ended, or its lock: await returns then. Nothing can
// interrupt that, and it may outlast the wait.
func (e *ends) watch(holders []node.Holder, waiter string, await func(node.Holder) error, tell func(waiter string)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, h := range holders {
		_, watched := e.tell[h]
		if !watched && len(e.tell) >= mostEnds {
			return
		}
		if e.tell[h] = waiter; watched {
			continue
		}
		go func() {
			err := await(h)
			e.mu.Lock()
			waiter := e.tell[h]
			delete(e.tell, h)
			e.mu.Unlock()
			if err == nil && waiter != "" {
				tell(waiter)
			}
		}()
	}
}

// forget has a waiter told nothing any more: it has the name.
func (e *ends) forget(waiter string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for h, w := range e.tell {
		if w == waiter {
			e.tell[h] = "" // its thread goes on
		}
	}
}
