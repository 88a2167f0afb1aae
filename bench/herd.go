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

// herd is how long many commands take that begin at the same moment, as in a crontab, each under a
// lock. The lock is of one name, where each counts in a file that nothing else protects, or of
// names of their own.
type herdResult struct {
	fenlock, flock [][]herd // of each setting, its rounds
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
		var fenlock, flock []herd
		for range b.size.stampedes {
			for _, c := range []struct {
				into *[]herd
				lock func(name string) []string
			}{
				{&flock, func(name string) []string { return []string{"flock", filepath.Join(p.folder, name)} }},
				{&fenlock, func(name string) []string { return []string{p.fenlock, "run", name, "--"} }},
			} {
				h, err := p.herd(ctx, processes, i == len(b.size.herds), c.lock)
				if err != nil {
					return nil, err
				}
				*c.into = append(*c.into, h)
			}
		}
		r.fenlock, r.flock = append(r.fenlock, fenlock), append(r.flock, flock)
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

func (r *herdResult) report(b *bench) *table {
	t := &table{
		title: "herd: so many commands at once, each under a lock of this machine, beside flock",
		method: fmt.Sprintf(
			"medians of %d rounds, in turns; with one name each adds 1 to a file; CPU is that of all processes",
			b.size.stampedes),
		header: []string{"", "fenlock", "flock", "÷ flock", "CPU", "of flock", "÷ flock", "failed", "not counted"},
	}
	for i, rounds := range r.fenlock {
		var wall, cpu, flockWall, flockCPU []time.Duration
		failed, lost, last := 0, 0, ""
		for k, f := range rounds {
			o := r.flock[i][k]
			wall, cpu, flockWall, flockCPU = append(wall, f.wall), append(cpu, f.cpu), append(flockWall,
				o.wall), append(flockCPU, o.cpu)
			if failed += f.failed; f.failed > 0 {
				last = " (" + strings.TrimSpace(f.last) + ")"
			}
			if !f.names {
				lost += f.processes - f.counted
			}
		}
		what := "one name"
		if rounds[0].names {
			what = "a name each"
		}
		seconds := func(d []time.Duration) string { return fmt.Sprintf("%.2f s", median(d).Seconds()) }
		t.row(fmt.Sprintf("%d, %s", rounds[0].processes, what), seconds(wall), seconds(flockWall),
			spread(ratios(wall, flockWall)),
			seconds(cpu), seconds(flockCPU), spread(ratios(cpu, flockCPU)), fmt.Sprint(failed)+last, fmt.Sprint(lost))
	}
	return t
}
