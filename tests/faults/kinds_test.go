//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// Every kind can begin and be healed with every persistence, whatever it draws, and
// leaves a normal server and no trace of itself. stage.inject checks that.
func TestKinds(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		for _, p := range []persistence{always, everysec, off} {
			st := &stage{t: t, c: newCluster(t, kind, 1, p, 1), crew: &standIns{n: 2}}
			for _, k := range kinds {
				for seed := range uint64(2) {
					st.inject(k.name, 0, seed)()
				}
			}
			if t.Failed() {
				t.Fatalf("persistence %s", p)
			}
		}
	})
}

// Kinds that overlap on one server do not keep each other from being healed.
func TestKindsOverlap(t *testing.T) {
	st := newStage(t, 1, everysec)
	rng := rand.New(rand.NewPCG(1, 1))
	begun := 0
	for i := range 40 {
		var names []string
		var heals sync.WaitGroup
		for range 3 {
			k := kinds[rng.IntN(len(kinds))]
			names = append(names, k.name)
			scene := st.scene(0, rng.Uint64())
			scene.note = func(string, int, string) {}
			heal, err := k.inject(scene)
			if errors.Is(err, errNotNow) {
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", strings.Join(names, ", "), err)
			}
			begun++
			wait := time.Duration(rng.Int64N(int64(50 * time.Millisecond)))
			heals.Go(func() {
				time.Sleep(wait)
				if err := heal(); err != nil {
					t.Errorf("%s: healing %s: %v", strings.Join(names, ", "), k.name, err)
				}
			})
		}
		heals.Wait()
		st.normal(0)
		if t.Failed() {
			t.Fatalf("round %d: %s", i, strings.Join(names, ", "))
		}
	}
	// What finds the server down cannot begin.
	if begun < 60 {
		t.Errorf("only %d of 120 faults could begin", begun)
	}
}

// Kinds that are said to forget keep their server from voting until a client has
// admitted it again, and no others do. A clock is not said to: it steps by itself.
func TestForgets(t *testing.T) {
	st := newStage(t, 5, off)
	urls := st.c.urls()
	config := fenlock.Config{TTL: groupTTL, MaxTTL: groupTTL, NodeTimeout: groupTTL / 4}
	for _, url := range urls {
		node, err := valkeynode.Open(url)
		if err != nil {
			t.Fatal(err)
		}
		config.Nodes = append(config.Nodes, node)
	}
	locker, err := fenlock.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer locker.Close()
	cycle := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), patientTimeout)
		defer cancel()
		return locker.Do(ctx, "forgets", func(context.Context, fence.Token) error { return nil })
	}
	if err := cycle(); err != nil {
		t.Fatal(err)
	}
	node := 0
	for _, k := range kinds {
		seed := uint64(1)
		if k.name == "evict" {
			seed = st.seedFor("evict", func(rng *rand.Rand) bool { return rng.IntN(2) == 0 }) // all keys
		}
		st.inject(k.name, node, seed)()
		if got := st.c.admitted(node); got == k.forgets {
			t.Errorf("%s: admitted %v, forgets %v", k.name, got, k.forgets)
		}
		if k.forgets {
			node++ // two at a time
		}
		for end := time.Now().Add(healTimeout); node%2 == 0 && node > 0; time.Sleep(pollInterval) {
			if err := cycle(); err != nil && !errors.Is(err, fenlock.ErrLost) {
				t.Fatalf("after %s: %v", k.name, err)
			}
			if st.c.admitted(node-1) && st.c.admitted(node-2) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s: not admitted within %v", k.name, healTimeout)
			}
		}
		node %= 4
	}
}

// seedFor returns a seed with which a kind draws what a test is about.
func (st *stage) seedFor(name string, suits func(rng *rand.Rand) bool) uint64 {
	for seed := range uint64(1000) {
		if suits(st.scene(0, seed).rng) {
			return seed
		}
	}
	st.t.Fatalf("no seed suits %s", name)
	return 0
}

func TestKill(t *testing.T) {
	for _, p := range []persistence{always, off} {
		t.Run(string(p), func(t *testing.T) {
			st := newStage(t, 1, p)
			st.server(0, "SET", "key", "value")
			w := st.dial(0, 0)
			w.answers(t, "PING", "+PONG")
			pid := st.c.members[0].current().Pid()
			heal := st.inject("kill", 0, 1)
			w.dead(t)
			refused(t, st.addr(0, 0))
			heal()
			want := map[persistence]string{always: "value", off: "(nil)"}[p]
			if got := st.server(0, "GET", "key"); got != want || st.c.members[0].current().Pid() == pid {
				t.Errorf("got %q, want %q, in another process", got, want)
			}
		})
	}
}

func TestWipe(t *testing.T) {
	st := newStage(t, 1, always)
	st.server(0, "SET", "key", "value")
	heal := st.inject("wipe", 0, 1)
	refused(t, st.addr(0, 0))
	heal()
	if got := st.server(0, "EXISTS", "key", registersKey); got != "0" {
		t.Errorf("%s keys are left after a wipe", got)
	}
}

