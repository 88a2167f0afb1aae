package command

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/watchdog"
	"golang.org/x/sys/unix"
)

// family is a job of a shell that has a subshell, a process in the background and one in a session
// of its own. All of these ignore what they can. It is gone when its stdout is at its end.
const family = `trap "" TERM HUP; nap='trap "" TERM HUP; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do sleep 1; done; echo survived'
	(eval "$nap") & sh -c "$nap" & setsid sh -c "$nap" & setsid sh -c "(sh -c '$nap') &" &
	echo ready; eval "$nap"`

// watchdogOf returns the process id of the watchdog of a fenlock whose command runs.
func watchdogOf(r *running) int {
	r.t.Helper()
	pid := anyWatchdogOf(r)
	if pid == 0 {
		r.t.Fatal("no watchdog")
	}
	return pid
}

// anyWatchdogOf is watchdogOf, and 0 if there is none.
func anyWatchdogOf(r *running) int {
	r.t.Helper()
	// Each thread has the children that it has started.
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", r.cmd.Process.Pid))
	must(r.t, err)
	var text []byte
	for _, file := range files {
		more, _ := os.ReadFile(file)
		text = append(text, more...)
	}
	for _, word := range strings.Fields(string(text)) {
		pid, _ := strconv.Atoi(word)
		if line, _ := os.ReadFile("/proc/" + word + "/cmdline"); strings.HasPrefix(string(line), watchdog.Name) {
			return pid
		}
	}
	return 0
}

// A command that waits for the lock waits without a watchdog, and has one when the command runs.
func TestWhoWaitsHasNoWatchdog(t *testing.T) {
	h := newHome(t).byTime()
	first := h.start("fenlock", "run", "x", "--", "sh", "-c", "echo ready; read x; :")
	first.line()
	next := h.start("fenlock", "run", "--verbose", "x", "--", "sh", "-c", "echo mine; read x; :")
	alone := 0
	for deadline := time.Now().Add(limit); alone < 100 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if alone++; anyWatchdogOf(next) != 0 {
			alone = 0
		}
	}
	if alone < 100 {
		t.Error("a watchdog was kept while the lock was waited for")
	}
	first.stdin.Close()
	next.line()
	watchdogOf(next)
	next.stdin.Close()
	first.want(0)
	next.want(0)
}

// A fenlock that is killed or stopped takes with it all that the command has started, before
// another client has the lock.
func TestTheJobEndsWithFenlock(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			for range 3 {
				h := newHome(t).byTime()
				// Of this test: others may run at the same time.
				survived := "echo survived in " + h.state
				r := h.start("fenlock", "run", "--ttl", "2s", "x", "--", "sh", "-c",
					strings.Replace(family, "echo survived", survived, 1))
				r.line()
				r.signal(sig)
				// When another client has the lock, no process of the job is left.
				next := h.start("fenlock", "run", "--ttl", "2s", "x", "--", "sh", "-c", "echo next; ps -eo args; exit 0")
				next.line()
				for line := range strings.Lines(next.rest()) {
					if strings.Contains(line, survived) && !strings.HasPrefix(line, program) {
						t.Errorf("the next holder is not alone: %s", line)
					}
				}
				next.want(0)
				if sig == syscall.SIGSTOP {
					r.signal(syscall.SIGCONT)
				}
				if out := r.rest(); out != "" {
					t.Errorf("stdout: %q", out)
				}
				if sig == syscall.SIGKILL {
					r.want(-1)
				} else {
					r.want(76, "killing the command (SIGKILL)") // SIGTERM may be too late on a busy machine
				}
			}
		})
	}
}

