package pgnode

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// patience bounds what a test waits for.
const patience = 20 * time.Second

// events is who was notified.
type events chan string

func (e events) next(t *testing.T) string {
	t.Helper()
	select {
	case waiter := <-e:
		return waiter
	case <-time.After(patience):
		t.Fatal("nobody was notified")
		return ""
	}
}

func listen(t *testing.T, n *Node, client string) events {
	t.Helper()
	e := make(events, 100)
	if err := n.Listen(t.Context(), client, func(waiter string) { e <- waiter }); err != nil {
		t.Fatal(err)
	}
	return e
}

var listeners atomic.Int64

// ids returns clients of a test's own: what is told to one is heard in the whole database.
func ids(count int) (all []string) {
	for range count {
		all = append(all, fmt.Sprintf("%032x", listeners.Add(1)))
	}
	return all
}

func asks(name, waiter string, stamp int64) node.Request {
	r := request(name, 0)
	r.Place = node.Place{Waiter: waiter, Stamp: stamp}
	return r
}

// listening returns how a client is reachable: 1 by a connection of its own, 0 by asking.
func listening(t *testing.T, n *Node, client string) (pushed bool) {
	t.Helper()
	err := n.db.QueryRow(inSchema(`SELECT pid IS NOT NULL FROM fenlock.listeners WHERE client = $1`, n.schema),
		[]byte(client)).Scan(&pushed)
	if err != nil {
		t.Fatal(err)
	}
	return pushed
}

// By a connection of its own, and by asking: behind a pooler, and where the caller's pool
// is too small to set one aside.
func TestNotified(t *testing.T) {
	t.Parallel()
	server := shared()
	u := newSchema(t, server)
	pooler := testserver.StartPgBouncer(t, server, 3)
	_, parameters, _ := strings.Cut(u, "?")
	pooled, _, _ := strings.Cut(pooler.DSN(), "?")
	config := configured(t, server.DSN())
	db, small := stdlib.OpenDB(*config), stdlib.OpenDB(*config)
	defer db.Close()
	defer small.Close()
	small.SetMaxOpenConns(1)
	schema := open(t, u).schema
	for name, c := range map[string]struct {
		n      *Node
		pushed bool
	}{
		"a URL":        {alone(t, u), true},
		"a pooler":     {alone(t, pooled+"?"+parameters), false},
		"a pool":       {on(t, db, schema), true},
		"a small pool": {on(t, small, schema), false},
	} {
		t.Run(name, func(t *testing.T) {
			releases, waits := alone(t, u), c.n
			client := ids(1)[0]
			told := listen(t, waits, client)
			for i := range 20 {
				r := request(name, 0)
				want(t, node.Granted)(releases.Do(t.Context(), as(node.Acquire, r)))
				waiter := fmt.Sprint(client, ":", 1+i) // a number with a 0 before is of those who share
				want(t, node.Held)(waits.Do(t.Context(), as(node.Acquire, asks(name, waiter+":läbel", 1))))
				want(t, node.Granted)(releases.Do(t.Context(), as(node.Release, r)))
				next := told.next(t)
				for next == "" { // something may have been missed
					next = told.next(t)
				}
				if got, _, _ := strings.Cut(next, ":läbel"); got != waiter {
					t.Fatalf("%q was notified, and not %q", next, waiter)
				}
				mine := asks(name, waiter+":läbel", 1)
				want(t, node.Granted)(waits.Do(t.Context(), as(node.Acquire, mine)))
				mine.Place.Stamp = 0 // the wait is over
				want(t, node.Granted)(waits.Do(t.Context(), as(node.Release, mine)))
			}
			if got := listening(t, releases, client); got != c.pushed { // not through the pooler
				t.Errorf("on a connection of its own: %v, want %v", got, c.pushed)
			}
			waits.Close()
			left := true
			for deadline := time.Now().Add(patience); left && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
				// A connection's own end is seen by its process being gone.
				err := db.QueryRow(inSchema(`SELECT EXISTS (SELECT FROM fenlock.listeners WHERE client = $1 AND
					(pid IS NULL OR EXISTS (SELECT FROM pg_stat_get_activity(pid))))`, schema), []byte(client)).Scan(&left)
				if err != nil {
					t.Fatal(err)
				}
			}
			if left {
				t.Error("it is closed, and its waiters can still be notified")
			}
		})
	}
}

