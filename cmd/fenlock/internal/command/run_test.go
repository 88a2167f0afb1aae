//go:build linux || darwin || freebsd

package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/filenode"
)

func TestExitStatus(t *testing.T) {
	h := newHome(t)
	for _, test := range []struct {
		args   []string
		status int
		said   string
	}{
		{[]string{"x", "--", "true"}, 0, ""},
		{[]string{"x", "--", "sh", "-c", "exit 3"}, 3, ""},
		{[]string{"x", "--", "sh", "-c", "exit 255"}, 255, ""},
		{[]string{"x", "--", "sh", "-c", "kill -9 $$"}, 137, ""},
		{[]string{"x", "--", "sh", "-c", "kill -TERM $$"}, 143, ""},
		{[]string{"x", "--", "sh", "-c", "test $0 = --node", "--node"}, 0, ""},
		{[]string{"--", "-x", "--", "true"}, 0, ""},

		{[]string{"x", "--", "fenlock-no-such-command"}, 127, "fenlock-no-such-command: command not found"},
		{[]string{"x", "--", ""}, 127, "empty"},
		{[]string{"x", "--", "/dev/null"}, 126, "permission denied"},

		{nil, 64, "no NAME"},
		{[]string{"x"}, 64, "no COMMAND"},
		{[]string{"x", "--"}, 64, "no COMMAND"},
		{[]string{"x", "true"}, 64, "expected -- after NAME"},
		{[]string{"x", "--no-wait", "--", "true"}, 64, "flags go before it"},
		{[]string{"--frob", "x", "--", "true"}, 64, "unknown flag: --frob"},
		{[]string{"--wait", "soon", "x", "--", "true"}, 64, "neither a time"},
		{[]string{"--quiet", "--verbose", "x", "--", "true"}, 64, "exclude each other"},
		{[]string{"--wait", "-1s", "x", "--", "true"}, 64, "negative"},
		{[]string{"--wait", "1s", "--no-wait", "x", "--", "true"}, 64, "exclude each other"},
		{[]string{"-E", "256", "x", "--", "true"}, 64, "0 to 255"},
		{[]string{"-E", "-1", "x", "--", "true"}, 64, "0 to 255"},
		{[]string{"", "--", "true"}, 64, "name of a lock is empty"},
		{[]string{"a\nb", "--", "true"}, 64, `control character: "a\nb"`},
		{[]string{"--ttl", "0", "x", "--", "true"}, 64, "--ttl is 0s"},
		{[]string{"--ttl", "1ms", "x", "--", "true"}, 64, "--ttl is 1ms, at least 100ms"},
		{[]string{"--ttl", "1m", "x", "--", "true"}, 64, "--ttl is 1m0s, longer than --max-ttl, 30s"},
		{[]string{"--max-ttl", "0", "x", "--", "true"}, 64, "--max-ttl is 0s"},
		{[]string{"--max-hold", "1s", "x", "--", "true"}, 64, "--max-hold is 1s, shorter than --ttl, 10s"},
		{[]string{"--max-hold", "-1s", "x", "--", "true"}, 64, "negative"},
		{[]string{"--label", "a\tb", "x", "--", "true"}, 64, "--label has a control character"},
		{[]string{"--node", "http://u:pw@h", "x", "--", "true"}, 64, "unknown scheme"},
	} {
		r := h.start(append([]string{"fenlock", "run"}, test.args...)...)
		r.want(test.status, test.said)
		if out := r.rest(); out != "" {
			t.Errorf("%q: stdout has %q", test.args, out)
		}
		if strings.Contains(r.stderr.String(), "pw@") {
			t.Errorf("%q: a password on stderr: %s", test.args, &r.stderr)
		}
		for line := range strings.Lines(r.stderr.String()) {
			if !strings.HasPrefix(line, "fenlock: ") {
				t.Errorf("%q: a line without the prefix: %q", test.args, line)
			}
		}
	}
	h.start("fenlock", "runn").want(64, `unknown command "runn" for "fenlock"; did you mean run? (see fenlock --help)`)
	h.start("fenlock", "frobnify").want(64, `unknown command "frobnify" for "fenlock" (see fenlock --help)`)
	h.start("fenlock", "--frob").want(64, "unknown flag")
}

