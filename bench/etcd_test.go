package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

// No test in this file is parallel: the figures of the other tests have the machine
// for themselves, and no child of theirs can be forked while a program is written,
// which would make it "text file busy".

// fakeEtcd is a program that says that it is etcd, and does something else then.
func fakeEtcd(t *testing.T, script string) string {
	return program(t, `[ "$1" = --version ] && echo "etcd Version: 9.9.9" && exit
`+script)
}

func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "etcd")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// Where there is an etcd, its figures are measured, on one member here. Where there
// is none, it is left out.
func TestEtcd(t *testing.T) {
	ctx := bounded(t)
	b := tiny(20 * time.Second)
	outside := &testserver.Outside{}
	defer outside.Close()
	e, err := findEtcd(ctx, outside, "")
	if err == errNoEtcd {
		if who := b.present(rivals); len(who) != len(rivals)-1 || slices.ContainsFunc(who, func(c contender) bool { return c.name == "etcd" }) {
			t.Errorf("without etcd there are %d of %d rivals", len(who), len(rivals))
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	b.etcd, b.started = e, make([]*testserver.Server, 1) // whom nobody asks
	b.servers = b.started
	if n := len(b.present(rivals)); n != len(rivals) {
		t.Errorf("with etcd there are %d of %d rivals", n, len(rivals))
	}
	who := []contender{etcds}
	positive := func(what string, s []time.Duration) {
		if len(s) != b.size.rounds || slices.Min(s) <= 0 {
			t.Errorf("%s: %v, want %d positive times", what, s, b.size.rounds)
		}
	}
	cycle, _ := measure(ctx, t, b, runCycle, who, 1, 0)
	positive("cycle", cycle.samples["etcd"])
	load, _ := measure(ctx, t, b, runLoad, who, 2, 0)
	checkLoad(t, load, b, who, 2)
	if load.failures["etcd"] > 0 || load.hung["etcd"] > 0 {
		t.Errorf("load: %d failures, %d hung", load.failures["etcd"], load.hung["etcd"])
	}
	handover, _ := measure(ctx, t, b, runHandover, who, 1, 0)
	positive("handover", handover.samples["etcd"])
	changes, _ := measure(ctx, t, b, runLeader, leaderWho[1:], 1, 0)
	if n := len(changes.seen["etcd"]); n != b.size.changes {
		t.Errorf("leader: %d changes, want %d", n, b.size.changes)
	}
	shared, _ := measure(ctx, t, b, runReaders, readersWho[1:], 1, 0)
	if run := shared.runs["etcd"]; run.total() == 0 || run.failures > 0 {
		t.Errorf("readers: %+v", run)
	}
	if len(e.clusters) != 1 || len(e.clusters[1].members) != 1 {
		t.Errorf("five figures on one member have the clusters %v", e.clusters)
	}
	testEtcdExcludes(ctx, t, b)

	c := e.clusters[1]
	pid := c.members[0].Pid()
	outside.Close()
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("the member is still there: %v", err)
	}
	if _, err := os.Stat(c.folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", c.folder, err)
	}
	if len(e.clusters) != 0 {
		t.Errorf("%v after the end", e.clusters)
	}
}

// While one client has the lock the other one waits, and it waits no longer than its
// context lasts.
func testEtcdExcludes(ctx context.Context, t *testing.T, b *bench) {
	t.Helper()
	clients, err := openAll(ctx, b, etcds, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(clients)
	release, err := clients[0].acquire(ctx, "x")
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := clients[1].acquire(short, "x"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 20*time.Second {
		t.Errorf("the other client's acquire: %v after %v", err, time.Since(start))
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	release, err = clients[1].acquire(ctx, "x")
	if err == nil {
		err = release()
	}
	if err != nil {
		t.Errorf("after the release: %v", err)
	}
}

// Without etcd, the bench says so and measures the others.
func TestEtcdIsLeftOut(t *testing.T) {
	testserver.Kinds(t) // finds the servers while the PATH leads there
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.Symlink(shell, filepath.Join(folder, "sh")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder)
	var out strings.Builder
	if err := run(bounded(t), []string{"-figures", "cycle", "-with", "floor,etcd", "-rounds", "1", "-quick", "-ttl", "1s"}, &out); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Count(text, "etcd") != 1 || !strings.Contains(text, "etcd: no server program found; left out\n") || !strings.Contains(text, "    floor ") {
		t.Errorf("it printed\n%s", text)
	}
}

// What is given as etcd and is none, or does not serve, ends soon in an error that
// says what it was.
func TestNotEtcd(t *testing.T) {
	ctx := bounded(t)
	for _, test := range []struct{ path, want string }{
		{filepath.Join(t.TempDir(), "nosuch"), "no such file"},
		{program(t, "echo hello"), `is not etcd: --version: no version; it printed "hello\n"`},
		{program(t, "echo etcd Version: 1; exit 3"), "is not etcd: --version: exit status 3"},
	} {
		err := run(ctx, []string{"-figures", "cycle", "-etcd", test.path}, &strings.Builder{})
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.path) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
	// It is looked for only if a figure has use for it.
	args := []string{"-figures", "line", "-with", "etcd", "-ttl", "1s", "-etcd", filepath.Join(t.TempDir(), "nosuch")}
	if err := run(ctx, args, &strings.Builder{}); err != nil {
		t.Errorf("%q: %v", args, err)
	}
	soon, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := findEtcd(soon, t, program(t, "sleep 60 & sleep 60")); err == nil || !strings.Contains(err.Error(), "deadline") {
		t.Errorf("a program that does not end: %v", err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("a program that does not end was waited for for %v", took)
	}
}

func TestEtcdThatDoesNotServe(t *testing.T) {
	for _, test := range []struct {
		script   string
		patience time.Duration
		want     []string
	}{
		{"echo no disk; exit 7", time.Minute, []string{"ended: exit status 7", "no disk"}},
		// A port that was taken after it was found free is no reason to give up.
		{`n=$(cat "$0.n" 2>/dev/null || echo 0); n=$((n + 1)); echo $n >"$0.n"
[ $n = 1 ] && echo "listen tcp: bind: address already in use" && exit 1
echo attempt $n; exit 2`, time.Minute, []string{"attempt 2"}},
		{"echo still busy; sleep 60 & sleep 60", time.Second, []string{"not up within 1s", "connection refused", "still busy"}},
	} {
		e, err := findEtcd(bounded(t), t, fakeEtcd(t, test.script))
		if err != nil {
			t.Fatal(err)
		}
		e.patience = test.patience
		b := &bench{etcd: e, servers: make([]*testserver.Server, 1)}
		start := time.Now()
		_, err = openAll(t.Context(), b, etcds, 1)
		if took := time.Since(start); err == nil || took > 20*time.Second {
			t.Errorf("%q: %v after %v", test.script, err, took)
		}
		for _, want := range append(test.want, e.program, "1 members") {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%q: %v, without %q", test.script, err, want)
			}
		}
		if len(e.clusters) != 0 {
			t.Errorf("%q: it counts as started", test.script)
		}
	}
}

// Whoever waits for a cluster stops when the bench is interrupted, and the members
// end.
func TestEtcdInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(bounded(t))
	path := fakeEtcd(t, `echo $$ >"$0.new"; mv "$0.new" "$0.pid"; sleep 60 & sleep 60`)
	e, err := findEtcd(ctx, t, path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		_, err := e.serve(1)
		served <- err
	}()
	text, err := os.ReadFile(path + ".pid")
	for ; err != nil && ctx.Err() == nil; text, err = os.ReadFile(path + ".pid") {
		time.Sleep(20 * time.Millisecond)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case err := <-served:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("still waiting")
	}
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("the member is still there: %v", err)
	}
}
