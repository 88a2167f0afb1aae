package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// command is how long the command line takes to run a command that does nothing.
type commandResult struct {
	fenlock, flock []time.Duration // of each pair
}

const commandPackage = "github.com/fenlock/fenlock/cmd/fenlock"

func runCommand(ctx context.Context, b *bench, _ []contender) (*commandResult, error) {
	folder, err := os.MkdirTemp("", "fenlock-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	program := filepath.Join(folder, "fenlock")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, commandPackage)
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build
	if output, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building %s: %w (this figure needs the source tree)\n%s", commandPackage, err, output)
	}
	// Its default file in a state folder of its own, whatever the environment says.
	environment := []string{"XDG_STATE_HOME=" + filepath.Join(folder, "state")}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "FENLOCK_") && !strings.HasPrefix(variable, "XDG_STATE_HOME=") {
			environment = append(environment, variable)
		}
	}
	commands := [2][]string{
		{program, "run", "bench", "--", "true"},
		{"flock", filepath.Join(folder, "flock"), "true"},
	}
	r := &commandResult{}
	samples := [2]*[]time.Duration{&r.fenlock, &r.flock}
	for pair := range b.size.starts + 1 {
		for k := range commands {
			which := (pair + k) % 2
			cmd := exec.CommandContext(ctx, commands[which][0], commands[which][1:]...)
			cmd.Env = environment
			start := time.Now()
			output, err := cmd.CombinedOutput()
			d := time.Since(start)
			if err != nil {
				return nil, fmt.Errorf("%q: %w: %s", commands[which], err, output)
			}
			if pair > 0 { // the first one makes the files
				*samples[which] = append(*samples[which], d)
			}
		}
	}
	return r, nil
}

func (r *commandResult) report(b *bench) *table {
	t := &table{
		title:  "command: a lock around a command that does nothing, fenlock run NAME -- true and flock FILE true",
		method: fmt.Sprintf("%d pairs, in turns; fenlock's lock is in a SQLite file, its default", len(r.fenlock)),
		header: []string{"", "median", "p10", "p90"},
	}
	var differences []time.Duration
	for i := range r.fenlock {
		differences = append(differences, r.fenlock[i]-r.flock[i])
	}
	for _, row := range []struct {
		name string
		s    []time.Duration
	}{{"fenlock run", r.fenlock}, {"flock", r.flock}, {"difference of a pair", differences}} {
		t.row(row.name, millis(median(row.s)), millis(percentile(row.s, 0.1)), millis(percentile(row.s, 0.9)))
	}
	limit := median(r.flock)*3/2 + 10*time.Millisecond
	t.target(median(r.fenlock) <= limit, "fenlock's median is at most 1.5 times flock's and 10 ms = %s: it is %s", millis(limit), millis(median(r.fenlock)))
	return t
}
