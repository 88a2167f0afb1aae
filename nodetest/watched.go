package nodetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
)

// watched is a node whose every result is looked through for what must never
// be in it: the identity of a holder. Whoever reads that can release the lease.
type watched struct {
	inner fenlock.Node
	t     *testing.T
	seen  *secrets
	start bool // operations are started, see Starter

	patience time.Duration // for Done

	closed atomic.Bool
}

// secrets are the identities that were handed to either client so far.
type secrets struct {
	mu  sync.Mutex
	ids []string
}

func (w *watched) saw(r fenlock.Request) {
	id, _, _ := strings.Cut(string(r.Holder), ":")
	w.seen.mu.Lock()
	w.seen.ids = append(w.seen.ids, id)
	w.seen.mu.Unlock()
}

func (w *watched) check(op string, result any, err error) {
	text := fmt.Sprintf("%+v", result)
	if err != nil {
		text += err.Error()
		if !strings.Contains(err.Error(), w.inner.String()) {
			w.t.Errorf("%s: the error does not name the node %q: %v", op, w.inner.String(), err)
		}
	}
	w.seen.mu.Lock()
	defer w.seen.mu.Unlock()
	for _, id := range w.seen.ids {
		if id != "" && strings.Contains(text, id) {
			w.t.Errorf("%s: the result shows the identity of a holder: %s", op, text)
		}
	}
}

func (w *watched) Acquire(ctx context.Context, r fenlock.Request) (fenlock.Answer, error) {
	return w.operate(ctx, fenlock.OpAcquire, w.inner.Acquire, r)
}

func (w *watched) Confirm(ctx context.Context, r fenlock.Request) (fenlock.Answer, error) {
	return w.operate(ctx, fenlock.OpConfirm, w.inner.Confirm, r)
}

func (w *watched) Extend(ctx context.Context, r fenlock.Request) (fenlock.Answer, error) {
	return w.operate(ctx, fenlock.OpExtend, w.inner.Extend, r)
}

func (w *watched) Release(ctx context.Context, r fenlock.Request) (fenlock.Answer, error) {
	return w.operate(ctx, fenlock.OpRelease, w.inner.Release, r)
}

func (w *watched) ForceRelease(ctx context.Context, name string, floor fence.Token) (fenlock.Answer, error) {
	a, err := w.inner.ForceRelease(ctx, name, floor)
	w.check("force release", a, err)
	return a, err
}

func (w *watched) Inspect(ctx context.Context, name string) (fenlock.Lease, error) {
	l, err := w.inner.Inspect(ctx, name)
	w.check("inspect", l, err)
	return l, err
}

func (w *watched) List(ctx context.Context, yield func(fenlock.Lease) bool) error {
	err := w.inner.List(ctx, func(l fenlock.Lease) bool {
		w.check("list", l, nil)
		return yield(l)
	})
	w.check("list", nil, err)
	return err
}

// Listen is there for the rules of waiting lines, which no other node is asked.
func (w *watched) Listen(ctx context.Context, client string, event func(string)) error {
	err := w.inner.(fenlock.Queuer).Listen(ctx, client, event)
	w.check("listen", nil, err)
	return err
}

func (w *watched) Close() error {
	w.closed.Store(true)
	return w.inner.Close()
}
