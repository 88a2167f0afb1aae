package admission

import (
	"context"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"
)

// Link is the one connection of a node, which is made anew when it is lost, and may
// lead to another server then.
type Link interface {
	// B makes commands.
	B() valkey.Builder
	// Do sends one command and waits for its reply, or until ctx is done.
	Do(ctx context.Context, command valkey.Completed) (valkey.ValkeyMessage, error)
	// DoMulti sends commands in one write. The replies have errors of their own.
	DoMulti(ctx context.Context, commands ...valkey.Completed) ([]valkey.ValkeyResult, error)
	// Identify sends INFO and another command together, and passes the replies to accept
	// once it is known over which connection they came, with the number of that.
	Identify(ctx context.Context, and func() valkey.Completed, accept func(info string, other valkey.ValkeyResult, dial uint64) error) error
	// Dial returns the number of the newest connection.
	Dial() uint64
	// Up reports whether the newest connection has this number, and was not closed.
	Up(dial uint64) bool
	// Spawn starts a goroutine that ends before the node is closed. Then it returns
	// an error, and starts nothing.
	Spawn(f func()) error
}

// task goes on in the background, once however many wait for it.
type task struct {
	mu      sync.Mutex
	running *run
}

type run struct {
	done   chan struct{}
	detail string
	err    error
}

// do starts the task unless it is under way, and waits until it has ended or ctx
// is done, which is ended false.
func (t *task) do(ctx context.Context, link Link, timeout time.Duration, f func(context.Context) (string, error)) (detail string, ended bool, err error) {
	t.mu.Lock()
	r := t.running
	if r == nil {
		r = &run{done: make(chan struct{})}
		err := link.Spawn(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
			defer cancel()
			r.detail, r.err = f(ctx)
			t.mu.Lock()
			t.running = nil
			t.mu.Unlock()
			close(r.done)
		})
		if err != nil {
			t.mu.Unlock()
			return "", false, err
		}
		t.running = r
	}
	t.mu.Unlock()
	select {
	case <-r.done:
		return r.detail, true, r.err
	case <-ctx.Done():
		return "", false, ctx.Err()
	}
}
