//go:build linux

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/tests/history"
)

func testCampaign(t *testing.T) campaign {
	if err := missingTools(); err != nil {
		t.Fatal(err)
	}
	return campaign{
		job: job{
			setup: setup{seconds: 6, kinds: kinds, nodes: 5, ttl: groupTTL},
			seed:  1, library: libraryFenlock, clients: 6, reckless: true, out: t.TempDir(),
		},
		histories: 1, parallel: 1,
	}
}

// make runs the campaign and prints what is wrong.
func (c campaign) make(t *testing.T) summary {
	t.Helper()
	var text strings.Builder
	outcomes, err := c.run(t.Context(), func(o outcome) { printOutcome(&text, o) })
	if err != nil {
		t.Fatalf("%v\n%s", err, &text)
	}
	s := c.sum(outcomes)
	s.print(&text)
	t.Log(&text)
	return s
}

// A sample of what "make faults" does: each kind of fault strikes.
func TestTenHistories(t *testing.T) {
	c := testCampaign(t)
	c.histories, c.parallel = 10, 4
	for c.seed = 1; len(c.sum(nil).tried()) < len(kinds); c.seed++ { // the first ten that try all
	}
	s := c.make(t)
	for _, k := range kinds {
		if s.struck[k.name].All == 0 {
			t.Errorf("%s never struck", k.name)
		}
	}
	if err := s.verdict(); err != nil {
		t.Error(err)
	}
	refused := 0
	for _, o := range s.outcomes {
		if o.report.Acquired == 0 || o.report.Writes == 0 || o.report.Extended == 0 {
			t.Errorf("seed %d: %d acquisitions, %d writes, %d extensions", o.seed, o.report.Acquired, o.report.Writes, o.report.Extended)
		}
		refused += o.report.Refused
	}
	if refused == 0 {
		t.Error("no late write was refused")
	}
}

// The rivals lock when nothing fails.
func TestRivals(t *testing.T) {
	for _, library := range []string{libraryRedsync, libraryRedislock} {
		c := testCampaign(t)
		c.library, c.seconds, c.only, c.reckless = library, 3, []string{}, false
		c.ttl = 4 * groupTTL // they give a node a quarter of it, which takes longer on a busy machine
		for _, o := range c.make(t).outcomes {
			if r := o.report; o.failed() || r.Acquired < 5 || r.Extended == 0 || r.Writes == 0 || len(r.Overlaps)+len(r.Lost) > 0 {
				t.Errorf("%s: %d acquisitions, %d extensions, %d writes, overlaps %v, lost updates %v, problems %v",
					library, r.Acquired, r.Extended, r.Writes, r.Overlaps, r.Lost, o.problems)
			}
		}
	}
}

// A lock that lets everybody in is caught.
func TestNoLock(t *testing.T) {
	c := testCampaign(t)
	c.library, c.seconds, c.only = libraryBroken, 2, []string{}
	wantViolations(t, c, history.Validity, history.Porcupine)
}

// So is one on a single server that forgets its leases again and again, and is
// told each time that it has not.
func TestNodeThatForgets(t *testing.T) {
	c := testCampaign(t)
	c.nodes, c.seconds = 1, 8
	c.kinds = []kind{{name: "unnoticed flush", shortest: 2, longest: 2, inject: func(s *scene) (func() error, error) {
		stop, stopped := make(chan struct{}), make(chan error, 1)
		go func() {
			for {
				select {
				case <-stop:
					stopped <- nil
					return
				case <-time.After(100 * time.Millisecond):
				}
				m := s.member()
				_, err := m.ask(patientTimeout, "FLUSHALL")
				if err == nil {
					err = m.markAdmitted(false)
				}
				if err != nil {
					stopped <- err
					return
				}
			}
		}()
		return func() error { close(stop); return <-stopped }, nil
	}}}
	wantViolations(t, c, history.Validity)
}

// wantViolations wants each promise broken, and the history kept.
func wantViolations(t *testing.T, c campaign, promises ...string) {
	t.Helper()
	s := c.make(t)
	if s.verdict() == nil {
		t.Error("the campaign has passed")
	}
	for _, o := range s.outcomes {
		var found []string
		for _, v := range o.report.Violations {
			found = append(found, v.Promise)
		}
		for _, p := range promises {
			if !slices.Contains(found, p) {
				t.Errorf("no violation of %s; there are %v", p, found)
			}
		}
		if h, err := history.Read(o.path); err != nil || len(history.Check(h).Violations) != len(o.report.Violations) {
			t.Errorf("the history that was kept: %v", err)
		}
	}
}
