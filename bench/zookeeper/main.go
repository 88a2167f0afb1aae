// Command zookeeper compares fenlock on ZooKeeper with the lock of github.com/go-zookeeper/zk, on
// one ensemble of three servers that it starts. It measures an acquisition and a release alone,
// handovers, and 64 lockers on different names. Both take turns, round by round, so that what else
// the machine does concerns both.
//
//	cd bench && go run ./zookeeper
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/zknode"
)

// client takes locks.
type client interface {
	// lock takes a lock, and returns what releases it.
	lock(name string) func()
	close()
}

type fenlocks struct {
	locker *fenlock.Locker
	node   *zknode.Node
}

func newFenlock(addrs string) client {
	n, err := zknode.Open("zk://" + addrs + "/bench/fenlock")
	check(err)
	// 64 lockers on a busy machine are slower than the timeout for one that is sick.
	l, err := fenlock.New(fenlock.Config{Nodes: []node.Node{n}, NewServers: true, TTL: 30 * time.Second,
		NodeTimeout: 7 * time.Second, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	check(err)
	return &fenlocks{l, n}
}

func (f *fenlocks) lock(name string) func() {
	lock, err := f.locker.Acquire(context.Background(), name)
	check(err)
	return func() { check(lock.Release(context.Background())) }
}

func (f *fenlocks) close() {
	f.locker.Close()
	f.node.Close()
}

type zkLocks struct{ conn *zk.Conn }

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func newZK(addrs string) client {
	conn, _, err := zk.Connect(strings.Split(addrs, ","), 33*time.Second, zk.WithLogger(quiet{}))
	check(err)
	return &zkLocks{conn}
}

func (z *zkLocks) lock(name string) func() {
	l := zk.NewLock(z.conn, "/bench/zk/"+name, zk.WorldACL(zk.PermAll))
	check(l.Lock())
	return func() { check(l.Unlock()) }
}

func (z *zkLocks) close() { z.conn.Close() }

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}

func main() {
	rounds := flag.Int("rounds", 5, "rounds of each, in turn")
	count := flag.Int("count", 200, "acquisitions or handovers in a round")
	flag.Parse()
	var outside testserver.Outside
	defer outside.Close()
	check(testserver.Try(func() error { run(&outside, *rounds, *count); return nil }))
}

func run(t *testserver.Outside, rounds, count int) {
	servers := testserver.StartZooKeepers(t, 3, nil, "tickTime=2000", "maxSessionTimeout=40000")
	kinds := []struct {
		name string
		open func(string) client
	}{{"fenlock", newFenlock}, {"zk.Lock", newZK}}
	figures := make(map[string][]time.Duration)
	rates := make(map[string][]float64)
	for range rounds {
		for _, kind := range kinds {
			a, b := kind.open(servers.Addrs()), kind.open(servers.Addrs())
			for range 20 {
				a.lock("warm")()
				b.lock("warm")()
			}
			for range count {
				began := time.Now()
				a.lock("alone")()
				figures["alone "+kind.name] = append(figures["alone "+kind.name], time.Since(began))
			}
			figures["handover "+kind.name] = append(figures["handover "+kind.name], handovers(a, b, count)...)
			rates[kind.name] = append(rates[kind.name], many(kind.open, servers.Addrs(), count))
			a.close()
			b.close()
		}
	}
	for _, what := range []string{"alone", "handover"} {
		ours, theirs := median(figures[what+" fenlock"]), median(figures[what+" zk.Lock"])
		fmt.Fprintf(os.Stdout, "%-10s median: fenlock %v, zk.Lock %v, ratio %.2f\n", what, ours.Round(time.Microsecond),
			theirs.Round(time.Microsecond), float64(ours)/float64(theirs))
	}
	ours, theirs := median(rates["fenlock"]), median(rates["zk.Lock"])
	fmt.Fprintf(os.Stdout, "64 lockers: fenlock %.0f/s, zk.Lock %.0f/s, ratio %.2f\n", ours, theirs, ours/theirs)
}

// handovers has one client wait while another one holds, and returns how long it takes from
// the release to the next holder.
func handovers(a, b client, count int) (all []time.Duration) {
	release := a.lock("handed over")
	for i := range count {
		next := b
		if i%2 == 1 {
			next = a
		}
		got := make(chan func())
		var at time.Time
		go func() {
			r := next.lock("handed over")
			at = time.Now()
			got <- r
		}()
		time.Sleep(15 * time.Millisecond) // it waits
		began := time.Now()
		go release()
		release = <-got
		all = append(all, at.Sub(began))
	}
	release()
	return all
}

// many has 64 lockers take locks of their own, and returns how many of those they take
// in a second.
func many(open func(string) client, addrs string, count int) float64 {
	c := open(addrs)
	defer c.close()
	const lockers = 64
	cycle := func(times int) {
		var wait sync.WaitGroup
		for i := range lockers {
			wait.Go(func() {
				for range times {
					c.lock(fmt.Sprint("many ", i))()
				}
			})
		}
		wait.Wait()
	}
	cycle(5)
	times := max(count/4, 10)
	began := time.Now()
	cycle(times)
	return float64(lockers*times) / time.Since(began).Seconds()
}

func median[T time.Duration | float64](of []T) T {
	slices.Sort(of)
	return of[len(of)/2]
}
