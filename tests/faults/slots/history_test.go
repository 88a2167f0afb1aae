//go:build linux && campaign

package slots

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
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
	ttl     = time.Second
	clients = 4
	faults  = 3 // of a history
)

func TestMain(m *testing.M) {
	worker.Main()
	os.Exit(m.Run())
}

// number is a number that the environment may set: of histories for each kind of server
// (SLOTS_HISTORIES), and the seed with which they begin (SLOTS_SEED).
func number(variable string, usual int) int {
	n, err := strconv.Atoi(os.Getenv(variable))
	if err != nil {
		return usual
	}
	return n
}

// each makes histories on both kinds of servers.
func each(t *testing.T, play func(t *testing.T, kind testserver.Kind, seed int)) {
	seed := number("SLOTS_SEED", 1)
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		for i := range number("SLOTS_HISTORIES", 2) {
			t.Run(fmt.Sprint(seed+i), func(t *testing.T) { play(t, kind, seed+i) })
		}
	})
}

// made is one history that is being made.
type made struct {
	t      *testing.T
	seed   uint64
	rng    *rand.Rand
	server string // what the history says that it is

	mu     sync.Mutex
	events []history.Event
}

func newMade(t *testing.T, server string, seed int) *made {
	return &made{t: t, seed: uint64(seed), rng: rand.New(rand.NewPCG(uint64(seed), 36)), server: server}
}

// fault notes that a fault strikes, or is healed.
func (s *made) fault(kind history.Kind, name string) {
	s.note(history.Event{Kind: kind, Fault: name, Node: 1})
}

func (s *made) note(e history.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.At = int64(clock.Now())
	s.events = append(s.events, e)
}

// settle waits until a fault has done what it does: the server that serves the locks has been the
// same for a while.
func (s *made) settle(now func() *testserver.Server) {
	s.t.Helper()
	var last *testserver.Server
	since := time.Now()
	s.until(func() error {
		if server := now(); server != last {
			last, since = server, time.Now()
		}
		if time.Since(since) < 2*time.Second {
			return errors.New("it may still be another one")
		}
		return nil
	})
}

// admitted waits until that server votes.
func (s *made) admitted(now func() *testserver.Server, prefix string) {
	s.t.Helper()
	s.until(func() error {
		server := now()
		if !server.IsAdmitted(prefix) {
			return fmt.Errorf("%s does not vote; its registers: %s", server.Addr(),
				server.Do("HGETALL", testserver.RegistersKey(prefix)))
		}
		return nil
	})
}

// until waits until there is no error. The bound is for what hangs.
func (s *made) until(try func() error) {
	s.t.Helper()
	var err error
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	s.t.Fatalf("never: %v", err)
}

// upTo returns a random time.
func (s *made) upTo(most time.Duration) time.Duration {
	return time.Duration(s.rng.Int64N(int64(most)))
}

// play has clients use locks at the URL of their place, while faults strike, and checks what
// happened. Strike has a fault strike, and returns when it is healed and the node votes again.
func (s *made) play(url func(place int) string, strike func()) {
	t, names := s.t, []string{"red", "green"}
	r := resource.New(true)
	defer r.Close()
	group, err := worker.Start(t.TempDir(), clients, worker.Config{
		Config: library.Config{Library: library.Fenlock, TTL: ttl, MaxTTL: ttl, NodeTimeout: ttl / 4},
		Locks:  library.Exclusive, Names: names, Resource: r.URL(), Seed: s.seed, Reckless: true, Life: 10 * time.Minute,
		Shortest: time.Millisecond, Longest: 2 * ttl, Watched: true,
	}, func(place int) []string { return []string{url(place)} })
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
		time.Sleep(s.upTo(time.Second))
		strike()
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
	s.judge(&history.History{Header: history.Header{
		Seed: s.seed, Library: library.Fenlock, Server: s.server,
		Nodes: 1, Clients: clients, Names: names, TTL: ttl, MaxTTL: ttl, Watched: true},
		Events: history.Merge(append([][]history.Event{used}, append(sources, s.events)...)...)})
}

// judge checks a history, and keeps one that breaks a promise.
func (s *made) judge(h *history.History) {
	t := s.t
	report := history.Check(h)
	t.Logf("%s, seed %d: %d acquisitions, %d extensions, %d lost, faults %v", s.server, s.seed, report.Acquired,
		report.Extended, report.Gone, report.Faults)
	if len(report.Overlaps) > 0 || len(report.Violations) > 0 {
		path := filepath.Join(os.TempDir(), fmt.Sprintf("fenlock-%s-%d.jsonl", filepath.Base(t.Name()), s.seed))
		t.Errorf("%d overlaps, violations %v (%s, %v)", len(report.Overlaps), report.Violations, path, h.Write(path))
	}
	if report.Acquired == 0 || report.Extended == 0 {
		t.Errorf("%d acquisitions, %d extensions: this tests nothing", report.Acquired, report.Extended)
	}
}
