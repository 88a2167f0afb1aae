package shell

import (
	"testing"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// A client whose lock was given leaves the queues, and returns what else it was given. It does not
// return the lock, as long as that is held, here or in the process that it was exported to.
func TestPartingKeepsTheLock(t *testing.T) {
	const client = "0123456789abcdef0123456789abcdef"
	for _, c := range []struct {
		name         string
		taken        bool
		ended, goes  bool
		keeps, place bool
	}{
		{name: "nothing was given", place: true},
		{name: "held", taken: true, keeps: true},
		{name: "exported", taken: true, ended: true, goes: true, keeps: true},
		{name: "released", taken: true, ended: true, place: true},
	} {
		w := &waiter{name: "orders", at: node.Place{Waiter: client + ":7:me", Stamp: 5}}
		if c.taken {
			w.gifts().Take(9)
		}
		if c.ended {
			w.part(c.goes)
		}
		want := node.Holder("")
		if c.keeps {
			want = node.Given(w.at.Waiter, 0)
		}
		if r := w.parting(); r.Holder != want || r.Place != (node.Place{Waiter: w.at.Waiter}) {
			t.Errorf("%s: leaves as %q from %+v", c.name, string(r.Holder), r.Place)
		}
		if place := w.place(core.Release); place.Waiter != "" != c.place {
			t.Errorf("%s: a release has the place %+v", c.name, place)
		}
	}
}
