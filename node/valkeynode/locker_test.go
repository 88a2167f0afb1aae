package valkeynode_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

func newLocker(t testing.TB, servers []*testserver.Server) *fenlock.Locker {
	t.Helper()
	var nodes []node.Node
	for _, s := range servers {
		nodes = append(nodes, open(t, s.URL()))
	}
	l, err := fenlock.New(fenlock.Config{Nodes: nodes, TTL: groupTTL, MaxTTL: groupTTL})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLockerOnFiveServers(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		servers := testserver.Group(t, kind, 5)
		a, b := newLocker(t, servers), newLocker(t, servers)

		first, err := a.Acquire(bounded(t), "orders/42")
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error { // it has to connect first, within the time of a request
			_, err := b.TryAcquire(bounded(t), "orders/42")
			var held *fenlock.HeldError
			switch {
			case errors.As(err, &held) && held.HeldBy != "":
				return nil
			case errors.Is(err, fenlock.ErrNoQuorum):
				return err
			}
			t.Fatalf("second client: %v, want a HeldError with the holder's label", err)
			return nil
		})
		// Longer than the lease: it is held because it is extended.
		select {
		case <-first.Context().Done():
			t.Fatalf("lost although all nodes are up: %v", first.Context().Err())
		case <-time.After(3 * groupTTL):
		}
		if err := first.Release(bounded(t)); err != nil {
			t.Fatal(err)
		}
		second, err := b.Acquire(bounded(t), "orders/42")
		if err != nil {
			t.Fatal(err)
		}
		if second.Token() <= first.Token() {
			t.Fatalf("tokens %v, then %v: not increasing", first.Token(), second.Token())
		}
		if err := second.Release(bounded(t)); err != nil {
			t.Fatal(err)
		}
	})
}
