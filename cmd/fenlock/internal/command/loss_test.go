//go:build linux || darwin || freebsd

package command

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

// group starts three servers that were admitted for a MaxTTL, and a home that uses them.
func group(t *testing.T, maxTTL time.Duration) (*home, []*testserver.Server) {
	t.Helper()
	servers := testserver.Group(t, testserver.Kinds(t)[0], 3)
	var urls []string
	for _, s := range servers {
		s.MarkAdmitted("fenlock:", maxTTL)
		urls = append(urls, s.URL())
	}
	return newHome(t, "FENLOCK_NODES="+strings.Join(urls, ",")), servers
}

// All clients of a test's group use these: a server that was just started is
// refused for MaxTTL.
var short = []string{"fenlock", "run", "--ttl", shortTTL.String(), "--max-ttl", shortTTL.String()}

const shortTTL = 2 * time.Second

// patient is used instead where a pause of a busy machine must not look like what the test is
// about.
var patient = []string{"fenlock", "run", "--ttl", patientTTL.String(), "--max-ttl", patientTTL.String()}

const patientTTL = 10 * time.Second

// stubborn is a command that ignores SIGTERM and has a child that does so too.
const stubborn = `trap "" TERM; sh -c 'echo grandchild; for i in 1 2 3 4 5 6 7 8 9; do sleep 1; done; echo survived' &
	echo child; for i in 1 2 3 4 5 6 7 8 9; do sleep 1; done; echo survived`

func TestLoss(t *testing.T) {
	for _, test := range []struct {
		name   string
		lose   func(servers []*testserver.Server)
		killed bool
		script string
	}{
		{"a majority dies", func(s []*testserver.Server) { s[0].Kill(); s[2].Kill() }, true, stubborn},
		{"a majority hangs", func(s []*testserver.Server) { s[1].Pause(); s[2].Pause() }, true, stubborn},
		// Back, but without memory: they are not admitted in time.
		{"a majority restarts", func(s []*testserver.Server) { s[0].Kill(); s[1].Kill(); s[0].Restart(); s[1].Restart() },
			true, stubborn},
		{"a command that ends by SIGTERM", func(s []*testserver.Server) { s[0].Kill(); s[1].Kill() }, false,
			"echo child; echo grandchild; exec sleep 60"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			run, ttl := short, shortTTL
			if !test.killed { // it has a quarter of the TTL to end
				run, ttl = patient, patientTTL
			}
			h, servers := group(t, ttl)
			r := h.start(append(run, "x", "--", "sh", "-c", test.script)...)
			r.line()
			r.line()
			test.lose(servers)
			r.want(76, `stopping the command (SIGTERM): the lock on "x" cannot be extended`)
			if killed := strings.Contains(r.stderr.String(), "killing the command (SIGKILL)"); killed != test.killed {
				t.Errorf("killed: %v, want %v; stderr:\n%s", killed, test.killed, &r.stderr)
			}
			// The end of stdout comes when no process of the group is left.
			if out := r.rest(); out != "" {
				t.Errorf("stdout: %q", out)
			}
		})
	}
}

func TestAMinorityMayDie(t *testing.T) {
	t.Parallel()
	h, servers := group(t, shortTTL)
	// For longer than a TTL after the death.
	r := h.start(append(short, "x", "--", "sh", "-c", "echo ready; read x; sleep 5; exit 3")...)
	r.line()
	// A server that was started later than the others does not vote yet. With it
	// out, another one is half of what is left; an extension takes it in.
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if have(servers, "fenlock:x") == len(servers) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("not all servers have the lease")
		}
	}
	servers[1].Kill()
	r.stdin.Close()
	r.want(3)
}

// have returns how many servers have a key.
func have(servers []*testserver.Server, key string) (n int) {
	for _, s := range servers {
		if s.Do("EXISTS", key) == "1" {
			n++
		}
	}
	return n
}

