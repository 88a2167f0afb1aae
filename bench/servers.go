package main

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// bench is what the figures run on.
type bench struct {
	servers []*testserver.Server
	kind    testserver.Kind
	ttl     time.Duration // of fenlock's leases; the rivals have their defaults
	giveUp  time.Duration // after which a contender is left out of a figure
	size    size
}

// size is how much is measured.
type size struct {
	rounds    int           // of cycle, handover
	cycles    int           // per round
	lines     int           // rounds of line
	waiters   int           // in line
	gap       time.Duration // between their arrivals
	clients   int           // of loop
	loop      time.Duration // how long it runs
	lockers   int           // of idle
	perLocker int           // waiters of each
	settle    time.Duration // before idle is measured
	idle      time.Duration // how long it is measured
}

var fullSize = size{
	rounds: 50, cycles: 100, lines: 7, waiters: 32, gap: 5 * time.Millisecond, clients: 64, loop: 10 * time.Second,
	lockers: 100, perLocker: 10, settle: 5 * time.Second, idle: 10 * time.Second,
}

var quickSize = size{
	rounds: 10, cycles: 50, lines: 2, waiters: 32, gap: 5 * time.Millisecond, clients: 64, loop: 2 * time.Second,
	lockers: 100, perLocker: 10, settle: 2 * time.Second, idle: 3 * time.Second,
}

// start starts five servers and waits until all of them vote. New servers might
// have forgotten leases, for all that they know, so they stay out for a TTL; it
// has to be waited for before a rival loads scripts, which would begin it again.
func start(ctx context.Context, t testing.TB, b *bench) error {
	b.servers = testserver.Group(t, b.kind, 5)
	l, err := b.locker()
	if err != nil {
		return err
	}
	defer l.Close()
	const name = "bench:start"
	key := valkeynode.DefaultPrefix + name
	for {
		lock, err := l.Acquire(ctx, name)
		if err != nil {
			return err
		}
		// The grants that the majority did not wait for may be on their way.
		time.Sleep(20 * time.Millisecond)
		n := 0
		for _, s := range b.servers {
			if s.Do("EXISTS", key) == "1" {
				n++
			}
		}
		if err := lock.Release(ctx); err != nil {
			return err
		}
		if n == len(b.servers) {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// locker returns a Locker with connections of its own.
func (b *bench) locker() (*fenlock.Locker, error) {
	config := fenlock.Config{TTL: b.ttl, MaxTTL: b.ttl}
	if b.ttl < 4*time.Second {
		// The default is a twentieth, which is too short for a busy machine.
		config.NodeTimeout = b.ttl / 4
	}
	for _, s := range b.servers {
		node, err := valkeynode.Open(s.URL())
		if err != nil {
			return nil, err
		}
		config.Nodes = append(config.Nodes, node)
	}
	return fenlock.New(config)
}

// field returns a field of a section of a server's INFO.
func field(s *testserver.Server, section, name string) string {
	for line := range strings.Lines(s.Do("INFO", section)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}

// commands returns how many commands a server has carried out, this one left
// out.
func commands(s *testserver.Server) (int, error) {
	return strconv.Atoi(field(s, "stats", "total_commands_processed"))
}
