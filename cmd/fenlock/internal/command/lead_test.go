//go:build linux || darwin || freebsd

package command

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fenlock/fenlock/internal/testserver"
)

// leading are arguments of fenlock: it prints its term when it leads, and goes on until its
// standard input ends.
func leading(flags ...string) []string {
	args := append(append([]string{}, short...), "--lead")
	return append(append(args, flags...), "x", "--", "sh", "-c", "echo $FENLOCK_TOKEN; read x; echo done; exit 3")
}

// term reads the term of one that leads.
func (r *running) term() int64 {
	r.t.Helper()
	line := r.line()
	term, err := strconv.ParseInt(line, 10, 64)
	if err != nil {
		r.t.Fatalf("printed %q instead of a term", line)
	}
	return term
}

func TestTheLeaderIsKilled(t *testing.T) {
	t.Parallel()
	h, _ := group(t, shortTTL)
	first := h.start(leading()...)
	term := first.term()
	second := h.start(leading()...)
	first.signal(syscall.SIGKILL)
	if next := second.term(); next <= term {
		t.Errorf("the term %d follows %d", next, term)
	}
	if out := first.rest(); out != "" {
		t.Errorf("the first one printed %q", out)
	}
	first.want(-1, `leading "x", with term `)
	// A command that ends by itself is not started again.
	second.stdin.Close()
	if out := second.rest(); out != "done\n" {
		t.Errorf("the second one printed %q", out)
	}
	second.want(3, `leading "x", with term `)
	if said := second.stderr.String(); strings.Contains(said, "in the election again") {
		t.Errorf("it said:\n%s", said)
	}
}

func TestALeaderStandsAgain(t *testing.T) {
	for _, test := range []struct {
		name       string
		stop, goOn func(s *testserver.Server)
	}{
		{"servers hang", (*testserver.Server).Pause, (*testserver.Server).Resume},
		{"servers restart", (*testserver.Server).Kill, func(s *testserver.Server) { s.Restart() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h, servers := group(t, shortTTL)
			r := h.start(append([]string{"sh", "-c", `exec "$@" 2>&1`, "sh"}, leading()...)...)
			var said strings.Builder
			next := func() int64 {
				for {
					line := r.line()
					if term, err := strconv.ParseInt(line, 10, 64); err == nil {
						return term
					}
					said.WriteString(line + "\n")
				}
			}
			const again = "no longer the leader, and in the election again: the lock on \"x\" could not be kept: " +
				"the command was stopped\n"
			term := next()
			for range 2 {
				before := strings.Count(said.String(), again)
				test.stop(servers[0])
				test.stop(servers[2])
				for strings.Count(said.String(), again) == before {
					said.WriteString(r.line() + "\n")
				}
				test.goOn(servers[0])
				test.goOn(servers[2])
				after := next()
				if after <= term {
					t.Errorf("the term %d follows %d", after, term)
				}
				term = after
			}
			r.stdin.Close()
			r.want(3)
			said.WriteString(r.rest())
			all := said.String()
			// On a busy machine it may be lost more often.
			lost := strings.Count(all, again)
			if lost < 2 || strings.Count(all, `leading "x", with term `) != lost+1 ||
				strings.Count(all, `stopping the command (SIGTERM): the lock on "x" `) != lost ||
				strings.Count(all, `the lock on "x" cannot be extended`) < 2 {
				t.Errorf("lost %d times, said:\n%s", lost, all)
			}
		})
	}
}

// A leader that is asked to end does not re-enter the election, whatever becomes of the lock
// meanwhile; what is for the command only does not end the wait.
func TestALeaderIsAskedToEnd(t *testing.T) {
	t.Parallel()
	h, servers := group(t, shortTTL)
	r := h.start(append(short, "--lead", "x", "--", "sh", "-c",
		`trap "" TERM; echo; for i in 1 2 3 4 5 6 7 8 9; do sleep 1; done; echo survived`)...)
	r.line()
	r.signal(syscall.SIGTERM)
	servers[0].Kill()
	servers[1].Kill()
	r.want(76, "could not be kept: the command was stopped")
	if said := r.stderr.String(); strings.Contains(said, "in the election again") {
		t.Errorf("it said:\n%s", said)
	}

	alone := newHome(t)
	leader := alone.start("fenlock", "run", "--lead", "y", "--", "sh", "-c", "echo; read x; exit 0")
	leader.line()
	waiting := func() *running {
		r := alone.start(
			"sh", "-c", `exec fenlock run --verbose --lead y -- sh -c 'trap "" USR1 WINCH; echo $FENLOCK_NAME' 2>&1`)
		r.until("waiting: ")
		return r
	}
	stands, ends := waiting(), waiting()
	ends.signal(syscall.SIGTERM)
	ends.want(143)
	stands.signal(syscall.SIGUSR1)
	stands.signal(syscall.SIGWINCH)
	leader.stdin.Close()
	leader.want(0)
	if out := stands.rest(); !strings.Contains(out, "\ny\n") {
		t.Errorf("it printed:\n%s", out)
	}
	stands.want(0)
}

func TestLeadExcludes(t *testing.T) {
	h := newHome(t, "FENLOCK_LEAD=true")
	for flag, said := range map[string]string{
		"--no-wait": "--no-wait", "--wait=1s": "--wait", "--max-hold=1h": "--max-hold", "--at-least=1s": "--at-least",
	} {
		h.start("fenlock", "run", "--lead", flag, "x", "--", "true").want(64, "it and "+said+" exclude each other")
		// What is said on the command line is stronger than the variable.
		h.start("fenlock", "run", flag, "x"+said, "--", "true").want(0) // a name of its own: one is kept for a second
	}
	h.env = append(h.env, "FENLOCK_MAX_HOLD=1h")
	h.start("fenlock", "run", "x", "--", "true").want(64,
		"FENLOCK_LEAD has no limit of time: it and FENLOCK_MAX_HOLD exclude each other")
	h.start("fenlock", "run", "--lead", "x", "--", "true").want(0, `leading "x", with term `)
	r := h.start("fenlock", "run", "--lead=false", "--verbose", "x", "--", "true")
	r.want(0, `"x" is taken`)
	// It would wait for itself.
	h.start("fenlock", "run", "--lead", "x", "--", "fenlock", "run", "--lead", "x", "--", "true").want(64,
		"to wait would be to wait for ever")
}
