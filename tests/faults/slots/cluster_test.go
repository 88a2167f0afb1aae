//go:build linux && campaign

package slots

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/tests/history"
)

const (
	prefix    = "{fenlock}fenlock:"
	registers = "fenlock-registers:" + prefix
)

// No two clients hold a lock at once, and tokens are in order, however the slot comes to other
// members.
func TestCampaignSlots(t *testing.T) {
	if !testserver.Apart(t, "-Urnm") {
		return
	}
	if err := network(); err != nil {
		t.Fatal(err)
	}
	testserver.Elsewhere(newHost)
	each(t, func(t *testing.T, kind testserver.Kind, seed int) { newScene(t, kind, seed).play() })
}

// scene is a history on a cluster.
type scene struct {
	*made
	all []*testserver.Server // three primaries and the replica of each, at first
}

func newScene(t *testing.T, kind testserver.Kind, seed int) *scene {
	s := &scene{made: newMade(t, string(kind)+" cluster", seed)}
	config := []string{"cluster-require-full-coverage no", "cluster-allow-replica-migration no", "protected-mode no"}
	s.all = testserver.Cluster(t, kind, 3, config...)
	s.all = append(s.all, testserver.AddReplicas(t, s.all, config...)...)
	s.owner().MarkAdmitted(prefix, ttl)
	return s
}

func (s *scene) slot() testserver.Slot { return testserver.Slot{Key: registers, All: s.all} }

func (s *scene) owner() *testserver.Server { return s.slot().Owner() }

// pair returns the owner, and a replica of it that has its data.
func (s *scene) pair() (owner, replica *testserver.Server) {
	s.t.Helper()
	s.until(func() error {
		owner = s.owner()
		host, port, _ := strings.Cut(owner.Addr(), ":")
		for _, r := range s.all {
			if r.Pid() == 0 {
				continue
			}
			info, err := r.Ask("", "", time.Second, "INFO", "replication")
			if err == nil && testserver.Field(info, "master_host") == host && testserver.Field(info, "master_port") == port &&
				testserver.Field(info, "master_link_status") == "up" {
				replica = r
				return nil
			}
		}
		return fmt.Errorf("%s has no replica", owner.Addr())
	})
	return owner, replica
}

func (s *scene) play() {
	var hosts []string
	for _, m := range s.all {
		hosts = append(hosts, m.Addr())
	}
	url := func(place int) string {
		seeds := append(hosts[place%len(hosts):len(hosts):len(hosts)], hosts[:place%len(hosts)]...)
		return "valkey-cluster://" + strings.Join(seeds[:2], ",")
	}
	s.made.play(url, func() {
		kind := kinds[s.rng.IntN(len(kinds))]
		s.fault(history.Fault, kind.name)
		owner, replica := s.pair()
		kind.strike(s, owner, replica)
		// A planned failover goes on by itself, and a member that continues learns that it was replaced.
		s.settle(func() *testserver.Server { owner, _ := s.pair(); return owner })
		s.fault(history.Healed, kind.name)
		s.admitted(s.owner, prefix)
	})
}