// Else each command would wait, and pay, twice for what the engines prepare when they are
// initialised.
func TestTheWatchdogBeginsFirst(t *testing.T) {
	for _, path := range []string{program, filepath.Join(filepath.Dir(program), allProgram)} {
		cmd := exec.Command(path, "none")
		cmd.Args[0] = watchdog.Name
		cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
		text, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != exitUsage || !strings.Contains(string(text), "is started by fenlock run") {
			t.Fatalf("%v: %s", err, text)
		}
		for line := range strings.Lines(string(text)) {
			pkg, traced := strings.CutPrefix(line, "init ")
			for _, late := range []string{"reflect ", "fmt ", "net ", "encoding/gob ", "modernc.org/", "go.etcd.io/",
				"github.com/spf13/", "github.com/fenlock/fenlock/node/"} {
				if traced && strings.HasPrefix(pkg, late) {
					t.Errorf("%s: before it was %q: what package watchdog imports, or what that does, is late", path,
						strings.TrimSpace(line))
				}
			}
		}
	}
}

// A user that starts it by hand with a socket on stdin, as ssh or inetd may give, is told.
func TestTheWatchdogByHand(t *testing.T) {
	ours, theirs, err := watchdog.Pair()
	must(t, err)
	defer syscall.Close(ours)
	in := os.NewFile(uintptr(theirs), "stdin")
	defer in.Close()
	cmd := exec.CommandContext(t.Context(), program, "0")
	cmd.Args[0], cmd.Stdin = watchdog.Name, in
	stop := time.AfterFunc(limit/12, func() { cmd.Process.Kill() })
	defer stop.Stop()
	if text, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != exitUsage ||
		!strings.Contains(string(text), "is started by fenlock run") {
		t.Errorf("%v: %s", cmd.ProcessState, text)
	}
}

// The kernel kills the command when the thread ends that has started it, so that has to be
// one that lasts; and nothing of the watchdog's own is in the command's environment.
func TestTheCommandsParentIsTheMainThread(t *testing.T) {
	h := newHome(t, "GOMAXPROCS=7").byTime()
	for range 5 {
		r := h.start("fenlock", "run", "x", "--", "sh", "-c", "echo $$ $GOMAXPROCS; read x; exit 0")
		pid, procs, _ := strings.Cut(r.line(), " ")
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", watchdogOf(r)))
		if err != nil || strings.TrimSpace(string(text)) != pid {
			t.Errorf("the main thread has started %q, want %s; %v", text, pid, err)
		}
		if procs != "7" {
			t.Errorf("GOMAXPROCS is %q", procs)
		}
		r.stdin.Close()
		r.want(0)
	}
}

// To kill or stop fenlock by its name reaches one of the two, and shows what the other is.
func TestTheWatchdogsName(t *testing.T) {
	h := newHome(t).byTime()
	r := h.start("fenlock", "run", "x", "--", "sh", "-c", "echo ready; read x; exit 0")
	r.line()
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", watchdogOf(r)))
	if name := strings.TrimSpace(string(comm)); err != nil || strings.Contains(name, "fenlock") ||
		!strings.Contains(name, "watchdog") {
		t.Errorf("its name is %q, %v", name, err)
	}
	r.stdin.Close()
	r.want(0)
}

// It does not wait for the end of a lease that is not extended any more.
func TestTheJobEndsWithFenlockAtOnce(t *testing.T) {
	h := newHome(t).byTime()
	r := h.start("fenlock", "run", "--ttl", "1h", "--max-ttl", "1h", "x", "--", "sh", "-c", family)
	r.line()
	r.signal(syscall.SIGKILL)
	if out := r.rest(); out != "" {
		t.Errorf("stdout: %q", out)
	}
	r.want(-1)
}