func TestPromote(t *testing.T) {
	st := newStage(t, 1, off)
	before := st.c.members[0].current()
	url, id := st.c.urls()[0], field(st.server(0, "INFO", "replication"), "master_replid")
	st.server(0, "SET", "key", "value")
	w := st.dial(0, 0)
	w.answers(t, "PING", "+PONG")
	heal := st.inject("promote", 0, 1)
	w.dead(t)
	heal()
	if before.Pid() != 0 || st.c.members[0].current() == before || st.c.urls()[0] != url {
		t.Error("the server is not another one at the same address")
	}
	if got := st.server(0, "GET", "key"); got != "value" {
		t.Errorf("the replica has %q", got)
	}
	if field(st.server(0, "INFO", "replication"), "master_replid") == id {
		t.Error("its replication history is the old one's")
	}
	// It can be killed, like any other, and its clock is the one that the fault steps.
	st.inject("clock forward", 0, 1)()
	st.inject("kill", 0, 1)()
	if err := st.c.members[0].checkClock(); err != nil {
		t.Error(err)
	}
}

func TestStopServer(t *testing.T) {
	st := newStage(t, 1, off)
	w := st.dial(0, 0)
	heal := st.inject("stop server", 0, 1)
	w.silent(t, "PING")
	// A second fault of the kind ends it only together with the first.
	m := st.c.members[0]
	if err := m.freeze(); err != nil {
		t.Fatal(err)
	}
	if err := m.thaw(); err != nil {
		t.Fatal(err)
	}
	w.silent(t, "PING")
	heal()
	for range 2 {
		if reply, err := w.hear(patientTimeout); reply != "+PONG" {
			t.Errorf("%q, %v", reply, err)
		}
	}

	// One that was restarted since it was stopped can be stopped.
	if err := m.freeze(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(m.kill(false), m.restart()); err != nil {
		t.Fatal(err)
	}
	w = st.dial(0, 0)
	w.answers(t, "PING", "+PONG")
	heal = st.inject("stop server", 0, 2)
	w.silent(t, "PING")
	if err := m.thaw(); err != nil {
		t.Fatal(err)
	}
	heal()
}

func TestStarve(t *testing.T) {
	st := newStage(t, 1, off)
	heal := st.inject("starve", 0, 1)
	m := st.c.members[0]
	stands, runs := 0, 0
	for end := time.Now().Add(patientTimeout); (stands == 0 || runs == 0) && time.Now().Before(end); time.Sleep(time.Millisecond) {
		m.mu.Lock()
		if m.frozen > 0 {
			stands++
		} else {
			runs++
		}
		m.mu.Unlock()
	}
	if stands == 0 || runs == 0 {
		t.Errorf("seen standing %d times, running %d times", stands, runs)
	}
	st.dial(0, 0).answers(t, "PING", "+PONG")
	heal()
	st.inject("starve", 0, 1)() // while it stands
}

func TestClients(t *testing.T) {
	st := newStage(t, 1, off)
	heal := st.inject("pause client", 0, 1)
	if st.crew.paused != 1 {
		t.Errorf("%d clients are paused", st.crew.paused)
	}
	heal()
	st.inject("kill client", 0, 1)()
	if st.crew.paused != 0 || st.crew.killed != 1 {
		t.Errorf("%d clients are paused, %d killed", st.crew.paused, st.crew.killed)
	}
	st.crew.n = 0
	for _, name := range []string{"pause client", "kill client"} {
		if _, err := kindNamed(t, name).inject(st.scene(0, 1)); !errors.Is(err, errNotNow) {
			t.Errorf("%s without clients: %v", name, err)
		}
	}
}

func TestClocks(t *testing.T) {
	st := newStage(t, 1, off)
	m := st.c.members[0]
	lasting := func() string {
		return st.server(0, "PTTL", "lease")
	}
	shortest, longest := year, time.Duration(0)
	for seed := range uint64(10) {
		st.server(0, "SET", "lease", "1", "PX", "1000")
		st.noted = nil
		heal := st.inject("clock forward", 0, seed)
		shortest, longest = min(shortest, m.clock.off()), max(longest, m.clock.off())
		if left := lasting(); m.clock.off() < time.Second || left != "-2" {
			t.Errorf("a step of %v: the lease has %s ms left", m.clock.off(), left)
		}
		// What was leased until next year ends today.
		st.server(0, "SET", "lease", "1", "PX", "1000")
		st.server(0, "ZADD", linePrefix+"lease", "1", "x")
		st.server(0, "PEXPIRE", linePrefix+"lease", "15000")
		heal()
		if left := lasting(); len(left) > 4 {
			t.Errorf("put back: the lease has %s ms left", left)
		}
		if left := st.server(0, "PTTL", linePrefix+"lease"); len(left) != 5 || left > "15000" {
			t.Errorf("put back: the line has %s ms left", left)
		}
		want := []string{"clock forward 0 " + sameRate, "clock forward 0 "}
		if fmt.Sprint(st.noted) != fmt.Sprint(want) {
			t.Errorf("noted %q, want %q", st.noted, want)
		}

		st.server(0, "SET", "lease", "1", "PX", "1000")
		st.noted = nil
		heal = st.inject("clock back", 0, seed)
		if left := lasting(); m.clock.off() > -time.Second || len(left) < 4 {
			t.Errorf("a step of %v: the lease has %s ms left", m.clock.off(), left)
		}
		// What is leased meanwhile ends when the clock is put forward.
		st.server(0, "SET", "new", "1", "PX", "1000")
		heal()
		if got := st.server(0, "GET", "new"); got != "(nil)" {
			t.Errorf("put forward: the lease is still there")
		}
		want = []string{"clock back 0 " + sameRate, "clock back 0 " + sameRate}
		if fmt.Sprint(st.noted) != fmt.Sprint(want) {
			t.Errorf("noted %q, want %q", st.noted, want)
		}
	}
	if shortest > time.Hour || longest < 24*time.Hour {
		t.Errorf("ten steps are from %v to %v", shortest, longest)
	}
}