func TestHelpAndVersion(t *testing.T) {
	h := newHome(t)
	for _, test := range []struct{ command, out string }{
		{"version", "fenlock devel (go"},
		{"--version", "fenlock devel (go"},
		{"help", "fenlock run --help"},
		{"run --help", "FENLOCK_TOKEN"},
		{"", "Available Commands:"},
		{"-V", "fenlock devel (go"},
		{"completion bash", "bash completion"},
		{"completion zsh", "#compdef fenlock"},
		{"completion fish", "complete -c fenlock"},
		{"__complete run --no-w", "--no-wait\t"},
	} {
		out := h.output(0, test.command)
		if !strings.Contains(out, test.out) {
			t.Errorf("fenlock %s printed %q", test.command, out)
		}
	}
}

func TestTheCommandsEnvironment(t *testing.T) {
	h := newHome(t, "FENLOCK_NAME=outer", "FENLOCK_TOKEN=1", "OTHER=kept", "FENLOCK_NODES=file://"+t.TempDir()+"/a")
	r := h.start("fenlock", "run", "--verbose", "a name", "--", "sh", "-c",
		`echo "$FENLOCK_NAME|$OTHER|$FENLOCK_NODES"; echo $FENLOCK_TOKEN; read line; echo "$line" >&2`)
	if got, want := r.line(), "a name|kept|"+h.env[len(h.env)-1][len("FENLOCK_NODES="):]; got != want {
		t.Errorf("environment: %q, want %q", got, want)
	}
	token := r.line()
	if n, err := strconv.ParseInt(token, 10, 64); err != nil || n < 2 {
		t.Errorf("token %q", token)
	}
	r.stdin.Write([]byte("to stdin\n"))
	r.want(0, "to stdin\n", `fenlock: "a name" is taken, with token `+token, `fenlock: "a name" is released`)
	if strings.Contains(r.stderr.String(), "this machine only") {
		t.Errorf("speaks of the default file: %s", &r.stderr)
	}
}

func TestTheDefaultFile(t *testing.T) {
	h := newHome(t)
	r := h.start("fenlock", "run", "x", "--", "true")
	r.want(0)
	folder := filepath.Join(h.state, "fenlock")
	line, _, _ := strings.Cut(r.stderr.String(), "\n")
	if !strings.Contains(line, filepath.Join(folder, "locks")) || !strings.Contains(line, "this machine only") {
		t.Errorf("the first line is %q", line)
	}
	info, err := os.Stat(folder)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	h.start("fenlock", "run", "--prefix", "", "x", "--", "true").want(64, "--prefix")
}

// A file that is deleted while a lock in it is held costs the lock, and its messages are of a file.
func TestTheFileIsDeleted(t *testing.T) {
	h := newHome(t)
	file := filepath.Join(h.state, "fenlock", "locks")
	r := h.start("fenlock", "run", "--local", "--verbose", "x", "--", "sh", "-c", "echo held; sleep 600")
	r.line()
	must(t, os.Remove(file))
	r.want(76, "its lease is gone; "+file, "the file "+file+" is misconfigured: ")
	for _, word := range []string{"quorum", "majority", "server", "fenlock: node"} {
		if strings.Contains(r.stderr.String(), word) {
			t.Errorf("%q is said of a file:\n%s", word, &r.stderr)
		}
	}
}

