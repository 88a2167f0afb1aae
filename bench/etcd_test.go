package main

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

// The figures of etcd, on one member here.
func TestEtcd(t *testing.T) {
	ctx := bounded(t)
	b := tiny(20 * time.Second)
	b.started = make([]*testserver.Server, 1) // no request reaches it
	b.servers = b.started
	if who := b.present(rivals); len(who) != len(rivals)-1 ||
		slices.ContainsFunc(who, func(c contender) bool { return c.name == "etcd" }) {
		t.Errorf("without etcd there are %d of %d rivals", len(who), len(rivals))
	}
	b.etcd = &etcd{t: t, clusters: map[int]*testserver.Etcd{}}
	if n := len(b.present(rivals)); n != len(rivals) {
		t.Errorf("with etcd there are %d of %d rivals", n, len(rivals))
	}
	who := []contender{etcds}
	cycle, err1 := runCycle(ctx, b, who)
	load, err2 := runLoad(ctx, b, who)
	changes, err3 := runLeader(ctx, b, leaderWho[1:])
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	if s := cycle.samples["etcd"]; len(s) != b.size.rounds || slices.Min(s) <= 0 {
		t.Errorf("cycle: %v, want %d positive times", s, b.size.rounds)
	}
	for _, rates := range load.rates["etcd"] {
		if len(rates) != b.size.loads || slices.Min(rates) <= 0 {
			t.Errorf("load: %v, want %d rates", rates, b.size.loads)
		}
	}
	if load.failures["etcd"] > 0 || load.hung["etcd"] > 0 {
		t.Errorf("load: %d failures, %d hung", load.failures["etcd"], load.hung["etcd"])
	}
	if n := len(changes.seen["etcd"]); n != b.size.changes {
		t.Errorf("leader: %d changes, want %d", n, b.size.changes)
	}
	if len(b.etcd.clusters) != 1 || len(b.etcd.clusters[1].Members) != 1 {
		t.Errorf("three figures on one member have the clusters %v", b.etcd.clusters)
	}
	testEtcdExcludes(ctx, t, b)

	pid := b.etcd.clusters[1].Members[0].Pid()
	b.etcd.stop()
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH || len(b.etcd.clusters) != 0 {
		t.Errorf("the member is still there: %v, %v", err, b.etcd.clusters)
	}
}

// While one client has the lock the other client waits, and it waits no longer than its context
// lasts.
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
	if _, err := clients[1].acquire(short, "x"); !errors.Is(err, context.DeadlineExceeded) ||
		time.Since(start) > 20*time.Second {
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
