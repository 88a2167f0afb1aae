// Command run makes runs of the simulator, one seed after the other, and prints
// for each that fails the line that replays it.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/fenlock/fenlock/sim"
)

func main() {
	seeds := flag.Int("seeds", 1000, "how many runs")
	first := flag.Uint64("seed", 1, "seed of the first run")
	verbose := flag.Bool("v", false, "print every event")
	flag.Parse()
	var total sim.Total
	var opt sim.Options
	if *verbose {
		opt.Trace = func(line string) { fmt.Println(line) }
	}
	began, progress := time.Now(), time.Now()
	for i := range *seeds {
		r := sim.Run(*first+uint64(i), opt)
		total.Add(r)
		for _, v := range r.Violations {
			fmt.Printf("seed %d: %v\n", r.Seed, v)
		}
		if len(r.Violations) > 0 {
			fmt.Printf("replay: go run ./sim/... -seed %d -seeds 1 -v\n", r.Seed)
		}
		if *verbose {
			fmt.Printf("seed %d: %d events, hash %016x, broken %q\n", r.Seed, r.Events, r.Hash, r.Broken)
		}
		if time.Since(progress) > 10*time.Second {
			progress = time.Now()
			fmt.Printf("%d seeds, %.0f a second\n", i+1, float64(i+1)/time.Since(began).Seconds())
		}
	}
	fmt.Printf("%v%.0f seeds a second\n", total, float64(*seeds)/time.Since(began).Seconds())
	if total.Failed > 0 {
		os.Exit(1)
	}
}
