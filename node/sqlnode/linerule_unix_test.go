//go:build unix

package sqlnode

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// inTable reads the whole line of a name.
func inTable(t *testing.T, n *Node, name string) (l rule.Line) {
	t.Helper()
	found, err := n.db.Query(`SELECT waiter, stamp FROM fenlock_waiters WHERE name = ?`, []byte(name))
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	for found.Next() {
		var p node.Place
		if err := found.Scan(&p.Waiter, &p.Stamp); err != nil {
			t.Fatal(err)
		}
		l = append(l, p)
	}
	slices.SortFunc(l, func(a, b node.Place) int {
		return cmp.Or(cmp.Compare(a.Stamp, b.Stamp), strings.Compare(a.Waiter, b.Waiter))
	})
	return l
}

// entry reads what the file has about a name.
func entry(t *testing.T, n *Node, name string) (e rule.Entry) {
	t.Helper()
	err := n.transact(t.Context(), reading, func(tx *sql.Tx) (_ bool, err error) {
		e, _, err = n.load(t.Context(), tx, name)
		return false, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Random operations of few waiters with few stamps, some of whom come and go,
// against the rule. Another name's line is there all the time, and must stay.
func TestLineAgainstTheRule(t *testing.T) {
	for seed := range uint64(6) {
		n := fast(t, open(t, filepath.Join(t.TempDir(), "locks.db")))
		now := time.Hour
		n.clock = func() time.Duration { return now }
		want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("b", "", 0))))
		want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, asks("b", clientA+":0", 1))))
		againstTheRule(t, n, &now, seed)
		if other := inTable(t, n, "b"); len(other) != 1 {
			t.Errorf("seed %d: the line of another name is now %v", seed, other)
		}
		n.Close()
	}
}

func againstTheRule(t *testing.T, n *Node, now *time.Duration, seed uint64) {
	const name = "a"
	rng := rand.New(rand.NewPCG(seed, 1))
	clients := []string{clientA, clientB, strings.Repeat("c", 32)}
	listens := map[string]bool{}
	reachable := func(waiter string) bool { return listens[waiter[:32]] }
	var e rule.Entry
	var l rule.Line
	var log []string
	for range 250 {
		p := node.Place{Waiter: fmt.Sprint(clients[rng.IntN(3)], ":", rng.IntN(2)), Stamp: int64(1 + rng.IntN(4))}
		if rng.IntN(8) == 0 {
			p.Waiter = ""
		}
		r := node.Request{Name: name, Holder: node.Holder(fmt.Sprint("h", rng.IntN(3))), Place: p,
			TTL: time.Duration(1+rng.IntN(3000)) * time.Millisecond, Token: fence.Token(rng.IntN(50))}
		var wants rule.Reply
		var got node.Answer
		var err error
		var op string
		switch rng.IntN(10) {
		case 0, 1, 2, 3:
			op = fmt.Sprintf("acquire %+v", r)
			wants, _ = rule.AcquireInLine(&e, &l, *now, p, reachable, func(e *rule.Entry) rule.Reply {
				return rule.Acquire(e, *now, r.Holder, r.TTL, r.Token)
			})
			got, err = n.Do(t.Context(), as(node.Acquire, r))
			if got.Status == node.Held && (got.Ahead != l.Ahead(p.Waiter) || got.Remaining != e.Expires-*now || got.Clock != *now ||
				(got.HeldBy == node.NextInQueue) != e.Holder.Reserves()) {
				t.Fatalf("seed %d: %s: %+v; want %+v, %v", seed, op, got, e, l)
			}
		case 4, 5, 6:
			if rng.IntN(2) == 0 {
				r.Place.Stamp = 0
			}
			if rng.IntN(4) == 0 {
				r.Holder = ""
			}
			op = fmt.Sprintf("release %+v", r)
			wants, _ = rule.ReleaseInLine(&e, &l, *now, r.Holder, r.Place, reachable)
			got, err = n.Do(t.Context(), as(node.Release, r))
		case 7:
			if rng.IntN(4) > 0 {
				continue
			}
			op = fmt.Sprint("force release ", r.Token)
			wants, _ = rule.ForceReleaseInLine(&e, &l, *now, reachable, func(e *rule.Entry) rule.Reply {
				return rule.ForceRelease(e, *now, r.Token)
			})
			got, err = n.Do(t.Context(), node.Request{Op: node.ForceRelease, Name: name, Token: r.Token})
		case 8:
			*now += time.Duration(rng.IntN(1200)) * time.Millisecond
			want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, asks("b", clientA+":0", 1)))) // keeps that line
			continue
		case 9:
			toggle(t, n, clients[rng.IntN(3)], listens)
			continue
		}
		log = append(log, fmt.Sprintf("%v: %s: %+v", *now, op, got))
		stored, inLine := entry(t, n, name), inTable(t, n, name)
		same := err == nil && got.Status == wants.Status && got.Register == wants.Register &&
			stored.Register == e.Register && stored.Leased(*now) == e.Leased(*now) && slices.Equal(inLine, l)
		if e.Leased(*now) {
			same = same && stored.Holder == e.Holder && stored.Expires == e.Expires
		}
		if !same {
			t.Fatalf("seed %d: the rule says %+v, %+v, %v; it is %v, %+v, %v. The last operations:\n%s", seed,
				wants, e, l, err, stored, inLine, strings.Join(log[max(0, len(log)-12):], "\n"))
		}
		if lines := rows(t, n, "fenlock_lines"); lines != 1+min(len(l), 1) {
			t.Fatalf("seed %d: %d rows for lines, with %v in this one", seed, lines, l)
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
