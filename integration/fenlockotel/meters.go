package fenlockotel

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
)

// The advice about buckets, in seconds. An acquisition on the same machine takes a tenth of a
// millisecond. A lock may be waited for, and held, for an hour, which is the default of
// Config.MaxHold. Three quarters of that is a bound, so that one can ask which locks come near.
var (
	longBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60,
		300, 900, 1800, 2700, 3600}
	nodeBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}
	leftBuckets = []float64{.01, .1, .25, .5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30}
)

// meters are the instruments for metrics.
type meters struct {
	names bool // of locks are attributes

	acquire, wait, hold, left, extend, request metric.Float64Histogram
	held, waiting                              metric.Int64UpDownCounter
	lost, refused                              metric.Int64Counter
	admitted                                   metric.Int64Gauge

	facts    known[fact]
	requests known[request]

	mu    sync.Mutex
	nodes map[string]bool // whose state was told
}

// fact is an attribute that has few values; the zero fact is none.
type fact struct {
	key   attribute.Key
	value string
}

// request is what tells the series of fenlock.node.duration apart.
type request struct {
	node, op string
	status   node.Status
}

func newMeters(m metric.Meter, names bool) (*meters, error) {
	var errs []error
	histogram := func(name, description string, buckets []float64) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
			metric.WithExplicitBucketBoundaries(buckets...))
		errs = append(errs, err)
		return h
	}
	upDown := func(name, unit, description string) metric.Int64UpDownCounter {
		c, err := m.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return c
	}
	counter := func(name, unit, description string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return c
	}
	admitted, err := m.Int64Gauge("fenlock.node.admitted", metric.WithUnit("{node}"),
		metric.WithDescription("1 while the vote of a node counts, 0 while it is down, late, out or misconfigured."))
	errs = append(errs, err)
	s := &meters{
		names:   names,
		acquire: histogram("fenlock.acquire.duration", "How long acquisitions took, waiting included.", longBuckets),
		wait:    histogram("fenlock.wait.duration", "How long acquisitions took that had to wait.", longBuckets),
		hold:    histogram("fenlock.hold.duration", "How long locks were held.", longBuckets),
		left: histogram("fenlock.validity.left", "The validity that was left of a lock when it was released.",
			leftBuckets),
		extend: histogram("fenlock.extend.left", "The validity that was left of a lock when its extension had ended.",
			leftBuckets),
		request:  histogram("fenlock.node.duration", "How long requests to a node took.", nodeBuckets),
		held:     upDown("fenlock.held", "{lock}", "Locks that are held now."),
		waiting:  upDown("fenlock.waiting", "{waiter}", "Callers that wait for a lock now."),
		lost:     counter("fenlock.lost", "{lock}", "Locks that ended without a release."),
		refused:  counter("fenlock.guard.refused", "{write}", "Writes that a guard has refused for their token."),
		admitted: admitted,
		nodes:    map[string]bool{},
	}
	if !names { // what has not happened yet is 0, not absent: the first one is an increase
		ctx := context.Background()
		s.held.Add(ctx, 0)
		s.waiting.Add(ctx, 0)
		s.refused.Add(ctx, 0)
		for _, err := range []error{fenlock.ErrLost, fenlock.ErrMaxHold} {
			s.lost.Add(ctx, 0, s.of("", fact{causeKey, fenlock.LostEvent{Err: err}.Cause()}).add...)
		}
	}
	return s, errors.Join(errs...)
}

// of returns the labels for a measurement about a lock.
func (s *meters) of(name string, f fact) labels {
	switch {
	case s.names && f.key == "":
		return label(nameKey.String(name))
	case s.names:
		return label(nameKey.String(name), f.key.String(f.value))
	case f.key == "":
		return labels{}
	}
	l, _ := s.facts.of(f, func(f fact) labels { return label(f.key.String(f.value)) })
	return l
}

func (s *meters) observer() fenlock.Observer {
	return fenlock.Observer{
		Acquire: func(ctx context.Context, e fenlock.AcquireEvent) {
			about, by := s.of(e.Name, fact{}), s.of(e.Name, fact{outcomeKey, e.Outcome()})
			s.acquire.Record(ctx, e.Took.Seconds(), by.record...)
			if e.Waited {
				s.wait.Record(ctx, e.Took.Seconds(), by.record...)
				s.waiting.Add(ctx, -1, about.add...)
			}
			if e.Err == nil {
				s.held.Add(ctx, 1, about.add...)
			}
		},
		Wait: func(ctx context.Context, name string) {
			s.waiting.Add(ctx, 1, s.of(name, fact{}).add...)
		},
		Extend: func(ctx context.Context, e fenlock.ExtendEvent) {
			if e.Left > 0 { // otherwise it is told how the lock has ended
				s.extend.Record(ctx, e.Left.Seconds(), s.of(e.Name, fact{outcomeKey, e.Outcome()}).record...)
			}
		},
		Lost: func(ctx context.Context, e fenlock.LostEvent) {
			s.lost.Add(ctx, 1, s.of(e.Name, fact{causeKey, e.Cause()}).add...)
			s.ended(ctx, e.Name, e.Held)
		},
		Release: func(ctx context.Context, e fenlock.ReleaseEvent) {
			if e.Lost() {
				return // that was its end
			}
			if !e.Given {
				s.left.Record(ctx, e.Left.Seconds(), s.of(e.Name, fact{}).record...)
			}
			s.ended(ctx, e.Name, e.Held)
		},
		Request: s.asked,
		Node:    func(c fenlock.NodeChange) { s.admit(c.Node, c.State == fenlock.NodeWorks, true) },
	}
}

// ended takes the end of a lock that was held for so long.
func (s *meters) ended(ctx context.Context, name string, held time.Duration) {
	about := s.of(name, fact{})
	s.hold.Record(ctx, held.Seconds(), about.record...)
	s.held.Add(ctx, -1, about.add...)
}

func (s *meters) asked(e fenlock.RequestEvent) {
	l, isNew := s.requests.of(request{e.Node, e.Op, e.Status}, func(r request) labels {
		return label(nodeKey.String(r.node), operationKey.String(r.op), outcomeKey.String(r.status.String()))
	})
	s.request.Record(context.Background(), e.Took.Seconds(), l.record...)
	if isNew {
		s.admit(e.Node, true, false)
	}
}

// admit records whether a node's vote counts: as it was told, or that nothing was told of
// a node, which means that it works.
func (s *meters) admit(name string, counts, told bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes[name] && !told {
		return
	}
	s.nodes[name] = true
	value := int64(0)
	if counts {
		value = 1
	}
	s.admitted.Record(context.Background(), value, metric.WithAttributes(nodeKey.String(name)))
}