// If the watchdog is killed, fenlock does its work; if it is stopped, it goes on.
func TestTheWatchdogEnds(t *testing.T) {
	h := newHome(t).byTime()
	r := h.start("fenlock", "run", "x", "--", "sh", "-c", family)
	r.line()
	syscall.Kill(watchdogOf(r), syscall.SIGKILL)
	r.want(76, "watchdog of \"x\" was killed")
	if out := r.rest(); out != "" {
		t.Errorf("stdout: %q", out)
	}
	h.start("fenlock", "run", "--no-wait", "x", "--", "true").want(0)

	r = h.start("fenlock", "run", "--ttl", "1s", "x", "--", "sh", "-c", "echo ready; read x; exit 4")
	r.line()
	syscall.Kill(watchdogOf(r), syscall.SIGSTOP)
	r.stdin.Close()
	r.want(4)
}

// A reader that does not read what fenlock prints does not keep it from ending the command.
func TestStderrIsNotRead(t *testing.T) {
	read, write, err := os.Pipe()
	must(t, err)
	defer read.Close()
	fill(t, write)
	h := newHome(t).byTime()
	for _, flag := range []string{"--ttl=1s", "--verbose"} {
		cmd := exec.CommandContext(t.Context(), program, "run", "--ttl", "1s", "--max-hold", "1s", flag, "x", "--", "sh",
			"-c", family+" 2>&-")
		out, err := cmd.StdoutPipe()
		must(t, err)
		cmd.Env, cmd.Stderr = h.env, write
		must(t, cmd.Start())
		r := &running{t: t, cmd: cmd}
		text := make([]byte, 100)
		n, _ := out.Read(text)
		if n2, _ := out.Read(text[n:]); string(text[:n+n2]) != "ready\n" {
			t.Errorf("stdout: %q", text[:n+n2])
		}
		if got := r.status(); got != exitLost {
			t.Errorf("exit status %d", got)
		}
	}
}

// fill writes to a pipe until it is full.
func fill(t *testing.T, f *os.File) {
	t.Helper()
	f.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := f.Write(make([]byte, 1<<20)); err == nil {
		t.Fatal("a pipe without end")
	}
	f.SetWriteDeadline(time.Time{})
	syscall.SetNonblock(int(f.Fd()), false) // as a terminal or a file is
}

// A job that waits for the lock that it runs under waits for ever.
func TestALockInsideItself(t *testing.T) {
	h := newHome(t).byTime()
	file := "file://" + filepath.Join(t.TempDir(), "other")
	for _, test := range []struct {
		status int
		said   string
		script string
	}{
		{64, "around this command", "fenlock run a -- true"},
		{64, "around this command", "fenlock run b -- fenlock run a -- true"},
		{75, "is held", "fenlock run --wait 100ms a -- true"},
		{0, "is held", "fenlock run --no-wait -E 0 a -- true"},
		{0, "", "fenlock run b -- true"},
		{64, "around this command", "ln -s $XDG_STATE_HOME/fenlock $XDG_STATE_HOME/link; fenlock run --node file://$XDG_STATE_HOME/link/locks a -- true"},
		{64, "around this command", "cd $XDG_STATE_HOME/fenlock; fenlock run --node file:./locks a -- true"},
		{0, "", "fenlock run --node " + file + " a -- true"},
	} {
		h.start("fenlock", "run", "a", "--", "sh", "-c", test.script).want(test.status, test.said)
	}
	// A slot is a lock of its own, and shares the name.
	for _, test := range []struct {
		status      int
		said, outer string
		inner       string
	}{
		{64, "around this command", "--slots 1 x", "'x#0' -- true"},
		{64, "around this command", "'x#0'", "--slots 1 x -- true"},
		{64, "around this command", "--slots 1 x", "--slots 1 x -- true"},
		{64, "around this command", "--slots 2 x", "--slots 2 x -- fenlock run --slots 2 x -- true"},
		{64, "around this command", "--slots 2 x", "x -- true"},
		{64, "around this command", "x", "--slots 2 x -- true"},
		{0, "", "--slots 2 x", "--slots 2 x -- true"},
		{0, "", "'x#0'", "--slots 2 x -- true"},
		{0, "", "'x#2'", "--slots 2 x -- true"},
		{0, "", "--slots 1 x", "'x#1' -- true"},
		{0, "", "--slots 1 x", "y -- true"},
		{78, "slots", "--slots 2 x", "--slots 3 x -- true"},
	} {
		h.start("sh", "-c", "exec fenlock run "+test.outer+" -- fenlock run "+test.inner).want(test.status, test.said)
	}
	// What was started under a lock may take it later. A shell would give it /dev/null for
	// stdin, so that it would not wait for the end of the fenlock around it.
	r := h.start("fenlock", "run", "a", "--", "sh", "-c",
		"exec 3<&0; (read x; exec fenlock run -q --local a -- echo mine) <&3 2>&1 & exit 0")
	r.want(0)
	r.stdin.Close()
	if out := r.rest(); out != "mine\n" {
		t.Errorf("it says %q", out)
	}
}

