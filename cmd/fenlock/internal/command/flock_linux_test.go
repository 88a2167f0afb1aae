package command

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// beside runs the same command under flock(1) and under fenlock, each as the last arguments of a
// caller. It returns what was printed and the status. fenlock's flags are before the name.
func (h *home) beside(folder string, caller []string, flags []string, command ...string) (flock, fenlock string) {
	h.t.Helper()
	run := func(args ...string) string {
		cmd := exec.CommandContext(h.t.Context(), caller[0], append(caller[1:len(caller):len(caller)], args...)...)
		var said bytes.Buffer
		cmd.Dir, cmd.Stderr = folder, &said
		cmd.Env = append(h.env, "FENLOCK_QUIET=true")
		out, err := cmd.Output()
		if err != nil && cmd.ProcessState == nil {
			h.t.Fatal(err)
		}
		return string(out) + "status " + strconv.Itoa(cmd.ProcessState.ExitCode())
	}
	before := slices.Concat([]string{program, "run"}, flags, []string{"x", "--"})
	if command[0] == "-c" {
		before = before[:len(before)-1]
	}
	return run(append([]string{"/usr/bin/flock", filepath.Join(h.state, "flock")}, command...)...),
		run(append(before, command...)...)
}

// Whatever execvp finds and runs, for flock, runs under fenlock, and prints the same.
func TestRunsWhatFlockRuns(t *testing.T) {
	h := newHome(t)
	folder := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(folder, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		return write(t, path, text, mode)
	}
	plain := file("plain", `echo "$# $2"; exit 3`+"\n", 0o755)
	file("empty", "", 0o755)
	file("first", "#!/bin/cat\nits own program\n", 0o755)
	file("mode/both", "echo wrong\n", 0o644)
	file("interpreter/both", "#!/no/such/shell\n", 0o755)
	file("folder/both/x", "", 0o644)
	file("good/both", "echo the right one\n", 0o755)
	file("good/-e", "echo no option; false; exit 5\n", 0o755)
	state := "XDG_STATE_HOME=" + h.state
	for _, test := range []struct {
		name    string
		caller  []string
		command []string
		want    string
	}{
		{"a script without a first line", []string{"env"}, []string{plain, "a", "b c"}, "2 b c\nstatus 3"},
		{"one by a path from here", []string{"env"}, []string{"./plain", "a", "b"}, "2 b\nstatus 3"},
		{"an empty file", []string{"env"}, []string{"./empty"}, "status 0"},
		{"a script with a first line", []string{"env"}, []string{"./first"}, "#!/bin/cat\nits own program\nstatus 0"},
		{"no PATH", []string{"env", "-i", state, "FENLOCK_QUIET=1"}, []string{"sh", "-c", "echo here"}, "here\nstatus 0"},
		{"no PATH, and a shell", []string{"env", "-i", state, "FENLOCK_QUIET=1"}, []string{"-c", "echo here"},
			"here\nstatus 0"},
		{"an empty PATH is the working folder", []string{"env", "PATH="}, []string{"plain", "a", "b"}, "2 b\nstatus 3"},
		{"so is an empty folder in it", []string{"env", "PATH=/no/such:"}, []string{"plain", "a", "b"}, "2 b\nstatus 3"},
		{"the next folder has it", []string{"env", "PATH=plain:/no/such:mode:folder:good"}, []string{"both"},
			"the right one\nstatus 0"},
		{"the next folder has its program", []string{"env", "PATH=interpreter:good"}, []string{"both"},
			"the right one\nstatus 0"},
		{"the shell of the user, by its name", []string{"env", "SHELL=bash"}, []string{"-c", "echo $0 $((1 + 1))"},
			"bash 2\nstatus 0"},
		{"the shell of the user is empty", []string{"env", "SHELL="}, []string{"-c", "echo $0"}, "/bin/sh\nstatus 0"},
	} {
		for _, flags := range [][]string{nil, {"--lead"}} {
			flock, fenlock := h.beside(folder, test.caller, flags, test.command...)
			if flock != test.want || fenlock != test.want {
				t.Errorf("%s %q: under flock %q, under fenlock %q, want %q", test.name, flags, flock, fenlock, test.want)
			}
		}
	}
	// A script whose name flock takes for an option of its own.
	_, fenlock := h.beside(filepath.Join(folder, "good"), []string{"env", "PATH="}, nil, "-e")
	if fenlock != "no option\nstatus 5" {
		t.Errorf("a script named -e: %q", fenlock)
	}
}

