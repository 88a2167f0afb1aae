package ui

import (
	"context"
	"net/http"
	"time"

	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/doctor"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/metrics"
)

// fresh is how old a picture may be that is told again.
const fresh = time.Second

// states are those of nodes, in the words of "fenlock nodes".
var states = []doctor.State{doctor.Votes, doctor.Ready, doctor.Out, doctor.Down, doctor.Misconfigured}

// exposition tells Prometheus how the group does: what a page shows, without names of locks.
type exposition struct {
	poller *poller
	busy   chan struct{} // has room while no request looks
	last   *picture      // belongs to the request that has taken that room
}

// newExposition returns what answers GET /metrics, to those who know the token, as a program
// says it (Authorization: Bearer).
func newExposition(p *poller, token string) http.Handler {
	e := &exposition{poller: p, busy: make(chan struct{}, 1)}
	answer := metrics.Handler(token, e.text)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = "localhost" // the guard has looked at it
		answer.ServeHTTP(w, r)
	})
}

// picture returns a new picture. It is the poller's only if the poller has one: otherwise the
// poller would look every second for a scrape every 15 s.
func (e *exposition) picture(ctx context.Context) (*picture, error) {
	select {
	case e.busy <- struct{}{}: // one at a time
		defer func() { <-e.busy }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p, _ := e.poller.current(); p != nil {
		return p, nil
	}
	if e.last == nil || time.Since(e.last.at) > fresh {
		p := look(ctx, e.poller.source, e.poller.prefix, nil, e.last)
		if err := ctx.Err(); err != nil {
			return nil, err // it was not seen to its end
		}
		e.last = p
	}
	return e.last, nil
}

func (e *exposition) text(r *http.Request) ([]byte, error) {
	p, err := e.picture(r.Context())
	if err != nil {
		return nil, err
	}
	var set metrics.Set
	state := set.Gauge("fenlock_group_node_state", "1 for the state that a node is in, 0 for the others.",
		"fenlock_node_name", "fenlock_state")
	trip := set.Gauge("fenlock_group_node_round_trip_seconds",
		"How long a node took to answer one question; absent if it did not.", "fenlock_node_name")
	for _, n := range p.nodes {
		for _, s := range states {
			state.SetBool(n.State == s, n.Name, string(s))
		}
		if n.RoundTrip > 0 {
			trip.Set(n.RoundTrip.Seconds(), n.Name)
		}
	}
	set.Gauge("fenlock_group_complete",
		"1 if all locks could be counted; 0 if too few nodes answer, or there are more than 2,000.").
		SetBool(p.err == nil && p.bound == "")
	held, late := 0, 0
	for _, l := range p.locks {
		if l.State == admin.Held {
			held++
		}
		if l.late() {
			late++
		}
	}
	set.Gauge("fenlock_group_held", "Locks that are held, by whomever.").Set(float64(held))
	set.Gauge("fenlock_group_waiting",
		"Waiters for a lock, of all processes; for slots of one name, each of them once.").Set(float64(p.waiting()))
	set.Gauge("fenlock_group_late", "Locks whose holder should have extended them long ago.").Set(float64(late))
	return set.Text(), nil
}
