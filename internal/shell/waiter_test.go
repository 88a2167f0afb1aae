package shell

import (
	"testing"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// A place without a stamp would be at the front of every queue: only a release,
// which takes the waiter out, may have one.
func TestPlaceThatARequestCarries(t *testing.T) {
	place := node.Place{Waiter: "0123456789abcdef0123456789abcdef:1", Stamp: 7}
	gone := node.Place{Waiter: place.Waiter}
	waiting, over := &waiter{at: place, waiting: true}, &waiter{at: place}
	for _, c := range []struct {
		w    *waiter
		op   core.Op
		want node.Place
	}{
		{waiting, core.Acquire, place},
		{waiting, core.Release, place},
		{waiting, core.Confirm, node.Place{}},
		{over, core.Acquire, place},
		{over, core.Release, gone},
		{over, core.Extend, node.Place{}},
		{&waiter{waiting: true}, core.Acquire, node.Place{}}, // not in the queue yet
		{&waiter{}, core.Release, node.Place{}},
	} {
		if got := c.w.place(c.op); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.op, got, c.want)
		}
	}
}
