package command

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"golang.org/x/sys/unix"
)

// pty returns both ends of a new pseudo-terminal.
func pty(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { master.Close() })
	must(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must(t, err)
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	must(t, err)
	// After Ctrl-C and Ctrl-Z the kernel throws away what was printed, which may be what comes of
	// them already.
	modes, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	must(t, err)
	modes.Lflag |= unix.NOFLSH
	must(t, unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, modes))
	return master, slave
}

// session is a shell script whose controlling terminal is a pseudo-terminal.
type session struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File
	lines  *bufio.Scanner
}

func (h *home) session(script string) *session {
	h.t.Helper()
	master, slave := pty(h.t)
	defer slave.Close()
	cmd := exec.CommandContext(h.t.Context(), "sh", "-c", script)
	cmd.Env = h.env
	cmd.Dir = h.t.TempDir()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	// Not ignored, as it is after a test in which this process has taken a terminal back.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTTOU)
	must(h.t, cmd.Start())
	return &session{t: h.t, cmd: cmd, master: master, lines: bufio.NewScanner(master)}
}

// expect reads the terminal up to a line with each text in turn. A text after "> " is typed.
func (s *session) expect(texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		if typed, is := strings.CutPrefix(text, "> "); is {
			_, err := s.master.WriteString(typed)
			must(s.t, err)
			continue
		}
		s.read(text)
	}
}

func (s *session) read(text string) {
	s.t.Helper()
	// A shell that never prints it would be read from for ever; with the session's leader all have
	// hung up.
	defer time.AfterFunc(time.Minute, func() { s.cmd.Process.Kill() }).Stop()
	var seen []string
	for s.lines.Scan() {
		seen = append(seen, s.lines.Text())
		if strings.Contains(s.lines.Text(), text) {
			return
		}
	}
	s.t.Fatalf("no line with %q; the terminal had:\n%s", text, strings.Join(seen, "\n"))
}

// The command can read the terminal; afterwards its caller can.
func TestTheTerminalIsLentAndGivenBack(t *testing.T) {
	h := newHome(t)
	s := h.session(`fenlock run x -- sh -c 'echo asking; read a; echo command has $a; exit 3'; echo status $?; read b; echo caller has $b`)
	s.expect("asking", "> one\n", "command has one", "status 3", "> two\n", "caller has two")
	must(t, s.cmd.Wait())
}

// Each command of a leader that leads again has the terminal, as the first had it. It may be
// stopped when it writes to it from the background.
func TestTheTerminalIsLentAgain(t *testing.T) {
	h := newHome(t) // without a watchdog: who leads has one with servers
	s := h.session(`exec fenlock run --lead --ttl 1s x -- sh -c 'set -- $(grep SigIgn /proc/self/status); echo "ignores SIGTTOU: $(( 0x$2 >> 21 & 1 ))"; read line; echo "got $line"'`)
	for range 2 {
		s.expect("ignores SIGTTOU: 0")
		h.start("fenlock", "release", "--force", "--yes", "x").want(0)
		s.expect("in the election again")
	}
	s.expect("ignores SIGTTOU: 0", "> it\n", "got it")
	must(t, s.cmd.Wait())
}

func TestCtrlC(t *testing.T) {
	h := newHome(t)
	// A shell that waits dies of the same Ctrl-C, if it gets it. It does not:
	// the command's group has the terminal.
	s := h.session(`trap "echo caller interrupted" INT; fenlock run x -- sh -c 'trap "echo interrupted; exit 9" INT; echo ready; while :; do sleep 0.1; done'; echo status $?`)
	s.expect("ready", "> \x03", "interrupted", "status 9")
	// While waiting it is fenlock's.
	end := h.hold("x")
	s = h.session(`trap : INT; fenlock run x -- true; echo status $?`)
	s.expect("waiting: ", "> \x03", "status 130")
	end()
}

// At a terminal --quiet leaves out that a lock is of this machine only. Where stderr is none,
// nothing does.
func TestLocalAtATerminal(t *testing.T) {
	h := newHome(t)
	said := filepath.Join(t.TempDir(), "stderr")
	s := h.session(`fenlock run x -- echo first; fenlock run -q x -- echo quiet; fenlock run --local x -- echo meant; fenlock run -q x -- true 2>` + said)
	var lines []string
	for s.lines.Scan() {
		lines = append(lines, s.lines.Text())
	}
	s.cmd.Wait()
	if len(lines) != 4 || !strings.Contains(lines[0], "no servers are named") ||
		!slices.Equal(lines[1:], []string{"first", "quiet", "meant"}) {
		t.Errorf("the terminal had %q", lines)
	}
	if text, err := os.ReadFile(said); err != nil || strings.Count(string(text), "\n") != 1 ||
		!strings.Contains(string(text), "no servers are named") {
		t.Errorf("a file had %q, %v", text, err)
	}
}

