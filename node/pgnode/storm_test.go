package pgnode

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// watch is what is known of a name: how many share it, or the exclusive holder, as a number below
// zero; and the largest token that was answered.
type watch struct{ holder, token atomic.Int64 }

// take and leave report whether a client may have the name beside its holders.
func (w *watch) take(me int64, shared bool) bool {
	if shared {
		return w.holder.Add(1) > 0
	}
	return w.holder.CompareAndSwap(0, -me)
}

func (w *watch) leave(me int64, shared bool) bool {
	if shared {
		return w.holder.Add(-1) >= 0
	}
	return w.holder.CompareAndSwap(-me, 0)
}

// Everything at once, on few names, while rows are swept and tables are rewritten. No two clients
// hold a name unless both share it, tokens follow the order of time, and no lease is lost.
func TestStorm(t *testing.T) {
	t.Parallel()
	server := testserver.StartPostgres(t)
	u := newSchema(t, server)
	nodes := []*Node{alone(t, u), alone(t, u), alone(t, u)}
	// The schema votes before anything else is written to it. A new schema in which something was
	// written before its first admission may have forgotten leases, and is out for a minute.
	want(t, node.Granted)(nodes[0].Do(t.Context(), as(node.Acquire, request("before", 0))))
	var names [3]watch
	var grants, joined, lost, failed atomic.Int64
	began := time.Now()
	// On a busy machine it goes on until there is something to see. A minute is for hangs.
	goesOn := func() bool {
		for4s, enough := time.Since(began) < 4*time.Second, grants.Load() >= 20 && joined.Load() > 0
		return for4s || !enough && time.Since(began) < time.Minute
	}
	var all sync.WaitGroup
	for i := range 9 {
		n, me := nodes[i%3], int64(i+1)
		all.Go(func() {
			for goesOn() {
				which := rand.IntN(len(names))
				name, w := fmt.Sprint("name", which), &names[which]
				r := asks(name, "", time.Now().UnixMicro())
				r.Shared = rand.IntN(2) == 0
				if i%3 > 0 && r.Shared {
					r.Place.Waiter = fmt.Sprintf("%032x:0%d", i, i)
				} else if i%3 > 0 {
					r.Place.Waiter = fmt.Sprintf("%032x:%d", i, i)
				}
				before := w.token.Load()
				a, err := n.Do(t.Context(), as(node.Acquire, r))
				r.Place.Stamp = 0
				switch {
				case err != nil:
					if !errors.Is(err, node.ErrNotSent) {
						t.Errorf("acquire: %v", err)
					}
					failed.Add(1)
				case a.Status == node.Granted:
					grants.Add(1)
					if int64(a.Register) < before || int64(a.Register) == before && !r.Shared {
						t.Errorf("%s: the token %d after %d, shared: %v", name, a.Register, before, r.Shared)
					}
					if !w.take(me, r.Shared) {
						t.Errorf("%s is held by %d and %d, shared: %v", name, w.holder.Load(), me, r.Shared)
					}
					if w.holder.Load() > 1 {
						joined.Add(1)
					}
					for last := w.token.Load(); int64(a.Register) > last &&
						!w.token.CompareAndSwap(last, int64(a.Register)); last = w.token.Load() {
					}
					for range rand.IntN(3) {
						if a, err := n.Do(t.Context(), as(node.Extend, r)); err == nil && a.Status != node.Granted {
							lost.Add(1)
							t.Errorf("%s: extend: %+v", name, a)
						}
					}
					if !w.leave(me, r.Shared) {
						t.Errorf("%s was held by %d too", name, w.holder.Load())
					}
					for range tries {
						if a, err = n.Do(t.Context(), as(node.Release, r)); err == nil {
							break
						}
					}
					if err != nil || a.Status != node.Granted {
						t.Errorf("%s: release: %+v, %v", name, a, err)
					}
				case rand.IntN(4) == 0:
					n.Do(t.Context(), as(node.Release, r)) // it gives up
				}
			}
		})
	}
	admin := open(t, u)
	disturb := func(statements ...string) {
		all.Go(func() {
			for goesOn() {
				for _, s := range statements {
					if _, err := admin.db.Exec(inSchema(s, admin.schema)); err != nil && !hasCode(err, deadlock) {
						t.Errorf("%s: %v", s, err)
					}
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	disturb(`UPDATE fenlock.sweeps SET at = 0`, `SELECT fenlock.sweep(1)`, `SELECT fenlock.sweep(2)`,
		`SELECT fenlock.sweep(3)`, `SELECT fenlock.sweep(4)`,
		`UPDATE fenlock.queues SET expires = 0 WHERE random() < 0.2`)
	disturb(`VACUUM FULL fenlock.leases`, `VACUUM FULL fenlock.readers`, `REINDEX TABLE fenlock.current`,
		`CLUSTER fenlock.leases USING leases_pkey`, `VACUUM (FREEZE) fenlock.memory`, `VACUUM FULL fenlock.current`,
		`VACUUM FULL fenlock.memory`)
	disturb(`SELECT fenlock.poll('00000000000000000000000000000001')`,
		`SELECT fenlock.listen('00000000000000000000000000000002', true)`, `SELECT fenlock.note('x', 1, 'y')`,
		`SELECT fenlock.raise((SELECT m.id FROM fenlock.memory AS m), '{1}', '{5}')`,
		`SELECT fenlock.mark('x', '', '5000 alone', '')`)
	all.Wait()
	var deadlocks int
	admin.db.QueryRow(`SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&deadlocks)
	t.Logf("%d acquired, %d beside others, %d failed, %d deadlocks", grants.Load(), joined.Load(), failed.Load(),
		deadlocks)
	if grants.Load() < 20 || joined.Load() == 0 {
		t.Error("too few were granted to show anything")
	}
}
