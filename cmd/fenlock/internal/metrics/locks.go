package metrics

import (
	"context"
	"slices"
	"sync"

	"github.com/fenlock/fenlock"
)

// The buckets, in seconds, are those of integration/fenlockotel: TestCommandIsLikeTheLibrary
// compares them, and the names, labels and texts of all metrics.
var (
	longBounds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60,
		300, 900, 1800, 2700, 3600}
	nodeBounds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}
	leftBounds = []float64{.01, .1, .25, .5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30}
)

// Locks are the metrics of one Locker.
type Locks struct {
	names                                      []string // the value of the label that every lock has, or none
	acquire, wait, hold, left, extend, request *Metric  // histograms
	held, waiting, admitted, lost              *Metric

	mu    sync.Mutex
	nodes map[string]bool // whose state was told
}

// NewLocks adds the metrics to a set. If name is not empty, it is that of the only lock there
// is, and a label of all that is measured of locks.
func NewLocks(set *Set, name string) *Locks {
	l := &Locks{nodes: map[string]bool{}}
	var label []string
	if name != "" {
		l.names, label = []string{name}, []string{"fenlock_lock_name"}
	}
	of := func(more ...string) []string { return slices.Concat(label, more) }
	l.acquire = set.Histogram("fenlock_acquire_duration_seconds", "How long acquisitions took, waiting included.",
		longBounds, of("fenlock_outcome")...)
	l.wait = set.Histogram("fenlock_wait_duration_seconds", "How long acquisitions took that had to wait.", longBounds,
		of("fenlock_outcome")...)
	l.hold = set.Histogram("fenlock_hold_duration_seconds", "How long locks were held.", longBounds, of()...)
	l.left = set.Histogram("fenlock_validity_left_seconds", "The validity that was left of a lock when it was released.",
		leftBounds, of()...)
	l.extend = set.Histogram("fenlock_extend_left_seconds",
		"The validity that was left of a lock when its extension had ended.", leftBounds, of("fenlock_outcome")...)
	l.request = set.Histogram("fenlock_node_duration_seconds", "How long requests to a node took.", nodeBounds,
		"fenlock_node_name", "fenlock_operation", "fenlock_outcome")
	l.held = set.Gauge("fenlock_held", "Locks that are held now.", of()...)
	l.waiting = set.Gauge("fenlock_waiting", "Callers that wait for a lock now.", of()...)
	l.lost = set.Counter("fenlock_lost_total", "Locks that ended without a release.", of("fenlock_cause")...)
	l.admitted = set.Gauge("fenlock_node_admitted",
		"1 while the vote of a node counts, 0 while it is down, late, out or misconfigured.", "fenlock_node_name")
	// What has not happened yet is 0, not absent: the first one is an increase.
	l.held.Add(0, l.of()...)
	l.waiting.Add(0, l.of()...)
	for _, err := range []error{fenlock.ErrLost, fenlock.ErrMaxHold} {
		l.lost.Add(0, l.of(fenlock.LostEvent{Err: err}.Cause())...)
	}
	return l
}

// of returns the values of the labels of something about a lock.
func (l *Locks) of(more ...string) []string { return slices.Concat(l.names, more) }

// Observer returns what tells the metrics.
func (l *Locks) Observer() fenlock.Observer {
	return fenlock.Observer{
		Acquire: func(_ context.Context, e fenlock.AcquireEvent) {
			l.acquire.Observe(e.Took.Seconds(), l.of(e.Outcome())...)
			if e.Waited {
				l.wait.Observe(e.Took.Seconds(), l.of(e.Outcome())...)
				l.waiting.Add(-1, l.of()...)
			}
			if e.Err == nil {
				l.held.Add(1, l.of()...)
			}
		},
		Wait: func(context.Context, string) { l.waiting.Add(1, l.of()...) },
		Extend: func(_ context.Context, e fenlock.ExtendEvent) {
			if e.Left > 0 { // otherwise it is told how the lock has ended
				l.extend.Observe(e.Left.Seconds(), l.of(e.Outcome())...)
			}
		},
		Lost: func(_ context.Context, e fenlock.LostEvent) {
			l.lost.Add(1, l.of(e.Cause())...)
			l.hold.Observe(e.Held.Seconds(), l.of()...)
			l.held.Add(-1, l.of()...)
		},
		Release: func(_ context.Context, e fenlock.ReleaseEvent) {
			if e.Lost() {
				return // that was its end
			}
			if !e.Given {
				l.left.Observe(e.Left.Seconds(), l.of()...)
			}
			l.hold.Observe(e.Held.Seconds(), l.of()...)
			l.held.Add(-1, l.of()...)
		},
		Request: func(e fenlock.RequestEvent) {
			l.request.Observe(e.Took.Seconds(), e.Node, e.Op, e.Status.String())
			l.admit(e.Node, true, false)
		},
		Node: func(c fenlock.NodeChange) { l.admit(c.Node, c.State == fenlock.NodeWorks, true) },
	}
}

// admit notes whether a node's vote counts: as it was told, or that nothing was told of a
// node, which means that it works.
func (l *Locks) admit(node string, counts, told bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nodes[node] && !told {
		return
	}
	l.nodes[node] = true
	l.admitted.SetBool(counts, node)
}
