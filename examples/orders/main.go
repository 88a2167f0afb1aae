// Command orders has two workers that book orders in a database, under a lock and under a guard.
// The first is paused for longer than its lock lasts, and goes on as if nothing had happened.
//
//	go run ./examples/orders
//	go run ./examples/orders -without       # and without the guard
//
// Watch the stock. The paused worker has read 10, and writes what it has counted from that. No lock
// can prevent it, since the worker does not look at its lock in between, or looks just before it is
// paused. The guard (package fence/fencesql) does, in the transaction of the write: it refuses the
// token, which is the older one.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fenlock/fenlock/examples/internal/stage"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/fence/fencesql"
	_ "modernc.org/sqlite"
)

func main() { stage.Main(play, machine) }

func play(ctx context.Context) error {
	db, err := open()
	if err != nil {
		return err
	}
	defer db.Close()
	schema, err := fencesql.Guard{}.Schema()
	if err != nil {
		return err
	}
	if _, err := db.Exec(schema + `; CREATE TABLE stock (apples INTEGER); INSERT INTO stock VALUES (10); CREATE TABLE orders (worker TEXT, apples INTEGER)`); err != nil {
		return err
	}
	first, err := stage.Start(ctx, "worker 1", "APPLES=2")
	if err != nil {
		return err
	}
	defer first.Process.Kill()
	if err := first.Hear("reads"); err != nil {
		return err
	}
	if err := first.Stop(); err != nil {
		return err
	}
	stage.Say("  worker 1 is paused; its lock runs out")
	if err := stage.All(ctx, []string{"worker 2"}, func(int) string { return "APPLES=3" }); err != nil {
		return err
	}
	stage.Say("  worker 1 goes on")
	if err := first.Continue(); err != nil {
		return err
	}
	if err := first.Wait(); err != nil {
		return err
	}
	var left, ordered int
	err = db.QueryRow(`SELECT apples, (SELECT sum(apples) FROM orders) FROM stock`).Scan(&left, &ordered)
	if err != nil {
		return err
	}
	stage.Say("%d apples are ordered, and %d of 10 are in stock.", ordered, left)
	if left+ordered != 10 {
		return fmt.Errorf("that makes %d", left+ordered)
	}
	return nil
}

func open() (*sql.DB, error) {
	return sql.Open("sqlite", filepath.Join(stage.Folder, "orders.db")+"?_pragma=busy_timeout(5000)&_txlock=immediate")
}

// machine is a worker that books one order.
func machine(ctx context.Context, name string) error {
	db, err := open()
	if err != nil {
		return err
	}
	defer db.Close()
	locker, err := stage.Locker(name)
	if err != nil {
		return err
	}
	lock, err := locker.Acquire(ctx, "examples/orders")
	if err != nil {
		return err
	}
	defer lock.Release(ctx)
	var apples, stock int
	fmt.Sscan(os.Getenv("APPLES"), &apples)
	if err := db.QueryRow(`SELECT apples FROM stock`).Scan(&stock); err != nil {
		return err
	}
	read := time.Now()
	stage.Say("  %s has the lock and reads the stock, %d", name, stock)
	if name == "worker 1" {
		pause(read)
	}
	err = book(ctx, db, name, lock.Token(), apples, stock-apples)
	if errors.Is(err, fence.ErrStale) {
		stage.Say("  %s writes %d: refused, another worker has had the lock since. It will try again later", name,
			stock-apples)
		return nil
	}
	if err == nil {
		stage.Say("  %s writes %d", name, stock-apples)
	}
	return err
}

// book writes an order and what is left, in one transaction that begins with the guard.
func book(ctx context.Context, db *sql.DB, worker string, token fence.Token, apples, left int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	if !stage.Without {
		if err := (fencesql.Guard{}).Check(ctx, tx, "stock", token); err != nil {
			return err
		}
	}
	_, ordered := tx.Exec(`INSERT INTO orders VALUES (?, ?)`, worker, apples)
	_, taken := tx.Exec(`UPDATE stock SET apples = ?`, left)
	if err := errors.Join(ordered, taken); err != nil {
		return err
	}
	return tx.Commit()
}

// pause returns when the process has been stopped since then, and goes on.
func pause(since time.Time) {
	for now := since; now.Sub(since) < stage.TTL/2; now = time.Now() {
		since = now
		time.Sleep(10 * time.Millisecond)
	}
}
