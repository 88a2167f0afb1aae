package tests

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/valkeynode"
	"github.com/fenlock/fenlock/tests/faults/wallclock"
)

// diagnosis is what "fenlock doctor --json" says.
type diagnosis struct {
	Usable int `json:"usable"`
	Nodes  []struct {
		Node, State, Why string
	} `json:"nodes"`
	Status   int `json:"exit_status"`
	Findings []struct {
		Check, Severity, Reason, Advice string
		Nodes                           []string
	} `json:"findings"`
}

// diagnose runs the doctor on the nodes at URLs.
func diagnose(t *testing.T, fenlock string, urls []string, args ...string) (d diagnosis) {
	t.Helper()
	cmd := exec.Command(fenlock, append([]string{"doctor", "--json"}, args...)...)
	cmd.Env = append(os.Environ(), "FENLOCK_NODES="+strings.Join(urls, ","))
	text, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil || cmd.ProcessState.ExitCode() != d.Status {
		t.Fatalf("%v, %v: %s", err, cmd.ProcessState, text)
	}
	return d
}

// says checks that there is a finding about exactly these nodes, with a text in its reason
// or its advice.
func (d diagnosis) says(t *testing.T, severity, check, text string, nodes ...string) {
	t.Helper()
	for _, f := range d.Findings {
		if f.Check == check && f.Severity == severity && slices.Equal(f.Nodes, nodes) &&
			strings.Contains(f.Reason+" "+f.Advice, text) {
			return
		}
	}
	t.Errorf("there is no %s %q about %v with %q in %+v", severity, check, nodes, text, d.Findings)
}

// Five servers, and something else is wrong with each. All of it is found at once, in words that
// lead to the mend, and no server is changed.
func TestDoctorInAnOutage(t *testing.T) {
	clock := wallclock.New(t, wallclock.Build(t))
	fenlock := testserver.Fenlock(t)
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		servers := append(testserver.Group(t, kind, 4), testserver.StartWith(t, kind, clock.Environment))
		names := urls(servers)
		for _, s := range servers {
			s.MarkAdmitted(valkeynode.DefaultPrefix, 30*time.Second)
		}
		elsewhere, hung, locked, evicting := servers[0], servers[1], servers[2], servers[3]
		elsewhere.Do("HSET", testserver.RegistersKey(valkeynode.DefaultPrefix), "members",
			elsewhere.Addr()+" 10.0.0.8:6379 10.0.0.9:6379")
		hung.Pause()
		locked.Do("CONFIG", "SET", "requirepass", "right-one")
		evicting.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
		evicting.Do("CONFIG", "SET", "maxmemory", "1gb")
		clock.Step(time.Hour - clock.Off())

		given := slices.Clone(names)
		given[2] = strings.Replace(names[2], "://", "://:wrong-one@", 1)
		d := diagnose(t, fenlock, given, "--for", "100ms")
		d.says(t, "error", "quorum", "1 of 5 nodes vote, and 3 are needed")
		d.says(t, "error", "members", "they overlap in "+elsewhere.Addr(), names[0])
		d.says(t, "warning", "hangs", "kill -CONT", names[1])
		d.says(t, "error", "password", "Correct the user and the password", names[2])
		d.says(t, "error", "eviction", "CONFIG SET maxmemory-policy noeviction", names[3])
		d.says(t, "warning", "clock-offset", "1h0m0s ahead", names[4])
		for i, state := range []string{"misconfigured", "down", "misconfigured", "misconfigured", "votes"} {
			if d.Nodes[i].Node != names[i] || d.Nodes[i].State != state {
				t.Errorf("%+v; want %s", d.Nodes[i], state)
			}
		}
		if d.Status != 2 || d.Usable != 1 {
			t.Errorf("status %d, %d usable", d.Status, d.Usable)
		}

		// Mended, as it is said, one after the other.
		elsewhere.Do("HDEL", testserver.RegistersKey(valkeynode.DefaultPrefix), "members")
		hung.Resume()
		evicting.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
		clock.Step(-clock.Off())
		given[2] = strings.Replace(names[2], "://", "://:right-one@", 1)
		d = diagnose(t, fenlock, given, "--for", "0s", "--ignore", "known-holes", "--ttl", "30s")
		if d.Status != 0 || d.Usable != 5 {
			t.Errorf("status %d, %d usable: %+v", d.Status, d.Usable, d)
		}
	})
}

// A clock that is moved while it is watched, a server that was started anew, and one that
// follows another.
func TestDoctorAfterRestarts(t *testing.T) {
	clock := wallclock.New(t, wallclock.Build(t))
	fenlock := testserver.Fenlock(t)
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		clock.Step(-clock.Off())
		servers := append(group(t, kind, 2), testserver.StartWith(t, kind, clock.Environment))
		servers[2].MarkAdmitted(valkeynode.DefaultPrefix, groupTTL)
		names := urls(servers)

		stop := make(chan struct{})
		stopped := make(chan struct{})
		go func() { // gains a second in a second
			defer close(stopped)
			for tick := time.NewTicker(10 * time.Millisecond); ; {
				select {
				case <-tick.C:
					clock.Step(10 * time.Millisecond)
				case <-stop:
					return
				}
			}
		}()
		d := diagnose(t, fenlock, names, "--for", "300ms", "--ttl", "1s")
		close(stop)
		<-stopped
		d.says(t, "error", "clock-rate", "within 1 %", names[2])
		clock.Step(-clock.Off())

		servers[0].Kill()
		servers[0].Restart()
		host, port, _ := strings.Cut(servers[2].Addr(), ":")
		servers[1].Do("REPLICAOF", host, port)
		d = diagnose(t, fenlock, names, "--for", "0s", "--ttl", "1s", "--max-ttl", "1m")
		d.says(t, "error", "replica", "Name the primary instead", names[1])
		d.says(t, "error", "max-ttl", "--max-ttl is 1m0s", names[2])
		if d.Usable != 0 || d.Status != 2 || d.Nodes[0].State != "out" ||
			!strings.Contains(d.Nodes[0].Why, "a short time ago") {
			t.Errorf("%+v", d)
		}
	})
}
