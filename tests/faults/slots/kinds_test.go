//go:build linux && campaign

package slots

import (
	"errors"
	"strings"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

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
		s.rest(3000)
		owner.Resume()
	}},
	{"stop, continue", func(s *scene, owner, _ *testserver.Server) {
		owner.Pause()
		s.rest(4500) // there may be an election
		owner.Resume()
	}},
	{"reshard", func(s *scene, owner, _ *testserver.Server) {
		for _, to := range s.all {
			if to != owner && to.Info("replication", "role") == "master" {
				s.slot().Reshard(owner, to, func() { s.rest(100) })
				return
			}
		}
	}},
	{"unplug", func(s *scene, owner, _ *testserver.Server) {
		plug := s.pull(owner)
		s.rest(4500) // there may be an election
		plug()
	}},
	{"part from the members", func(s *scene, owner, _ *testserver.Server) {
		join := s.part(owner, s.others(owner)...)
		s.rest(6000)
		join()
	}},
	{"part from the replica", func(s *scene, owner, replica *testserver.Server) {
		join := s.part(owner, replica)
		s.rest(3000)
		join()
	}},
	{"part from the clients", func(s *scene, owner, _ *testserver.Server) {
		s.drop("add", owner, self)
		s.rest(3000)
		s.drop("del", owner, self)
	}},
	{"reset the replica", func(s *scene, owner, replica *testserver.Server) { s.forget(replica, owner) }},
	{"empty and reset the owner", func(s *scene, owner, replica *testserver.Server) { s.forget(owner, replica) }},
}

// rest waits for a while, of less than so many milliseconds.
func (s *scene) rest(most int) { time.Sleep(time.Duration(s.rng.IntN(most)) * time.Millisecond) }

func (s *scene) others(than *testserver.Server) (all []*testserver.Server) {
	for _, m := range s.all {
		if m != than {
			all = append(all, m)
		}
	}
	return all
}

// forget has a member forget the cluster, softly or with its ID. If it has the slot, its keys are
// deleted before: a server asks for that. Then the other member takes over. In the end the member
// is its replica.
func (s *scene) forget(member, other *testserver.Server) {
	s.t.Helper()
	how, id := [...]string{"SOFT", "HARD"}[s.rng.IntN(2)], member.Do("CLUSTER", "MYID")
	owns := member.Info("replication", "role") == "master"
	s.until(func() error { // clients may write in between
		if owns {
			member.Do("FLUSHALL")
		}
		if said := member.Do("CLUSTER", "RESET", how); said != "OK" {
			return errors.New(said)
		}
		return nil
	})
	s.rest(3000)
	if owns {
		other.Do("CLUSTER", "FAILOVER", "TAKEOVER")
	}
	now := member.Do("CLUSTER", "MYID")
	host, port, _ := strings.Cut(member.Addr(), ":")
	s.until(func() error {
		if now != id {
			for _, m := range s.others(member) {
				m.Do("CLUSTER", "FORGET", id)
			}
		}
		other.Do("CLUSTER", "MEET", host, port)
		time.Sleep(100 * time.Millisecond)
		if said := member.Do("CLUSTER", "REPLICATE", other.Do("CLUSTER", "MYID")); said != "OK" {
			return errors.New(said)
		}
		return nil
	})
	for _, m := range s.others(member) { // they are asked for their votes
		s.until(func() error {
			for line := range strings.Lines(m.Do("CLUSTER", "NODES")) {
				if strings.HasPrefix(line, now+" ") && strings.Contains(line, " slave "+other.Do("CLUSTER", "MYID")) {
					return nil
				}
			}
			return errors.New(m.Addr() + " does not know the replica")
		})
	}
}
