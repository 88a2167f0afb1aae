package valkeynode

import (
	"context"
	"sync"

	"github.com/fenlock/fenlock/node"
	"github.com/valkey-io/valkey-go"
)

// A request goes on a detour if the server has to be connected to, looked at or
// admitted first: that takes time, and must not hold up those about other names.
// Those about the same name go after it, since a release that overtakes its acquire
// leaves a lease behind.

// detours are those of a lane: of each name, what is closed when its last is over.
type detours struct {
	mu   sync.Mutex
	last map[string]chan struct{}
}

func (d *detours) has(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last[name] != nil
}

// begin returns what has to be over first, nil if nothing has, and what to call in
// the end.
func (d *detours) begin(name string) (before <-chan struct{}, end func()) {
	mine := make(chan struct{})
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil {
		d.last = make(map[string]chan struct{})
	}
	before = d.last[name]
	d.last[name] = mine
	return before, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		close(mine)
		if d.last[name] == mine {
			delete(d.last, name)
		}
	}
}

// startSlowly makes a request that has not been executed, one way or other.
func (n *Node) startSlowly(l *lane, s started) {
	n.slowly(l, s, func(ctx context.Context) (node.Answer, error) {
		return n.operateIf(ctx, s.request, s.call.Wanted)
	})
}

// slowly does what takes time on a goroutine of its own. It ends before the one who
// waits gives up, so that the reason is heard, which says more than "no answer".
func (n *Node) slowly(l *lane, s started, do func(ctx context.Context) (node.Answer, error)) {
	before, end := l.detours.begin(s.request.Name)
	n.tasks.Add(1) // by a lane, so Close waits already
	go func() {
		defer n.tasks.Done()
		defer end()
		ctx, cancel := context.WithTimeout(context.Background(), s.timeout*9/10)
		defer cancel()
		if before != nil {
			select {
			case <-before:
			case <-ctx.Done():
				s.call.Done(node.Answer{}, n.fail(ctx.Err()))
				<-before // whoever is next waits for all of them
				return
			}
		}
		s.call.Done(do(ctx))
	}()
}

// overtaken reports whether the first of these was not executed, and a later one
// about the same name was: then it cannot be made once more.
func overtaken(sent []started, results []valkey.ValkeyResult) bool {
	for i := range sent[1:] {
		if sent[i+1].request.Name != sent[0].request.Name {
			continue
		}
		if _, again, _ := parse(results[i+1].ToMessage()); !again {
			return true
		}
	}
	return false
}