// An earlier version would go on locking in its own file. It is refused by all that would look
// elsewhere.
func TestTheEarlierFile(t *testing.T) {
	h := newHome(t)
	old := filepath.Join(h.state, "fenlock", "fenlock.db")
	must(t, os.Mkdir(filepath.Dir(old), 0o700))
	write(t, old, "SQLite format 3\x00", 0o600)
	for args, status := range map[string]int{"run x -- echo ran": 69, "ls": 69, "nodes": 69, "doctor": 2} {
		r := h.start(append([]string{"fenlock"}, strings.Fields(args)...)...)
		if out := r.rest(); out != "" {
			t.Errorf("%s printed %q", args, out)
		}
		r.want(status, old+" is there", "end all of them", "rm -f fenlock.db fenlock.db-wal fenlock.db-shm")
	}
	h.start("fenlock", "run", "--node", "file://"+old, "x", "--", "true").want(69, "SQLite database",
		"choose another path")
	if _, err := os.Stat(filepath.Join(h.state, "fenlock", "locks")); err == nil {
		t.Error("the new file was made")
	}
	must(t, os.Remove(old))
	h.start("fenlock", "run", "x", "--", "true").want(0)
}

func TestHeld(t *testing.T) {
	h := newHome(t)
	end := h.hold("x", "--label", "the holder")
	h.start("fenlock", "run", "--no-wait", "x", "--", "true").want(75, `"x" is held by the holder`)
	h.start("fenlock", "run", "--no-wait", "-E", "0", "x", "--", "false").want(0, "is held")
	h.start("fenlock", "run", "--conflict-exit-code", "9", "--wait", "300ms", "x", "--", "true").
		want(9, `gave up after 300ms: "x" is held by the holder`)
	h.start("fenlock", "run", "--wait", "1ns", "x", "--", "true").want(75)
	h.start("fenlock", "run", "--no-wait", "another", "--", "true").want(0)
	waiter := h.start("fenlock", "run", "--verbose", "x", "--", "echo", "mine")
	end()
	if line := waiter.line(); line != "mine" {
		t.Errorf("the waiter's command printed %q", line)
	}
	waiter.want(0)
}

// Commands with --shared run at the same time, and no others with them; one that wants the lock
// alone is before those that come later.
func TestSharedRun(t *testing.T) {
	h := newHome(t)
	readers := []*running{}
	for range 2 {
		r := h.start("fenlock", "run", "--shared", "--label", "a reader", "x", "--", "sh", "-c",
			"echo $FENLOCK_TOKEN; read x; exit 0")
		readers = append(readers, r)
	}
	if one, two := readers[0].line(), readers[1].line(); one == "" || one != two {
		t.Errorf("the tokens are %q and %q", one, two)
	}
	h.start("fenlock", "run", "--no-wait", "x", "--", "true").want(75, `"x" is held by a reader (`,
		") and 1 more that share it")
	// Each of them is shown, with its process, and nothing that a terminal obeys.
	labels := regexp.MustCompile(`a reader \(\S+/\d+\) and a reader \(\S+/\d+\)`)
	if text := h.output(0, "ls"); !labels.MatchString(text) {
		t.Errorf("listed as\n%s", text)
	}
	if text := h.output(0, "inspect x"); !labels.MatchString(text) ||
		!strings.Contains(text, "  shared by 2\n    a reader (") || strings.Count(text, "token ") != 2 {
		t.Errorf("inspected as\n%s", text)
	}
	writer := h.start("sh", "-c", `exec fenlock run --verbose x -- sh -c 'echo mine; read x; exit 0' 2>&1`)
	writer.until("waiting: ")
	h.start("fenlock", "run", "--no-wait", "--shared", "x", "--", "true").want(75)
	for _, r := range readers {
		r.stdin.Close()
		r.want(0)
	}
	for line := writer.line(); line != "mine"; line = writer.line() {
		if line == "" {
			t.Fatal("the writer does not get the lock")
		}
	}
	h.start("fenlock", "run", "--no-wait", "--shared", "x", "--", "true").want(75)
	writer.stdin.Close()
	writer.rest()
	writer.want(0)
	h.start("fenlock", "run", "--lead", "--shared", "x", "--", "true").want(64, "exclude each other")
}

