package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

// idle is what many waiters cost while nothing happens.
type idleResult struct {
	lockers, waiters int
	length           time.Duration
	sent             []int    // by server, in that time: commands that the clients sent
	commands         []int    // the same, with those that scripts called
	most             []string // what the busiest server was asked most often
	cpu              time.Duration
	early            int // waiters that returned, though nobody released the lock
}

// perClient returns the commands per second and client of a server.
func (r *idleResult) perClient(commands int) float64 {
	return float64(commands) / r.length.Seconds() / float64(r.lockers)
}

// CPU time that counts as near none, in cores, for all waiters together.
const idleCPU = 0.03

func runIdle(ctx context.Context, b *bench, _ []contender) (*idleResult, error) {
	r := &idleResult{lockers: b.size.lockers, waiters: b.size.lockers * b.size.perLocker}
	clients, err := openAll(ctx, b, fenlocks, r.lockers+1)
	if err != nil {
		return nil, err
	}
	defer closeAll(clients)
	holder, waiters := clients[0], clients[1:]
	const name = "bench:idle"
	release, err := holder.acquire(ctx, name)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	var wait sync.WaitGroup
	var early atomic.Int64
	for _, c := range waiters {
		for range b.size.perLocker {
			wait.Go(func() {
				release, err := c.acquire(waiting, name)
				if waiting.Err() == nil {
					early.Add(1)
				}
				if err == nil {
					release()
				}
			})
		}
	}
	if err := sleep(ctx, b.size.settle); err != nil {
		return nil, err
	}

	before, err := snapshot(b.servers)
	if err != nil {
		return nil, err
	}
	start, cpu := time.Now(), cpuTime()
	if err := sleep(ctx, b.size.idle); err != nil {
		return nil, err
	}
	r.length, r.cpu = time.Since(start), cpuTime()-cpu
	after, err := snapshot(b.servers)
	if err != nil {
		return nil, err
	}
	r.early = int(early.Load())

	busiest := 0
	for i := range b.servers {
		sent := 0
		for name, n := range after[i].calls {
			if fromClients[name] {
				sent += n - before[i].calls[name]
			}
		}
		r.sent = append(r.sent, sent)
		r.commands = append(r.commands, after[i].total-before[i].total-snapshotCommands)
		if r.commands[i] > r.commands[busiest] {
			busiest = i
		}
	}
	r.most = most(before[busiest].calls, after[busiest].calls, r)
	if err := release(); err != nil && r.early == 0 {
		return nil, fmt.Errorf("idle: %w", err)
	}
	cancel()
	wait.Wait()
	return r, nil
}

// sleep returns after d, or with the context's error when that is done.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// usage is what a server has done so far.
type usage struct {
	total int
	calls map[string]int // by command
}

// snapshotCommands is how many commands a snapshot adds to the difference to the
// next one: the INFO that the number is read from, and the other INFO of the next.
const snapshotCommands = 2

func snapshot(servers []*testserver.Server) ([]usage, error) {
	all := make([]usage, len(servers))
	for i, s := range servers {
		all[i].calls = calls(s.Do("INFO", "commandstats"))
	}
	for i, s := range servers {
		var err error
		if all[i].total, err = strconv.Atoi(s.Info("stats", "total_commands_processed")); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// calls reads the lines "cmdstat_get:calls=3,usec=..." of INFO.
func calls(info string) map[string]int {
	all := map[string]int{}
	for line := range strings.Lines(info) {
		command, ok := strings.CutPrefix(line, "cmdstat_")
		name, rest, _ := strings.Cut(command, ":calls=")
		count, _, _ := strings.Cut(rest, ",")
		if n, err := strconv.Atoi(count); ok && err == nil {
			all[name] = n
		}
	}
	return all
}

// fromClients are the commands that a client of fenlock sends and no script calls.
// (INFO is both, but a client sends it when it connects only.)
var fromClients = map[string]bool{"evalsha": true, "eval": true, "ping": true, "hello": true, "subscribe": true,
	"unsubscribe": true, "multi": true, "exec": true, "script|load": true, "script|exists": true, "client|setname": true}

// most returns the commands that were called most often, per second and client.
func most(before, after map[string]int, r *idleResult) (lines []string) {
	n := func(name string) int { return after[name] - before[name] }
	delete(after, "info")
	names := slices.SortedFunc(maps.Keys(after), func(a, b string) int {
		return cmp.Or(cmp.Compare(n(b), n(a)), strings.Compare(a, b))
	})
	for _, name := range names[:min(len(names), 5)] {
		if n(name) > 0 {
			lines = append(lines, fmt.Sprintf("%s %.2f", name, r.perClient(n(name))))
		}
	}
	return lines
}

// cpuTime returns the CPU time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // RUSAGE_SELF and a valid pointer: there is nothing to fail
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (r *idleResult) report(b *bench) *table {
	t := &table{
		title: fmt.Sprintf("idle: %d waiters on one held lock, in %d clients (fenlock only)", r.waiters, r.lockers),
		method: fmt.Sprintf("%v long, %v after they came; as each server counts its commands: those that the clients sent, and with those that scripts called",
			r.length.Round(time.Millisecond), b.size.settle),
		header: []string{"server", "sent/s", "sent/s and client", "with scripts', /s and client"},
	}
	worst := 0
	for i, n := range r.sent {
		worst = max(worst, n)
		t.row(fmt.Sprint(i+1), fmt.Sprintf("%.0f", float64(n)/r.length.Seconds()), fmt.Sprintf("%.2f", r.perClient(n)),
			fmt.Sprintf("%.2f", r.perClient(r.commands[i])))
	}
	t.note("most often, per second and client: %s", strings.Join(r.most, ", "))
	cpu := r.cpu.Seconds() / r.length.Seconds()
	if r.early > 0 {
		t.note("%d waiters returned although nobody released the lock: its holder has lost it, or they failed; the figures are of fewer waiters", r.early)
	}
	t.target(r.perClient(worst) < 2 && r.early == 0, "under 2 commands sent per second and client to each server: at most %.2f", r.perClient(worst))
	t.target(cpu <= idleCPU && r.early == 0, "CPU of the clients' process near zero, at most %.2f cores for all: %.3f", idleCPU, cpu)
	return t
}
