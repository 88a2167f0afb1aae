//go:build linux && campaign

package slots

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/probe"
	"github.com/fenlock/fenlock/tests/history"
)

// No two clients hold a lock at once, and tokens are in order, whichever of three servers is the
// primary that the sentinels name. The servers are hosts of a network that parts.
func TestCampaignSentinels(t *testing.T) {
	if !testserver.Network(t) {
		return
	}
	each(t, func(t *testing.T, kind testserver.Kind, seed int) { newWatched(t, kind, seed).play() })
}

// watched is a history on a primary with two replicas under three sentinels.
type watched struct {
	*made
	all       []*testserver.Server
	hosts     []string // of the servers
	watchers  string   // the host of the sentinels
	sentinels []string // their addresses for clients and this test, whose host is 127.0.0.1
}

const here = "127.0.0.1" // of clients, and of this test, which reaches each server at it

func newWatched(t *testing.T, kind testserver.Kind, seed int) *watched {
	w := &watched{made: newMade(t, string(kind)+" under Sentinel", seed)}
	net := fmt.Sprintf("127.%d.%d.", 10+len(kind), seed%250) // the histories of two kinds are made at once
	at := func(host string) []string {
		return []string{"bind " + host + " " + here, "bind-source-addr " + host, "protected-mode no"}
	}
	w.watchers = net + "9"
	for i := range 3 {
		host := fmt.Sprint(net, i+1)
		w.hosts = append(w.hosts, host)
		w.all = append(w.all, testserver.Start(t, kind, append(at(host), "replica-announce-ip "+host,
			"repl-diskless-sync-delay 0", "repl-ping-replica-period 1", "repl-timeout 10", "appendonly yes")...))
	}
	_, port, _ := strings.Cut(w.all[0].Addr(), ":")
	for _, s := range w.all[1:] {
		s.Do("REPLICAOF", w.hosts[0], port)
	}
	w.primary()
	w.all[0].MarkAdmitted("fenlock:", ttl)
	w.sentinels = testserver.Sentinels(t, w.all[0], 3, append(at(w.watchers), "sentinel announce-ip "+w.watchers)...)
	return w
}

// role returns what a server says that it is, and how many replicas are in step with it.
func role(s *testserver.Server) (master bool, online int) {
	if s.Pid() == 0 {
		return false, 0
	}
	info, err := s.Ask("", "", time.Second, "INFO", "replication")
	return err == nil && strings.Contains(info, "role:master"), strings.Count(info, "state=online")
}

// primary returns which server alone is the primary, and the others follow it.
func (w *watched) primary() (place int) {
	w.t.Helper()
	w.until(func() error {
		var said []string
		found := 0
		for i, s := range w.all {
			master, online := role(s)
			if said = append(said, fmt.Sprint(master, online)); master {
				place, found = i, found+1
			}
			if master && online < 2 {
				found = 9
			}
		}
		if found != 1 {
			return fmt.Errorf("the roles are %q", said)
		}
		return nil
	})
	return place
}

// promoted waits until another server than this one is a primary.
func (w *watched) promoted(than int) {
	w.t.Helper()
	w.until(func() error {
		for i, s := range w.all {
			if master, _ := role(s); master && i != than {
				return nil
			}
		}
		return fmt.Errorf("no other server is promoted than %d", than)
	})
}

// part has a server reach none of these hosts for a while.
func (w *watched) part(server int, from ...string) {
	heal := testserver.Partition(w.t, []string{w.hosts[server]}, from)
	time.Sleep(w.upTo(5 * time.Second))
	heal()
}

// others returns the hosts of the other servers, and of the sentinels.
func (w *watched) others(than int) (hosts []string) {
	for i, host := range w.hosts {
		if i != than {
			hosts = append(hosts, host)
		}
	}
	return append(hosts, w.watchers)
}

// losses are the faults. Each returns when it is healed, but for the admission and what the
// sentinels do then.
var losses = []struct {
	name   string
	strike func(w *watched, primary, replica int)
}{
	{"kill", func(w *watched, primary, _ int) {
		w.all[primary].Kill()
		w.promoted(primary)
		w.all[primary].Restart()
	}},
	{"stop, continue", func(w *watched, primary, _ int) {
		w.all[primary].Pause()
		time.Sleep(w.upTo(3 * time.Second)) // there may be a failover
		w.all[primary].Resume()
	}},
	{"stop, promote, continue", func(w *watched, primary, _ int) {
		w.all[primary].Pause()
		w.promoted(primary)
		time.Sleep(w.upTo(3 * time.Second))
		w.all[primary].Resume()
	}},
	{"fail over", func(w *watched, primary, _ int) {
		w.until(func() error {
			said, err := probe.Dial(w.t, w.sentinels[0]).Say(10*time.Second, "SENTINEL FAILOVER "+testserver.SentinelMaster)
			if err == nil && !strings.HasPrefix(said, "+OK") {
				err = fmt.Errorf("%s", said)
			}
			return err
		})
		w.promoted(primary)
	}},
	{"part the primary, with the clients", func(w *watched, primary, _ int) { w.part(primary, w.others(primary)...) }},
	{"part the primary from all", func(w *watched, primary, _ int) {
		w.part(primary, append(w.others(primary), here)...)
	}},
	{"part the primary from its clients", func(w *watched, primary, _ int) { w.part(primary, here) }},
	{"part the primary from a replica", func(w *watched, primary, replica int) { w.part(primary, w.hosts[replica]) }},
	{"stop a replica", func(w *watched, _, replica int) {
		w.all[replica].Pause()
		time.Sleep(w.upTo(3 * time.Second))
		w.all[replica].Resume()
	}},
}

func (w *watched) play() {
	defer func() {
		if w.t.Failed() {
			for _, s := range w.all {
				w.t.Logf("%s:\n%s", s.Addr(), s.Log())
			}
		}
	}()
	url := func(int) string {
		return "valkey-sentinel://" + strings.Join(w.sentinels, ",") + "/" + testserver.SentinelMaster
	}
	w.made.play(url, func() {
		loss := losses[w.rng.IntN(len(losses))]
		primary := w.primary()
		w.fault(history.Fault, loss.name)
		loss.strike(w, primary, (primary+1+w.rng.IntN(2))%3)
		now := func() *testserver.Server { return w.all[w.primary()] }
		w.settle(now) // since sentinels may still act on it
		w.fault(history.Healed, loss.name)
		w.admitted(now, "fenlock:")
	})
}
