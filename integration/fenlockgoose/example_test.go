package fenlockgoose_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"testing/fstest"

	"github.com/pressly/goose/v3"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/integration/fenlockgoose"
	"github.com/fenlock/fenlock/node/memnode"
)

// The node is in memory, so that the example runs: in production all processes have the same
// servers.
func Example() {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	migrations, err := fenlockgoose.New(locker, "migrations/orders")
	if err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // it is in memory, once for each connection
	files := fstest.MapFS{"1_orders.sql": {Data: []byte("-- +goose Up\nCREATE TABLE orders (id INTEGER);\n")}}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithLocker(migrations))
	if err != nil {
		log.Fatal(err)
	}

	ctx, cancel := migrations.Context(context.Background()) // ends when the lock is lost
	defer cancel()
	results, err := provider.Up(ctx)
	switch {
	case errors.Is(err, fenlock.ErrLost):
		log.Fatal("another process may have gone on: ", err)
	case err != nil:
		log.Fatal(err)
	}
	fmt.Println("applied:", len(results))
	// Output: applied: 1
}
