package fenlock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/fenlock/fenlock/internal/shell"
	"github.com/fenlock/fenlock/node"
)

// world is where the shell lives in this library: goroutines, timers, and a clock.
// It implements shell.Env.
type world struct{ now func() time.Duration }

func (w world) Now() time.Duration { return w.now() }
func (world) WallMicros() int64    { return time.Now().UnixMicro() }
func (world) Go(f func())          { go f() }
func (world) Random() float64      { return mathrand.Float64() }
func (world) AfterFunc(d time.Duration, f func()) shell.Timer {
	return time.AfterFunc(d, f)
}

func (world) ID() (id [node.IDLength]byte) {
	var bits [node.IDLength / 2]byte
	rand.Read(bits[:]) // never fails: crypto/rand ends the program instead
	hex.Encode(id[:], bits[:])
	return id
}

// peer is a node as the shell sees it. It implements shell.Peer.
type peer struct {
	node    node.Node
	starter node.Starter // nil if the node is none
	ordered bool
	queuer  node.Queuer // nil if it keeps no queues
	running *running
}

// newPeer looks for what a node can do. Running counts the goroutines of those that
// are no Starters.
func newPeer(n node.Node, running *running) *peer {
	p := &peer{node: n, running: running}
	p.starter, _ = n.(node.Starter)
	o, ok := n.(node.Ordered)
	p.ordered = ok && o.InOrder()
	p.queuer, _ = n.Engine().(node.Queuer)
	return p
}

func (p *peer) InOrder() bool { return p.ordered }
func (p *peer) Queues() bool  { return p.queuer != nil }

func (p *peer) Start(values context.Context, r node.Request, timeout time.Duration, call node.Call) {
	if p.starter != nil {
		p.starter.Start(r, timeout, call)
		return
	}
	ctx, cancel := context.WithTimeout(values, timeout) // from now on, however late the goroutine runs
	stop := func() bool { return true }
	if p.running.closed != nil { // it may take longer than Close waits
		stop = context.AfterFunc(p.running.closed, func() {
			if r.Op == node.Extend || !call.Wanted() { // what cleans up after a late grant goes on
				cancel()
			}
		})
	}
	p.running.Go(func() {
		defer cancel()
		defer stop()
		if call.Wanted() {
			call.Done(p.node.Do(ctx, r))
		}
	})
}

func (p *peer) Listen(client string, timeout time.Duration, notify func(string), done func(error)) {
	p.running.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		done(p.queuer.Listen(ctx, client, notify))
	})
}

// running counts goroutines. A sync.WaitGroup must not be added to while a goroutine waits for none
// to be left. The holder of a lock may release it during Close.
type running struct {
	closed context.Context // ends when nothing is waited for any more; nil: never

	mu   sync.Mutex
	n    int
	none sync.Cond // on mu
}

// Go runs f in a goroutine.
func (r *running) Go(f func()) {
	r.add(1)
	go func() {
		defer r.add(-1)
		f()
	}()
}

func (r *running) add(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n += n
	if r.n == 0 {
		r.none.Broadcast()
	}
}

// Wait returns at a moment at which none runs.
func (r *running) Wait() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.none.L = &r.mu
	for r.n > 0 {
		r.none.Wait()
	}
}
