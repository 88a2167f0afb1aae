//go:build linux

package worker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/tests/faults/library"
)

// trafficEvery is how often a client takes another name, as far as the servers can.
const trafficEvery = 40 * time.Millisecond

// others returns names that share a register with these, one for each.
func others(names []string) []string {
	all := slices.Clone(names)
	for i, name := range all {
		for n := 0; all[i] == name || node.Stripe(all[i]) != node.Stripe(name); n++ {
			all[i] = fmt.Sprint("other-", n)
		}
	}
	return all
}

// traffic takes other names of the same registers all the time, which moves them, until
// ctx is done. Nothing of it is noted.
func traffic(ctx context.Context, l library.Locker, names []string) {
	names = others(names)
	for i := 0; ctx.Err() == nil; i++ {
		if lease, err := l.TryAcquire(ctx, names[i%len(names)]); err == nil {
			lease.Release(ctx)
		}
		select {
		case <-time.After(trafficEvery):
		case <-ctx.Done():
		}
	}
}
