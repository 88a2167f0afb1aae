//go:build linux

package worker

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/fenlock/fenlock/internal/testserver/probe"
	"github.com/fenlock/fenlock/tests/history"
)

// Group are the client processes of a history. There are always as many; a client that is killed is
// replaced by another, with a number of its own. Safe for concurrent use.
type Group struct {
	dir    string
	config Config // of all; the rest depends on the place
	urls   func(place int) []string

	killing sync.Mutex // held while one is killed and replaced: several faults may choose the same

	mu      sync.Mutex
	started int
	members []*process
	over    bool // no more are started

	rests int // how often they were told to rest; for Rest only
}

// process is one client process.
type process struct {
	number int
	cmd    *exec.Cmd
	errors string // file for its standard error stream
	input  io.WriteCloser
	rested chan string   // what the process says when it rests
	done   chan struct{} // closed when the process is gone
	err    error         // how it ended; read after done
}

// Start starts so many processes, whose events go to files in a folder. urls are those
// of the nodes, for the client at a place.
func Start(dir string, n int, config Config, urls func(place int) []string) (*Group, error) {
	g := &Group{dir: dir, config: config, urls: urls}
	for place := range n {
		w, err := g.start(place)
		if err != nil {
			g.End()
			return nil, err
		}
		g.members = append(g.members, w)
	}
	return g, nil
}

func (g *Group) start(place int) (*process, error) {
	g.started++
	config := g.config
	config.Client, config.URLs, config.Log = g.started, g.urls(place), g.log(g.started)
	config.Label = fmt.Sprint("client ", g.started)
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &process{number: g.started, cmd: exec.Command(self), rested: make(chan string, 1), done: make(chan struct{})}
	w.errors = filepath.Join(g.dir, fmt.Sprintf("client-%d.err", g.started))
	errors, err := os.Create(w.errors)
	if err != nil {
		return nil, err
	}
	defer errors.Close()
	w.cmd.Env = append(os.Environ(), variable+"="+string(text))
	w.cmd.Stderr = errors
	// A group of its own: Ctrl-C is for the runner. If the runner is killed while a client is
	// stopped, the kernel continues the client. It then sees the end of its input (setpgid(2):
	// orphaned process groups).
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if w.input, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		for lines := bufio.NewScanner(output); lines.Scan(); {
			select {
			case <-w.rested: // the last one was not asked for
			default:
			}
			w.rested <- lines.Text()
		}
		w.err = w.cmd.Wait()
		close(w.done)
	}()
	return w, nil
}

func (g *Group) log(number int) string {
	return filepath.Join(g.dir, fmt.Sprintf("client-%d.jsonl", number))
}

// End kills all that are left and waits until they are gone.
func (g *Group) End() {
	g.mu.Lock()
	g.over = true
	members := slices.Clone(g.members)
	g.mu.Unlock()
	for _, w := range members {
		w.kill()
	}
}

// kill ends the process as a crash would, and waits until it has.
func (w *process) kill() {
	w.cmd.Process.Kill()
	<-w.done
	w.input.Close()
}

func (w *process) say(order string) {
	io.WriteString(w.input, order+"\n") // one that is gone is found by Finish
}

// Count returns how many there are.
func (g *Group) Count() int { return len(g.members) }

func (g *Group) member(i int) *process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.members[i]
}

// Pause stops a process (SIGSTOP).
func (g *Group) Pause(i int) (resume func(), err error) {
	w := g.member(i)
	if err := w.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("client %d: %w", w.number, err)
	}
	probe.Stops(w.cmd.Process.Pid)
	// One that was killed since needs no signal.
	return func() { w.cmd.Process.Signal(syscall.SIGCONT) }, nil
}

// Kill ends a process (SIGKILL), and starts one that takes its place.
func (g *Group) Kill(i int) error {
	g.killing.Lock()
	defer g.killing.Unlock()
	w := g.member(i)
	select {
	case <-w.done:
		return fmt.Errorf("client %d had ended by itself: %s", w.number, w.ended())
	default:
	}
	w.kill()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return errors.New("the history is over")
	}
	next, err := g.start(i)
	if err == nil {
		g.members[i] = next
	}
	return err
}

// Rest has all processes let go of what they hold or wait for, and waits until
// they have. They stay so until GoOn or Quiet.
func (g *Group) Rest(limit time.Duration) error {
	timeout := time.After(limit)
	g.rests++
	g.tell(fmt.Sprint(sayRest, " ", g.rests))
	for i := range g.members {
		w := g.member(i)
		// An answer to an earlier order may come first, if that was not waited for.
		for answer, want := "", fmt.Sprint(resting, " ", g.rests); answer != want; {
			select {
			case answer = <-w.rested:
			case <-w.done:
				return fmt.Errorf("client %d ended: %s", w.number, w.ended())
			case <-timeout:
				return fmt.Errorf("client %d has not let go of its lock within %v%s", w.number, limit, w.said())
			}
		}
	}
	return nil
}

// GoOn ends a Rest.
func (g *Group) GoOn() { g.tell(sayGo) }

// Quiet tells that nothing fails any more: each client acquires every name once, and
// comes to its end. Finish waits for that.
func (g *Group) Quiet() { g.tell(sayQuiet) }

func (g *Group) tell(order string) {
	for i := range g.members {
		g.member(i).say(order)
	}
}

// Finish waits until all have come to their end, after Quiet.
func (g *Group) Finish(limit time.Duration) error {
	timeout := time.After(limit)
	var errs []error
	for i := range g.members {
		w := g.member(i)
		select {
		case <-w.done:
			w.input.Close()
			if w.err != nil {
				errs = append(errs, fmt.Errorf("client %d: %s", w.number, w.ended()))
			}
		case <-timeout:
			return errors.Join(append(errs,
				fmt.Errorf("client %d has not come to its end within %v of quiet%s", w.number, limit, w.said()))...)
		}
	}
	return errors.Join(errs...)
}

// ended says how a process ended that is gone.
func (w *process) ended() string {
	if w.err == nil {
		return "exit status 0" + w.said()
	}
	return w.err.Error() + w.said()
}

// Said is the end of what a process wrote to its standard error stream.
func (g *Group) Said(i int) string { return g.member(i).said() }

func (w *process) said() string {
	text, err := os.ReadFile(w.errors)
	if err != nil || len(text) == 0 {
		return ""
	}
	const most = 4 << 10
	return "; it said:\n" + string(text[max(0, len(text)-most):])
}

// Events returns what all have written down. They have ended.
func (g *Group) Events() (all [][]history.Event, err error) {
	for number := 1; number <= g.started; number++ {
		events, err := readLog(g.log(number))
		if err != nil {
			return nil, err
		}
		all = append(all, events)
	}
	return all, nil
}
