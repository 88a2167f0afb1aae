package fenlock

import (
	"testing"

	"github.com/fenlock/fenlock/internal/core"
)

// A place without a stamp would be at the front of every line: only a release,
// which takes the waiter out, may have one.
func TestPlaceThatARequestCarries(t *testing.T) {
	place := Place{Waiter: "0123456789abcdef0123456789abcdef:1", Stamp: 7}
	gone := Place{Waiter: place.Waiter}
	waiting, over := &waiter{place: place, waiting: true}, &waiter{place: place}
	for _, c := range []struct {
		w    *waiter
		op   core.Op
		want Place
	}{
		{waiting, core.Acquire, place},
		{waiting, core.Release, place},
		{waiting, core.Confirm, Place{}},
		{over, core.Acquire, place},
		{over, core.Release, gone},
		{over, core.Extend, Place{}},
		{nil, core.Acquire, Place{}},
		{nil, core.Release, Place{}},
		{&waiter{waiting: true}, core.Acquire, Place{}}, // not in line yet
		{&waiter{}, core.Release, Place{}},
	} {
		if got := c.w.request(c.op); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.op, got, c.want)
		}
	}
}
