package pipeline

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// A pipeline that never runs empty keeps no more than what waits in it, in order.
func TestPipelineForgetsWhatWasTaken(t *testing.T) {
	var l pipeline
	l.more.L = &l.mu
	const waiting = 100
	put, taken := 0, 0
	for put < waiting {
		l.waiting = append(l.waiting, started{timeout: time.Duration(put)})
		put++
	}
	for range 10_000 {
		batch, more := l.take(nil)
		if !more || len(batch) != maxBatch {
			t.Fatalf("%d taken, %t", len(batch), more)
		}
		for _, s := range batch {
			if s.timeout != time.Duration(taken) {
				t.Fatalf("request %d comes as number %d", s.timeout, taken)
			}
			taken++
			l.waiting = append(l.waiting, started{timeout: time.Duration(put)})
			put++
		}
	}
	if len(l.waiting)-l.head != waiting || cap(l.waiting) > 10*waiting {
		t.Errorf("%d wait, in memory for %d", len(l.waiting)-l.head, cap(l.waiting))
	}
}

// The more waits, the more travels together. Otherwise the round trip would bound how many locks a
// client can hold: they are extended three times in a TTL.
func TestBacklogsTravelTogether(t *testing.T) {
	for waiting, want := range map[int]int{1: 1, 64: 64, 65: 64, 128: 64, 400: 200, 1024: 512, 10_000: 512} {
		l := pipeline{waiting: make([]started, waiting)}
		if batch, more := l.take(nil); !more || len(batch) != want {
			t.Errorf("of %d, %d are sent, want %d", waiting, len(batch), want)
		}
	}
	l := pipeline{waiting: make([]started, 2500)} // a node's share of 10,000
	trips := 0
	for left := len(l.waiting); left > 0; trips++ {
		batch, _ := l.take(nil)
		left -= len(batch)
	}
	if trips > 20 {
		t.Errorf("%d round trips for all", trips)
	}
}

// outcome is a call that waits for nothing.
type outcome chan error

func (o outcome) Wanted() bool                  { return true }
func (o outcome) Done(_ node.Answer, err error) { o <- err }

// closedLink is one that was closed.
type closedLink struct{ resp.Link }

func (closedLink) Spawn(func()) error { return engine.ErrClosed }

// What comes when the connection was closed is answered, each of it: no goroutine is
// there that would take it.
func TestPipelineOfAClosedConnection(t *testing.T) {
	keys, err := command.NewKeys("")
	if err != nil {
		t.Fatal(err)
	}
	p := New(Sender{Link: closedLink{}, Keys: keys})
	for i := range 3 {
		o := make(outcome, 1)
		p.Start(node.Request{Op: node.Release, Name: "a", Holder: "h"}, time.Minute, o)
		select {
		case err := <-o:
			if err == nil {
				t.Errorf("request %d was carried out", i)
			}
		default:
			t.Errorf("request %d has no outcome", i)
		}
	}
}
