package nodetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
)

// startTimeout is what an operation that is started may take.
const startTimeout = 5 * time.Second

// outcome is the call of one operation that was started.
type outcome struct {
	t      *testing.T
	done   chan struct{}
	times  atomic.Int32
	gone   bool // nobody waits
	answer node.Answer
	err    error
}

func (o *outcome) Wanted() bool { return !o.gone }

func (o *outcome) Done(answer node.Answer, err error) {
	if o.times.Add(1) > 1 {
		o.t.Error("Done was called twice")
		return
	}
	o.answer, o.err = answer, err
	close(o.done)
}

// begin starts an operation and waits for its outcome.
func (w *watched) begin(r node.Request) (node.Answer, error) {
	o := &outcome{t: w.t, done: make(chan struct{})}
	w.Node.(node.Starter).Start(r, startTimeout, o)
	select {
	case <-o.done:
		return o.answer, o.err
	case <-time.After(w.patience):
		return node.Answer{}, fmt.Errorf("%s: Done was not called within %v", w, w.patience)
	}
}

// What is started is of the life of a lock: only that is kept in order.
func startedForceReleaseIsRefused(s *suite) {
	s.want(node.Granted)(s.node.Acquire(s.ctx, request("a", "me", 7)))
	a, err := s.node.begin(node.Request{Op: node.ForceRelease, Name: "a"})
	s.invalid("started:", node.ForceRelease, a, err)
	s.leased("a", "me", true, 7)
}

func startedUnwantedIsNotSent(s *suite) {
	o := &outcome{t: s.T, done: make(chan struct{}), gone: true}
	r := request("a", "nobody", 7)
	r.Op = node.Acquire
	s.node.Node.(node.Starter).Start(r, startTimeout, o)
	// What is started later is sent no earlier.
	s.want(node.Granted)(s.node.Acquire(s.ctx, request("a", "me", 3)))
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
				o := &outcome{t: s.T, done: make(chan struct{})}
				r.Op = op
				s.node.Node.(node.Starter).Start(r, startTimeout, o)
				all[i] = append(all[i], o)
			}
		}
	}
	for i := range all {
		for k, o := range all[i] {
			select {
			case <-o.done:
			case <-time.After(s.node.patience):
				s.Fatalf("Done was not called within %v", s.node.patience)
			}
			if o.err != nil || o.answer.Status != node.Granted {
				s.Fatalf("operation %d on a name, of acquire and release in turns: %+v, %v", k, o.answer, o.err)
			}
		}
	}
}
