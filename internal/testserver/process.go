//go:build unix

package testserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver/probe"
)

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = time.Minute
	pollInterval = 5 * time.Millisecond
)

// process is a server program that can be ended and launched again. Its methods
// are safe for concurrent use, except that those which fail the test must be
// called from the test's goroutine, as t.Fatal must.
type process struct {
	t           testing.TB
	host        string // "" for 127.0.0.1
	port        int
	via         []string // of its place
	path        string
	dir         string // where it runs
	logPath     string
	readyLine   string   // the server logs it when it listens and is done loading
	environment []string // beside the test's own
	credential  *syscall.Credential
	killSignal  syscall.Signal

	mu  sync.Mutex
	run *run // the last one; nil before the first
}

// run is one life of a process.
type run struct {
	pid      int
	done     chan struct{} // closed when the process is gone
	err      error         // how it went; read after done
	logStart int64         // size of the log before it
}

func (r *run) alive() bool {
	if r == nil {
		return false
	}
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// ErrPortTaken is of a server on whose port another process listens.
var ErrPortTaken = errors.New("the port is taken")

// startAnywhere starts on a free port, and on another one if another process was faster.
func (p *process) startAnywhere(startOnPort func() error) {
	p.t.Helper()
	for {
		p.port = FreePort(p.t)
		err := startOnPort()
		if err == nil {
			return
		}
		if !errors.Is(err, ErrPortTaken) {
			p.t.Fatalf("%s: %v; its log:\n%s", filepath.Base(p.path), err, p.Log())
		}
	}
}

// start launches the program and waits until ready returns nil, up to 30 seconds.
func (p *process) start(args []string, ready func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.launch(args); err != nil {
		return err
	}
	late := fmt.Errorf("not up within %v", startTimeout)
	ctx, cancel := context.WithTimeoutCause(context.Background(), startTimeout, late)
	defer cancel()
	return p.await(ctx, ready)
}

// await waits until ready returns nil, or ctx is done. Called with mu held.
func (p *process) await(ctx context.Context, ready func() error) error {
	r, err := p.run, errors.New("nothing logged yet")
	for ; ctx.Err() == nil; time.Sleep(pollInterval) {
		if !r.alive() {
			if strings.Contains(strings.ToLower(p.logSince(r.logStart)), "address already in use") {
				return ErrPortTaken
			}
			return fmt.Errorf("ended: %v", r.err)
		}
		// The log comes first: if the port was taken, ready would be told about another test's
		// server.
		if !strings.Contains(p.logSince(r.logStart), p.readyLine) {
			err = fmt.Errorf("did not log %q", p.readyLine)
		} else if problem := ready(); problem == nil {
			return nil
		} else if ctx.Err() == nil { // if not, it says no more than that
			err = problem
		}
	}
	return fmt.Errorf("%w: %v", context.Cause(ctx), err)
}

func (p *process) launch(args []string) error {
	log, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	before, err := log.Stat()
	if err != nil {
		return err
	}
	words := slices.Concat(p.via, []string{p.path}, args)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	cmd.Env = append(cmd.Environ(), p.environment...)
	// A group of its own: Ctrl-C must reach the test and not the server, and a
	// signal must reach the server's children (BGSAVE) as well.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: p.credential}
	if err := cmd.Start(); err != nil {
		return err
	}
	r := &run{pid: cmd.Process.Pid, done: make(chan struct{}), logStart: before.Size()}
	dismiss, err := watch(r.pid, p.killSignal)
	go func() {
		r.err = cmd.Wait()
		dismiss()
		close(r.done)
	}()
	if err != nil {
		syscall.Kill(-r.pid, syscall.SIGKILL)
		<-r.done
		return err
	}
	p.run = r
	return nil
}

// watch starts a shell that ends the process group pid when this test binary ends without dismiss:
// by a panic, a timeout, a kill. It notices by the end of a pipe that only the test binary holds
// open. The parent death signal would need no shell, but it fires when the *thread* that started
// the server ends.
func watch(pid int, sig syscall.Signal) (dismiss func(), err error) {
	const script = `read -r line && exit; kill -s "$2" -- "-$1"`
	name := map[syscall.Signal]string{syscall.SIGKILL: "KILL", syscall.SIGQUIT: "QUIT"}[sig]
	cmd := exec.Command("sh", "-c", script, "fenlock-test-watch", strconv.Itoa(pid), name)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return func() {}, err
	}
	if err := cmd.Start(); err != nil {
		return func() {}, err
	}
	return func() {
		io.WriteString(pipe, "done\n")
		cmd.Wait()
	}, nil
}