// With --slots so many commands run at a time, each with a number of its own, and none uses another
// number of slots meanwhile.
func TestSlotsRun(t *testing.T) {
	h := newHome(t, "FENLOCK_SLOT=9")
	run := func(flags ...string) *running {
		args := append(append([]string{"fenlock", "run", "--slots", "2", "--label", "a worker"}, flags...), "x", "--")
		return h.start(append(args, "sh", "-c", "echo $FENLOCK_NAME $FENLOCK_SLOT $FENLOCK_TOKEN; read x; exit 0")...)
	}
	one, two := run(), run()
	seen := map[string]int64{}
	for _, r := range []*running{one, two} {
		var name, slot string
		var token int64
		line := r.line()
		if _, err := fmt.Sscan(line, &name, &slot, &token); err != nil || name != "x#"+slot || slot != "0" && slot != "1" ||
			seen[slot] > 0 || token <= 0 {
			t.Errorf("printed %q", line)
		}
		seen[slot] = token
	}
	run("--no-wait").want(75, `none of the 2 slots of "x" is free: "x#`)
	run("--wait", "100ms", "-E", "3").want(3, `gave up after 100ms: none of the 2 slots of "x" is free: "x#`)
	h.start("fenlock", "run", "--no-wait", "x", "--", "true").want(75, `"x" is held by a worker (`,
		") and 1 more that share it")
	h.start("fenlock", "run", "--slots", "3", "x", "--", "true").want(78,
		`"x" has 3 slots for the caller and 2 for a worker (`, "--slots")
	waits := run()
	one.stdin.Close()
	one.want(0)
	if line := waits.line(); !strings.HasPrefix(line, "x#") {
		t.Errorf("who waits printed %q", line)
	}
	for _, r := range []*running{two, waits} {
		r.stdin.Close()
		r.want(0)
	}
	inner := h.start("fenlock", "run", "--slots", "1", "y", "--", "fenlock", "run", "--slots", "0", "--no-wait", "x", "--",
		"sh", "-c", "echo $FENLOCK_NAME[$FENLOCK_SLOT]; exit 0")
	if line := inner.line(); line != "x[]" {
		t.Errorf("printed %q", line)
	}
	inner.want(0)
	for flags, says := range map[string]string{"--lead --slots 2": "exclude each other",
		"--slots 2 --shared": "exclude each other", "--slots -1": "1 to 100", "--slots 101": "1 to 100",
		"--slots x": "is not a whole number", "--lead=maybe": "is not true or false", "--ttl x": "is not a time"} {
		args := append(append([]string{"fenlock", "run"}, strings.Fields(flags)...), "x", "--", "true")
		h.start(args...).want(64, says)
	}
}

// A lock is kept for as long as was asked for, whatever becomes of the command and of fenlock, and
// no longer.
func TestAtLeast(t *testing.T) {
	for name, ends := range map[string]func(h *home){
		"ended": func(h *home) {
			h.start("fenlock", "run", "--verbose", "--at-least", "30s", "x", "--", "true").want(0, "stays taken")
		},
		"failed": func(h *home) { h.start("fenlock", "run", "--at-least", "30s", "x", "--", "false").want(1) },
		"killed": func(h *home) {
			p := h.start("fenlock", "run", "--at-least", "30s", "x", "--", "sh", "-c", "echo $PPID; exec sleep 60")
			pid, err := strconv.Atoi(p.line())
			must(t, err)
			syscall.Kill(pid, syscall.SIGKILL) // its watchdog
			p.signal(syscall.SIGKILL)
			p.status()
		},
	} {
		h := newHome(t)
		ends(h)
		if left := h.leases(); len(left) != 1 || !left[0].Leased {
			t.Errorf("%s: the leases are %+v", name, left)
		}
		h.start("fenlock", "run", "--no-wait", "x", "--", "true").want(75, `"x" is held by`)
	}
	h := newHome(t)
	h.start("fenlock", "run", "--at-least", "300ms", "x", "--", "true").want(0)
	h.start("fenlock", "run", "x", "--", "true").want(0)
	h.start("fenlock", "run", "--no-wait", "x", "--", "true").want(0)
	h.start("fenlock", "run", "--at-least", "31s", "x", "--", "true").want(64,
		"--at-least is 31s, longer than --max-ttl, 30s")
	h.start("fenlock", "run", "--at-least", "-1s", "x", "--", "true").want(64, "must not be negative")
	h.start("fenlock", "run", "--at-least", "20s", "--max-hold", "15s", "x", "--", "true").want(64,
		"longer than --max-hold, 15s")
}

