package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// herd is how long many commands take that begin at the same moment, as in a crontab, each under a lock: of
// one name, where each counts in a file that nothing else protects, or of names of their own.
type herdResult struct {
	fenlock, flock []herd // of each setting
}

// herd is what came of some commands.
type herd struct {
	processes int
	names     bool // each has one of its own
	wall, cpu time.Duration
	failed    int
	last      string // what one that failed has printed
	counted   int    // by those with one name
}

func runHerd(ctx context.Context, b *bench, _ []contender) (*herdResult, error) {
	p, err := buildPrograms(ctx)
	defer os.RemoveAll(p.folder)
	if err != nil {
		return nil, err
	}
	p.environment = append(p.environment, "FENLOCK_NODES=local")
	r := &herdResult{}
	for i, processes := range append(b.size.herds, b.size.herd) {
		names := i == len(b.size.herds)
		for _, c := range []struct {
			into *[]herd
			lock func(name string) []string
		}{
			{&r.flock, func(name string) []string { return []string{"flock", filepath.Join(p.folder, name)} }},
			{&r.fenlock, func(name string) []string { return []string{p.fenlock, "run", name, "--"} }},
		} {
			h, err := p.herd(ctx, processes, names, c.lock)
			if err != nil {
				return nil, err
			}
			*c.into = append(*c.into, h)
		}
	}
	return r, nil
}

// herd starts commands, and waits for all of them.
func (p programs) herd(ctx context.Context, processes int, names bool, lock func(name string) []string) (herd, error) {
	h := herd{processes: processes, names: names}
	counter := filepath.Join(p.folder, "counter")
	if err := os.WriteFile(counter, []byte("0\n"), 0o600); err != nil {
		return h, err
	}
	job := []string{"sh", "-c", `read n <"$0" && echo $((n + 1)) >"$0"`, counter}
	begun := time.Now()
	var started []*exec.Cmd
	var failed error
	for i := range processes {
		name := "herd"
		if names {
			name, job = fmt.Sprint("herd-", i), []string{"true"}
		}
		command := append(lock(name), job...)
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Env, cmd.Stderr = p.environment, &strings.Builder{}
		if failed = cmd.Start(); failed != nil {
			break
		}
		started = append(started, cmd)
	}
	for _, cmd := range started {
		if err := cmd.Wait(); err != nil {
			h.failed++
			h.last = fmt.Sprintf("%v: %s", err, cmd.Stderr)
		}
		h.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	h.wall = time.Since(begun)
	text, err := os.ReadFile(counter)
	if err := errors.Join(failed, err, ctx.Err()); err != nil {
		return h, err
	}
	_, err = fmt.Sscan(string(text), &h.counted)
	return h, err
}

func (r *herdResult) report(*bench) *table {
	t := &table{
		title:  "herd: so many commands at once, each under a lock of this machine, beside flock",
		method: "one after the other; with one name each adds 1 to a file; CPU is that of all processes",
		header: []string{"", "fenlock", "flock", "÷ flock", "CPU", "of flock", "÷ flock", "failed, counted"},
	}
	for i, f := range r.fenlock {
		o, what, counted := r.flock[i], "one name", fmt.Sprintf("%d, %d", f.failed, f.counted)
		if f.names {
			what, counted = "a name each", fmt.Sprint(f.failed)
		}
		if f.failed > 0 {
			counted += " (" + strings.TrimSpace(f.last) + ")"
		}
		seconds := func(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
		t.row(fmt.Sprintf("%d, %s", f.processes, what), seconds(f.wall), seconds(o.wall), ratio(f.wall, o.wall), seconds(f.cpu), seconds(o.cpu), ratio(f.cpu, o.cpu), counted)
	}
	return t
}
