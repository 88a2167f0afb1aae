//go:build unix

package etcdnode_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// The figures of docs/performance.md: fenlock beside etcd's own recipe, concurrency.Mutex on one
// session, one cluster of three, in one run.
//
//	go test -run '^$' -bench . -benchtime 2s -count 3 ./...

// contender takes locks as one process.
type contender struct {
	lock  func(ctx context.Context, name string) (unlock func() error, err error)
	close func()
}

func benchLocker(b *testing.B, url string) contender {
	n := open(b, url)
	await(b, n)
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{n}, TTL: 10 * time.Second, MaxTTL: longest,
		NodeTimeout: 2 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	return contender{func(ctx context.Context, name string) (func() error, error) {
		l, err := locker.Acquire(ctx, name)
		if err != nil {
			return nil, err
		}
		return func() error { return l.Release(ctx) }, nil
	}, func() { locker.Close(); n.Close() }}
}

func benchMutex(b *testing.B, prefix string) contender {
	var endpoints []string
	for _, m := range shared().Members {
		endpoints = append(endpoints, "http://"+m.Addr())
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		b.Fatal(err)
	}
	s, err := concurrency.NewSession(c, concurrency.WithTTL(10))
	if err != nil {
		b.Fatal(err)
	}
	return contender{func(ctx context.Context, name string) (func() error, error) {
		m := concurrency.NewMutex(s, prefix+"/"+name)
		if err := m.Lock(ctx); err != nil {
			return nil, err
		}
		return func() error { return m.Unlock(context.Background()) }, nil
	}, func() { s.Close(); c.Close() }}
}

// both runs a benchmark for each.
func both(b *testing.B, run func(b *testing.B, process func() contender)) {
	shared()
	b.Run("fenlock", func(b *testing.B) {
		url := fresh()
		run(b, func() contender { return benchLocker(b, url) })
	})
	b.Run("mutex", func(b *testing.B) {
		prefix := fmt.Sprint("/mutex/", prefixes.Add(1))
		run(b, func() contender { return benchMutex(b, prefix) })
	})
}

func cycle(b *testing.B, c contender, name string) {
	unlock, err := c.lock(b.Context(), name)
	if err == nil {
		err = unlock()
	}
	if err != nil {
		b.Error(err)
	}
}

// BenchmarkAlone is acquire and release of one process, alone.
func BenchmarkAlone(b *testing.B) {
	both(b, func(b *testing.B, process func() contender) {
		c := process()
		defer c.close()
		cycle(b, c, "alone")
		b.ResetTimer()
		for range b.N {
			cycle(b, c, "alone")
		}
		b.StopTimer()
	})
}

// Benchmark64Names is the same by 64 goroutines of a process, each with a name of its own.
func Benchmark64Names(b *testing.B) {
	both(b, func(b *testing.B, process func() contender) {
		c := process()
		defer c.close()
		var all sync.WaitGroup
		work := make(chan int)
		for i := range 64 {
			all.Go(func() {
				cycle(b, c, fmt.Sprint("name ", i))
				for range work {
					cycle(b, c, fmt.Sprint("name ", i))
				}
			})
		}
		b.ResetTimer()
		for i := range b.N {
			work <- i
		}
		close(work)
		all.Wait()
		b.StopTimer()
	})
}

// BenchmarkHandover is the time from the release to when the next process has the lock,
// with three processes that want it all the time.
func BenchmarkHandover(b *testing.B) {
	both(b, func(b *testing.B, process func() contender) {
		const processes = 3
		var mu sync.Mutex
		var released time.Time
		var took []time.Duration
		left := b.N + processes
		var all sync.WaitGroup
		for range processes {
			c := process()
			all.Go(func() {
				defer c.close()
				for {
					unlock, err := c.lock(b.Context(), "handed over")
					now := time.Now()
					if err != nil {
						b.Error(err)
						return
					}
					mu.Lock()
					if !released.IsZero() {
						took = append(took, now.Sub(released))
					}
					left--
					more := left > 0
					mu.Unlock()
					time.Sleep(2 * time.Millisecond) // the others come to wait
					mu.Lock()
					released = time.Now()
					mu.Unlock()
					if err := unlock(); err != nil {
						b.Error(err)
						return
					}
					if !more {
						return
					}
				}
			})
		}
		all.Wait()
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs/handover")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
	})
}
