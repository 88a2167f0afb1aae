package sim

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/internal/shell"
	"github.com/fenlock/fenlock/node"
)

// env is the world of a process. It implements shell.Env.
type env struct {
	c      *process
	newest string // ID
	wall   int64  // when it was new
	again  bool   // it is used again: all of a holder is
}

func (e *env) Now() time.Duration { return e.c.now() }
func (e *env) Go(f func())        { e.c.spawn(f) }
func (e *env) Random() float64    { return e.c.w.rng.Float64() }

func (e *env) WallMicros() int64 {
	if !e.again {
		e.wall = (e.c.w.now + e.c.wall).Microseconds()
	}
	return e.wall
}

func (e *env) ID() (id [node.IDLength]byte) {
	c := e.c
	c.w.identities++
	n := c.w.identities
	if e.newest != "" { // it is not the process's own
		n = c.rules.identity(c, n)
	}
	before := e.newest
	e.newest = identity(n)
	e.again = e.newest == before
	copy(id[:], e.newest)
	return id
}

// identity is a number as an identity, number the reverse for a holder's: false if it
// is no attempt's.
func identity(n int) string {
	return fmt.Sprintf("%0*x", node.IDLength, n)
}

func number(holder node.Holder) (n int, ok bool) {
	if len(holder) <= node.IDLength || holder[node.IDLength] != '@' {
		return 0, false
	}
	parsed, err := strconv.ParseInt(string(holder[:node.IDLength]), 16, 64)
	return int(parsed), err == nil
}

func (e *env) AfterFunc(d time.Duration, f func()) shell.Timer {
	t := &timer{c: e.c, f: f}
	t.Reset(d)
	return t
}

// timer implements shell.Timer.
type timer struct {
	c   *process
	f   func()
	set int // counts; the latest counts
	on  bool
}

// granularity is the least time in which a timer goes off: a broken core must not stop
// the world.
const granularity = 50 * time.Microsecond

// never is longer than any run.
const never = 1000 * time.Hour

func (t *timer) Reset(d time.Duration) bool {
	before := t.Stop()
	set := t.set
	t.on = d < never && t.c.rules.timers(t.c, d)
	if !t.on {
		return before
	}
	t.c.after(max(d, granularity), func() {
		if set == t.set {
			t.on = false
			t.f()
		}
	})
	return before
}

func (t *timer) Stop() bool {
	before := t.on
	t.set++
	t.on = false
	return before
}

// peer is a node as a process's shell sees it. It implements shell.Peer.
type peer struct {
	c    *process
	node int
}

// caller is the key of what a request is for among the values of its context, if that is a caller.
type caller struct{}

func (p *peer) InOrder() bool { return p.c.w.profile.starters }
func (p *peer) Queues() bool  { return !p.c.nodes[p.node].kind.noQueues }

func (p *peer) Start(values context.Context, r node.Request, _ time.Duration, call node.Call) {
	c, w := p.c, p.c.w
	if a, ok := values.Value(caller{}).(interface{ isWaiter(string) }); ok && r.Place.Waiter != "" {
		a.isWaiter(r.Place.Waiter)
		newest, _ := waiterNumber(r.Place.Waiter)
		c.newest = max(c.newest, newest)
	}
	send := func() {
		c.rules.request(c, p.node, r, func(a node.Answer) {
			if a.Status == node.Unknown {
				call.Done(a, errNoAnswer)
			} else {
				call.Done(a, nil)
			}
		})
	}
	if w.profile.starters {
		send()
		return
	}
	c.spawn(func() { // on a goroutine
		if call.Wanted() {
			send()
		}
	})
}

func (p *peer) Listen(_ string, timeout time.Duration, notify func(string), done func(error)) {
	c := p.c
	told := false
	tell := func(err error) {
		if !told {
			told = true
			done(err)
		}
	}
	c.notify[p.node] = notify
	c.spawn(func() {
		c.subscribe(p.node, func() {
			if told {
				notify("") // it has become reachable late
			}
			tell(nil)
		})
	})
	c.after(timeout, func() { tell(errNoAnswer) })
}

// waiterNumber returns the number of a waiter among its client's.
func waiterNumber(waiter string) (uint64, error) {
	text, _, _ := strings.Cut(waiter[node.IDLength+1:], ":") // its label
	return strconv.ParseUint(text, 10, 64)
}
