//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The client processes of the tests' histories are this binary.
func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		os.Exit(workerMain())
	}
	os.Exit(m.Run())
}

// The line that is printed for a history makes the same one again.
func TestAgain(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{"-seconds", "7", "-clients", "3"},
		{"-library", "redsync", "-only", "kill"},
		{"-only", "kill,stop server"},
		{"-only", "none"},
		{"-kinds", "slow,wipe"},
	} {
		one, err := parse(args, &bytes.Buffer{})
		if err != nil {
			t.Fatal(args, err)
		}
		line := one.again(17)
		command, flags, _ := strings.Cut(line, " -")
		if command != "go run ./faults" {
			t.Errorf("the command is %q", command)
		}
		words, err := exec.Command("sh", "-c", `printf '%s\n' -`+flags).Output() // as a shell takes it
		if err != nil {
			t.Fatal(err)
		}
		two, err := parse(strings.Split(strings.TrimSpace(string(words)), "\n"), &bytes.Buffer{})
		if err != nil {
			t.Fatal(line, err)
		}
		one.seed, one.histories, one.keep = 17, 1, true
		if a, b := describe(one), describe(two); a != b {
			t.Errorf("%v: %s\nmakes\n%s and not\n%s", args, line, b, a)
		}
	}
}

func TestWrongFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-only kil":                 `no kind of fault "kil"`,
		"-only kill,wipe,flush":     "one kind of fault or two",
		"-library zookeeper":        "fenlock, redsync, redislock",
		"-histories 0":              "at least 1",
		"-parallel -1":              "at least 1",
		"campaign":                  "flags only",
		"-seconds 1 -kinds kill,no": `no kind of fault "no"`,
	} {
		_, err := parse(strings.Fields(args), &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}

// Whoever interrupts a campaign gets what came of it so far, and leaves no process.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c := testCampaign(t)
	c.histories, c.parallel, c.seconds = 4, 2, 60
	time.AfterFunc(2*time.Second, cancel)
	began := time.Now()
	outcomes, err := c.run(ctx, func(outcome) {})
	if !errors.Is(err, context.Canceled) || len(outcomes) > 0 {
		t.Errorf("%d outcomes, %v", len(outcomes), err)
	}
	if took := time.Since(began); took > 50*time.Second {
		t.Errorf("it went on for %v", took)
	}
	if n := children(t); n > 0 {
		t.Errorf("%d processes are left", n)
	}
}

// children counts the client processes of this one that are there.
func children(t *testing.T) (n int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state parent ...", and the name may hold anything.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		program, err := os.Readlink(filepath.Join(filepath.Dir(path), "exe"))
		if err == nil && fields[1] == strconv.Itoa(os.Getpid()) && program == self {
			n++
		}
	}
	return n
}

// describe is all of a campaign that decides what happens in it.
func describe(c campaign) string {
	j := c.job
	return fmt.Sprint(c.histories, j.seed, j.library, j.clients, j.keep, j.seconds, j.only == nil, j.only, names(j.kinds), j.nodes, j.ttl)
}
