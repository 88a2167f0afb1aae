package admission

import (
	"context"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node/respnode/resp"
)

// task goes on in the background, once however many wait for it.
type task struct {
	mu      sync.Mutex
	running *run
}

type run struct {
	done chan struct{}
	err  error
}

// do starts the task unless it is under way, and waits until it has ended or ctx
// is done, which is ended false.
func (t *task) do(ctx context.Context, link resp.Link, timeout time.Duration,
	f func(context.Context) error) (ended bool, err error) {
	t.mu.Lock()
	r := t.running
	if r == nil {
		r = &run{done: make(chan struct{})}
		err := link.Spawn(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
			defer cancel()
			r.err = f(ctx)
			t.mu.Lock()
			t.running = nil
			t.mu.Unlock()
			close(r.done)
		})
		if err != nil {
			t.mu.Unlock()
			return false, err
		}
		t.running = r
	}
	t.mu.Unlock()
	select {
	case <-r.done:
		return true, r.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
