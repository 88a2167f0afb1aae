//go:build linux || darwin || freebsd

package filenode

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// inFile reads what the file has in the room of a name.
func inFile(t testing.TB, n *Node, name string) *room {
	t.Helper()
	r, err := readRoom(n, &n.header, roomOf(name))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// entry reads what the file has about a name.
func entry(t testing.TB, n *Node, name string) rule.Entry {
	t.Helper()
	return inFile(t, n, name).Begin(name, n.clock(), nil).Entry
}

// Random operations of few waiters with few stamps, some of whom come and go, in a
// file and on a queue in memory. Another name's queue is there all the time, and
// must stay.
func TestQueueAgainstOneInMemory(t *testing.T) {
	for seed := range uint64(6) {
		n, _ := newNode(t)
		now := time.Hour
		n.clock = func() time.Duration { return now }
		want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("b", "", 0))))
		want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, asks("b", clientA+":9", 1))))
		againstMemory(t, n, &now, seed)
		if other := inFile(t, n, "b").Queues["b"].Waiters; len(other) != 1 {
			t.Errorf("seed %d: the queue of another name is now %v", seed, other)
		}
		n.Close()
	}
}

func againstMemory(t *testing.T, n *Node, now *time.Duration, seed uint64) {
	const name = "a"
	rng := rand.New(rand.NewPCG(seed, 1))
	clients := []string{clientA, clientB, strings.Repeat("c", 32)}
	listens := map[string]bool{}
	var memory rule.Store
	var log []string
	for range 250 {
		p := node.Place{Waiter: fmt.Sprint(clients[rng.IntN(3)], ":", 1+rng.IntN(2)), Stamp: int64(1 + rng.IntN(4))}
		if rng.IntN(8) == 0 {
			p.Waiter = ""
		}
		r := node.Request{Name: name, Holder: node.Holder(fmt.Sprint("h", rng.IntN(3))), Place: p,
			TTL: time.Duration(1+rng.IntN(3000)) * time.Millisecond, Token: fence.Token(rng.IntN(50))}
		if rng.IntN(2) == 0 {
			r.OwnToken = fence.Token(1 + rng.IntN(3))
		}
		switch rng.IntN(10) {
		case 0, 1, 2, 3:
			r.Op = node.Acquire
		case 4, 5, 6:
			r.Op = node.Release
			if rng.IntN(2) == 0 {
				r.Place.Stamp = 0
			}
			if rng.IntN(4) == 0 {
				r.Holder = ""
			}
		case 7:
			r.Op = []node.Op{node.Confirm, node.Extend, node.ForceRelease}[rng.IntN(3)]
		case 8:
			*now += time.Duration(rng.IntN(1200)) * time.Millisecond
			want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, asks("b", clientA+":9", 1)))) // renews that queue
			continue
		case 9:
			toggle(t, n, clients[rng.IntN(3)], listens)
			continue
		}
		o := memory.Begin(name, *now, func(waiter string) bool { return listens[waiter[:32]] })
		wants, _ := rule.Serve(&o.Entry, o, *now, r)
		o.Commit()
		got, err := n.Do(t.Context(), r)
		log = append(log, fmt.Sprintf("%v: %v %+v %s: %+v", *now, r.Op, r, string(r.Holder), got))
		stored, queued := entry(t, n, name), inFile(t, n, name).Queues[name].Waiters
		same := err == nil && got == wants && slices.Equal(queued, o.Waiters) &&
			stored.Register == o.Register && stored.Leased(*now) == o.Leased(*now) &&
			(!o.Leased(*now) || stored.Holder == o.Holder && stored.Origin == o.Origin && stored.Token == o.Token)
		if o.Leased(*now) {
			same = same && stored.Holder == o.Holder && stored.Expires == o.Entry.Expires
		}
		if !same {
			t.Fatalf("seed %d: the memory says %+v, %+v, %v; it is %v, %+v, %v. The last operations:\n%s", seed,
				wants, o.Entry, o.Waiters, err, stored, queued, strings.Join(log[max(0, len(log)-12):], "\n"))
		}
	}
}

// toggle makes a client reachable, or ends that.
func toggle(t *testing.T, n *Node, client string, listens map[string]bool) {
	t.Helper()
	n.mu.Lock()
	of := n.listeners[client]
	delete(n.listeners, client)
	n.mu.Unlock()
	if of != nil {
		of.close()
	} else if err := n.Listen(context.Background(), client, func(string) {}); err != nil {
		t.Fatal(err)
	}
	listens[client] = of == nil
}