// end sends the signals, one after the other, and waits until the process is
// gone. It does nothing if it is gone already.
func (p *process) end(signals ...syscall.Signal) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.run
	if !r.alive() {
		return
	}
	for _, sig := range signals {
		syscall.Kill(-r.pid, sig)
	}
	select {
	case <-r.done:
	case <-time.After(stopTimeout):
		syscall.Kill(-r.pid, syscall.SIGKILL)
		<-r.done
		p.t.Errorf("%s ignored %v for %v and was killed; its log:\n%s", p.path, signals, stopTimeout, p.Log())
	}
}

// Kill ends the server and its children as a crash would (SIGKILL), paused or not, and
// waits until it is gone.
func (p *process) Kill() { p.t.Helper(); p.end(p.killSignal) }

// Stop asks the server to shut down (SIGTERM) and waits until it has, paused or not. A stopped
// process acts on a signal only after it continues.
func (p *process) Stop() { p.t.Helper(); p.end(syscall.SIGTERM, syscall.SIGCONT) }

// Pause freezes the server (SIGSTOP): connections stay open, the kernel accepts
// new ones, nothing is answered. The server does nothing any more when it returns.
func (p *process) Pause() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signal("pause", syscall.SIGSTOP)
	if !probe.Stops(p.run.pid) {
		p.t.Fatalf("pause: %s did not stop", p.path)
	}
}

// Resume lets a paused server go on (SIGCONT).
func (p *process) Resume() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signal("resume", syscall.SIGCONT)
}

// signal is called with mu held.
func (p *process) signal(what string, sig syscall.Signal) {
	p.t.Helper()
	if !p.run.alive() {
		p.t.Fatalf("%s: %s is not running", what, p.path)
	}
	if err := syscall.Kill(-p.run.pid, sig); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}

// Addr returns "127.0.0.1:port", or another host if Elsewhere says so. It stays the same for the
// server's whole life.
func (p *process) Addr() string {
	return net.JoinHostPort(cmp.Or(p.host, "127.0.0.1"), strconv.Itoa(p.port))
}

// Data returns the folder with the server's data, for tests that take it away, or change it while
// the server is down.
func (p *process) Data() string { return filepath.Join(p.dir, "data") }

// wipe empties that folder, as the loss of a disk would.
func (p *process) wipe() {
	p.t.Helper()
	if p.Pid() != 0 {
		p.t.Fatalf("wipe: %s is still running", p.Addr())
	}
	if err := errors.Join(os.RemoveAll(p.Data()), os.Mkdir(p.Data(), 0o755)); err != nil {
		p.t.Fatal(err)
	}
}

// connect connects to the server, for one question.
func (p *process) connect(timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", p.Addr(), timeout)
	if err == nil {
		conn.SetDeadline(time.Now().Add(timeout))
	}
	return conn, err
}

// Pid returns the process id, 0 while the server is down.
func (p *process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.run.alive() {
		return 0
	}
	return p.run.pid
}

// Log returns what the server has logged in all its lives.
func (p *process) Log() string { return p.logSince(0) }

func (p *process) logSince(offset int64) string {
	text, err := os.ReadFile(p.logPath)
	if err != nil {
		return err.Error()
	}
	return string(text[min(offset, int64(len(text))):])
}

// FreePort returns a loopback port that is free at the moment.
//
// The kernel does not propose it. Such ports are also handed out to outgoing connections, so
// another process could take the port of a server that is down. A client that dials such a port
// repeatedly ends up connected to itself.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 20000 + rand.IntN(12000) // below Linux's default range, from 32768
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			listener.Close()
			return port
		}
	}
	t.Fatal("found no free port between 20000 and 32000")
	return 0
}