// Those who want to share a name are told together, whether they listen or ask.
func TestNotifiedTogether(t *testing.T) {
	t.Parallel()
	server, clients := shared(), ids(2)
	u := newSchema(t, server)
	db := open(t, u).db
	db.SetMaxOpenConns(2) // none of them can be set aside
	holds, nodes := alone(t, u), []*Node{alone(t, u), on(t, db, open(t, u).schema)}
	r := request("a", 0)
	want(t, node.Granted)(holds.Do(t.Context(), as(node.Acquire, r)))
	var told []events
	ask := func(i, number int) node.Request {
		mine := asks("a", fmt.Sprint(clients[i], ":0", number), int64(1+i))
		mine.Op, mine.Shared = node.Acquire, true
		return mine
	}
	for i, n := range nodes {
		told = append(told, listen(t, n, clients[i]))
		for number := range 2 {
			want(t, node.Held)(n.Do(t.Context(), ask(i, number)))
		}
	}
	want(t, node.Granted)(holds.Do(t.Context(), as(node.Release, r)))
	for i := range nodes {
		got := map[string]bool{}
		for len(got) < 2 {
			if waiter := told[i].next(t); waiter != "" {
				got[waiter] = true
			}
		}
		for number := range 2 {
			if waiter := ask(i, number).Place.Waiter; !got[waiter] {
				t.Errorf("%v were notified, and not %q", got, waiter)
			}
		}
	}
}

// Whose process has ended is passed over at once, and whose connection broke hears that
// something may have been missed.
func TestListenersThatEnd(t *testing.T) {
	t.Parallel()
	server, clients := shared(), ids(2)
	u := newSchema(t, server)
	holds, waits := alone(t, u), alone(t, u)
	gone, err := pgx.ConnectConfig(t.Context(), configured(t, server.DSN()))
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close(context.Background())
	if _, err := gone.Exec(t.Context(), holds.sql.listen, []byte(clients[0]), false); err != nil {
		t.Fatal(err)
	}
	told := listen(t, waits, clients[1])
	r := request("a", 0)
	want(t, node.Granted)(holds.Do(t.Context(), as(node.Acquire, r)))
	want(t, node.Held)(holds.Do(t.Context(), as(node.Acquire, asks("a", clients[0]+":1", 1))))
	want(t, node.Held)(waits.Do(t.Context(), as(node.Acquire, asks("a", clients[1]+":1", 2))))
	end := func(client string) {
		t.Helper()
		var ended bool
		const text = `SELECT pg_terminate_backend(pid, 5000) FROM fenlock.listeners WHERE client = $1`
		if err := holds.db.QueryRow(inSchema(text, holds.schema), []byte(client)).Scan(&ended); err != nil || !ended {
			t.Fatal(ended, err)
		}
	}
	end(clients[0])
	want(t, node.Granted)(holds.Do(t.Context(), as(node.Release, r)))
	if got := told.next(t); got != clients[1]+":1" {
		t.Errorf("%q was notified", got)
	}
	end(clients[1])
	if got := told.next(t); got != "" {
		t.Errorf("after its connection broke it heard %q", got)
	}
	if !listening(t, holds, clients[1]) {
		t.Error("it has no connection of its own any more")
	}
}

// Sixty-four lockers through a pooler with five connections: nothing is stuck, and no
// increment is lost.
func TestPooler(t *testing.T) {
	t.Parallel()
	server := shared()
	u := newSchema(t, server)
	pooler := testserver.StartPgBouncer(t, server, 5)
	_, parameters, _ := strings.Cut(u, "?")
	pooled, _, _ := strings.Cut(pooler.DSN(), "?")
	const lockers, rounds, names = 64, 5, 8
	var counts [names]atomic.Int64
	var wait sync.WaitGroup
	for i := range lockers {
		n := open(t, pooled+"?"+parameters)
		wait.Go(func() {
			l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{n}, TTL: time.Minute, MaxTTL: time.Minute,
				NewServers: true, NodeTimeout: 10 * time.Second})
			if err != nil {
				t.Error(err)
				return
			}
			defer l.Close()
			count := &counts[i%names]
			for range rounds {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				err := l.Do(ctx, fmt.Sprint("counter ", i%names), func(context.Context, fenlock.Token) error {
					seen := count.Load()
					time.Sleep(time.Millisecond)
					count.Store(seen + 1)
					return nil
				})
				if cancel(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	for i := range counts {
		if got := counts[i].Load(); got != lockers/names*rounds {
			t.Errorf("counter %d: %d increments, of %d", i, got, lockers/names*rounds)
		}
	}
}