// A command that may not be signalled, because it has become another user, is not said
// to be stopped.
func TestACommandOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("REDUCED: only root can become another user")
		return
	}
	h := newHome(t).byTime()
	r := h.start("setpriv", "--bounding-set=-kill", program, "run", "--ttl", "1s", "--max-hold", "1s", "x", "--",
		"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", "echo ready; exec sleep 5")
	r.line()
	r.want(76, "cannot be signalled: it runs as another user", "could not be stopped: ", "(sleep)", "sudo fenlock run")
	r.rest()
}

// A signal that comes before the command has been started does not get in the way.
func TestSignalsWhileTheWatchdogStarts(t *testing.T) {
	h := newHome(t).byTime()
	for i := range 20 {
		r := h.start("fenlock", "run", "x", "--", "sh", "-c", "exit 3")
		time.Sleep(time.Duration(5+2*i) * time.Millisecond)
		r.signal(syscall.SIGCONT)
		r.want(3)
	}
}

// Fenlock and its watchdog were stopped, and fenlock goes on first.
func TestBothAreStopped(t *testing.T) {
	h := newHome(t).byTime()
	r := h.start("fenlock", "run", "--ttl", "1s", "x", "--", "sh", "-c", family)
	r.line()
	syscall.Kill(watchdogOf(r), syscall.SIGSTOP)
	r.signal(syscall.SIGSTOP)
	time.Sleep(1500 * time.Millisecond) // the validity must end
	r.signal(syscall.SIGCONT)
	r.want(76, "the command was stopped")
	if out := r.rest(); out != "" {
		t.Errorf("stdout: %q", out)
	}
}

// The command has the descriptors that fenlock was started with, and nothing that fenlock
// found when it was is ended.
func TestWhatIsNotFenlocks(t *testing.T) {
	h := newHome(t).byTime()
	r := h.start(
		"sh", "-c", `(sleep 3; echo still here) & exec fenlock run x -- sh -c 'echo ready >&3; exec sleep 60' 3>&1`)
	r.line()
	syscall.Kill(watchdogOf(r), syscall.SIGKILL)
	r.want(76, "watchdog")
	if out := r.rest(); out != "still here\n" {
		t.Errorf("stdout: %q", out)
	}
}

// A watchdog was stopped after it has started the command, and before it could say so.
func TestTheStartIsNotTold(t *testing.T) {
	unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	lock := held(t, time.Second)
	w, theirs, cmd := fakeWatchdog(t, lock.Remaining()-time.Second/watchdog.TermShare,
		"sleep 3600 & kill -STOP $$; sleep 3600")
	defer theirs.Close()
	out, in, err := os.Pipe()
	must(t, err)
	defer out.Close()
	cmd.Stdout = in
	w.run(t, cmd)
	in.Close()
	if _, err := w.follow(lock, watchdog.Job{TTL: time.Second}, nil, func(watchdog.Report) {}); err == nil {
		t.Error("no error")
	}
	out.SetReadDeadline(time.Now().Add(limit))
	if n, err := out.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("somebody is left: %d, %v", n, err)
	}
}