// What cannot be run has the status that a shell gives it; flock has 69 for all of these.
func TestDoesNotRunWhatFlockDoesNot(t *testing.T) {
	h := newHome(t)
	folder := t.TempDir()
	write(t, folder+"/text", "", 0o644)
	write(t, folder+"/program", "\x7fELF\x02\x00\n", 0o755)
	write(t, folder+"/nowhere", "#!/no/such/shell\n", 0o755)
	for _, test := range []struct {
		path    string
		command string
		status  int
		said    string
	}{
		{folder, "text", 126, "text is not executable: permission denied"},
		{folder, folder + "/text", 126, "not executable"},
		{folder, folder, 126, "is a directory"},
		{folder, "program", 126, "no program for this kind of machine"}, // and not run as a script
		{folder, "nowhere", 127, "the program of its first line"},
		{folder, "nothing", 127, "nothing: command not found"},
		{folder, folder + "/nothing", 127, "/nothing: not found"},
		{folder, folder + "/text/x", 127, "/text/x: not found"},
		{"unset", "fenlock-no-such-command", 127, "command not found in /bin:/usr/bin: PATH is not set"},
	} {
		caller := []string{"env", "PATH=" + test.path}
		if test.path == "unset" {
			caller = []string{"env", "-u", "PATH"}
		}
		h.start(append(caller, program, "run", "x", "--", test.command)...).want(test.status, test.said)
	}
	// It is looked for before the lock is waited for.
	end := h.hold("x")
	h.start("fenlock", "run", "x", "--", "fenlock-no-such-command").want(127)
	end()
}

// A signal that the caller ignores is ignored by the command, and all others are not, as under
// flock. That holds whatever fenlock and its watchdog do with them. Signals that Go's runtime
// catches are not passed on.
func TestIgnoredSignalsAreFlocks(t *testing.T) {
	h := newHome(t)
	tell := []string{"sh", "-c", `grep -e SigIgn -e SigBlk /proc/self/status`}
	callers := [][]string{{"env"}, {"nohup"}}
	all := []string{"HUP", "INT", "TSTP", "TTIN", "TTOU", "CONT"}
	for _, name := range append(all, strings.Join(all, " "), "CHLD") {
		callers = append(callers, []string{"sh", "-c", `trap "" ` + name + `; exec "$@"`, "sh"})
	}
	for _, caller := range callers {
		for _, flags := range [][]string{nil, {"--lead"}} {
			flock, fenlock := h.beside(h.state, caller, flags, tell...)
			if flock != fenlock || !strings.HasPrefix(flock, "SigBlk:") {
				t.Errorf("%q %q: under flock %q, under fenlock %q", caller, flags, flock, fenlock)
			}
		}
	}
}

// fenlock itself, and its watchdog, ignore them too.
func TestIgnoredSignalsEndNothing(t *testing.T) {
	h := newHome(t).byTime()
	for name, sig := range map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "INT": syscall.SIGINT,
	} {
		end := h.hold("x")
		r := h.start("sh", "-c", `trap "" `+name+`; exec fenlock run x -- sh -c 'echo ready; read x; exit 4' 2>&1`)
		r.until("waiting: ")
		r.signal(sig) // while it waits
		end()
		for r.line() != "ready" {
		}
		r.signal(sig)
		syscall.Kill(watchdogOf(r), sig)
		r.stdin.Close()
		r.want(4)
	}
}

// untilStopped waits until a process, and all of it, is stopped.
func untilStopped(t *testing.T, pid string) {
	t.Helper()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		status, err := os.ReadFile("/proc/" + pid + "/status")
		must(t, err)
		if strings.Contains(string(status), "\nState:\tT") {
			return
		}
	}
	t.Fatal("it was not stopped")
}

// A job that is stopped is ended by what ends it otherwise, after it has done what it does then.
func TestAStoppedJobIsEnded(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "TERM": syscall.SIGTERM,
	} {
		for script, want := range map[string]int{
			"echo $$; kill -STOP $$; sleep 3600":                                        128 + int(sig),
			"trap 'echo tidy; exit 7' " + name + "; echo $$; kill -STOP $$; sleep 3600": 7,
		} {
			for _, who := range []string{"fenlock", "fenlock without a watchdog", "its watchdog"} {
				h := newHome(t)
				if who != "fenlock without a watchdog" {
					h = h.byTime()
				}
				r := h.start("fenlock", "run", "x", "--", "sh", "-c", script)
				untilStopped(t, r.line())
				if who != "its watchdog" {
					r.signal(sig)
				} else {
					syscall.Kill(watchdogOf(r), sig)
				}
				r.want(want)
				if out := r.rest(); (out == "tidy\n") != (want == 7) {
					t.Errorf("%s to %s: it printed %q", name, who, out)
				}
			}
		}
	}
}

// A lock that is lost has a stopped job end, too: it may tidy up, and what does not is killed in
// time.
func TestAStoppedJobIsEndedWithItsLock(t *testing.T) {
	for _, h := range []*home{newHome(t), newHome(t).byTime()} {
		aStoppedJobIsEndedWithItsLock(t, h)
	}
}

