//go:build linux || darwin || freebsd

package watchdog

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestDecide(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, test := range []struct {
		name  string
		o     outlook
		do    Step
		again time.Duration
	}{
		{"just taken", outlook{left: 9900 * ms}, Leave, 500 * ms},
		{"an extension is due", outlook{left: 6 * s}, Leave, 500 * ms},
		{"close to a third", outlook{left: 3400 * ms}, Leave, 3400*ms - 10*s/3},
		{"one nanosecond above a third", outlook{left: 10*s/3 + 1}, Leave, 1},
		{"a third", outlook{left: 10 * s / 3}, Terminate, 500 * ms},
		{"close to a tenth", outlook{left: 1100 * ms}, Terminate, 100 * ms},
		{"a tenth, and nothing was sent", outlook{left: s}, Kill, 500 * ms},
		{"paused until after the end", outlook{left: -time.Hour}, Kill, 500 * ms},
		{"stopping", outlook{left: 2 * s, stopping: true, since: s}, Leave, 500 * ms},
		{"stopping, close to a tenth", outlook{left: s + 1, stopping: true, since: 2 * s}, Leave, 1},
		{"stopping, a tenth", outlook{left: s, stopping: true, since: 2 * s}, Kill, 500 * ms},
		{"taken away", outlook{left: 6 * s, gone: true}, Terminate, 500 * ms},
		{"taken away late", outlook{left: 1200 * ms, gone: true}, Terminate, 200 * ms},
		{"taken away at a tenth", outlook{left: s, gone: true}, Kill, 500 * ms},
		{"taken away, in the grace", outlook{left: 5 * s, gone: true, stopping: true, since: 700 * ms}, Leave, 300 * ms},
		{"taken away, after the grace", outlook{left: 5 * s, gone: true, stopping: true, since: s}, Kill, 500 * ms},
		{"taken away while stopping", outlook{left: 2 * s, gone: true, stopping: true, since: 100 * ms}, Leave, 500 * ms},
	} {
		test.o.ttl = 10 * s
		do, again := decide(test.o)
		if do != test.do || again != test.again {
			t.Errorf("%s: %d after %v, want %d after %v", test.name, do, again, test.do, test.again)
		}
	}
	if _, again := decide(outlook{ttl: time.Hour, left: time.Hour}); again != s {
		t.Errorf("a long lease is looked at after %v: a suspended machine would be noticed late", again)
	}
}

// However the looks fall, if a lock is not extended any more, the command is asked before it is
// killed. It is killed before the validity is over.
func TestDecideCountsBack(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		below := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
		ttl := below(time.Hour)
		ttl = max(ttl, 100*time.Millisecond).Truncate(time.Millisecond)
		// The start of the command may come late, but not later than freshen
		// lets it.
		o := outlook{ttl: ttl, left: ttl/TermShare + 1 + below(ttl/2)}
		goneAt := below(2 * ttl) // before now: o.left; beyond: never
		var killed bool
		for range 100_000 {
			o.gone = o.left < goneAt
			do, again := decide(o)
			if again <= 0 {
				t.Fatalf("seed %d: %+v: look again after %v", seed, o, again)
			}
			if do == Terminate && o.stopping {
				t.Fatalf("seed %d: %+v: asked twice", seed, o)
			}
			if do == Kill {
				killed = true
				break
			}
			o.stopping = o.stopping || do == Terminate
			// A signal or a SIGCHLD can come earlier than the timer.
			pass := min(again, 1+below(again*2))
			o.left -= pass
			if o.stopping {
				o.since += pass
			}
		}
		if !killed || !o.stopping || o.left <= 0 || o.left > ttl {
			t.Fatalf("seed %d: killed %v, with %+v", seed, killed, o)
		}
	}
}
