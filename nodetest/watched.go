package nodetest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// watched is a node whose every result is looked through for what must never be in it: the identity
// of a holder. Its reader can release the lease.
type watched struct {
	node.Node
	in     *suite
	closed atomic.Bool
}

func (w *watched) check(op string, result any, err error) {
	text := fmt.Sprintf("%+v", result)
	if err != nil {
		text += err.Error()
		if !strings.Contains(err.Error(), w.String()) {
			w.in.Errorf("%s: the error does not name the node %q: %v", op, w.String(), err)
		}
	}
	w.in.mu.Lock()
	defer w.in.mu.Unlock()
	for _, id := range w.in.ids {
		if id != "" && strings.Contains(text, id) {
			w.in.Errorf("%s: the result shows the identity of a holder: %s", op, text)
		}
	}
}

// Do makes a request in the way that the rules are run.
func (w *watched) Do(ctx context.Context, r node.Request) (a node.Answer, err error) {
	id, _, _ := strings.Cut(string(r.Holder), ":")
	id, _, _ = strings.Cut(id, "@")
	w.in.mu.Lock()
	w.in.ids = append(w.in.ids, id)
	w.in.mu.Unlock()
	if w.in.start && r.Op != node.ForceRelease { // which cannot be started
		a, err = w.begin(r.Op, r, false).wait()
	} else {
		a, err = w.Node.Do(ctx, r)
	}
	w.check(r.Op.String(), a, err)
	return a, err
}

// The operations by their names, which is how rules read best.

func (w *watched) Acquire(ctx context.Context, r node.Request) (node.Answer, error) {
	r.Op = node.Acquire
	return w.Do(ctx, r)
}

func (w *watched) Confirm(ctx context.Context, r node.Request) (node.Answer, error) {
	r.Op = node.Confirm
	return w.Do(ctx, r)
}

func (w *watched) Extend(ctx context.Context, r node.Request) (node.Answer, error) {
	r.Op = node.Extend
	return w.Do(ctx, r)
}

func (w *watched) Release(ctx context.Context, r node.Request) (node.Answer, error) {
	r.Op = node.Release
	return w.Do(ctx, r)
}

func (w *watched) ForceRelease(ctx context.Context, name string, floor fence.Token) (node.Answer, error) {
	return w.Do(ctx, node.Request{Op: node.ForceRelease, Name: name, Token: floor})
}

// admin reports whether the engine shows its leases. If not, the rules make do
// with peek.
func (w *watched) admin() bool {
	_, ok := w.Engine().(node.Admin)
	return ok
}

func (w *watched) Inspect(ctx context.Context, name string) (node.Lease, error) {
	admin, ok := w.Engine().(node.Admin)
	if !ok {
		return w.peek(ctx, name)
	}
	l, err := admin.Inspect(ctx, name)
	w.check("inspect", l, err)
	return l, err
}

// peek is Inspect by operations that leave everything as it was, if there is no waiter for a name
// that is free or reserved.
func (w *watched) peek(ctx context.Context, name string) (node.Lease, error) {
	register, free, err := w.vacant(ctx, name)
	if free || err != nil {
		return node.Lease{Name: name, Register: register}, err
	}
	return w.peekTaken(ctx, name)
}

// vacant reports whether a name is not leased, and which register it has. If it is
// reserved, it is not any more then.
func (w *watched) vacant(ctx context.Context, name string) (register fence.Token, free bool, err error) {
	r := request(name, "peek", 0)
	a, err := w.Extend(ctx, r)
	if err != nil || a.Status != node.Granted {
		return 0, false, err
	}
	_, err = w.Release(ctx, r)
	return a.Register, true, err
}

// peekTaken is peek for a name that is leased or reserved.
func (w *watched) peekTaken(ctx context.Context, name string) (node.Lease, error) {
	l := node.Lease{Name: name}
	a, err := w.Acquire(ctx, request(name, "peek", 0))
	if err != nil {
		return l, err
	}
	l.Leased, l.Label, l.Remaining = true, a.HeldBy, a.Remaining
	for i := 0; ; i++ { // the register, by another name of its stripe
		if neighbour := fmt.Sprintf("neighbour %d of %q", i, name); node.Stripe(neighbour) == node.Stripe(name) {
			l.Register, _, err = w.vacant(ctx, neighbour)
			return l, err
		}
	}
}

func (w *watched) List(ctx context.Context, prefix string, yield func(node.Lease) bool) error {
	err := w.Engine().(node.Admin).List(ctx, prefix, func(l node.Lease) bool {
		w.check("list", l, nil)
		return yield(l)
	})
	w.check("list", nil, err)
	return err
}

func (w *watched) Waiting(ctx context.Context, name string, limit int) ([]node.Waiter, int, error) {
	first, all, err := w.Engine().(node.Admin).Waiting(ctx, name, limit)
	w.check("waiting", first, err)
	return first, all, err
}

// Listen is there for the rules of waiter queues, which no other node is asked.
func (w *watched) Listen(ctx context.Context, client string, notify func(string)) error {
	err := w.Engine().(node.Queuer).Listen(ctx, client, notify)
	w.check("listen", nil, err)
	return err
}

func (w *watched) Close() error {
	w.closed.Store(true)
	return w.Node.Close()
}
