//go:build linux && campaign

package main

import (
	"errors"
	"testing"
	"time"

	"github.com/fenlock/fenlock/tests/faults/kinds"
	"github.com/fenlock/fenlock/tests/history"
)

// A sample of what "make faults" does: each kind of fault strikes.
func TestCampaignTenHistories(t *testing.T) {
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
			t.Errorf("seed %d: %d acquisitions, %d writes, %d extensions", o.Seed, o.Report.Acquired, o.Report.Writes,
				o.Report.Extended)
		}
		refused += o.Report.Refused
	}
	if refused == 0 {
		t.Error("no late write was refused")
	}
}

// Each step of the servers is one of the model that is proved, also where they lose their memory
// and are admitted.
func TestCampaignSteps(t *testing.T) {
	c := testCampaign(t)
	c.Steps, c.histories, c.parallel = true, 2, 2
	if err := c.choose("wipe,kill,kill client,readonly,late requests"); err != nil {
		t.Fatal(err)
	}
	s := c.make(t)
	if err := s.verdict(); err != nil {
		t.Error(err)
	}
	for _, o := range s.outcomes {
		if o.Tied.Steps < 100 && o.Tied.Untied == "" {
			t.Errorf("seed %d: %+v", o.Seed, o.Tied)
		}
	}
}

// A history on each of the other engines, of one server, as most people have them, or of
// several.
func TestCampaignEngines(t *testing.T) {
	for name, nodes := range map[string]int{"postgres": 1, "mysql": 1, "etcd": 1, "zookeeper": 1, "nats": 1,
		"s3": 1, "mixed": 5, "stores": 5, "file": 1} {
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

// A lock that is lost with the majority of its nodes is no violation of that.
func TestCampaignMajorityGoes(t *testing.T) {
	c := testCampaign(t)
	c.Kinds = []kinds.Kind{{Name: "stop three", Nodeless: true, Shortest: 3, Longest: 3,
		Inject: func(s *kinds.Scene) (kinds.Heal, error) {
			for _, m := range s.Cluster.Members[:3] {
				if err := m.Freeze(); err != nil {
					return nil, err
				}
			}
			return func() error {
				return errors.Join(s.Cluster.Members[0].Thaw(), s.Cluster.Members[1].Thaw(), s.Cluster.Members[2].Thaw())
			}, nil
		}}}
	// Whether a lock is held for long enough at that moment is chance, and less likely on a busy
	// machine.
	for seed := range uint64(12) {
		c.Seed = seed + 1
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

// A database that lost its leases is caught, though it remembers its registers.
func TestCampaignDatabaseThatForgets(t *testing.T) {
	for name, statement := range map[string]string{
		"postgres": "WITH l AS (DELETE FROM fenlock.leases) UPDATE fenlock.current SET holder = NULL",
		"mysql":    "UPDATE fenlock_stripes SET leases = ''",
	} {
		c := onEngine(t, name, 1)
		c.Kinds = []kinds.Kind{{Name: "unnoticed loss", Shortest: 3, Longest: 3,
			Inject: func(s *kinds.Scene) (kinds.Heal, error) {
				return over(100*time.Millisecond, func() error { return s.Member().Exec(t.Context(), statement) }), nil
			}}}
		wantViolations(t, c, history.Validity)
	}
}
