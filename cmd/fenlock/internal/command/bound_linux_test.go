package command

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A lock in a file ends with fenlock and its command, and with nothing else. No TTL here is short
// enough to end it within a test.
var bound = []string{"fenlock", "run", "--ttl", "1h", "--max-ttl", "1h"}

// untilWaiting waits until there is a waiter for x.
func (h *home) untilWaiting() {
	h.t.Helper()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if strings.Contains(h.output(0, "inspect x"), "1 waiting") {
			return
		}
	}
	h.t.Fatal("nobody waits")
}

// isHeld reports whether x is held.
func (h *home) isHeld() bool {
	h.t.Helper()
	held := strings.Contains(h.output(0, "inspect x"), "x is held")
	if held {
		h.start("fenlock", "run", "--no-wait", "x", "--", "true").want(75)
	}
	return held
}

// When fenlock and its command are killed, the first in the queue has the lock.
func TestNextAfterAKilledHolder(t *testing.T) {
	h := newHome(t)
	r := h.start(append(bound, "x", "--", "sh", "-c", "echo $$; exec sleep 3600")...)
	command, _ := strconv.Atoi(r.line())
	if anyWatchdogOf(r) != 0 {
		t.Error("it has a watchdog")
	}
	next := h.start(append(bound, "x", "--", "echo", "mine")...)
	h.untilWaiting()
	r.signal(syscall.SIGKILL)
	if !h.isHeld() {
		t.Error("free while the command lives")
	}
	syscall.Kill(command, syscall.SIGKILL)
	if line := next.line(); line != "mine" {
		t.Error(line)
	}
	next.want(0)
}

// What a command has started keeps the lock if fenlock was killed, and keeps nothing if the command
// has ended.
func TestTheLockOfWhatIsLeft(t *testing.T) {
	h := newHome(t)
	fifo := t.TempDir() + "/end"
	must(t, syscall.Mkfifo(fifo, 0o600))
	end := func() {
		if err := os.WriteFile(fifo, nil, 0); err != nil {
			t.Error(err)
		}
	}
	script := "sh -c 'echo $PPID; read x <" + fifo + "' & "
	r := h.start(append(bound, "x", "--", "sh", "-c", script+"exec sleep 3600")...)
	command, _ := strconv.Atoi(r.line())
	r.signal(syscall.SIGKILL)
	syscall.Kill(command, syscall.SIGKILL)
	r.cmd.Wait()
	if !h.isHeld() {
		t.Error("free while a process of the command lives")
	}
	next := h.start(append(bound, "x", "--", "echo", "mine")...)
	h.untilWaiting()
	end()
	if line := next.line(); line != "mine" {
		t.Error(line)
	}
	next.want(0)

	r = h.start(append(bound, "x", "--", "sh", "-c", script+"exit 3")...)
	r.line()
	r.want(3)
	if h.isHeld() {
		t.Error("held by what a command has left behind")
	}
	end()
}

// A command that is stopped for longer than the TTL has the lock all the same.
func TestAStoppedHolderLosesNothing(t *testing.T) {
	h := newHome(t)
	r := h.start("fenlock", "run", "--ttl", "200ms", "--max-ttl", "200ms", "x", "--", "sh", "-c",
		"echo ready; read x; exit 4")
	r.line()
	r.signal(syscall.SIGSTOP)
	time.Sleep(time.Second) // a TTL must be over
	if !h.isHeld() {
		t.Error("lost")
	}
	r.signal(syscall.SIGCONT)
	r.stdin.Close()
	r.want(4)
}

// A lock that was broken ends its command with all that this has started, and nothing that was
// there before.
func TestABrokenLockEndsItsJob(t *testing.T) {
	h := newHome(t)
	r := h.start("sh", "-c", `(for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.5 || echo killed; done; echo still here) & exec fenlock run --ttl 1s x -- sh -c "$1"`, "sh", family)
	r.line()
	h.start("fenlock", "release", "--force", "--yes", "x").want(0)
	r.want(76, "stopping the command (SIGTERM)", "killing the command (SIGKILL)", "the command was stopped")
	if out := r.rest(); out != "still here\n" {
		t.Errorf("stdout: %q", out)
	}
	if text := r.stderr.String(); strings.Contains(text, "h59m") {
		t.Errorf("it says %q", text)
	}
}

// A process that cannot be ended is not waited for without end, as nothing of its lock is.
func TestABrokenLockOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("REDUCED: only root can become another user")
		return
	}
	h := newHome(t)
	r := h.start("setpriv", "--bounding-set=-kill", program, "run", "--ttl", "1s", "x", "--",
		"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", "echo ready; exec sleep 60")
	r.line()
	h.start("fenlock", "release", "--force", "--yes", "x").want(0)
	r.want(76, "cannot be signalled: it runs as another user", "could not be stopped: ", "(sleep)")
}

// The command has the file of locks open once, to read it, behind what scripts and shells use;
// where that is impossible, at any number.
func TestTheCommandHasTheLockOpen(t *testing.T) {
	h := newHome(t)
	for limit, least := range map[string]int{"1024": leastShared, "32": 3} {
		r := h.start("sh", "-c", "ulimit -n "+limit+`; exec fenlock run x -- sh -c 'cd /proc/$$/fd; for n in *; do echo $n $(readlink $n) $(grep flags ../fdinfo/$n); done'`)
		var found []string
		for line := range strings.Lines(r.rest()) {
			if strings.Contains(line, h.state+"/fenlock/locks") {
				found = append(found, line)
			}
		}
		if len(found) != 1 {
			t.Fatalf("with %s: %q", limit, found)
		}
		fields := strings.Fields(found[0])
		if fd, _ := strconv.Atoi(fields[0]); fd < least || !strings.HasSuffix(fields[3], "0") { // O_RDONLY
			t.Errorf("with %s: %q", limit, found)
		}
		r.want(0)
	}
}

// Another process that is stopped while it makes the file holds fenlock up for no longer than it
// wants to wait.
func TestWaitCoversOpening(t *testing.T) {
	h := newHome(t)
	path := filepath.Join(h.state, "locks")
	making, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	defer making.Close()
	const header = 1<<40 + 256 // of the file's locks, the byte of the writer of its header
	must(t, unix.FcntlFlock(making.Fd(), unix.F_OFD_SETLK,
		&unix.Flock_t{Type: unix.F_WRLCK, Start: header, Len: 1}))
	for _, flags := range [][]string{{"--wait", "300ms"}, {"--no-wait", "--ttl", "1s"}} {
		run := append(append([]string{"fenlock", "run", "--node", "file://" + path}, flags...), "x", "--", "true")
		h.start(run...).want(75, "gave up", path, "stopped?")
	}
	making.Close()
	h.start("fenlock", "run", "--node", "file://"+path, "--wait", "1m", "x", "--", "true").want(0)
}
