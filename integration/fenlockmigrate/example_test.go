package fenlockmigrate_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"testing/fstest"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/integration/fenlockmigrate"
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
	dir, err := os.MkdirTemp("", "migrate")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	driver, err := new(sqlite.Sqlite).Open("sqlite://" + filepath.Join(dir, "db"))
	if err != nil {
		log.Fatal(err)
	}
	locked, err := fenlockmigrate.New(driver, locker, "migrations/orders")
	if err != nil {
		log.Fatal(err)
	}

	files, err := iofs.New(fstest.MapFS{"1_orders.up.sql": {Data: []byte("CREATE TABLE orders (id INTEGER)")}}, ".")
	if err != nil {
		log.Fatal(err)
	}
	m, err := migrate.NewWithInstance("iofs", files, "sqlite", locked)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	err = m.Up()
	switch {
	case errors.Is(err, database.ErrLocked):
		log.Fatal("another process migrates: ", err)
	case errors.Is(err, fenlock.ErrLost):
		log.Fatal("another process may have gone on: ", err)
	case err != nil && !errors.Is(err, migrate.ErrNoChange):
		log.Fatal(err)
	}
	version, dirty, err := m.Version()
	fmt.Println(version, dirty, err)
	// Output: 1 false <nil>
}
