package metrics

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
)

// happens tells an observer of one of everything.
func happens(o fenlock.Observer) {
	ctx, s := context.Background(), time.Second
	o.Node(fenlock.NodeChange{Node: "c", State: fenlock.NodeOut})
	for _, n := range []string{"a", "b", "c"} {
		o.Request(fenlock.RequestEvent{Node: n, Op: "acquire", Took: time.Millisecond, Status: node.Granted})
	}
	o.Request(fenlock.RequestEvent{Node: "c", Op: "acquire", Took: s, Status: node.Unknown})
	o.Node(fenlock.NodeChange{Node: "a", State: fenlock.NodeDown})
	o.Request(fenlock.RequestEvent{Node: "a", Op: "extend", Took: time.Millisecond, Status: node.Granted})
	o.Acquire(ctx, fenlock.AcquireEvent{Token: 1, Took: s / 10})
	o.Wait(ctx, "a")
	o.Wait(ctx, "a")
	o.Wait(ctx, "a")
	o.Acquire(ctx, fenlock.AcquireEvent{Took: 2 * s, Waited: true, Err: &fenlock.HeldError{}})
	o.Extend(ctx, fenlock.ExtendEvent{Token: 1, Left: 6 * s, Err: &fenlock.QuorumError{}})
	o.Extend(ctx, fenlock.ExtendEvent{Token: 1, Left: 8 * s})
	o.Extend(ctx, fenlock.ExtendEvent{Token: 1, Err: fenlock.ErrReleased})
	o.Release(ctx, fenlock.ReleaseEvent{Token: 1, Held: 3 * s, Left: 7 * s})
	o.Acquire(ctx, fenlock.AcquireEvent{Token: 2, Took: 4 * s, Waited: true})
	o.Lost(ctx, fenlock.LostEvent{Token: 2, Held: 5 * s, Err: fenlock.ErrLost})
	o.Release(ctx, fenlock.ReleaseEvent{Token: 2, Held: 5 * s, Err: fenlock.ErrLost})
	o.Acquire(ctx, fenlock.AcquireEvent{Token: 3, Took: s})
	o.Wait(ctx, "a")
	o.Acquire(ctx, fenlock.AcquireEvent{Token: 4, Took: s, Waited: true})
	o.Release(ctx, fenlock.ReleaseEvent{Token: 4, Held: s, Left: s / 2, Given: true})
}

// whole is what becomes of happens, without buckets.
const whole = `
fenlock_acquire_duration_seconds_sum{fenlock_outcome="acquired"} 6.1
fenlock_acquire_duration_seconds_count{fenlock_outcome="acquired"} 4
fenlock_acquire_duration_seconds_sum{fenlock_outcome="held"} 2
fenlock_acquire_duration_seconds_count{fenlock_outcome="held"} 1
fenlock_wait_duration_seconds_sum{fenlock_outcome="acquired"} 5
fenlock_wait_duration_seconds_count{fenlock_outcome="acquired"} 2
fenlock_wait_duration_seconds_sum{fenlock_outcome="held"} 2
fenlock_wait_duration_seconds_count{fenlock_outcome="held"} 1
fenlock_hold_duration_seconds_sum 9
fenlock_hold_duration_seconds_count 3
fenlock_validity_left_seconds_sum 7
fenlock_validity_left_seconds_count 1
fenlock_extend_left_seconds_sum{fenlock_outcome="extended"} 8
fenlock_extend_left_seconds_count{fenlock_outcome="extended"} 1
fenlock_extend_left_seconds_sum{fenlock_outcome="no_quorum"} 6
fenlock_extend_left_seconds_count{fenlock_outcome="no_quorum"} 1
fenlock_node_duration_seconds_sum{fenlock_node_name="a",fenlock_operation="acquire",fenlock_outcome="granted"} 0.001
fenlock_node_duration_seconds_count{fenlock_node_name="a",fenlock_operation="acquire",fenlock_outcome="granted"} 1
fenlock_node_duration_seconds_sum{fenlock_node_name="a",fenlock_operation="extend",fenlock_outcome="granted"} 0.001
fenlock_node_duration_seconds_count{fenlock_node_name="a",fenlock_operation="extend",fenlock_outcome="granted"} 1
fenlock_node_duration_seconds_sum{fenlock_node_name="b",fenlock_operation="acquire",fenlock_outcome="granted"} 0.001
fenlock_node_duration_seconds_count{fenlock_node_name="b",fenlock_operation="acquire",fenlock_outcome="granted"} 1
fenlock_node_duration_seconds_sum{fenlock_node_name="c",fenlock_operation="acquire",fenlock_outcome="granted"} 0.001
fenlock_node_duration_seconds_count{fenlock_node_name="c",fenlock_operation="acquire",fenlock_outcome="granted"} 1
fenlock_node_duration_seconds_sum{fenlock_node_name="c",fenlock_operation="acquire",fenlock_outcome="unknown"} 1
fenlock_node_duration_seconds_count{fenlock_node_name="c",fenlock_operation="acquire",fenlock_outcome="unknown"} 1
fenlock_held 1
fenlock_waiting 1
fenlock_lost_total{fenlock_cause="lost"} 1
fenlock_lost_total{fenlock_cause="max_hold"} 0
fenlock_node_admitted{fenlock_node_name="a"} 0
fenlock_node_admitted{fenlock_node_name="b"} 1
fenlock_node_admitted{fenlock_node_name="c"} 0
`

// plain is a text without comments and buckets.
func plain(text []byte) string {
	kept := "\n"
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, "_bucket{") {
			kept += line
		}
	}
	return kept
}

func TestLocks(t *testing.T) {
	var s Set
	l := NewLocks(&s, "")
	if got := plain(s.Text()); got != "\nfenlock_held 0\nfenlock_waiting 0\nfenlock_lost_total{fenlock_cause=\"lost\"} 0\nfenlock_lost_total{fenlock_cause=\"max_hold\"} 0\n" {
		t.Errorf("at first there are%s", got)
	}
	happens(l.Observer())
	if got := plain(s.Text()); got != whole {
		t.Errorf("got%s\nwant%s", got, whole)
	}
}

// The name of the lock is in what is measured of it, if it is asked for, and in nothing else.
func TestNames(t *testing.T) {
	var s Set
	happens(NewLocks(&s, "orders/42").Observer())
	for line := range strings.Lines(plain(s.Text())) {
		if of := !strings.HasPrefix(line, "fenlock_node_") &&
			line != "\n"; of != strings.Contains(line, `{fenlock_lock_name="orders/42"`) {
			t.Errorf("line %s", line)
		}
	}
	got := strings.NewReplacer(`fenlock_lock_name="orders/42",`, "", `{fenlock_lock_name="orders/42"}`,
		"").Replace(plain(s.Text()))
	if got != whole {
		t.Errorf("got%s\nwant%s", got, whole)
	}
}
