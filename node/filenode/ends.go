//go:build linux || darwin || freebsd

package filenode

import (
	"sync"

	"github.com/fenlock/fenlock/node"
)

// ends are those whose processes are waited for: the kernel tells of their end. See chain.go.
type ends struct {
	mu   sync.Mutex
	tell map[node.Holder]string // the waiter, or "" if none of this node wants to know it any more
}

// mostEnds bounds the threads that wait in the kernel: a name has up to rule.MaxReaders holders, as
// one of many slots.
const mostEnds = 512

// watch has a waiter told when a holder's processes have ended, or its lock: await returns then.
// Nothing can interrupt that, and it may outlast the wait. What the waiter was to be told before,
// it is not told any more. It reports whether all are watched.
func (e *ends) watch(holders []node.Holder, waiter string, await func(node.Holder) error,
	tell func(waiter string, err error)) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drop(waiter)
	for _, h := range holders {
		_, watched := e.tell[h]
		if !watched && len(e.tell) >= mostEnds {
			return false
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
			if waiter != "" {
				tell(waiter, err)
			}
		}()
	}
	return true
}

// forget has a waiter told nothing any more: it has the name, or has left.
func (e *ends) forget(waiter string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drop(waiter)
}

// drop is forget with the mutex held.
func (e *ends) drop(waiter string) {
	for h, w := range e.tell {
		if w == waiter {
			e.tell[h] = "" // its thread goes on
		}
	}
}
