package pgnode

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
)

// besides returns names of one stripe.
func besides(name string, count int) (names []string) {
	for i := 0; len(names) < count; i++ {
		if other := fmt.Sprint("beside", i); node.Stripe(other) == node.Stripe(name) {
			names = append(names, other)
		}
	}
	return names
}

// session is a transaction of another session, and its process.
func session(t *testing.T, n *Node) (tx *sql.Tx, pid int) {
	t.Helper()
	tx, err := n.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback() })
	if err := tx.QueryRow("SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	return tx, pid
}

// runs carries out a statement in a transaction.
func runs(t *testing.T, tx *sql.Tx, n *Node, statement string) {
	t.Helper()
	if _, err := tx.Exec(inSchema(statement, n.schema)); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// A waiter comes to a lease in a row of its own, which a sweep is removing. The waiter is before
// those who come later.
func TestSweepMeetsAWaiterBesideTheStripe(t *testing.T) {
	t.Parallel()
	n := alone(t, newSchema(t, shared()))
	n.swept.Store(time.Now().UnixMilli())
	name := besides("a", 1)[0]
	client := ids(2)
	exec1(t, n, `INSERT INTO fenlock.listeners VALUES ($1, NULL, 9000000000000)`, []byte(client[0]))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", 0))))
	r := request(name, 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	r.Place = node.Place{Waiter: client[1] + ":1", Stamp: 1} // it goes on waiting, and is gone
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
	exec1(t, n, `UPDATE fenlock.queues SET expires = $1`, 0)
	exec1(t, n, `SELECT fenlock.sweep($1)`, 2)
	tx, pid := session(t, n)
	runs(t, tx, n, `SELECT fenlock.sweep(3)`)
	done := make(chan error, 1)
	go func() {
		_, err := n.serve(context.WithoutCancel(t.Context()), as(node.Release, asks(name, client[0]+":1", 1)))
		done <- err
	}()
	waitFor(t, n.db, pid, done)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, request(name, 0))))
}

// A sweep that meets an admission waits for it, and has removed nothing before: no deadlock.
func TestSweepMeetsAnAdmission(t *testing.T) {
	t.Parallel()
	n := alone(t, newSchema(t, shared()))
	n.swept.Store(time.Now().UnixMilli())
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", 0))))
	exec1(t, n, `INSERT INTO fenlock.leases VALUES ('gone', $1, NULL, 1, 1, 1, true)`, node.Stripe("gone"))
	tx, pid := session(t, n)
	runs(t, tx, n, `SELECT fenlock.quiesce()`) // as note begins
	done := make(chan error, 1)
	go func() {
		var more bool
		done <- n.query(context.WithoutCancel(t.Context()), n.sql.sweep, []any{3}, &more)
	}()
	waitFor(t, n.db, pid, nil)
	runs(t, tx, n, `SELECT fenlock.note((SELECT m.id FROM fenlock.memory AS m), (SELECT m.made FROM fenlock.memory AS m), 'out')`)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// However many clients are gone, a sweep takes no more locks at a time than a server has room for.
func TestSweepOfManyListeners(t *testing.T) {
	t.Parallel()
	n := alone(t, newSchema(t, shared()))
	exec1(t, n, `INSERT INTO fenlock.listeners SELECT convert_to(i::text, 'UTF8'), 100000000 + i, 0 FROM generate_series(1, $1) AS i`, 50000)
	n.swept.Store(0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", 0))))
	var left int
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err := n.db.QueryRow(inSchema(`SELECT count(*) FROM fenlock.listeners`, n.schema)).Scan(&left); err != nil {
			t.Fatal(err)
		}
		if left == 0 {
			return
		}
	}
	t.Errorf("%d clients that are gone are still known", left)
}

// An operation whose commit takes longer than its queue lasts, as where a replica is awaited,
// leaves its waiter without a queue. The waiter can ask again.
func TestWaiterWithoutItsQueue(t *testing.T) {
	t.Parallel()
	n := alone(t, newSchema(t, shared()))
	n.swept.Store(time.Now().UnixMilli())
	client := ids(2)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", 0))))
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, asks("a", client[0]+":1", 1))))
	asks := asks("a", client[1]+":1", 2)
	tx, _ := session(t, n)
	runs(t, tx, n, (&scene{t: t, n: n}).call(as(node.Acquire, asks)))
	exec1(t, n, `UPDATE fenlock.queues SET expires = $1`, 0)
	exec1(t, n, `SELECT fenlock.sweep($1)`, 2)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, asks)))
	if _, all, err := n.Waiting(t.Context(), "a", 1); err != nil || all != 1 {
		t.Errorf("%d wait, %v", all, err)
	}
}