func aStoppedJobIsEndedWithItsLock(t *testing.T, h *home) {
	t.Helper()
	for script, killed := range map[string]bool{
		"trap 'echo tidy; exit 7' TERM; echo $$; kill -STOP $$; sleep 3600":                                       false,
		"setsid sh -c \"trap 'echo tidy; exit 7' TERM; echo \\$\\$; kill -STOP \\$\\$; sleep 3600\" & sleep 3600": false,
		"trap '' TERM; echo $$; while :; do kill -STOP $$; done":                                                  true,
	} {
		r := h.start("fenlock", "run", "--ttl", "2s", "--max-hold", "2s", "x", "--", "sh", "-c", script)
		r.line()
		r.want(76, "stopping the command (SIGTERM)")
		said := strings.Contains(r.stderr.String(), "killing the command (SIGKILL)")
		if out := r.rest(); (out != "tidy\n") != killed || said != killed {
			t.Errorf("%s: it printed %q, and fenlock %q", script, out, &r.stderr)
		}
	}
}

// A background job that reads from the terminal is stopped, and said to be. It holds its lock
// until it is killed, as any job, and has the terminal when it is put into the foreground.
func TestAStoppedBackgroundJob(t *testing.T) {
	h := newHome(t)
	s := h.session(`set -m; fenlock run x -- cat & pid=$!; read line; kill $pid; wait $pid; echo status $?
		fenlock run -n x -- echo free; exit 0`)
	s.expect("the command was stopped because it needs the terminal", "> go on\n", "status 143", "free")
	must(t, s.cmd.Wait())
	s = h.session(`set -m; fenlock run x -- sh -c 'read a; echo command has $a; exit 3' & read line; fg; echo status $?
		read b; echo caller has $b`)
	s.expect("the command was stopped because it needs the terminal", "> go on\n", "fenlock run x", "> one\n",
		"command has one", "status 3", "> two\n", "caller has two")
	must(t, s.cmd.Wait())
}

// The rows of the table in docs/migration.md that no other test is about, and what flock does
// there.
func TestWhatDiffersFromFlock(t *testing.T) {
	h := newHome(t)
	folder := t.TempDir()
	lock, made := filepath.Join(folder, "lock"), filepath.Join(folder, "made")
	h.env = append(h.env, "MADE="+made)
	const makes = `echo ready; read x; ln -s /bin/echo "$MADE"`

	// The dashes, a conflict, and a command that is made while the lock is waited for.
	h.start("flock", lock, "true").want(0)
	h.start("fenlock", "run", "x", "true").want(64, "expected -- after NAME")
	first := h.start("flock", lock, "sh", "-c", makes)
	first.line()
	h.start("flock", "-n", lock, "true").want(1)
	second := h.start("flock", lock, made, "here")
	first.stdin.Close()
	if out := second.rest(); out != "here\n" {
		t.Errorf("under flock it printed %q", out)
	}
	must(t, os.Remove(made))
	first = h.start("fenlock", "run", "x", "--", "sh", "-c", makes)
	first.line()
	h.start("fenlock", "run", "-n", "x", "--", "true").want(75)
	h.start("fenlock", "run", "-nE", "1", "x", "--", "true").want(1)
	h.start("fenlock", "run", "x", "--", made, "here").want(127)
	second = h.start("fenlock", "run", "x", "-c", `exec "$MADE" here`)
	first.stdin.Close()
	if out := second.rest(); out != "here\n" {
		t.Errorf("under fenlock it printed %q", out)
	}

	// A signal to flock is not for its command, which keeps the lock.
	r := h.start("flock", lock, "sh", "-c", "echo ready; read x; echo went on")
	r.line()
	r.signal(syscall.SIGTERM)
	h.start("flock", "-n", lock, "true").want(1)
	r.want(-1)
	if out := r.rest(); out != "went on\n" {
		t.Errorf("after flock had a signal: %q", out)
	}

	// Users have each their own locks, as far as they do not name a file.
	end := h.hold("x")
	newHome(t).start("fenlock", "run", "x", "--", "true").want(0) // does not wait for that one
	end()
}

// A script can lock itself by its first line, as those do that take a lock with flock's descriptor.
func TestAScriptThatLocksItself(t *testing.T) {
	h := newHome(t)
	script := write(t, filepath.Join(t.TempDir(), "script"),
		`[ "$FENLOCK_NAME" = report ] || exec fenlock run --no-wait report -- "$0" "$@"
echo "$2"; read x; exit 4
`, 0o755)
	r := h.start("sh", script, "a", "b c")
	if line := r.line(); line != "b c" {
		t.Errorf("it printed %q", line)
	}
	h.start("sh", script, "a", "b").want(75)
	r.stdin.Close()
	r.want(4)
}
