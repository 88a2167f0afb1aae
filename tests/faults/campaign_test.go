//go:build linux

package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

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
			Setup: plan.Full(6), Seed: 1, Library: library.Fenlock, Locks: library.Exclusive, Clients: 6, Reckless: true, Out: t.TempDir(),
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

// A sample of what "make faults" does: each kind of fault strikes.
func TestTenHistories(t *testing.T) {
	c := testCampaign(t)
	c.histories, c.parallel = 10, 4
	for c.Seed = 1; len(c.sum(nil).tried()) < len(kinds.All); c.Seed++ { // the first ten that try all
	}
	s := c.make(t)
	for _, k := range kinds.All {
		if s.faults[k.Name].All == 0 {
			t.Errorf("%s never struck", k.Name)
		}
	}
	if err := s.verdict(); err != nil {
		t.Error(err)
	}
	refused := 0
	for _, o := range s.outcomes {
		if o.Report.Acquired == 0 || o.Report.Writes == 0 || o.Report.Extended == 0 {
			t.Errorf("seed %d: %d acquisitions, %d writes, %d extensions", o.Seed, o.Report.Acquired, o.Report.Writes, o.Report.Extended)
		}
		refused += o.Report.Refused
	}
	if refused == 0 {
		t.Error("no late write was refused")
	}
}

// A history on each of the other engines, of one server, as most people have them, or of
// several.
func TestEngines(t *testing.T) {
	for name, nodes := range map[string]int{"postgres": 1, "mysql": 1, "etcd": 1, "zookeeper": 1, "mixed": 5} {
		t.Run(name, func(t *testing.T) {
			s := onEngine(t, name, nodes).make(t)
			if err := s.verdict(); err != nil {
				t.Error(err)
			}
			if r := s.outcomes[0].Report; r.Acquired == 0 || r.Writes == 0 || len(r.Faults) == 0 {
				t.Errorf("%d acquisitions, %d writes, faults %v", r.Acquired, r.Writes, r.Faults)
			}
		})
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

// A history whose servers do not start says which it is.
func TestNoHistory(t *testing.T) {
	j := testCampaign(t).Job
	j.Seed, j.Command = 7, "do it"
	t.Setenv("PATH", t.TempDir()) // no compiler
	if o, err := runner.Run(t.Context(), j); err == nil || o.Seed != 7 || o.Command != "do it" {
		t.Errorf("%+v, %v", o, err)
	}
}

// What is held stays held while one server after the other goes and comes back.
func TestRolling(t *testing.T) {
	c := testCampaign(t)
	c.Seconds = 20
	c.Setup = plan.Rolling(c.Setup)
	s := c.make(t)
	if err := s.verdict(); err != nil {
		t.Error(err)
	}
	if r := s.outcomes[0].Report; r.Stood == 0 || !slices.Contains(r.Checked, history.Healing) {
		t.Errorf("%d locks were held on while a node failed their client; checked were %v", r.Stood, r.Checked)
	}
}

// A lock that is lost with the majority of its nodes is no violation of that.
func TestMajorityGoes(t *testing.T) {
	c := testCampaign(t)
	c.Kinds = []kinds.Kind{{Name: "stop three", Nodeless: true, Shortest: 3, Longest: 3, Inject: func(s *kinds.Scene) (kinds.Heal, error) {
		for _, m := range s.Cluster.Members[:3] {
			if err := m.Freeze(); err != nil {
				return nil, err
			}
		}
		return func() error {
			return errors.Join(s.Cluster.Members[0].Thaw(), s.Cluster.Members[1].Thaw(), s.Cluster.Members[2].Thaw())
		}, nil
	}}}
	// Whether a lock is held for long enough at that moment is chance, one time in many not.
	for range 4 {
		s := c.make(t)
		if err := s.verdict(); err != nil {
			t.Fatal(err)
		}
		if s.outcomes[0].Report.Gone > 0 {
			return
		}
	}
	t.Error("no lock was lost")
}

// The rivals lock when nothing fails.
func TestRivals(t *testing.T) {
	for _, name := range []string{library.Redsync, library.Redislock} {
		c := testCampaign(t)
		c.Library, c.Seconds, c.Only, c.Reckless = name, 3, []string{}, false
		c.TTL = 4 * cluster.TTL // they give a node a quarter of it, which takes longer on a busy machine
		for _, o := range c.make(t).outcomes {
			if r := o.Report; o.Failed() || r.Acquired < 5 || r.Extended == 0 || r.Writes == 0 || len(r.Overlaps)+len(r.Lost) > 0 {
				t.Errorf("%s: %d acquisitions, %d extensions, %d writes, overlaps %v, lost updates %v, problems %v",
					name, r.Acquired, r.Extended, r.Writes, r.Overlaps, r.Lost, o.Problems)
			}
		}
	}
}

// A lock that lets everybody in is caught, whatever it is used for.
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
	c.Kinds = []kinds.Kind{{Name: "unnoticed flush", Shortest: 2, Longest: 2, Inject: func(s *kinds.Scene) (kinds.Heal, error) {
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

// A database whose leases somebody deletes is caught, though it remembers its registers.
func TestDatabaseThatForgets(t *testing.T) {
	for name, statement := range map[string]string{
		"postgres": "DELETE FROM fenlock.leases",
		"mysql":    "UPDATE fenlock_stripes SET leases = ''",
	} {
		c := onEngine(t, name, 1)
		c.Kinds = []kinds.Kind{{Name: "unnoticed loss", Shortest: 3, Longest: 3, Inject: func(s *kinds.Scene) (kinds.Heal, error) {
			return over(100*time.Millisecond, func() error { return s.Member().Exec(t.Context(), statement) }), nil
		}}}
		wantViolations(t, c, history.Validity)
	}
}

// over does something again and again until it is to be healed.
func over(every time.Duration, do func() error) kinds.Heal {
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			case <-time.After(every):
			}
			if err := do(); err != nil {
				stopped <- err
				return
			}
		}
	}()
	return func() error { close(stop); return <-stopped }
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
