//go:build linux

package main

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/tests/faults/cluster"
	"github.com/fenlock/fenlock/tests/faults/kinds"
	"github.com/fenlock/fenlock/tests/faults/library"
	"github.com/fenlock/fenlock/tests/faults/plan"
	"github.com/fenlock/fenlock/tests/faults/runner"
	"github.com/fenlock/fenlock/tests/history"
)

func testCampaign(t *testing.T) campaign {
	if err := missingTools(); err != nil {
		t.Fatal(err)
	}
	return campaign{
		Job: runner.Job{
			Setup: plan.Full(6), Seed: 1, Library: library.Fenlock, Locks: library.Exclusive, Clients: 6, Reckless: true,
			Out: t.TempDir(),
		},
		histories: 1, parallel: 1,
	}
}

// make runs the campaign and prints what is wrong.
func (c campaign) make(t *testing.T) summary {
	t.Helper()
	var text strings.Builder
	outcomes, err := c.run(t.Context(), func(o runner.Outcome) { printOutcome(&text, o) })
	if err != nil {
		t.Fatalf("%v\n%s", err, &text)
	}
	s := c.sum(outcomes)
	s.print(&text)
	t.Log(&text)
	return s
}

// Whatever strikes, two histories keep the promises. Those of the tag campaign are more.
func TestHistories(t *testing.T) {
	c := testCampaign(t)
	c.histories, c.parallel = 2, 2
	s := c.make(t)
	if err := s.verdict(); err != nil {
		t.Error(err)
	}
	for _, o := range s.outcomes {
		if o.Report.Acquired == 0 || o.Report.Writes == 0 {
			t.Errorf("seed %d: %d acquisitions, %d writes", o.Seed, o.Report.Acquired, o.Report.Writes)
		}
	}
}

// What is held stays held while servers go and come back, one after the other and two at a time.
func TestRolling(t *testing.T) {
	c := testCampaign(t)
	c.Seconds = 12
	c.Setup = plan.Rolling(c.Setup)
	s := c.make(t)
	if err := s.verdict(); err != nil {
		t.Error(err)
	}
	if r := s.outcomes[0].Report; r.Stood+r.Gone == 0 || !slices.Contains(r.Checked, history.Healing) {
		t.Errorf("%d locks were held on while a node failed their client, %d were lost; checked were %v", r.Stood, r.Gone,
			r.Checked)
	}
}

// A history whose servers do not start says which it is.
func TestNoHistory(t *testing.T) {
	j := testCampaign(t).Job
	j.Seed, j.Command = 7, "do it"
	t.Setenv("PATH", t.TempDir()) // no compiler
	if o, err := runner.Run(t.Context(), j); err == nil || o.Seed != 7 || o.Command != "do it" {
		t.Errorf("%+v, %v", o, err)
	}
}

// The rivals lock when nothing fails.
func TestRivals(t *testing.T) {
	for _, name := range []string{library.Redsync, library.Redislock} {
		c := testCampaign(t)
		c.Library, c.Seconds, c.Only, c.Reckless = name, 3, []string{}, false
		c.TTL = 4 * cluster.TTL // they give a node a quarter of it, which takes longer on a busy machine
		for _, o := range c.make(t).outcomes {
			if r := o.Report; o.Failed() || r.Acquired < 5 || r.Extended == 0 || r.Writes == 0 ||
				len(r.Overlaps)+len(r.Lost) > 0 {
				t.Errorf("%s: %d acquisitions, %d extensions, %d writes, overlaps %v, lost updates %v, problems %v",
					name, r.Acquired, r.Extended, r.Writes, r.Overlaps, r.Lost, o.Problems)
			}
		}
	}
}

// Processes that share a file are killed and stopped, its disk is full, and it is replaced.
func TestFile(t *testing.T) {
	if !testserver.Mounts(t) {
		return
	}
	c := onEngine(t, "file", 1)
	c.Seconds, c.histories, c.parallel = 6, 2, 2
	s := c.make(t)
	if err := s.verdict(); err != nil {
		t.Error(err)
	}
	for _, o := range s.outcomes {
		if r := o.Report; r.Acquired == 0 || r.Writes == 0 || len(r.Faults) < 3 {
			t.Errorf("seed %d: %d acquisitions, %d writes, faults %v", o.Seed, r.Acquired, r.Writes, r.Faults)
		}
	}
}

// A file whose rooms are emptied again and again, and that says nothing of it, is caught.
func TestFileThatForgets(t *testing.T) {
	c := onEngine(t, "file", 1)
	c.Kinds = []kinds.Kind{{Name: "unnoticed loss", Shortest: 3, Longest: 3,
		Inject: func(s *kinds.Scene) (kinds.Heal, error) {
			return over(100*time.Millisecond, func() error {
				path := s.Member().Server().Addr()
				info, err := os.Stat(path)
				if err != nil {
					return err
				}
				const header = 8 << 10
				return errors.Join(os.Truncate(path, header), os.Truncate(path, info.Size()))
			}), nil
		}}}
	wantViolations(t, c, history.Validity)
}

// A lock that lets every client in is caught, whatever it is used for.
func TestNoLock(t *testing.T) {
	for _, locks := range library.Locks {
		t.Run(locks, func(t *testing.T) {
			c := testCampaign(t)
			c.Library, c.Locks, c.Seconds, c.Only = library.Broken, locks, 2, []string{}
			promises := []string{history.Validity, history.Porcupine}
			if locks == library.Lead { // whose followers go backwards
				promises = append(promises, history.Following)
			}
			wantViolations(t, c, promises...)
		})
	}
}

// So is one on a single server that forgets its leases again and again, and is
// told each time that it has not.
func TestNodeThatForgets(t *testing.T) {
	c := testCampaign(t)
	c.Nodes, c.Seconds = 1, 8
	c.Kinds = []kinds.Kind{{Name: "unnoticed flush", Shortest: 2, Longest: 2,
		Inject: func(s *kinds.Scene) (kinds.Heal, error) {
			return over(100*time.Millisecond, func() error {
				m := s.Member()
				_, err := m.Ask(cluster.Patience, "FLUSHALL")
				if err == nil {
					err = m.MarkAdmitted(false)
				}
				return err
			}), nil
		}}}
	wantViolations(t, c, history.Validity)
}

// over does something again and again until it is to be healed.
func over(every time.Duration, do func() error) kinds.Heal {
	return kinds.Repeated(every, func() (time.Duration, error) { return every, do() })
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
		for _, v := range o.Report.Violations {
			found = append(found, v.Promise)
		}
		for _, p := range promises {
			if !slices.Contains(found, p) {
				t.Errorf("no violation of %s; there are %v", p, found)
			}
		}
		if h, err := history.Read(o.Path); err != nil || len(history.Check(h).Violations) != len(o.Report.Violations) {
			t.Errorf("the history that was kept: %v", err)
		}
	}
}

func onEngine(t *testing.T, name string, nodes int) campaign {
	c := testCampaign(t)
	group, ok := cluster.On(name)
	if !ok {
		t.Fatal(name)
	}
	c.Setup = plan.FullOn(group, 4)
	c.Nodes = nodes
	return c
}
