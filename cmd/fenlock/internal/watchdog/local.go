//go:build linux || darwin || freebsd

package watchdog

import (
	"sync"
	"time"
)

// local is either end of a link within a process. A socket would cost a twentieth of the CPU time
// of a run. That is two more goroutines that read it, the threads that wake up for these, and
// coding.
type local struct {
	orders *queue[Order]
	news   *queue[News]
}

// Local returns both ends of a link within this process.
func Local() (ours, theirs Link) {
	l := local{newQueue[Order](), newQueue[News]()}
	return l, l
}

func (l local) Tell(o Order) bool                        { return l.TellWithin(PatientTimeout, o) }
func (l local) TellWithin(d time.Duration, o Order) bool { return l.orders.put(d, o) }
func (l local) Report(n News) bool                       { return l.news.put(PatientTimeout, n) }
func (l local) Orders() <-chan Order                     { return l.orders.values }
func (l local) News() <-chan News                        { return l.news.values }

func (l local) Close() {
	l.orders.close()
	l.news.close()
}

// queue is one direction.
type queue[T any] struct {
	values chan T
	mu     sync.Mutex
	over   bool // closed, or a message did not find room
}

// messages is what a direction has room for: far more than are ever under way.
const messages = 64

func newQueue[T any]() *queue[T] { return &queue[T]{values: make(chan T, messages)} }

// put reports whether v found room within d.
func (q *queue[T]) put(d time.Duration, v T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return false
	}
	select {
	case q.values <- v:
		return true
	default:
	}
	full := time.NewTimer(d)
	defer full.Stop()
	select {
	case q.values <- v:
		return true
	case <-full.C:
		q.over = true
		close(q.values)
		return false
	}
}

// close has the reader's channel closed after what it has been sent.
func (q *queue[T]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.over {
		q.over = true
		close(q.values)
	}
}
