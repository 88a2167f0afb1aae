// Command run makes runs of the simulator, one seed after the other, and prints
// for each that fails the line that replays it. A kind of fault that never struck
// while a lock was held fails a batch of a thousand seeds or more.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/fenlock/fenlock/internal/sim"
)

// enough is how many seeds bring every kind of fault upon a lock that is held.
const enough = 1000

func main() {
	seeds := flag.Int("seeds", 1000, "how many runs")
	first := flag.Uint64("seed", 1, "seed of the first run")
	workers := flag.Int("workers", runtime.NumCPU(), "how many runs at a time")
	every := flag.Duration("progress", 10*time.Second, "how often to print how far it is")
	steps := flag.Bool("steps", true, "have each step be one of the models that are proved")
	verbose := flag.Bool("v", false, "print every event, one run at a time")
	flag.Parse()
	if *seeds < 1 || *workers < 1 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	debug.SetGCPercent(1600) // a run keeps little
	debug.SetMemoryLimit(1 << 30)
	var total sim.Total
	began, progress := time.Now(), time.Now()
	tell := func(r sim.Result) bool {
		total.Add(r)
		for _, v := range r.Violations {
			fmt.Printf("seed %d: %v\n", r.Seed, v)
		}
		if len(r.Violations) > 0 {
			fmt.Printf("replay: go run ./internal/sim/run -seed %d -seeds 1 -v\n", r.Seed)
		}
		if time.Since(progress) > *every {
			progress = time.Now()
			fmt.Printf("%d seeds, %.0f a second, %v simulated, %d failed\n", total.Runs,
				float64(total.Runs)/time.Since(began).Seconds(), total.Simulated.Round(time.Second), total.Failed)
		}
		return true
	}
	if *verbose {
		for i := range *seeds {
			r := sim.Run(*first+uint64(i), sim.Options{Steps: *steps, Trace: func(line string) { fmt.Println(line) }})
			tell(r)
			fmt.Printf("seed %d: %d events, hash %016x, broken %q\n", r.Seed, r.Events, r.Hash, r.Broken)
		}
	} else {
		sim.Runs(*first, *seeds, *workers, sim.Options{Steps: *steps}, tell)
	}
	fmt.Printf("%v%.0f seeds a second\n", total, float64(*seeds)/time.Since(began).Seconds())
	failed := total.Failed > 0
	if *seeds >= enough {
		for _, fault := range total.Missing() {
			fmt.Printf("FAILED: %q never struck while a lock was held\n", fault)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}
