//go:build linux

package main

import (
	"testing"

	"github.com/fenlock/fenlock/tests/faults/library"
	"github.com/fenlock/fenlock/tests/history"
)

// A sample of what "make faults" does with LOCKS: eight processes on five servers that are
// killed, stopped and cut off. Each step of these is one of the model that is proved.
func TestLocks(t *testing.T) {
	for _, locks := range library.Locks[1:] {
		t.Run(locks, func(t *testing.T) {
			c := testCampaign(t)
			c.Locks, c.Clients, c.Seconds, c.histories, c.parallel, c.Keep = locks, usualClients(locks), 8, 2, 2, true
			c.Steps = true
			if err := c.choose("kill,stop server,pause client,kill client,partition,cut,half-open,wipe"); err != nil {
				t.Fatal(err)
			}
			s := c.make(t)
			if err := s.verdict(); err != nil {
				t.Error(err)
			}
			var sum history.Report
			sets := 0
			for _, o := range s.outcomes {
				r := o.Report
				sum.Shared, sum.Beside, sum.Downgraded = sum.Shared+r.Shared, sum.Beside+r.Beside, sum.Downgraded+r.Downgraded
				sum.Acquired, sum.Writes, sum.Followed = sum.Acquired+r.Acquired, sum.Writes+r.Writes, sum.Followed+r.Followed
				h, err := history.Read(o.Path)
				if err != nil {
					t.Fatal(err)
				}
				sets += together(h)
				if o.Tied.Steps < 100 && o.Tied.Untied == "" {
					t.Errorf("seed %d: %+v", o.Seed, o.Tied)
				}
			}
			t.Logf("%d readers, %d pairs at a time, %d let others in; %d of several names; followers saw %d changes", sum.Shared,
				sum.Beside, sum.Downgraded, sets, sum.Followed)
			for what, n := range map[string]int{"acquisitions": sum.Acquired, "writes": sum.Writes} {
				if n == 0 {
					t.Error("there were no", what)
				}
			}
			if locks == library.Shared && (sum.Shared == 0 || sum.Beside == 0 || sum.Downgraded == 0) {
				t.Errorf("%d readers, %d pairs at a time, %d let others in", sum.Shared, sum.Beside, sum.Downgraded)
			}
			if locks == library.Several && sets == 0 {
				t.Error("nobody had several names at a time before it was quiet")
			}
			if locks == library.Lead && sum.Followed == 0 {
				t.Error("nobody saw who leads")
			}
		})
	}
}

// together counts the names that a client was given right after another one, before it was
// quiet: several at a time, since nothing lies between.
func together(h *history.History) (n int) {
	last := make(map[int]history.Kind)
	for _, e := range h.Events {
		if e.Kind == history.Quiet {
			break
		}
		if e.Kind == history.Acquired && last[e.Client] == history.Acquired {
			n++
		}
		last[e.Client] = e.Kind
	}
	return n
}
