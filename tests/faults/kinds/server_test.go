//go:build linux

package kinds

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver/probe"
	"github.com/fenlock/fenlock/tests/faults/cluster"
	"github.com/fenlock/fenlock/tests/faults/draw"
)

func TestNetworkKinds(t *testing.T) {
	st := newStage(t, 1, cluster.Off)
	count := func(want string) {
		t.Helper()
		if got := st.ask("GET", "n"); got != want {
			t.Errorf("executed %s times, want %s", got, want)
		}
	}
	// begins starts over: a connection, and a count of what was executed.
	begins := func(name string, seed uint64) (w *probe.Wire, heal func()) {
		t.Helper()
		w = st.dial(0, 0)
		w.Answers("SET n 0", "+OK")
		return w, st.inject(name, 0, seed)
	}

	seed := st.seedFor(func(rng *rand.Rand) bool {
		return draw.LogUniform(rng, time.Millisecond, 50*time.Millisecond) > 40*time.Millisecond
	})
	w, heal := begins("slow", seed)
	begin := time.Now()
	w.Answers("INCR n", ":1")
	if took := time.Since(begin); took < 40*time.Millisecond {
		t.Errorf("slow: took %v", took)
	}
	heal()

	w, heal = begins("cut", 1)
	w.Dead()
	st.refused()
	heal()

	w, heal = begins("half-open", 1)
	silent := st.dial(0, 0)
	w.Silent("INCR n")
	silent.Silent("INCR n")
	count("0")
	heal()
	w.Dead()

	idle := st.dial(0, 0)
	idle.Answers("PING", "+PONG")

	// A connection that lost nothing goes on.
	w, heal = begins("requests lost", 1)
	w.Silent("INCR n")
	count("0")
	heal()
	w.Dead()
	idle.Answers("PING", "+PONG")
	count("0")

	w, heal = begins("replies lost", 1)
	w.Silent("INCR n")
	w.Silent("INCR n")
	count("2")
	heal()
	w.Dead()

	w, heal = begins("late requests", 1)
	w.Silent("INCR n")
	count("0")
	heal()
	w.Receives(":1")
	w.Answers("INCR n", ":2")

	w, heal = begins("late replies", 1)
	w.Silent("INCR n")
	count("1")
	w.Silent("INCR n")
	heal()
	w.Receives(":1", ":2")
}

func TestPartition(t *testing.T) {
	st := newStage(t, 3, cluster.Off)
	halves := map[int]bool{}
	for seed := range uint64(6) {
		heal := st.inject("partition", 0, seed)
		var cut [2]int
		for client := range 4 {
			for node := range 3 {
				if _, err := st.dial(node, client).Say(probe.Silence, "PING"); err != nil {
					cut[client%2]++
				}
			}
		}
		if max(cut[0], cut[1]) != 4 || min(cut[0], cut[1]) != 0 {
			t.Errorf("the halves lack %v servers, want two for each of two clients", cut)
		}
		halves[cut[0]] = true
		heal()
		for node := range 3 {
			st.dial(node, 0).Answers("PING", "+PONG")
			st.dial(node, 1).Answers("PING", "+PONG")
		}
	}
	if len(halves) != 2 {
		t.Error("it is always the same half")
	}
}

func TestMemoryKinds(t *testing.T) {
	st := newStage(t, 1, cluster.Always)
	sha := strings.Trim(st.ask("SCRIPT", "LOAD", "return 'hello'"), "\"")
	w := st.dial(0, 0)
	w.Answers("EVALSHA "+sha+" 0", "$5")
	w.Receives("hello")
	st.inject("script flush", 0, 1)()
	w.Answers("EVALSHA "+sha+" 0", "-NOSCRIPT")

	w.Answers("SET key value", "+OK")
	st.inject("flush", 0, 1)()
	w.Answers("EXISTS key "+cluster.RegistersKey, ":0")

	for draw, policy := range []string{"allkeys-random", "volatile-random"} {
		st.noted = nil
		w.Answers("HSET "+cluster.RegistersKey+" 7 9", ":")
		w.Answers("SET fenlock:a holder PX 60000", "+OK")
		seed := st.seedFor(func(rng *rand.Rand) bool { return rng.IntN(2) == draw })
		heal := st.inject("evict", 0, seed)
		w.Answers("SET fenlock:b holder PX 60000", "-OOM")
		if got := st.ask("CONFIG", "GET", "maxmemory-policy"); got != "[maxmemory-policy "+policy+"]" {
			t.Errorf("%s, want %s", got, policy)
		}
		heal()
		w.Answers("EXISTS fenlock:a", ":0")
		w.Answers("EXISTS "+cluster.RegistersKey, map[string]string{"allkeys-random": ":0", "volatile-random": ":1"}[policy])
		if len(st.noted) != 1 || st.noted[0] != "evict 0 "+noEviction {
			t.Errorf("noted %q", st.noted)
		}
	}
}

func TestRefusalKinds(t *testing.T) {
	for _, p := range []cluster.Persistence{cluster.Always, cluster.Off} {
		t.Run(string(p), func(t *testing.T) {
			st := newStage(t, 1, p)
			w := st.dial(0, 0)
			for name, refusal := range map[string]string{"oom": "-OOM", "readonly": "-READONLY", "misconf": "-MISCONF"} {
				for range 2 { // misconf: a snapshot that has failed before
					w.Answers("SET key value", "+OK")
					heal := st.inject(name, 0, 1)
					w.Answers("SET key other", refusal)
					heal()
					w.Answers("GET key", "$5")
					w.Receives("value")
					w.Answers("SET key value", "+OK")
				}
			}
			// A server that is killed meanwhile comes back in its normal state.
			heal := st.inject("misconf", 0, 1)
			st.inject("kill", 0, 1)()
			heal()
		})
	}
}

func TestClientPause(t *testing.T) {
	st := newStage(t, 1, cluster.Off)
	w := st.dial(0, 0)
	s := st.scene(0, 1)
	s.TTL = time.Second
	heal, err := All[Index(All, "client pause")].Inject(s)
	if err != nil {
		t.Fatal(err)
	}
	w.Silent("PING")
	if err := heal(); err != nil {
		t.Fatal(err)
	}
	w.Receives("+PONG")
	st.normal(0)
	// A clock that is put back would prolong it.
	back := st.inject("clock forward", 0, 1)
	if _, err := All[Index(All, "client pause")].Inject(s); !errors.Is(err, cluster.ErrNotNow) {
		t.Errorf("a pause by a clock that is set: %v", err)
	}
	back()
	st.normal(0)
}

// Each of the four variants takes something else away.
func TestACL(t *testing.T) {
	st := newStage(t, 1, cluster.Off)
	sha := st.ask("SCRIPT", "LOAD", "return 1")
	for draw, denied := range []string{"PING, SET, EVALSHA, PUBLISH", "SET", "EVALSHA", "PUBLISH"} {
		seed := st.seedFor(func(rng *rand.Rand) bool { return rng.IntN(4) == draw })
		w := st.dial(0, 0)
		heal := st.inject("acl", 0, seed)
		for _, line := range []string{"PING", "SET key value", "EVALSHA " + sha + " 0", "PUBLISH fenlock-wake:1 x"} {
			want := map[bool]string{false: "", true: "-NOPERM"}
			command, _, _ := strings.Cut(line, " ")
			reply, err := w.Say(probe.Patience, line)
			if refused := strings.Contains(denied, command); err != nil || !strings.HasPrefix(reply, want[refused]) ||
				!refused && reply[0] == '-' {
				t.Errorf("%s with %s denied: %q, %v", line, denied, reply, err)
			}
		}
		heal()
	}
}
