package pgnode

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// Releases give names to waiters, while others acquire and give up, and rows are swept. No two hold
// a name, tokens follow the order of time, and every waiter has its turn.
func TestGiftStorm(t *testing.T) {
	t.Parallel()
	server := testserver.StartPostgres(t)
	u := newSchema(t, server)
	first := alone(t, u)
	want(t, node.Granted)(first.Do(t.Context(), as(node.Acquire, request("before", 0))))
	names := []string{"name"}
	for i := 0; len(names) < 3; i++ { // two of one stripe
		if name := fmt.Sprint("x", i); len(names) == 2 || node.Stripe(name) == node.Stripe("name") {
			names = append(names, name)
		}
	}
	var watches [3]watch
	var given, granted, asked, backs, late atomic.Int64
	began := time.Now()
	goesOn := func() bool { // on a busy machine until there is something to see; a minute is for hangs
		return time.Since(began) < 4*time.Second || given.Load() == 0 && time.Since(began) < time.Minute
	}
	over := make(chan struct{})
	defer close(over)
	var all sync.WaitGroup
	for i, client := range ids(9) {
		n, me := alone(t, u), int64(i+1)
		notices := make(chan node.Notice, 100)
		if err := n.Listen(t.Context(), client, func(text string) {
			if notice, ok := node.ParseNotice(text); ok && text != "" {
				notices <- notice
			}
		}); err != nil {
			t.Fatal(err)
		}
		if i%3 == 2 { // its waiters ask again and again
			exec1(t, n, `UPDATE fenlock.listeners SET pid = NULL, seen = 9000000000000 WHERE client = $1`, []byte(client))
			go func() {
				for {
					n.each(context.Background(), n.sql.poll, []any{[]byte(client)}, func(scan func(...any) error) error {
						var text []byte
						err := scan(&text)
						if notice, ok := node.ParseNotice(string(text)); ok {
							notices <- notice
						}
						return err
					})
					select {
					case <-over:
						return
					case <-time.After(10 * time.Millisecond):
					}
				}
			}()
		}
		do := func(r node.Request) node.Answer {
			for {
				a, err := n.Do(context.Background(), r)
				if err == nil {
					return a
				}
				t.Logf("%v: %v", r.Op, err)
			}
		}
		all.Go(func() {
			for waits := 1; goesOn(); waits++ {
				which := rand.IntN(len(names))
				w := &watches[which]
				r := asks(names[which], fmt.Sprintf("%s:%d:läbel\" ' \\", client, waits), time.Now().UnixMicro())
				before := w.token.Load()
				a := do(as(node.Acquire, r))
				since := time.Now()
				quits := make(<-chan time.Time)
				if rand.IntN(4) == 0 {
					quits = time.After(time.Duration(rand.IntN(60)) * time.Millisecond)
				}
				for a.Status == node.Held {
					select {
					case <-quits:
						r.Place.Stamp, r.Next = 0, 1
						do(as(node.Release, r))
						backs.Add(1)
						a.Status = node.Lost
						continue
					case notice := <-notices:
						if !strings.HasPrefix(notice.Waiter+":", fmt.Sprintf("%s:%d:", client, waits)) {
							continue // of an earlier wait
						}
						if notice.Number > 0 {
							given.Add(1)
							mine := r
							mine.Holder, mine.OwnToken = node.Given(r.Place.Waiter, notice.Number), notice.Number
							if a = do(as(node.Extend, mine)); a.Status == node.Granted && a.Register <= notice.Number {
								a.Register, r.Holder = notice.Number, mine.Holder
								continue
							}
							late.Add(1)
							mine.Place.Stamp = 0
							do(as(node.Release, mine))
						}
						a = do(as(node.Acquire, r))
					case <-time.After(4 * time.Second):
						asked.Add(1)
						a = do(as(node.Acquire, r))
						if a.Given > 0 {
							notices <- node.Notice{Waiter: r.Place.Waiter, Number: a.Given}
						}
					}
					if time.Since(since) > 2*patience {
						t.Errorf("%s: a waiter waits for ever", r.Name)
						return
					}
				}
				if a.Status != node.Granted {
					continue
				}
				granted.Add(1)
				if int64(a.Register) <= before {
					t.Errorf("%s: the token %d after %d", r.Name, a.Register, before)
				}
				if !w.take(me, false) {
					t.Errorf("%s is held by %d and %d", r.Name, w.holder.Load(), me)
				}
				for last := w.token.Load(); int64(a.Register) > last &&
					!w.token.CompareAndSwap(last, int64(a.Register)); last = w.token.Load() {
				}
				for range rand.IntN(3) {
					if x := do(as(node.Extend, r)); x.Status != node.Granted {
						t.Errorf("%s: extend: %+v", r.Name, x)
					}
				}
				time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
				if !w.leave(me, false) {
					t.Errorf("%s was held by %d too", r.Name, w.holder.Load())
				}
				r.Place.Stamp, r.Next = 0, 1
				if rand.IntN(3) == 0 {
					r.Place.Waiter = ""
				}
				if x := do(as(node.Release, r)); x.Status != node.Granted {
					t.Errorf("%s: release: %+v", r.Name, x)
				}
			}
		})
	}
	admin := open(t, u)
	all.Go(func() {
		for goesOn() {
			for _, s := range []string{`SELECT fenlock.sweep(2)`, `SELECT fenlock.sweep(3)`, `SELECT fenlock.sweep(4)`} {
				if _, err := admin.db.Exec(inSchema(s, admin.schema)); err != nil && !hasCode(err, deadlock) {
					t.Errorf("%s: %v", s, err)
				}
			}
			time.Sleep(3 * time.Millisecond)
		}
	})
	all.Wait()
	var deadlocks, rows int
	admin.db.QueryRow(`SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&deadlocks)
	admin.db.QueryRow(inSchema(`SELECT (SELECT count(*) FROM fenlock.waiters) + (SELECT count(*) FROM fenlock.queues)`,
		admin.schema)).Scan(&rows)
	t.Logf("%d granted, %d given (%d too late), %d asked anew, %d gave up", granted.Load(), given.Load(), late.Load(),
		asked.Load(), backs.Load())
	if given.Load() == 0 || deadlocks > 0 || rows > 0 {
		t.Errorf("%d names were given; %d deadlocks; %d rows of queues are left", given.Load(), deadlocks, rows)
	}
}
