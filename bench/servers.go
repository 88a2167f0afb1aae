package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// bench is what the figures run on.
type bench struct {
	t       testing.TB // what servers are bound to
	servers []*testserver.Server
	started []*testserver.Server // those and the ones that only some figures use
	via     []string             // addresses to use instead of the servers' own, if any
	kind    testserver.Kind
	etcd    *etcd         // nil if there is none
	ttl     time.Duration // of all leases; see theirTTL
	giveUp  time.Duration // after which a contender is left out of a figure
	size    size
}

// size is how much is measured.
type size struct {
	rounds    int           // of cycle, handover
	cycles    int           // per round
	lines     int           // rounds of line
	waiters   int           // in the queue
	gap       time.Duration // between their arrivals
	clients   int           // of loop
	loop      time.Duration // how long it runs
	lockers   int           // of idle
	perLocker int           // waiters of each
	settle    time.Duration // before idle is measured
	idle      time.Duration // how long it is measured

	loads     int           // rounds of load, single and nodes
	load      time.Duration // of each
	crowds    []int         // of load
	crowd     int           // lockers of single and nodes
	nodes     []int         // of nodes
	trips     int           // acquisitions of roundtrips
	tripNames int           // on so many names
	held      int           // locks of held
	hold      time.Duration // how long it is measured
	names     int           // of memory
	delay     time.Duration // of slow
	slows     int           // rounds of slow
	slow      int           // cycles per round
	networks  int           // rounds of network
	network   int           // cycles per round
	starts    int           // rounds of command and killed
	herds     []int         // processes of herd, with one name
	herd      int           // and with a name each
	stampedes int           // rounds of herd
	changes   int           // rounds of leader
}

var fullSize = size{
	rounds: 50, cycles: 100, lines: 7, waiters: 32, gap: 5 * time.Millisecond, clients: 64, loop: 10 * time.Second,
	lockers: 100, perLocker: 10, settle: 5 * time.Second, idle: 10 * time.Second,
	loads: 20, load: 500 * time.Millisecond, crowds: []int{1, 16, 64, 256}, crowd: 64, nodes: []int{1, 3, 5, 7},
	trips: 100_000, tripNames: 1000, held: 10_000, hold: 20 * time.Second, names: 1_000_000,
	delay: 200 * time.Millisecond, slows: 30, slow: 5, networks: 30, network: 100, starts: 100, herds: []int{20, 160, 500},
	herd: 100, stampedes: 7, changes: 30,
}

var quickSize = size{
	rounds: 10, cycles: 50, lines: 2, waiters: 32, gap: 5 * time.Millisecond, clients: 64, loop: 2 * time.Second,
	lockers: 100, perLocker: 10, settle: 2 * time.Second, idle: 3 * time.Second,
	loads: 5, load: 200 * time.Millisecond, crowds: []int{1, 16, 64, 256}, crowd: 64, nodes: []int{1, 3, 5, 7},
	trips: 10_000, tripNames: 1000, held: 10_000, hold: 5 * time.Second, names: 20_000,
	delay: 200 * time.Millisecond, slows: 10, slow: 3, networks: 4, network: 50, starts: 20, herds: []int{20, 100},
	herd: 50, stampedes: 2, changes: 10,
}

// start starts five servers and waits until all of them vote.
func start(ctx context.Context, t testing.TB, b *bench) error {
	b.t = t
	five, err := b.on(ctx, 5)
	if err == nil {
		b.servers = five.servers
	}
	return err
}

// on returns the same with the first n servers. It starts those that are missing.
func (b *bench) on(ctx context.Context, n int) (*bench, error) {
	before := len(b.started)
	for len(b.started) < n {
		s := testserver.Start(b.t, b.kind)
		// Groups of several sizes share it, and one has a network before a node.
		s.Do("HSET", "fenlock-registers:fenlock:", "members", "*")
		b.started = append(b.started, s)
	}
	some := *b
	some.servers = b.started[:n]
	if len(b.started) == before {
		return &some, nil
	}
	return &some, some.settle(ctx)
}

// settle waits until all servers vote. New servers might have forgotten leases, for
// all that they know, so they stay out for a TTL; it has to be waited for before a
// rival loads scripts, which would begin it again.
func (b *bench) settle(ctx context.Context) error {
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

// addresses returns where clients find the servers.
func (b *bench) addresses() []string {
	if b.via != nil {
		return b.via
	}
	var all []string
	for _, s := range b.servers {
		all = append(all, s.Addr())
	}
	return all
}

// urls returns the same for fenlock.
func (b *bench) urls() []string {
	all := slices.Clone(b.addresses())
	for i, address := range all {
		all[i] = string(b.kind) + "://" + address
	}
	return all
}

// theirTTL is the TTL of the rivals' leases: fenlock's, except in tests, where that
// is short so that the servers vote soon. A rival's time-outs are parts of its TTL.
func (b *bench) theirTTL() time.Duration { return max(b.ttl, 8*time.Second) }

// locker returns a Locker with connections of its own.
func (b *bench) locker() (*fenlock.Locker, error) {
	return newLocker(b.urls(), b.ttl, fenlock.Observer{})
}

func newLocker(urls []string, ttl time.Duration, o fenlock.Observer) (*fenlock.Locker, error) {
	config := fenlock.Config{TTL: ttl, MaxTTL: ttl, Observer: o}
	if ttl < 4*time.Second {
		// The default is a twentieth, which is too short for a busy machine.
		config.NodeTimeout = ttl / 4
	}
	for _, url := range urls {
		node, err := valkeynode.Open(url)
		if err != nil {
			return nil, err
		}
		config.Nodes = append(config.Nodes, node)
	}
	return fenlock.New(config)
}

// etcd starts clusters of etcd servers on this machine. Nil has none, and stop does
// nothing. It is not safe for concurrent use; figures run one after the other.
type etcd struct {
	t        testing.TB
	clusters map[int]*testserver.Etcd // by their members
}

// serve returns the addresses of a cluster of n members, which it starts unless it runs already.
func (e *etcd) serve(n int) []string {
	if e.clusters[n] == nil {
		e.clusters[n] = testserver.StartEtcd(e.t, n, "--log-level", "error")
	}
	return strings.Split(e.clusters[n].Addrs(), ",")
}

// stop ends all clusters. Later ones are new.
func (e *etcd) stop() {
	if e == nil {
		return
	}
	for n, c := range e.clusters {
		for _, m := range c.Members {
			m.Kill()
		}
		delete(e.clusters, n)
	}
}
