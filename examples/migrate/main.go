// Command migrate is a service whose instances bring the schema of their database up to date when
// they start. Three of them start at the same moment.
//
//	go run ./examples/migrate
//	go run ./examples/migrate -without      # and without a lock
//
// Watch who migrates: one does, the others wait and find nothing to do. Then one of them is killed
// in the middle; the next one goes on from there, when the dead instance's lock has run out. goose
// and golang-migrate take the lock by integration/fenlockgoose and integration/fenlockmigrate.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fenlock/fenlock/examples/internal/stage"
	"github.com/fenlock/fenlock/fence"
	_ "modernc.org/sqlite"
)

// migrations are done once each, in this order. Each takes a moment, as on a large table.
var migrations = []string{
	`CREATE TABLE customers (name TEXT)`,
	`INSERT INTO customers VALUES ('Ada'), ('Grace')`,
	`ALTER TABLE customers ADD COLUMN orders INTEGER DEFAULT 0`,
}

const takes = 300 * time.Millisecond

func main() { stage.Main(play, machine) }

func play(ctx context.Context) error {
	stage.Say("Three instances of version 1 start:")
	if err := stage.All(ctx, []string{"instance 1", "instance 2", "instance 3"}); err != nil {
		return err
	}
	if err := check("1 2 3"); err != nil {
		return err
	}
	stage.Say("Version 2 has two migrations more. Instance 4 is killed between them:")
	killed, err := stage.Start(ctx, "instance 4", "VERSION=2")
	if err != nil {
		return err
	}
	if err := killed.Hear("did migration 4"); err != nil {
		return err
	}
	killed.Process.Kill()
	killed.Wait()
	stage.Say("  it is dead; instances 5 and 6 start")
	err = stage.All(ctx, []string{"instance 5", "instance 6"}, func(int) string { return "VERSION=2" })
	if err != nil {
		return err
	}
	if err := check("1 2 3 4 5"); err != nil {
		return err
	}
	stage.Say("Each migration was done once.")
	return nil
}

// check compares what has been done with what should have been.
func check(want string) error {
	db, err := open()
	if err != nil {
		return err
	}
	defer db.Close()
	var done string
	var customers int
	err = db.QueryRow(`SELECT group_concat(number, ' ') FROM (SELECT number FROM migrated ORDER BY rowid)`).Scan(&done)
	if err == nil {
		err = db.QueryRow(`SELECT count(*) FROM customers`).Scan(&customers)
	}
	if err == nil && (done != want || customers != 2) {
		err = fmt.Errorf("the migrations done are %s, and there are %d customers", done, customers)
	}
	return err
}

func open() (*sql.DB, error) {
	return sql.Open("sqlite", filepath.Join(stage.Folder, "service.db")+"?_pragma=busy_timeout(5000)")
}

// machine starts an instance, as far as the schema is concerned.
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
	migrate := func(ctx context.Context, _ fence.Token) error { return migrate(ctx, db, name) }
	if stage.Without {
		err = migrate(ctx, 0)
	} else {
		err = locker.Do(ctx, "examples/migrate", migrate)
	}
	if err != nil {
		return err
	}
	stage.Say("  %s serves", name)
	return nil
}

// migrate does what has not been done. Its context ends with the lock, and with it the transaction.
func migrate(ctx context.Context, db *sql.DB, name string) error {
	if _, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS migrated (number INTEGER)`); err != nil {
		return err
	}
	all := migrations
	if os.Getenv("VERSION") == "2" {
		all = append(slices.Clone(all), `UPDATE customers SET orders = 1`, `CREATE INDEX by_name ON customers (name)`)
	}
	var done int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM migrated`).Scan(&done); err != nil {
		return err
	}
	if done >= len(all) {
		stage.Say("  %s: nothing to migrate", name)
	}
	for i := done; i < len(all); i++ {
		if time.Sleep(takes); i == 4 && name == "instance 4" {
			time.Sleep(time.Minute) // it is killed
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		_, failed := tx.ExecContext(ctx, all[i])
		_, noted := tx.ExecContext(ctx, `INSERT INTO migrated VALUES (?)`, i+1)
		if err := errors.Join(failed, noted); err != nil {
			return errors.Join(fmt.Errorf("migration %d: %w", i+1, err), tx.Rollback())
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		stage.Say("  %s did migration %d", name, i+1)
	}
	return nil
}
