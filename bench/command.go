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
	fenlock, flock []time.Duration // of each round
	floor          []time.Duration // starting what fenlock has to start, and nothing else
	hello          []time.Duration // a program that prints a line
}

const (
	commandPackage = "github.com/fenlock/fenlock/cmd/fenlock"
	floorPackage   = "github.com/fenlock/fenlock/bench/starts"
	helloPackage   = "github.com/fenlock/fenlock/bench/hello"
)

// programs are what these figures start, in a folder of their own.
type programs struct {
	folder                string
	fenlock, floor, hello string
	environment           []string // with the default file of fenlock in the folder, whatever the environment says
}

// buildPrograms builds them. The caller removes the folder, also after an error.
func buildPrograms(ctx context.Context) (p programs, err error) {
	if p.folder, err = os.MkdirTemp("", "fenlock-bench-"); err != nil {
		return p, err
	}
	in := func(name string) string { return filepath.Join(p.folder, name) }
	p.fenlock, p.floor, p.hello = in("fenlock"), in("starts"), in("hello")
	for output, source := range map[string]string{p.fenlock: commandPackage, p.floor: floorPackage,
		p.hello: helloPackage} {
		build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", output, source)
		build.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build
		if text, err := build.CombinedOutput(); err != nil {
			return p, fmt.Errorf("building %s: %w (this figure needs the source tree)\n%s", source, err, text)
		}
	}
	p.environment = []string{"XDG_STATE_HOME=" + filepath.Join(p.folder, "state")}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "FENLOCK_") && !strings.HasPrefix(variable, "XDG_STATE_HOME=") {
			p.environment = append(p.environment, variable)
		}
	}
	return p, nil
}

func runCommand(ctx context.Context, b *bench, _ []contender) (*commandResult, error) {
	p, err := buildPrograms(ctx)
	defer os.RemoveAll(p.folder)
	if err != nil {
		return nil, err
	}
	nothing, err := exec.LookPath("true")
	if err != nil {
		return nil, err
	}
	commands := [4][]string{
		{p.fenlock, "run", "bench", "--", "true"},
		{"flock", filepath.Join(p.folder, "flock"), "true"},
		{p.floor, nothing},
		{p.hello},
	}
	r := &commandResult{}
	samples := [len(commands)]*[]time.Duration{&r.fenlock, &r.flock, &r.floor, &r.hello}
	for round := range b.size.starts + 1 {
		for k := range commands {
			which := (round + k) % len(commands)
			cmd := exec.CommandContext(ctx, commands[which][0], commands[which][1:]...)
			cmd.Env = p.environment
			start := time.Now()
			output, err := cmd.CombinedOutput()
			d := time.Since(start)
			if err != nil {
				return nil, fmt.Errorf("%q: %w: %s", commands[which], err, output)
			}
			if round > 0 { // the first one makes the files
				*samples[which] = append(*samples[which], d)
			}
		}
	}
	return r, nil
}

func (r *commandResult) report(b *bench) *table {
	t := &table{
		title: "command: a lock around a command that does nothing, fenlock run NAME -- true and flock FILE true",
		method: fmt.Sprintf("%d rounds, in turns; fenlock's lock is in its default file; the floor is a Go program that "+
			"starts itself, which starts true, and takes no lock; hello is a Go program that prints a line", len(r.fenlock)),
		header: []string{"", "median", "p10", "p90", "÷ flock"},
	}
	for _, row := range []struct {
		name string
		s    []time.Duration
	}{{"fenlock run", r.fenlock}, {"flock", r.flock}, {"floor", r.floor}, {"hello", r.hello}} {
		t.row(row.name, millis(median(row.s)), millis(percentile(row.s, 0.1)), millis(percentile(row.s, 0.9)),
			spread(ratios(row.s, r.flock)))
	}
	return t
}
