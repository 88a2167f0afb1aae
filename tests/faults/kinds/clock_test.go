//go:build linux

package kinds

import (
	"fmt"
	"testing"
	"time"

	"github.com/fenlock/fenlock/tests/faults/cluster"
)

func TestClocks(t *testing.T) {
	st := newStage(t, 1, cluster.Off)
	m := st.c.Members[0]
	lasting := func() string {
		return st.ask("PTTL", "lease")
	}
	shortest, longest := year, time.Duration(0)
	for seed := range uint64(10) {
		st.ask("SET", "lease", "1", "PX", "1000")
		st.noted = nil
		heal := st.inject("clock forward", 0, seed)
		shortest, longest = min(shortest, m.Clock.Off()), max(longest, m.Clock.Off())
		if left := lasting(); m.Clock.Off() < time.Second || left != "-2" {
			t.Errorf("a step of %v: the lease has %s ms left", m.Clock.Off(), left)
		}
		// What was leased until next year ends today.
		st.ask("SET", "lease", "1", "PX", "1000")
		st.ask("ZADD", cluster.QueuePrefix+"lease", "1", "x")
		st.ask("PEXPIRE", cluster.QueuePrefix+"lease", "15000")
		heal()
		if left := lasting(); len(left) > 4 {
			t.Errorf("put back: the lease has %s ms left", left)
		}
		if left := st.ask("PTTL", cluster.QueuePrefix+"lease"); len(left) != 5 || left > "15000" {
			t.Errorf("put back: the line has %s ms left", left)
		}
		want := []string{"clock forward 0 " + sameRate, "clock forward 0 "}
		if fmt.Sprint(st.noted) != fmt.Sprint(want) {
			t.Errorf("noted %q, want %q", st.noted, want)
		}

		st.ask("SET", "lease", "1", "PX", "1000")
		st.noted = nil
		heal = st.inject("clock back", 0, seed)
		if left := lasting(); m.Clock.Off() > -time.Second || len(left) < 4 {
			t.Errorf("a step of %v: the lease has %s ms left", m.Clock.Off(), left)
		}
		// What is leased meanwhile ends when the clock is put forward.
		st.ask("SET", "new", "1", "PX", "1000")
		heal()
		if got := st.ask("GET", "new"); got != "(nil)" {
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
