package nodetest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
)

// startTimeout is what an operation that is started may take.
const startTimeout = 5 * time.Second

// outcome is the call of one operation that was started.
type outcome struct {
	on     *watched
	done   chan struct{}
	times  atomic.Int32
	gone   bool // there is no waiter
	answer node.Answer
	err    error
}

func (o *outcome) Wanted() bool { return !o.gone }

func (o *outcome) Done(answer node.Answer, err error) {
	if o.times.Add(1) > 1 {
		o.on.in.Error("Done was called twice")
		return
	}
	o.answer, o.err = answer, err
	close(o.done)
}

// begin starts an operation.
func (w *watched) begin(op node.Op, r node.Request, gone bool) *outcome {
	o := &outcome{on: w, done: make(chan struct{}), gone: gone}
	r.Op = op
	w.Node.(node.Starter).Start(r, startTimeout, o)
	return o
}

// wait waits for the outcome.
func (o *outcome) wait() (node.Answer, error) {
	select {
	case <-o.done:
		return o.answer, o.err
	case <-time.After(o.on.in.patience):
		return node.Answer{}, fmt.Errorf("%s: Done was not called within %v", o.on, o.on.in.patience)
	}
}

// What is started is of the life of a lock: only that is kept in order.
func startedForceReleaseIsRefused(s *suite) {
	s.takes("a", "me", 7)
	s.invalid("started:", node.ForceRelease)(s.node.begin(node.ForceRelease, node.Request{Name: "a"}, false).wait())
	s.leased("a", "me", true, 7)
}

func startedUnwantedIsNotSent(s *suite) {
	s.node.begin(node.Acquire, request("a", "nobody", 7), true)
	// What is started later is sent no earlier.
	s.takes("a", "me", 3)
	s.leased("a", "me", true, 3)
}

// startedStaysInOrder starts many operations before any of them is over. The first
// ones of a node may have to wait for a connection.
func startedStaysInOrder(s *suite) {
	const names, turns = 20, 5
	var all [names][]*outcome
	for turn := range turns {
		for i := range names {
			r := request(fmt.Sprint("name ", i), fmt.Sprint("holder ", turn), 3)
			for _, op := range []node.Op{node.Acquire, node.Release} {
				all[i] = append(all[i], s.node.begin(op, r, false))
			}
		}
	}
	for i := range all {
		for k, o := range all[i] {
			if a, err := o.wait(); err != nil || a.Status != node.Granted {
				s.Fatalf("operation %d on a name, of acquire and release in turns: %+v, %v", k, a, err)
			}
		}
	}
}
