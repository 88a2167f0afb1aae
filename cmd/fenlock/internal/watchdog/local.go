//go:build linux || darwin || freebsd

package watchdog

import (
	"sync"
	"time"
)

// local is either end of a link within a process. A socket would cost each run two more goroutines
// that read it, the threads that wake up for these, and coding.
type local struct {
	orders *queue[Order]
	news   *queue[News]
}

// Local returns both ends of a link within this process.
func Local() (ours, theirs Link) {
	l := local{newQueue[Order](), newQueue[News]()}
	return l, l
}

func (l local) Tell(o Order) bool                        { return l.orders.put(o) }
func (l local) TellWithin(_ time.Duration, o Order) bool { return l.orders.put(o) }
func (l local) Report(n News) bool                       { return l.news.put(n) }
func (l local) Orders() <-chan Order                     { return l.orders.values }
func (l local) News() <-chan News                        { return l.news.values }

func (l local) Close() {
	l.orders.close()
	l.news.close()
}

// queue is one direction. It loses nothing and never holds its sender up. Otherwise both sides
// could wait for each other, or one be taken for ended while the command runs.
type queue[T any] struct {
	values chan T

	mu      sync.Mutex
	closed  bool
	backlog []T // what found no room in values, in order; deliver is at work while it has any
}

// messages is what the channel has room for: more than are under way, but for a flood of signals.
const messages = 64

func newQueue[T any]() *queue[T] { return &queue[T]{values: make(chan T, messages)} }

// put reports whether v will arrive: the queue was not closed.
func (q *queue[T]) put(v T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	if len(q.backlog) == 0 {
		select {
		case q.values <- v:
			return true
		default:
			go q.deliver()
		}
	}
	q.backlog = append(q.backlog, v)
	return true
}

// deliver sends the backlog, and returns when there is none.
func (q *queue[T]) deliver() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.backlog) > 0 {
		v := q.backlog[0]
		q.mu.Unlock()
		q.values <- v
		q.mu.Lock()
		q.backlog = q.backlog[1:]
	}
	if q.closed {
		close(q.values)
	}
}

// close has the reader's channel closed after what it has been sent.
func (q *queue[T]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed && len(q.backlog) == 0 {
		close(q.values) // else deliver does
	}
	q.closed = true
}
