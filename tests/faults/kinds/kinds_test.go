//go:build linux

package kinds

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/tests/faults/cluster"
	"github.com/fenlock/fenlock/tests/faults/library"
)

// Every kind can begin and be healed with every persistence, whatever it draws, and
// leaves a normal server and no trace of itself. stage.inject checks that.
func TestKinds(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		for _, p := range []cluster.Persistence{cluster.Always, cluster.Everysec, cluster.Off} {
			st := &stage{t: t, c: cluster.New(t, cluster.OfKind(kind), 1, p, 1), clients: &standIns{n: 2}}
			for _, k := range All {
				for seed := range uint64(2) {
					st.inject(k.Name, 0, seed)()
				}
			}
			if t.Failed() {
				t.Fatalf("persistence %s", p)
			}
		}
	})
}

// Kinds that overlap on one server do not keep each other from being healed.
func TestKindsOverlap(t *testing.T) {
	st := newStage(t, 1, cluster.Everysec)
	rng := rand.New(rand.NewPCG(1, 1))
	begun := 0
	for i := range 40 {
		var names []string
		var heals sync.WaitGroup
		for range 3 {
			k := All[rng.IntN(len(All))]
			names = append(names, k.Name)
			scene := st.scene(0, rng.Uint64())
			scene.Note = func(string, int, string) {}
			heal, err := k.Inject(scene)
			if errors.Is(err, cluster.ErrNotNow) {
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", strings.Join(names, ", "), err)
			}
			begun++
			wait := time.Duration(rng.Int64N(int64(50 * time.Millisecond)))
			heals.Go(func() {
				time.Sleep(wait)
				if err := heal(); err != nil {
					t.Errorf("%s: healing %s: %v", strings.Join(names, ", "), k.Name, err)
				}
			})
		}
		heals.Wait()
		st.normal(0)
		if t.Failed() {
			t.Fatalf("round %d: %s", i, strings.Join(names, ", "))
		}
	}
	// What finds the server down cannot begin.
	if begun < 60 {
		t.Errorf("only %d of 120 faults could begin", begun)
	}
}

// Kinds that are said to forget keep their server from voting until a client has
// admitted it again, and no others do. A clock is not said to: it steps by itself.
func TestForgets(t *testing.T) {
	st := newStage(t, 5, cluster.Off)
	locker, err := library.Open(library.Config{Library: library.Fenlock, URLs: st.c.URLs(0),
		TTL: cluster.TTL, MaxTTL: cluster.TTL, NodeTimeout: cluster.TTL / 4})
	if err != nil {
		t.Fatal(err)
	}
	defer locker.Close()
	cycle := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), cluster.Patience)
		defer cancel()
		lease, err := locker.Acquire(ctx, "forgets")
		if err == nil {
			err = lease.Release(ctx)
		}
		return err
	}
	if err := cycle(); err != nil {
		t.Fatal(err)
	}
	node := 0
	for _, k := range All {
		seed := uint64(1)
		if k.Name == "evict" {
			seed = st.seedFor(func(rng *rand.Rand) bool { return rng.IntN(2) == 0 }) // all keys
		}
		st.inject(k.Name, node, seed)()
		forgets := k.Costs(cluster.Valkey, cluster.Off) != cluster.Nothing
		if got := st.c.Admitted(node); got == forgets {
			t.Errorf("%s: admitted %v, forgets %v", k.Name, got, forgets)
		}
		if forgets {
			node++ // two at a time
		}
		for end := time.Now().Add(cluster.HealLimit); node%2 == 0 && node > 0; time.Sleep(10 * time.Millisecond) {
			if err := cycle(); err != nil && !errors.Is(err, fenlock.ErrLost) && !errors.Is(err, fenlock.ErrNoQuorum) {
				t.Fatalf("after %s: %v", k.Name, err)
			}
			if st.c.Admitted(node-1) && st.c.Admitted(node-2) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s: not admitted within %v", k.Name, cluster.HealLimit)
			}
		}
		node %= 4
	}
}
