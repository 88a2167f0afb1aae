package library

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/clock"
)

// watched is a node that tells when it did not do what a client needs of it. That is to answer in
// time, to vote, and to have no other client's lease at a name that the client holds.
type watched struct {
	node.Node
	limit  time.Duration // a little less than the node timeout
	missed func()
	told   atomic.Int64 // when
}

// watch returns a node that is what the other node is: a Locker uses the Start of a Starter, and
// the Do of another node.
func watch(n node.Node, limit time.Duration, missed func()) node.Node {
	w := &watched{Node: n, limit: limit, missed: missed}
	if starter, ok := n.(node.Ordered); ok {
		return &watchedStarter{w, starter}
	}
	return w
}

// calm is how often it is told at most: enough for what is checked, and less to write.
const calm = 10 * time.Millisecond

func (w *watched) tell() {
	now, last := int64(clock.Now()), w.told.Load()
	if now-last >= int64(calm) && w.told.CompareAndSwap(last, now) {
		w.missed()
	}
}

// heard is told of an outcome that a caller waits for.
func (w *watched) heard(r node.Request, a node.Answer, err error) {
	if err != nil || a.Status == node.Rejoining {
		w.tell()
	}
}

// look tells if a name that could not be extended has a lease: it is another client's.
func (w *watched) look(r node.Request, a node.Answer, err error) {
	if err != nil || a.Status != node.Lost || r.Op != node.Extend {
		return
	}
	admin, ok := w.Engine().(node.Admin)
	if !ok {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if lease, err := admin.Inspect(ctx, r.Name); err != nil || lease.Remaining > 0 {
			w.tell()
		}
	}()
}

func (w *watched) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	timer := time.AfterFunc(w.limit, func() {
		if ctx.Err() == nil {
			w.tell()
		}
	})
	a, err := w.Node.Do(ctx, r)
	timer.Stop()
	if !errors.Is(ctx.Err(), context.Canceled) {
		w.heard(r, a, err)
	}
	w.look(r, a, err)
	return a, err
}

// watchedStarter is a watched node whose requests are started.
type watchedStarter struct {
	*watched
	starter node.Ordered
}

func (w *watchedStarter) InOrder() bool { return w.starter.InOrder() }

func (w *watchedStarter) Start(r node.Request, timeout time.Duration, call node.Call) {
	c := &watchedCall{Call: call, w: w.watched, request: r}
	c.timer = time.AfterFunc(w.limit, func() {
		if call.Wanted() {
			w.tell()
		}
	})
	w.starter.Start(r, timeout, c)
}

type watchedCall struct {
	node.Call
	w       *watched
	request node.Request
	timer   *time.Timer
}

func (c *watchedCall) Done(a node.Answer, err error) {
	c.timer.Stop()
	if c.Call.Wanted() {
		c.w.heard(c.request, a, err)
	}
	c.w.look(c.request, a, err)
	c.Call.Done(a, err)
}
