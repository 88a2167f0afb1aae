//go:build linux

package main

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

	"github.com/fenlock/fenlock/tests/history"
)

// crew are the client processes of a history. There are always as many; one that
// is killed is replaced by a new one, with a number of its own. Safe for
// concurrent use.
type crew struct {
	dir    string
	config workerConfig              // of all; the rest depends on the place
	urls   func(client int) []string // of the nodes, for the client at a place

	mu      sync.Mutex
	started int
	members []*worker
	over    bool // no more are started

	rests int // how often they were told to rest; for rest only
}

// worker is one client process.
type worker struct {
	number int
	cmd    *exec.Cmd
	input  io.WriteCloser
	rested chan string   // what the process says when it rests
	done   chan struct{} // closed when the process is gone
	err    error         // how it ended; read after done
}

// startCrew starts so many processes, whose events go to files in a folder.
func startCrew(dir string, n int, config workerConfig, urls func(client int) []string) (*crew, error) {
	c := &crew{dir: dir, config: config, urls: urls}
	for place := range n {
		w, err := c.start(place)
		if err != nil {
			c.end()
			return nil, err
		}
		c.members = append(c.members, w)
	}
	return c, nil
}

func (c *crew) start(place int) (*worker, error) {
	c.started++
	config := c.config
	config.Client, config.URLs, config.Log = c.started, c.urls(place), c.log(c.started)
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	errors, err := os.Create(c.errors(c.started))
	if err != nil {
		return nil, err
	}
	defer errors.Close()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &worker{number: c.started, cmd: exec.Command(self), rested: make(chan string, 1), done: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), workerVariable+"="+string(text))
	w.cmd.Stderr = errors
	// A group of its own: Ctrl-C is for the runner. If the runner is killed while
	// a client is stopped, the kernel continues the client, which then sees the end
	// of its input (setpgid(2): orphaned process groups).
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
			case <-w.rested: // nobody has asked for the last one
			default:
			}
			w.rested <- lines.Text()
		}
		w.err = w.cmd.Wait()
		close(w.done)
	}()
	return w, nil
}

func (c *crew) log(number int) string {
	return filepath.Join(c.dir, fmt.Sprintf("client-%d.jsonl", number))
}

func (c *crew) errors(number int) string {
	return filepath.Join(c.dir, fmt.Sprintf("client-%d.err", number))
}

// end kills all that are left and waits until they are gone.
func (c *crew) end() {
	c.mu.Lock()
	c.over = true
	members := slices.Clone(c.members)
	c.mu.Unlock()
	for _, w := range members {
		w.kill()
	}
}

// kill ends the process as a crash would, and waits until it has.
func (w *worker) kill() {
	w.cmd.Process.Kill()
	<-w.done
	w.input.Close()
}

func (w *worker) say(order string) {
	io.WriteString(w.input, order+"\n") // one that is gone is found by finish
}

func (c *crew) count() int { return len(c.members) }

func (c *crew) member(i int) *worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[i]
}

// pause stops a process (SIGSTOP).
func (c *crew) pause(i int) (resume func(), err error) {
	w := c.member(i)
	if err := w.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("client %d: %w", w.number, err)
	}
	// One that was killed since needs no signal.
	return func() { w.cmd.Process.Signal(syscall.SIGCONT) }, nil
}

// kill ends a process (SIGKILL), and starts one that takes its place.
func (c *crew) kill(i int) error {
	w := c.member(i)
	select {
	case <-w.done:
		return fmt.Errorf("client %d had ended by itself: %w", w.number, c.ended(w))
	default:
	}
	w.kill()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return errors.New("the history is over")
	}
	next, err := c.start(i)
	if err == nil {
		c.members[i] = next
	}
	return err
}

// rest has all processes let go of what they hold or wait for, and waits until
// they have. They stay so until they are told to go on, or that it is quiet.
func (c *crew) rest(limit time.Duration) error {
	timeout := time.After(limit)
	c.rests++
	c.tell(fmt.Sprint(sayRest, " ", c.rests))
	for i := range c.members {
		w := c.member(i)
		// An answer to an earlier order may come first, if that was not waited for.
		for answer, want := "", fmt.Sprint(resting, " ", c.rests); answer != want; {
			select {
			case answer = <-w.rested:
			case <-w.done:
				return fmt.Errorf("client %d ended: %w", w.number, c.ended(w))
			case <-timeout:
				return fmt.Errorf("client %d has not let go of its lock within %v%s", w.number, limit, c.said(w))
			}
		}
	}
	return nil
}

// tell says something to all.
func (c *crew) tell(order string) {
	for i := range c.members {
		c.member(i).say(order)
	}
}

// finish waits until all have come to their end, after sayQuiet.
func (c *crew) finish(limit time.Duration) error {
	timeout := time.After(limit)
	var errs []error
	for i := range c.members {
		w := c.member(i)
		select {
		case <-w.done:
			w.input.Close()
			if w.err != nil {
				errs = append(errs, fmt.Errorf("client %d: %w", w.number, c.ended(w)))
			}
		case <-timeout:
			return errors.Join(append(errs, fmt.Errorf("client %d has not come to its end within %v of quiet%s", w.number, limit, c.said(w)))...)
		}
	}
	return errors.Join(errs...)
}

// ended says how a process ended that is gone.
func (c *crew) ended(w *worker) error {
	err := w.err
	if err == nil {
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("%w%s", err, c.said(w))
}

// said is the end of what a process wrote to its standard error stream.
func (c *crew) said(w *worker) string {
	text, err := os.ReadFile(c.errors(w.number))
	if err != nil || len(text) == 0 {
		return ""
	}
	const most = 4 << 10
	return "; it said:\n" + string(text[max(0, len(text)-most):])
}

// events returns what all have written down. They have ended.
func (c *crew) events() (all [][]history.Event, err error) {
	for number := 1; number <= c.started; number++ {
		events, err := readLog(c.log(number))
		if err != nil {
			return nil, err
		}
		all = append(all, events)
	}
	return all, nil
}
