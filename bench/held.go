package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock"
)

// held is what it costs a process to hold many locks and to extend them. The process
// is a child of this one, so that neither the bench nor a server is counted.
type heldResult struct {
	Locks, Nodes int
	TTL          time.Duration
	Length       time.Duration // how long it was measured
	CPU          time.Duration // in that time
	Server       time.Duration // the same, of one server
	Memory       int64         // heap and stacks, beyond those before the locks
	Goroutines   int
	Lost         int // locks that were not held any more at the end
}

// heldVariable makes this program that child. It has a heldTask.
const heldVariable = "FENLOCK_BENCH_HELD"

type heldTask struct {
	URLs          []string
	TTL           time.Duration
	Locks         int
	Settle, Count time.Duration
}

func runHeld(ctx context.Context, b *bench, _ []contender) (*heldResult, error) {
	task, err := json.Marshal(heldTask{b.urls(), b.ttl, b.size.held, b.ttl, b.size.hold})
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), heldVariable+"="+string(task))
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r, err := b.hear(json.NewDecoder(out))
	if failed := cmd.Wait(); failed != nil {
		return nil, fmt.Errorf("the child: %w: %s", failed, strings.TrimSpace(complaints.String()))
	}
	return r, err
}

// hear returns what the child says: when it begins to count, and what came of it.
func (b *bench) hear(child *json.Decoder) (*heldResult, error) {
	var began struct{}
	if err := child.Decode(&began); err != nil {
		return nil, err
	}
	_, before, err := b.cpu()
	if err != nil {
		return nil, err
	}
	r := &heldResult{}
	if err := child.Decode(r); err != nil {
		return nil, err
	}
	_, after, err := b.cpu()
	r.Server = (after - before) / time.Duration(len(b.servers))
	return r, err
}

// isHeldChild reports whether this process is to hold locks, and does it then.
func isHeldChild(out io.Writer) (bool, error) {
	text := os.Getenv(heldVariable)
	if text == "" {
		return false, nil
	}
	var task heldTask
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		return true, err
	}
	return true, task.do(context.Background(), json.NewEncoder(out))
}

// inUse returns the memory that heap and stacks take, garbage left out.
func inUse() int64 {
	// Twice, because finalizers run after the first one.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

func (task heldTask) do(ctx context.Context, parent *json.Encoder) error {
	locker, err := newLocker(task.URLs, task.TTL, fenlock.Observer{})
	if err != nil {
		return err
	}
	defer locker.Close()
	// Connections and their buffers belong to no lock.
	lock, err := locker.Acquire(ctx, "bench:held:first")
	if err == nil {
		err = lock.Release(ctx)
	}
	if err != nil {
		return err
	}
	locks := make([]*fenlock.Lock, task.Locks)
	before := inUse()
	err = inParallel(len(locks), func(i int) (err error) {
		locks[i], err = locker.Acquire(ctx, fmt.Sprint("bench:held:", i))
		return err
	})
	if err != nil {
		return err
	}
	time.Sleep(task.Settle) // by then each has been extended
	if err := parent.Encode(struct{}{}); err != nil {
		return err
	}
	start, cpu := time.Now(), cpuTime()
	time.Sleep(task.Count)
	r := &heldResult{Locks: task.Locks, Nodes: len(task.URLs), TTL: task.TTL, Length: time.Since(start),
		CPU: cpuTime() - cpu}
	r.Goroutines = runtime.NumGoroutine()
	r.Memory = inUse() - before
	for _, lock := range locks {
		if lock.Context().Err() != nil {
			r.Lost++
		}
	}
	if err := parent.Encode(r); err != nil {
		return err
	}
	return inParallel(len(locks), func(i int) error {
		if err := locks[i].Release(ctx); !errors.Is(err, fenlock.ErrLost) {
			return err
		}
		return nil // it is counted
	})
}

// inParallel calls f with 0 to n-1, 64 at a time, and returns its first error.
func inParallel(n int, f func(i int) error) error {
	var (
		wait  sync.WaitGroup
		next  atomic.Int64
		once  sync.Once
		first error
	)
	for range 64 {
		wait.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := f(i); err != nil {
					once.Do(func() { first = err })
					next.Store(int64(n))
				}
			}
		})
	}
	wait.Wait()
	return first
}

func (r *heldResult) report(b *bench) *table {
	t := &table{
		title: fmt.Sprintf("held: %d locks held and extended by one process on %d nodes (fenlock only)", r.Locks, r.Nodes),
		method: fmt.Sprintf("TTL %v; CPU of a child process (getrusage), and of each server (used_cpu), in %v, beginning a TTL after the last acquisition; memory is heap and stacks in use, beyond those before the locks",
			r.TTL, r.Length.Round(time.Millisecond)),
		header: []string{"locks", "CPU of a core", "each server", "CPU per lock and TTL", "memory per lock", "goroutines",
			"lost"},
	}
	cpu := r.CPU.Seconds() / r.Length.Seconds()
	perLock := float64(r.Memory) / float64(r.Locks)
	t.row(fmt.Sprint(r.Locks), fmt.Sprintf("%.1f %%", 100*cpu),
		fmt.Sprintf("%.1f %%", 100*r.Server.Seconds()/r.Length.Seconds()),
		micros(time.Duration(cpu*float64(r.TTL)/float64(r.Locks))),
		fmt.Sprintf("%.0f B", perLock), fmt.Sprint(r.Goroutines), fmt.Sprint(r.Lost))
	return t
}
