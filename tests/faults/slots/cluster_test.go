//go:build linux && campaign

package slots

import (
	"errors"
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
	each(t, func(t *testing.T, kind testserver.Kind, seed int) { newScene(t, kind, seed).play() })
}

// scene is a history on a cluster.
type scene struct {
	*made
	all []*testserver.Server // three primaries and the replica of each, at first
}

func newScene(t *testing.T, kind testserver.Kind, seed int) *scene {
	s := &scene{made: newMade(t, string(kind)+" cluster", seed)}
	s.all = testserver.Cluster(t, kind, 3, "cluster-require-full-coverage no", "cluster-allow-replica-migration no")
	s.all = append(s.all, testserver.AddReplicas(t, s.all, "cluster-require-full-coverage no",
		"cluster-allow-replica-migration no")...)
	s.owner().MarkAdmitted(prefix, ttl)
	return s
}

func (s *scene) owner() (owner *testserver.Server) {
	s.t.Helper()
	s.until(func() error {
		if owner = testserver.Owner(registers, s.all...); owner == nil {
			return errors.New("no server has the slot")
		}
		return nil
	})
	return owner
}

// pair returns the owner, and a replica of it that has its data.
func (s *scene) pair() (owner, replica *testserver.Server) {
	s.t.Helper()
	s.until(func() error {
		owner = s.owner()
		_, port, _ := strings.Cut(owner.Addr(), ":")
		for _, r := range s.all {
			if r.Pid() == 0 {
				continue
			}
			info, err := r.Ask("", "", time.Second, "INFO", "replication")
			if err == nil && testserver.Field(info, "master_port") == port &&
				testserver.Field(info, "master_link_status") == "up" {
				replica = r
				return nil
			}
		}
		return fmt.Errorf("%s has no replica", owner.Addr())
	})
	return owner, replica
}

// settle waits until a fault has done what it does. A planned failover goes on by itself, and a
// member that continues learns that it was replaced. The slot has rested for a while then.
func (s *scene) settle() {
	s.t.Helper()
	var last *testserver.Server
	since := time.Now()
	s.until(func() error {
		owner, _ := s.pair()
		if owner != last {
			last, since = owner, time.Now()
		}
		if time.Since(since) < 2*time.Second {
			return errors.New("the slot may still move")
		}
		return nil
	})
}

// kinds are the faults. Each returns when it is healed, but for the admission.
var kinds = []struct {
	name   string
	strike func(s *scene, owner, replica *testserver.Server)
}{
	{"kill", func(s *scene, owner, _ *testserver.Server) {
		owner.Kill()
		s.owner()
		owner.Restart()
	}},
	{"take over", func(_ *scene, _, replica *testserver.Server) { replica.Do("CLUSTER", "FAILOVER", "TAKEOVER") }},
	{"fail over", func(_ *scene, _, replica *testserver.Server) { replica.Do("CLUSTER", "FAILOVER") }},
	{"stop, take over, continue", func(s *scene, owner, replica *testserver.Server) {
		owner.Pause()
		replica.Do("CLUSTER", "FAILOVER", "TAKEOVER")
		time.Sleep(time.Duration(s.rng.IntN(3000)) * time.Millisecond)
		owner.Resume()
	}},
	{"stop, continue", func(s *scene, owner, _ *testserver.Server) {
		owner.Pause()
		time.Sleep(time.Duration(s.rng.IntN(4500)) * time.Millisecond) // there may be an election
		owner.Resume()
	}},
	{"reshard", func(s *scene, owner, _ *testserver.Server) {
		for _, to := range s.all {
			if to != owner && to.Info("replication", "role") == "master" {
				s.reshard(owner, to)
				return
			}
		}
	}},
}

// reshard moves the slot with its keys.
func (s *scene) reshard(from, to *testserver.Server) {
	slot := from.Do("CLUSTER", "KEYSLOT", prefix)
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.Do("CLUSTER", "MYID"))
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.Do("CLUSTER", "MYID"))
	host, port, _ := strings.Cut(to.Addr(), ":")
	for {
		keys := strings.Fields(strings.Trim(from.Do("CLUSTER", "GETKEYSINSLOT", slot, "3"), "[]"))
		if len(keys) == 0 {
			break
		}
		from.Do(append([]string{"MIGRATE", host, port, "", "0", "5000", "KEYS"}, keys...)...)
		time.Sleep(time.Duration(s.rng.IntN(100)) * time.Millisecond)
	}
	to.Do("CLUSTER", "SETSLOT", slot, "NODE", to.Do("CLUSTER", "MYID"))
	from.Do("CLUSTER", "SETSLOT", slot, "NODE", to.Do("CLUSTER", "MYID"))
}

// admitted waits until the slot's owner votes, and has its replica again.
func (s *scene) admitted() {
	s.until(func() error {
		owner := s.owner()
		if !owner.IsAdmitted(prefix) {
			return fmt.Errorf("%s does not vote; its registers: %s", owner.Addr(), owner.Do("HGETALL", registers))
		}
		return nil
	})
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
		s.settle()
		s.fault(history.Healed, kind.name)
		s.admitted()
	})
}