// Waiters are served in the order in which they came, and say how many are ahead.
func TestLine(t *testing.T) {
	h := newHome(t)
	end := h.hold("x", "--label", "the holder")
	waits := func(what string) *running {
		r := h.start("sh", "-c", `exec fenlock run --verbose x -- echo `+what+` 2>&1`)
		for {
			line := r.line()
			if strings.Contains(line, "waiting: ") {
				if !strings.Contains(line, `"x" is held by the holder`) {
					t.Errorf("the waiter says %q", line)
				}
				if ahead := strings.Contains(line, ", 1 ahead in the queue"); ahead != (what == "second") {
					t.Errorf("the %s waiter says %q", what, line)
				}
				return r
			}
		}
	}
	first := waits("first")
	second := waits("second")
	end()
	for _, r := range []struct {
		*running
		prints string
	}{{first, "first"}, {second, "second"}} {
		if out := r.rest(); !strings.Contains(out, r.prints+"\n") {
			t.Errorf("it printed %q", out)
		}
		r.want(0)
	}
}

// However a command ends, and if it cannot be started, the lock is free at once.
func TestReleased(t *testing.T) {
	h := newHome(t)
	for _, command := range [][]string{
		{"false"}, {"sh", "-c", "kill -9 $$"}, {"true"},
		{"sh", "-c", "sleep 1 >/dev/null & exit 0"}, // what it leaves behind has no lock
	} {
		h.start(append([]string{"fenlock", "run", "x", "--"}, command...)...).status()
		h.start("fenlock", "run", "--no-wait", "x", "--", "true").want(0)
	}
}

// What a command leaves in the background goes on if the lock was not lost.
func TestTheBackgroundGoesOn(t *testing.T) {
	h := newHome(t)
	r := h.start("fenlock", "run", "x", "--", "sh", "-c", "(sleep 1; echo still here) & exit 4")
	r.want(4)
	if out := r.rest(); out != "still here\n" {
		t.Errorf("stdout: %q", out)
	}
}

func TestSignalsReachTheGroup(t *testing.T) {
	h := newHome(t)
	for name, sig := range map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT,
		"TERM": syscall.SIGTERM, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
	} {
		r := h.start("fenlock", "run", "x", "--", "sh", "-c",
			`trap "exit 7" `+name+`; sh -c 'trap "echo grandchild; exit 0" `+name+
				`; echo ready; for i in 1 2 3 4 5 6 7 8 9; do sleep 1; done'; sleep 60`)
		if line := r.line(); line != "ready" {
			t.Fatalf("%s: %q", name, line)
		}
		r.signal(sig)
		if line := r.line(); line != "grandchild" {
			t.Errorf("%s: %q", name, line)
		}
		r.want(7)
	}
	r := h.start("fenlock", "run", "x", "--", "sh", "-c", "echo ready; exec sleep 60")
	r.line()
	r.signal(syscall.SIGTERM)
	r.want(143)
}

// A reader of stderr that went away is no reason to die without a release.
func TestStderrIsClosed(t *testing.T) {
	h := newHome(t)
	read, write, err := os.Pipe()
	must(t, err)
	read.Close()
	defer write.Close()
	cmd := exec.CommandContext(t.Context(), program, "run", "--verbose", "x", "--", "sh", "-c", "exit 5")
	cmd.Env, cmd.Stderr = h.env, write
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 5 {
		t.Errorf("%v", err)
	}
	h.start("fenlock", "run", "--no-wait", "x", "--", "true").want(0)
}