// A command that is stopped stops fenlock, which is the job that its shell knows. The lock stays.
func TestCtrlZ(t *testing.T) {
	h := newHome(t)
	s := h.session(`set -m; fenlock run x -- sh -c 'echo ready; read a; echo command has $a; exit 3'; echo stopped $?
		fenlock run --no-wait x -- true; echo held $?; fg; echo status $?`)
	s.expect("ready", "> \x1a", "stopped 1", "held 75", "> one\n", "command has one", "status 3")
}

// Ctrl-Z stops the whole job: all of a pipeline, and a fenlock around this one.
func TestCtrlZOfAJob(t *testing.T) {
	h := newHome(t)
	for _, job := range []string{
		"fenlock run x -- sh -c 'echo ready; read a; echo command has $a' | cat",
		"sh -c \"fenlock run x -- sh -c 'echo ready; read a; echo command has \\$a'; echo script\"",
		"fenlock run y -- fenlock run x -- sh -c 'echo ready; read a; echo command has $a'",
	} {
		s := h.session("set -m; " + job + "; echo stopped $?; fg; echo ended $?")
		s.expect("ready", "> \x1a", "stopped 1", "> one\n", "command has one", "ended 0")
	}
}

// A lock that was broken while its command was stopped has the command ended, before it does
// anything else. The command forks nothing: a shell whose child is stopped between vfork and exec
// does not stop itself. The write that is under way when it is stopped may end after that.
func TestCtrlZOfABrokenLock(t *testing.T) {
	h := newHome(t)
	s := h.session(`set -m; fenlock run x -- sh -c 'echo ready; while :; do echo >>work; done'; echo stopped $?
		fenlock release --force --yes x; before=$(wc -l <work); fg
		echo status $?; echo goes on $(($(wc -l <work) - before > 1))`)
	s.expect("ready", "> \x1a", "stopped 1", "broken: x", "status 76", "goes on 0")
}

// Where no shell would continue it, nothing stops.
func TestCtrlZWithoutAShell(t *testing.T) {
	h := newHome(t)
	s := h.session(`exec fenlock run x -- sh -c 'echo ready; read a; echo command has $a; exit 3'`)
	s.expect("ready", "> \x1a", "> one\n", "command has one")
	s.cmd.Wait()
	if got := s.cmd.ProcessState.ExitCode(); got != 3 {
		t.Errorf("exit status %d", got)
	}
}

// A command that is stopped goes on where its lock has to be extended.
func TestCtrlZByTime(t *testing.T) {
	h := newHome(t).byTime()
	s := h.session(`fenlock run x -- sh -c 'echo ready; read a; echo command has $a; exit 3'; echo status $?`)
	s.expect("ready", "> \x1a", "the command goes on", "> one\n", "command has one", "status 3")
}

// The modes that a killed editor set are undone.
func TestTheTerminalsModesAreRestored(t *testing.T) {
	h := newHome(t)
	s := h.session(`fenlock run --ttl 1s --max-hold 1s x -- sh -c 'trap "" TERM; stty raw -echo; sleep 60'; echo status $?; stty -a | tr ";" "\n" | grep -w -- "icanon\|echo"; echo done`)
	s.expect("status 76", " icanon ", "done")
}

// A user that breaks a lock is shown what, and asked.
func TestReleaseAsks(t *testing.T) {
	h := newHome(t)
	end := h.hold("x", "--label", "host/42", "--ttl", "30s") // it hears of it after this test
	for _, c := range []struct{ answer, says, status string }{
		{"", "nothing was broken", "status 75"},
		{"no", "nothing was broken", "status 75"},
		{"y", "broken: x, held by host/42", "status 0"},
	} {
		s := h.session("fenlock release --force x; echo status $?")
		s.expect("x is held by host/42", "the queue is empty", "> "+c.answer+"\n", c.says, c.status)
	}
	end()
}

// Where the lock is seen to be free, the user is not asked, and nothing is broken. That includes
// the lock of a client that has come meanwhile.
func TestNothingToBreak(t *testing.T) {
	h, servers := group(t, 30*time.Second)
	h.start("fenlock", "run", "b", "--", "true").want(0)
	servers[2].Kill() // it might have something
	registers := func() (all []string) {
		for _, server := range servers[:2] {
			all = append(all, server.Do("HGETALL", testserver.RegistersKey("fenlock:")))
		}
		return all
	}
	before := registers()
	s := h.session("fenlock release --force a; echo status $?")
	s.expect("a is free", "status 0")
	if after := registers(); !slices.Equal(before, after) {
		t.Errorf("the registers were %q, and are %q", before, after)
	}
	if text := h.output(0, "release --force --yes a"); !strings.HasPrefix(text,
		"broken: a, which is free as far as the nodes tell\n") {
		t.Error(text)
	}
}
