// Cycle measures one revision of fenlock: acquire and release, uncontended, one
// at a time. It prints two numbers, the nanoseconds and the allocations of a
// cycle. It is compiled inside other revisions too, so it uses nothing but the API
// that all of them have; scripts/bench-against.sh compares two of them.
//
//	cycle URL,URL,... PREFIX
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/valkeynode"
)

const (
	// A new server stays out for one TTL, which has to be waited for.
	ttl = 2 * time.Second

	warmup  = 300 // cycles
	batches = 20  // the median of them counts
	batch   = 100 // cycles
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: cycle URL,URL,... PREFIX")
	}
	config := fenlock.Config{TTL: ttl, MaxTTL: ttl, NodeTimeout: ttl / 4}
	for url := range strings.SplitSeq(os.Args[1], ",") {
		node, err := valkeynode.Open(url, valkeynode.WithPrefix(os.Args[2]))
		if err != nil {
			log.Fatal(err)
		}
		config.Nodes = append(config.Nodes, node)
	}
	locker, err := fenlock.New(config)
	if err != nil {
		log.Fatal(err)
	}
	cycles := func(n int) {
		for range n {
			lock, err := locker.Acquire(context.Background(), "bench:cycle")
			if err == nil {
				err = lock.Release(context.Background())
			}
			if err != nil {
				log.Fatal(err)
			}
		}
	}
	cycles(warmup)
	var before, after runtime.MemStats
	var times []float64
	runtime.ReadMemStats(&before)
	for range batches {
		start := time.Now()
		cycles(batch)
		times = append(times, float64(time.Since(start).Nanoseconds())/batch)
	}
	runtime.ReadMemStats(&after)
	slices.Sort(times)
	fmt.Println(times[batches/2], float64(after.Mallocs-before.Mallocs)/(batches*batch))
	if err := locker.Close(); err != nil {
		log.Fatal(err)
	}
}