func TestInterruptWhileWaiting(t *testing.T) {
	h := newHome(t)
	end := h.hold("x")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1} {
		// Its own second stage prints when the wait has begun.
		r := h.start("sh", "-c", `exec fenlock run --verbose x -- echo never 2>&1`)
		r.until("waiting: ")
		r.signal(sig)
		if out := r.rest(); out != "" {
			t.Errorf("%v: printed %q", sig, out)
		}
		r.want(128 + int(sig))
	}
	if leases := h.leases(); len(leases) != 1 {
		t.Errorf("leases: %v", leases)
	}
	end()
	if leases := h.leases(); len(leases) != 0 {
		t.Errorf("leases: %v", leases)
	}
}

// leases returns what is locked in the home's default file.
func (h *home) leases() (leases []node.Lease) {
	h.t.Helper()
	n, err := filenode.OpenFile(filepath.Join(h.state, "fenlock", "locks"))
	must(h.t, err)
	defer n.Close()
	err = n.List(h.t.Context(), "", func(l node.Lease) bool {
		leases = append(leases, l)
		return true
	})
	must(h.t, err)
	return leases
}

// Several processes increment a number in a file: none is lost, and the tokens
// are in the order of the increments.
func TestExclusion(t *testing.T) {
	h := newHome(t)
	file := write(t, filepath.Join(t.TempDir(), "number"), "0\n", 0o600)
	h.env = append(h.env, "FILE="+file)
	const processes, rounds = 4, 5
	var all []*running
	for range processes {
		all = append(all, h.start("sh", "-ec", `for i in 1 2 3 4 5; do
			fenlock run --ttl 30s counter -- sh -ec 'read n <"$FILE"; sleep 0.02; echo $((n + 1)) >"$FILE"; echo $FENLOCK_TOKEN >>"$FILE.tokens"'
		done`))
	}
	for _, r := range all {
		r.want(0)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != strconv.Itoa(processes*rounds)+"\n" {
		t.Errorf("the number is %q, %v", text, err)
	}
	tokens, err := os.ReadFile(file + ".tokens")
	must(t, err)
	var last int64
	for _, word := range strings.Fields(string(tokens)) {
		token, err := strconv.ParseInt(word, 10, 64)
		if err != nil || token <= last {
			t.Errorf("token %s after %d", word, last)
		}
		last = token
	}
}

func TestMaxHold(t *testing.T) {
	t.Parallel()
	// A command has a quarter of the TTL to end, also on a busy machine.
	run := []string{"fenlock", "run", "--ttl", patientTTL.String(), "--max-hold", patientTTL.String(), "x", "--"}
	h := newHome(t)
	r := h.start(append(run, "sleep", "60")...)
	r.want(76, "stopping the command (SIGTERM)", "--max-hold")
	if strings.Contains(r.stderr.String(), "killing") {
		t.Errorf("a command that ends by SIGTERM was killed: %s", &r.stderr)
	}
	// The leader ends, what it started ignores SIGTERM.
	r = h.start(append(run, "sh", "-c",
		`sh -c 'trap "" TERM; for i in $(seq 60); do sleep 1; done; echo survived' & wait`)...)
	r.want(76, "killing the command (SIGKILL)")
	if out := r.rest(); out != "" {
		t.Errorf("stdout: %q", out)
	}
}

// A command that ended while the lock was another client's is no success.
func TestPausedBeyondTheValidity(t *testing.T) {
	h := newHome(t).byTime()
	r := h.start("fenlock", "run", "--ttl", "500ms", "x", "--", "sh", "-c", "echo ready; read x; exit 0")
	r.line()
	r.signal(syscall.SIGSTOP)
	r.stdin.Close()
	time.Sleep(time.Second) // the validity must end
	h.start("fenlock", "run", "--no-wait", "x", "--", "true").want(0)
	r.signal(syscall.SIGCONT)
	r.want(76, "the command ended by itself, but")
}
