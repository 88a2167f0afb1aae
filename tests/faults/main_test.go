//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver/probe"
	"github.com/fenlock/fenlock/tests/faults/kinds"
	"github.com/fenlock/fenlock/tests/faults/runner"
	"github.com/fenlock/fenlock/tests/faults/worker"
)

// The client processes of the tests' histories are this binary.
func TestMain(m *testing.M) {
	worker.Main()
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
		{"-rolling", "-seconds", "9"},
		{"-rolling", "-kinds", "kill"},
		{"-engine", "mysql", "-nodes", "1"},
		{"-engine", "mixed", "-kinds", "wipe,read only"},
		{"-engine", "etcd", "-rolling"},
		{"-engine", "stores", "-kinds", "wipe,kill"},
		{"-locks", "shared", "-seconds", "9"},
		{"-engine", "file", "-kinds", "full disk,kill clients"},
		{"-engine", "file", "-nodes", "3"},
		{"-locks", "lead", "-clients", "3"},
		{"-steps", "-seconds", "5"},
		{"-steps", "-kinds", "wipe,flush"},
		{"-steps", "-locks", "slots"},
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
		for _, flag := range args {
			if strings.HasPrefix(flag, "-") && !strings.Contains(line, " "+flag) {
				t.Errorf("%v: %s has no %s", args, line, flag)
			}
		}
		words, err := exec.Command("sh", "-c", `printf '%s\n' -`+flags).Output() // as a shell takes it
		if err != nil {
			t.Fatal(err)
		}
		two, err := parse(strings.Split(strings.TrimSpace(string(words)), "\n"), &bytes.Buffer{})
		if err != nil {
			t.Fatal(line, err)
		}
		one.Seed, one.histories, one.Keep = 17, 1, true
		if a, b := describe(one), describe(two); a != b {
			t.Errorf("%v: %s\nmakes\n%s and not\n%s", args, line, b, a)
		}
	}
}

func TestWrongFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-only kil":                   `no kind of fault "kil"`,
		"-only kill,wipe,flush":       "one kind of fault or two",
		"-library zookeeper":          "fenlock, redsync, redislock",
		"-histories 0":                "at least 1",
		"-parallel -1":                "at least 1",
		"campaign":                    "flags only",
		"-nodes 0":                    "at least 1",
		"-engine oracle":              "valkey, postgres, mysql, etcd, zookeeper, nats, s3, mixed, stores, file",
		"-engine etcd -kinds replace": `no kind of fault "replace"`,
		"-engine etcd -compare":       "for Valkey",
		"-locks read":                 "exclusive, shared, several, slots, lead",
		"-locks lead -compare":        "-locks is for fenlock",
		"-engine etcd -steps":         "-steps is for",
		"-library redsync -steps":     "-steps is for",
		"-engine file -rolling":       "no server of -engine file goes",
		"-steps -kinds evict,kill":    "is not seen",
		"-seconds 1 -kinds kill,no":   `no kind of fault "no"`,
	} {
		_, err := parse(strings.Fields(args), &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}

// An interrupted campaign prints what came of it so far, and leaves no process.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c := testCampaign(t)
	c.histories, c.parallel, c.Seconds = 4, 2, 60
	time.AfterFunc(2*time.Second, cancel)
	began := time.Now()
	outcomes, err := c.run(ctx, func(runner.Outcome) {})
	if !errors.Is(err, context.Canceled) || len(outcomes) > 0 {
		t.Errorf("%d outcomes, %v", len(outcomes), err)
	}
	if took := time.Since(began); took > 50*time.Second {
		t.Errorf("it went on for %v", took)
	}
	if n := probe.Children(t); n > 0 {
		t.Errorf("%d processes are left", n)
	}
}

// describe is all of a campaign that decides what happens in it.
func describe(c campaign) string {
	j := c.Job
	return fmt.Sprint(c.histories, j.Seed, j.Library, j.Locks, j.Clients, j.Keep, j.Seconds, j.Only == nil, j.Only,
		kinds.Names(j.Kinds), j.Rolling, j.Group.Name, j.Nodes, j.TTL, j.Steps)
}
