package bucketnode

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
)

// lane carries out requests about the one object, one at a time. Each is for all callers that came
// before it began: the locks of a process cost as much as one of them.
type lane struct {
	life *engine.Lifetime
	do   func(ctx context.Context, f *flight)
	// keep: a request goes on when no caller waits any more.
	keep bool

	mu   sync.Mutex
	busy bool
	next *flight // that has not begun
}

// flight is one request.
type flight struct {
	ctx     context.Context // ends when no caller waits any more
	cancel  context.CancelFunc
	begun   bool
	calls   []*call
	waiting int // of the calls, once it has begun
	done    chan struct{}
}

// call is what one caller wants, and gets.
type call struct {
	change change // nil: to read
	over   *snapshot
	snap   *snapshot
	err    error
}

// flightTimeout bounds a request, whatever its callers have patience for.
const flightTimeout = 20 * time.Second

// join waits for a request that has not begun yet. What has an error that matches node.ErrNotSent
// was not begun, or is the store's.
func (l *lane) join(ctx context.Context, c *call) (*snapshot, error) {
	if err := ctx.Err(); err != nil {
		return nil, node.NotSent(err)
	}
	l.mu.Lock()
	if l.next == nil {
		f := &flight{done: make(chan struct{})}
		f.ctx, f.cancel = context.WithTimeout(l.life, flightTimeout)
		l.next = f
	}
	f := l.next
	f.calls = append(f.calls, c)
	if !l.busy {
		if err := l.life.Spawn(l.run); err != nil {
			l.next = nil
			l.mu.Unlock()
			return nil, node.NotSent(err)
		}
		l.busy = true
	}
	l.mu.Unlock()
	select {
	case <-f.done:
		return c.snap, c.err
	case <-ctx.Done():
		return nil, l.leave(f, c, ctx.Err())
	}
}

// leave takes a caller off a request. Its change may be carried out if that has begun.
func (l *lane) leave(f *flight, c *call, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !f.begun {
		f.calls = slices.DeleteFunc(f.calls, func(other *call) bool { return other == c })
		return node.NotSent(err)
	}
	if f.waiting--; f.waiting == 0 && !l.keep {
		f.cancel()
	}
	return err
}

// run carries out one request after the other, as long as there are any.
func (l *lane) run() {
	for {
		l.mu.Lock()
		f := l.next
		if l.next = nil; f == nil {
			l.busy = false
			l.mu.Unlock()
			return
		}
		f.begun, f.waiting = true, len(f.calls)
		l.mu.Unlock()
		if len(f.calls) > 0 {
			l.do(f.ctx, f)
		}
		f.cancel()
		close(f.done)
	}
}
