//go:build linux || darwin || freebsd

package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/servers"
	"github.com/fenlock/fenlock/internal/testserver"
)

// buildFlags are for the program: -race if the tests have it.
var buildFlags []string

// program is the fenlock that the tests run.
var program string

func TestMain(m *testing.M) {
	link(&Extras{Engines: servers.Open}) // for what is tested in this process
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	folder, err := os.MkdirTemp("", "fenlock-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	program = filepath.Join(folder, "fenlock")
	if buildFlags == nil {
		program, err = testserver.BuildFenlock(folder)
	} else {
		err = testserver.BuildCommands(folder, buildFlags...)
	}
	if err != nil {
		panic(err)
	}
	// A program that was started with nohup ignores signals, and so does what it starts, unless it
	// handles them.
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	return m.Run()
}

// limit ends a test that hangs; no test passes by it.
const limit = 2 * time.Minute

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write makes a file with a mode, whatever the umask.
func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
	must(t, os.Chmod(path, mode))
	return path
}

// home is one user's machine: processes of one home share the default file.
type home struct {
	t     *testing.T
	state string
	env   []string
}

func newHome(t *testing.T, env ...string) *home {
	state := t.TempDir()
	base := []string{"PATH=" + filepath.Dir(program) + ":" + os.Getenv("PATH"), "HOME=/nonexistent",
		"XDG_STATE_HOME=" + state}
	return &home{t: t, state: state, env: append(base, env...)}
}

// byTime has leases that do not end with their processes, so that commands have a watchdog, on a
// file too. A minimum hold that is over at once sees to that.
func (h *home) byTime() *home {
	h.env = append(h.env, "FENLOCK_AT_LEAST=1ms")
	return h
}

// running is a fenlock that was started.
type running struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr bytes.Buffer
}

// start runs a program: "fenlock", or "sh" to prepare something first.
func (h *home) start(args ...string) *running {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	h.t.Cleanup(cancel)
	r := &running{t: h.t}
	path := program
	if args[0] != "fenlock" {
		path = args[0]
	}
	r.cmd = exec.CommandContext(ctx, path, args[1:]...)
	r.cmd.Env = h.env
	r.cmd.Stderr = &r.stderr
	// Wait must not wait for what the command left behind.
	r.cmd.WaitDelay = 10 * time.Second
	read, write, err := os.Pipe()
	must(h.t, err)
	r.cmd.Stdout, r.stdout = write, bufio.NewReader(read)
	h.t.Cleanup(func() { read.Close() })
	r.stdin, err = r.cmd.StdinPipe()
	must(h.t, err)
	must(h.t, r.cmd.Start())
	write.Close()
	return r
}

// line returns the next line of stdout.
func (r *running) line() string {
	r.t.Helper()
	line, err := r.stdout.ReadString('\n')
	if err != nil {
		r.cmd.Wait()
		r.t.Fatalf("%q ended: %v; stderr:\n%s", r.cmd.Args, err, &r.stderr)
	}
	return strings.TrimSuffix(line, "\n")
}

// until reads stdout up to a line with the text.
func (r *running) until(text string) {
	r.t.Helper()
	for !strings.Contains(r.line(), text) {
	}
}

func (r *running) signal(sig syscall.Signal) {
	r.t.Helper()
	must(r.t, r.cmd.Process.Signal(sig))
}

// rest returns what comes on stdout until no process is left that could write.
func (r *running) rest() string {
	r.t.Helper()
	text, err := io.ReadAll(r.stdout)
	must(r.t, err)
	return string(text)
}

// status waits for the end of fenlock and returns its exit status, -1 for a signal.
func (r *running) status() int {
	r.t.Helper()
	err := r.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.t.Errorf("%q: %v", r.cmd.Args, err)
	}
	return r.cmd.ProcessState.ExitCode()
}

// want fails the test unless fenlock ends with the status and has said each text.
func (r *running) want(status int, said ...string) {
	r.t.Helper()
	if got := r.status(); got != status {
		r.t.Errorf("%q: exit status %d, want %d; stderr:\n%s", r.cmd.Args, got, status, &r.stderr)
	}
	for _, text := range said {
		if !strings.Contains(r.stderr.String(), text) {
			r.t.Errorf("%q: stderr does not have %q:\n%s", r.cmd.Args, text, &r.stderr)
		}
	}
}

// output returns what fenlock prints with these words as its arguments. It fails the test unless
// fenlock ends with the status.
func (h *home) output(status int, words string) string {
	h.t.Helper()
	r := h.start(append([]string{"fenlock"}, strings.Fields(words)...)...)
	text := r.rest()
	r.want(status)
	return text
}

// hold starts a fenlock that holds name until end is called.
func (h *home) hold(name string, flags ...string) (end func()) {
	h.t.Helper()
	args := append([]string{"fenlock", "run"}, flags...)
	r := h.start(append(args, name, "--", "sh", "-c", "echo ready; read x; exit 0")...)
	if line := r.line(); line != "ready" {
		h.t.Fatalf("read %q", line)
	}
	return func() {
		h.t.Helper()
		r.stdin.Close()
		r.want(0)
	}
}
