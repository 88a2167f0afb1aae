package nodetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
)

// runStarted runs the rules again, with Start in place of the operations, if the
// nodes are Starters.
func runStarted(t *testing.T, open func(t *testing.T) Harness) {
	probe := open(t)
	probe.Node.Close()
	probe.Other.Close()
	if _, ok := probe.Node.(fenlock.Starter); !ok {
		return
	}
	started := func(t *testing.T) *suite {
		s := newSuite(t, open)
		s.node.start, s.other.start = true, true
		return s
	}
	for _, c := range cases {
		if c.name != "DoneContextIsAnError" { // Start has no context
			t.Run("Started"+c.name, func(t *testing.T) { c.test(started(t)) })
		}
	}
	t.Run("StartedUnwantedIsNotSent", func(t *testing.T) { startedUnwantedIsNotSent(started(t)) })
	t.Run("StartedStaysInOrder", func(t *testing.T) { startedStaysInOrder(started(t)) })
	if _, ok := probe.Node.(fenlock.Queuer); !ok {
		return
	}
	for _, c := range lineCases {
		if !c.slow || probe.Fast {
			t.Run("Started"+c.name, func(t *testing.T) { started(t).inTime(c.test) })
		}
	}
}

// startTimeout is what an operation that is started may take.
const startTimeout = 5 * time.Second

// outcome is the call of one operation that was started.
type outcome struct {
	t      *testing.T
	done   chan struct{}
	times  atomic.Int32
	gone   bool // nobody waits
	answer fenlock.Answer
	err    error
}

func (o *outcome) Wanted() bool { return !o.gone }

func (o *outcome) Done(answer fenlock.Answer, err error) {
	if o.times.Add(1) > 1 {
		o.t.Error("Done was called twice")
		return
	}
	o.answer, o.err = answer, err
	close(o.done)
}

// begin starts an operation and waits for its outcome.
func (w *watched) begin(op fenlock.Operation, r fenlock.Request) (fenlock.Answer, error) {
	o := &outcome{t: w.t, done: make(chan struct{})}
	w.inner.(fenlock.Starter).Start(op, r, startTimeout, o)
	select {
	case <-o.done:
		return o.answer, o.err
	case <-time.After(w.patience):
		return fenlock.Answer{}, fmt.Errorf("%s: Done was not called within %v", w.inner, w.patience)
	}
}

// operation is one of the methods that can be started.
type operation func(context.Context, fenlock.Request) (fenlock.Answer, error)

// operate makes a request in the way that the rules are run.
func (w *watched) operate(ctx context.Context, op fenlock.Operation, call operation, r fenlock.Request) (a fenlock.Answer, err error) {
	w.saw(r)
	if w.start {
		a, err = w.begin(op, r)
	} else {
		a, err = call(ctx, r)
	}
	w.check(op.String(), a, err)
	return a, err
}

func startedUnwantedIsNotSent(s *suite) {
	o := &outcome{t: s.T, done: make(chan struct{}), gone: true}
	s.node.inner.(fenlock.Starter).Start(fenlock.OpAcquire, request("a", "nobody", 7), startTimeout, o)
	// What is started later is sent no earlier.
	s.want(fenlock.Granted)(s.node.Acquire(s.ctx, request("a", "me", 3)))
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
			for _, op := range []fenlock.Operation{fenlock.OpAcquire, fenlock.OpRelease} {
				o := &outcome{t: s.T, done: make(chan struct{})}
				s.node.inner.(fenlock.Starter).Start(op, r, startTimeout, o)
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
			if o.err != nil || o.answer.Status != fenlock.Granted {
				s.Fatalf("operation %d on a name, of acquire and release in turns: %+v, %v", k, o.answer, o.err)
			}
		}
	}
}