// With --verbose a dead minority is told when it dies, and when it is back, once.
func TestNodesAreToldOf(t *testing.T) {
	t.Parallel()
	h, servers := group(t, patientTTL)
	h.start(append(patient, "x", "--", "true")...).want(0)
	r := h.start("sh", "-c", "exec "+strings.Join(patient, " ")+` --verbose x -- sh -c 'echo ready; read x; exit 0' 2>&1`)
	node := "node valkey://" + servers[2].Addr()
	var said []string
	until := func(text string) {
		t.Helper()
		for {
			line := r.line()
			if strings.Contains(line, node) {
				said = append(said, strings.TrimPrefix(line, "fenlock: "+node+" "))
			}
			if strings.Contains(line, text) {
				return
			}
		}
	}
	until("ready")
	said = nil // it may have been the last to vote
	servers[2].Kill()
	until(node + " is down: ")
	servers[2].Restart()
	until(node + " works again")
	r.stdin.Close()
	r.want(0)
	if rest := r.rest(); strings.Contains(rest, node) {
		t.Errorf("and then: %s", rest)
	}
	// On a busy machine it may be out for more than one reason.
	outs := len(said) - 2
	if outs < 1 || !strings.HasPrefix(said[1], "is out: it was started a short time ago") ||
		slices.ContainsFunc(said[1:1+outs], func(s string) bool { return !strings.HasPrefix(s, "is out: ") }) {
		t.Errorf("of %s was said: %q; want that it is down, out, and works again", node, said)
	}
	// Without --verbose there is nothing to mend.
	servers[2].Kill()
	quiet := h.start(append(patient, "x", "--", "true")...)
	quiet.want(0)
	if text := quiet.stderr.String(); strings.Contains(text, node) {
		t.Errorf("without --verbose: %s", text)
	}
}

func TestNoQuorum(t *testing.T) {
	t.Parallel()
	h, servers := group(t, shortTTL)
	h.start(append(short, "x", "--", "true")...).want(0)
	servers[0].Kill()
	servers[1].Kill()
	h.start(append(short, "--no-wait", "x", "--", "true")...).want(69, "no quorum", servers[0].Addr(), servers[1].Addr())
	h.start(append(short, "--wait", "500ms", "-E", "1", "x", "--", "true")...).want(69, "gave up after 500ms", "no quorum")
	r := h.start(append(short, "x", "--", "echo", "mine")...)
	servers[0].Restart()
	servers[1].Restart()
	if line := r.line(); line != "mine" {
		t.Errorf("printed %q", line)
	}
	r.want(0, "waiting for nodes")
}

// A group agrees on its longest lease. Waiting would not help.
func TestMaxTTLDiffers(t *testing.T) {
	t.Parallel()
	h, _ := group(t, shortTTL)
	h.start(append(short, "x", "--", "true")...).want(0)
	r := h.start("fenlock", "run", "x", "--", "true")
	r.want(69, "--max-ttl is 2s", "this client's is 30s")
	if lines := strings.Count(r.stderr.String(), "\n"); lines != 1 {
		t.Errorf("said in %d lines:\n%s", lines, &r.stderr)
	}
}

// What a person has to mend at one node is said, also when the lock is taken.
func TestAMinorityIsMisconfigured(t *testing.T) {
	t.Parallel()
	h, servers := group(t, shortTTL)
	h.start(append(short, "x", "--", "true")...).want(0)
	servers[1].Do("CONFIG", "SET", "requirepass", "secret")
	r := h.start(append(short, "x", "--", "sh", "-c", "sleep 1")...)
	r.want(0, "node valkey://"+servers[1].Addr()+" is misconfigured: the server wants a password")
	// On a busy machine it may wait for nodes before.
	if lines := strings.Count(r.stderr.String(), "misconfigured"); lines != 1 {
		t.Errorf("said in %d lines:\n%s", lines, &r.stderr)
	}
}

// With an empty prefix the key is the name, as other Redlock clients have it.
func TestPrefix(t *testing.T) {
	t.Parallel()
	h, servers := group(t, shortTTL)
	for _, test := range []struct{ prefix, key string }{
		{"--verbose", "fenlock:x"}, {"--prefix=", "x"}, {"--prefix=app:", "app:x"},
	} {
		r := h.start(append(short, test.prefix, "x", "--", "sh", "-c", "echo ready; read x; exit 0")...)
		r.line()
		if found := have(servers, test.key); found < 2 {
			t.Errorf("%s: %d servers have %q", test.prefix, found, test.key)
		}
		r.stdin.Close()
		r.want(0)
	}
}
