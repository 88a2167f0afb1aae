//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/tests/faults/library"
)

// task is what a worker does. Its end is that of its standard input, or that of the work.
type task struct {
	Do       string // hold, ask, burn, or a kind of herd
	Library  string
	URLs     []string
	TTL      time.Duration
	Name     string        // of the locks, or what their names begin with
	Count    int           // locks to hold, or clients of a herd
	Clients  int           // lockers that ask, with connections of their own
	Parallel int           // callers that ask at a time ...
	Rate     float64       // ... or how many ask in a second, whatever comes of it
	Patience time.Duration // of each that asks
	Length   time.Duration // for how long is asked
}

// status is what a worker says of itself, whenever it changes.
type status struct {
	Held, Lost int
	Behind     int // held, and not extended for longer than is usual
	Done       int // acquired and released
	Failed     int
	Took       time.Duration // by all that was asked for
	Why        string        // one of them failed
	Wrong      string        // what must never be
}

// variable makes this program a worker. It has the task.
const variable = "FENLOCK_OVERLOAD_WORKER"

// isWorker reports whether this process is a worker, and works then.
func isWorker() bool {
	text := os.Getenv(variable)
	if text == "" {
		return false
	}
	var t task
	err := json.Unmarshal([]byte(text), &t)
	if err == nil {
		over, end := context.WithCancel(context.Background())
		go func() {
			io.Copy(io.Discard, os.Stdin)
			end()
		}()
		out := json.NewEncoder(os.Stdout)
		last := status{Held: -1}
		err = t.run(over, func(s status) {
			if s != last {
				out.Encode(s)
			}
			last = s
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "overload:", err)
		os.Exit(1)
	}
	return true
}

func (t *task) run(over context.Context, say func(status)) error {
	switch t.Do {
	case "burn":
		runtime.GOMAXPROCS(max(t.Count, runtime.NumCPU()))
		for range t.Count {
			go func() {
				for over.Err() == nil {
				}
			}()
		}
		<-over.Done()
		return nil
	case "hold", "ask":
	default:
		return t.herd(over, say)
	}
	var lockers []library.Locker
	for range max(1, t.Clients) {
		l, err := open(t.Library, t.URLs, t.TTL, "")
		if err != nil {
			return err
		}
		lockers = append(lockers, l)
	}
	if t.Do == "ask" {
		t.ask(over, lockers, say)
		return nil
	}
	return t.hold(over, lockers[0], say)
}

// cycle acquires and releases.
func (t *task) cycle(l library.Locker, name string) status {
	ctx, cancel := context.WithTimeout(context.Background(), t.Patience)
	defer cancel()
	began := time.Now()
	lease, err := l.Acquire(ctx, name)
	if err == nil {
		err = lease.Release(context.Background())
	}
	if err != nil {
		return status{Failed: 1, Took: time.Since(began)}
	}
	return status{Done: 1, Took: time.Since(began)}
}

// hold holds locks to the end, and does not release them.
func (t *task) hold(over context.Context, l library.Locker, say func(status)) error {
	leases := make([]library.Lease, t.Count)
	var next atomic.Int64
	var callers sync.WaitGroup
	soon, cancel := context.WithTimeout(over, 6*t.TTL) // what is not there by then is not held
	for range min(64, t.Count) {
		callers.Go(func() {
			for n := next.Add(1); n <= int64(t.Count); n = next.Add(1) {
				if lease, err := l.Acquire(soon, fmt.Sprint(t.Name, n-1)); err == nil {
					leases[n-1] = lease
				}
			}
		})
	}
	callers.Wait()
	cancel()
	leases = slices.DeleteFunc(leases, func(l library.Lease) bool { return l == nil })
	usual := t.TTL * 6 / 10 // is left at least, as a lock is extended each third
	for {
		var s status
		next := t.TTL // until one of them may be behind: thousands of processes that look often are a load
		for _, lease := range leases {
			switch left := lease.Remaining(); {
			case left == 0:
				s.Lost++
			case left < usual:
				s.Held, s.Behind, next = s.Held+1, s.Behind+1, 0
			default:
				s.Held, next = s.Held+1, min(next, left-usual)
			}
		}
		say(s)
		select {
		case <-over.Done():
			return nil
		case <-time.After(max(next, t.TTL/50)):
		}
	}
}

// ask acquires and releases locks that no other client wants.
func (t *task) ask(over context.Context, lockers []library.Locker, say func(status)) {
	var done, failed, names atomic.Int64
	var callers sync.WaitGroup
	one := func() {
		n := names.Add(1)
		s := t.cycle(lockers[int(n)%len(lockers)], fmt.Sprint(t.Name, n))
		done.Add(int64(s.Done))
		failed.Add(int64(s.Failed))
	}
	for i := range lockers { // they connect first
		t.cycle(lockers[i], fmt.Sprint(t.Name, "first", i))
	}
	over, cancel := context.WithTimeout(over, t.Length)
	defer cancel()
	for range t.Parallel {
		callers.Go(func() {
			for over.Err() == nil {
				one()
			}
		})
	}
	began, asked := time.Now(), 0
	for over.Err() == nil {
		time.Sleep(time.Millisecond)
		for t.Rate > 0 && float64(asked) < t.Rate*time.Since(began).Seconds() {
			asked++
			callers.Go(one)
		}
	}
	say(status{Done: int(done.Load()), Failed: int(failed.Load()), Took: time.Since(began)})
	<-wait(&callers)
}

// worker is a process with a task, as the campaign sees it.
type worker struct {
	task task
	cmd  *exec.Cmd
	in   io.Closer
	said chan struct{} // closed when it has said something
	done chan struct{}

	mu     sync.Mutex
	status status // mu
}

// start starts a worker.
func start(t task) (*worker, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &worker{task: t, cmd: exec.Command(self), said: make(chan struct{}), done: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), variable+"="+string(text))
	w.cmd.Stderr = os.Stderr
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(w.done)
		said := sync.OnceFunc(func() { close(w.said) })
		for news := json.NewDecoder(out); ; said() {
			var s status
			if news.Decode(&s) != nil {
				w.cmd.Wait()
				return
			}
			w.mu.Lock()
			w.status = s
			w.mu.Unlock()
		}
	}()
	return w, nil
}

// last returns what it said last, and waits until it has said anything.
func (w *worker) last() (status, error) {
	select {
	case <-w.said:
	case <-w.done:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.said:
		return w.status, nil
	default:
		return status{}, fmt.Errorf("a worker (%s, %s) has ended: %v", w.task.Do, w.task.Library, w.cmd.ProcessState)
	}
}

// end ends it.
func (w *worker) end() {
	w.in.Close()
	select {
	case <-w.done:
	case <-time.After(time.Second):
		w.cmd.Process.Kill()
		<-w.done
	}
}
