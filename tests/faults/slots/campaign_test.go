//go:build linux && campaign

package slots

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/tests/faults/library"
	"github.com/fenlock/fenlock/tests/faults/resource"
	"github.com/fenlock/fenlock/tests/faults/worker"
	"github.com/fenlock/fenlock/tests/history"
)

const (
	prefix    = "{fenlock}fenlock:"
	registers = "fenlock-registers:" + prefix
	ttl       = time.Second
	clients   = 4
	faults    = 3 // of a history
)

func TestMain(m *testing.M) {
	worker.Main()
	os.Exit(m.Run())
}

// histories is how many there are of each kind of server: SLOTS_HISTORIES for more. The seeds begin
// with SLOTS_SEED.
func number(variable string, usual int) int {
	n, err := strconv.Atoi(os.Getenv(variable))
	if err != nil {
		return usual
	}
	return n
}

// No two clients hold a lock at once, and tokens are in order, however the slot comes to other
// members.
func TestCampaignSlots(t *testing.T) {
	seed := number("SLOTS_SEED", 1)
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		for i := range number("SLOTS_HISTORIES", 2) {
			t.Run(fmt.Sprint(seed+i), func(t *testing.T) { newScene(t, kind, uint64(seed+i)).play() })
		}
	})
}

// scene is one history.
type scene struct {
	t    *testing.T
	kind testserver.Kind
	seed uint64
	rng  *rand.Rand
	all  []*testserver.Server // three primaries and the replica of each, at first

	mu     sync.Mutex
	events []history.Event
}

func newScene(t *testing.T, kind testserver.Kind, seed uint64) *scene {
	s := &scene{t: t, kind: kind, seed: seed, rng: rand.New(rand.NewPCG(seed, 36))}
	s.all = testserver.Cluster(t, kind, 3, "cluster-require-full-coverage no", "cluster-allow-replica-migration no")
	s.all = append(s.all, testserver.AddReplicas(t, s.all, "cluster-require-full-coverage no",
		"cluster-allow-replica-migration no")...)
	s.owner().MarkAdmitted(prefix, ttl)
	return s
}

func (s *scene) note(e history.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.At = int64(clock.Now())
	s.events = append(s.events, e)
}

// until waits until there is no error. The bound is for what hangs.
func (s *scene) until(try func() error) {
	s.t.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	s.t.Fatalf("never: %v", err)
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
	t, names := s.t, []string{"red", "green"}
	r := resource.New(true)
	defer r.Close()
	var hosts []string
	for _, m := range s.all {
		hosts = append(hosts, m.Addr())
	}
	group, err := worker.Start(t.TempDir(), clients, worker.Config{
		Config: library.Config{Library: library.Fenlock, TTL: ttl, MaxTTL: ttl, NodeTimeout: ttl / 4},
		Locks:  library.Exclusive, Names: names, Resource: r.URL(), Seed: s.seed, Reckless: true, Life: 10 * time.Minute,
		Shortest: time.Millisecond, Longest: 2 * ttl, Watched: true,
	}, func(place int) []string {
		seeds := append(hosts[place%len(hosts):len(hosts):len(hosts)], hosts[:place%len(hosts)]...)
		return []string{"valkey-cluster://" + strings.Join(seeds[:2], ",")}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer group.End()
	defer func() {
		if t.Failed() {
			t.Log(group.Said(0))
		}
	}()
	s.until(func() error {
		if !r.Used() {
			return errors.New("no client has used the resource" + group.Said(0))
		}
		return nil
	})
	for range faults {
		time.Sleep(time.Duration(s.rng.IntN(1000)) * time.Millisecond)
		kind := kinds[s.rng.IntN(len(kinds))]
		s.note(history.Event{Kind: history.Fault, Fault: kind.name, Node: 1})
		owner, replica := s.pair()
		kind.strike(s, owner, replica)
		s.settle()
		s.note(history.Event{Kind: history.Healed, Fault: kind.name, Node: 1})
		s.admitted()
	}
	if err := group.Rest(time.Minute); err != nil {
		t.Error(err)
	}
	s.note(history.Event{Kind: history.Quiet})
	group.Quiet()
	if err := group.Finish(time.Minute); err != nil {
		t.Error(err)
	}
	group.End()
	used := r.Close()
	sources, err := group.Events()
	if err != nil {
		t.Fatal(err)
	}
	s.note(history.Event{Kind: history.End})
	h := &history.History{Header: history.Header{
		Seed: s.seed, Library: library.Fenlock, Server: string(s.kind) + " cluster",
		Nodes: 1, Clients: clients, Names: names, TTL: ttl, MaxTTL: ttl, Watched: true},
		Events: history.Merge(append([][]history.Event{used}, append(sources, s.events)...)...)}
	s.judge(h)
}

// judge checks a history, and keeps one that breaks a promise.
func (s *scene) judge(h *history.History) {
	t := s.t
	report := history.Check(h)
	t.Logf("%s, seed %d: %d acquisitions, %d extensions, %d lost, faults %v", s.kind, s.seed, report.Acquired,
		report.Extended, report.Gone, report.Faults)
	if len(report.Overlaps) > 0 || len(report.Violations) > 0 {
		path := filepath.Join(os.TempDir(), fmt.Sprintf("fenlock-slots-%s-%d.jsonl", s.kind, s.seed))
		t.Errorf("%d overlaps, violations %v (%s, %v)", len(report.Overlaps), report.Violations, path, h.Write(path))
	}
	if report.Acquired == 0 || report.Extended == 0 {
		t.Errorf("%d acquisitions, %d extensions: this tests nothing", report.Acquired, report.Extended)
	}
}
