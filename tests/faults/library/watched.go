package library

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// watched is a node that tells when it did not do what a client needs of it: answer in
// time, vote, and have no lease of somebody else at a name that the client holds. A
// Locker uses Start, so Do is not watched.
type watched struct {
	*valkeynode.Node
	limit  time.Duration // a little less than the node timeout
	missed func()
	told   atomic.Int64 // when
}

// calm is how often it is told at most: enough for what is checked, and less to write.
const calm = 10 * time.Millisecond

func (w *watched) tell() {
	now, last := int64(clock.Now()), w.told.Load()
	if now-last >= int64(calm) && w.told.CompareAndSwap(last, now) {
		w.missed()
	}
}

func (w *watched) Start(r node.Request, timeout time.Duration, call node.Call) {
	c := &watchedCall{Call: call, w: w, request: r}
	c.timer = time.AfterFunc(w.limit, func() {
		if call.Wanted() {
			w.tell()
		}
	})
	w.Node.Start(r, timeout, c)
}

type watchedCall struct {
	node.Call
	w       *watched
	request node.Request
	timer   *time.Timer
}

func (c *watchedCall) Done(a node.Answer, err error) {
	c.timer.Stop()
	if (err != nil || a.Status == node.Rejoining) && c.Call.Wanted() {
		c.w.tell()
	}
	if err == nil && a.Status == node.Lost && c.request.Op == node.Extend {
		go c.w.look(c.request.Name)
	}
	c.Call.Done(a, err)
}

// look tells if a name that could not be extended has a lease: it is somebody else's.
func (w *watched) look(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if lease, err := w.Inspect(ctx, name); err != nil || lease.Remaining > 0 {
		w.tell()
	}
}
