//go:build campaign

package tests

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	harness "github.com/fenlock/fenlock/tests/faults/library"
)

// namesFor is for how long new names come, NAMES_FOR unless that is empty.
func namesFor(t *testing.T) time.Duration {
	text := os.Getenv("NAMES_FOR")
	if text == "" {
		return 2 * time.Minute
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const (
	namesRate    = 667 // a second: 40,000 a minute
	namesWorkers = 32
	namesReading = 30 * time.Second
)

// filled is a store, and what new names leave in it.
type filled struct {
	url  string
	ttl  time.Duration
	left func() (entries int, also string, err error)
}

// 40,000 new names a minute are locked, and never released. What is left of them in a store is
// bounded by what came in a minute.
func TestCampaignNewNames(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) filled{
		"PostgreSQL": namesPostgres, "MariaDB": namesMariaDB, "etcd": namesEtcd,
	} {
		t.Run(name, func(t *testing.T) { fills(t, start(t)) })
	}
}

func fills(t *testing.T, f filled) {
	n, err := harness.OpenNode(f.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	if m, is := n.Engine().(interface{ Migrate(context.Context) error }); is {
		if err := m.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	group := node.Group{Nodes: []node.Node{n}, MaxTTL: time.Minute, New: true}
	if err := n.Engine().(node.Rejoiner).Join(group); err != nil {
		t.Fatal(err)
	}
	length := namesFor(t)
	begun := time.Now()
	var next, granted, unknown atomic.Int64
	var all sync.WaitGroup
	for range namesWorkers {
		all.Go(func() {
			for {
				i := next.Add(1)
				due := time.Duration(i) * time.Second / namesRate
				time.Sleep(due - time.Since(begun))
				if time.Since(begun) >= length {
					return
				}
				id := [node.IDLength]byte([]byte(fmt.Sprintf("%032x", i)))
				a, err := n.Do(t.Context(), node.Request{Op: node.Acquire, Name: fmt.Sprint("name ", i),
					Holder: node.NewHolder(id, time.Now(), 0, ""), TTL: f.ttl})
				if err != nil { // the machine is busy, and it may have been granted
					unknown.Add(1)
					continue
				}
				if a.Status != node.Granted {
					t.Errorf("%+v", a)
				}
				granted.Add(1)
			}
		})
	}
	var names []int64 // at each reading
	for time.Since(begun) < length {
		time.Sleep(namesReading)
		entries, also, err := f.left()
		if err != nil {
			t.Error(err)
		}
		names = append(names, granted.Load()+unknown.Load())
		t.Logf("after %v, %d names: %d entries, %s", time.Since(begun).Round(time.Second), granted.Load(), entries, also)
		inMinute := names[len(names)-1]
		if len(names) > 3 { // and some are on their way
			inMinute -= names[len(names)-4]
		}
		if int64(entries) > inMinute+namesRate {
			t.Errorf("%d entries are left, more than the %d of a minute and a half", entries, inMinute)
		}
	}
	all.Wait()
	t.Logf("%d names in %v, and %d whose answer was late", granted.Load(), time.Since(begun).Round(time.Second),
		unknown.Load())
	if granted.Load() == 0 {
		t.Error("no name was granted")
	}
}

func namesPostgres(t *testing.T) filled {
	server := testserver.StartPostgres(t)
	db := database(t, "pgx", server.DSN())
	return filled{server.DSN(), time.Second, func() (rows int, also string, err error) {
		var table, index, dead int
		err = db.QueryRow(`SELECT (SELECT count(*) FROM fenlock.leases), pg_table_size('fenlock.leases'), `+
			`pg_indexes_size('fenlock.leases'), (SELECT n_dead_tup FROM pg_stat_user_tables `+
			`WHERE relid = 'fenlock.leases'::regclass)`).Scan(&rows, &table, &index, &dead)
		return rows, fmt.Sprintf("%d kB of table, %d kB of index, %d dead", table>>10, index>>10, dead), err
	}}
}

// Leases of MariaDB are in the 4,096 rows of the stripes. Entries are those that there is room for.
func namesMariaDB(t *testing.T) filled {
	server := testserver.StartMariaDB(t)
	db := database(t, "mysql", server.DSN())
	return filled{server.URL(), time.Second, func() (leases int, also string, err error) {
		var bytes, longest, file, undo sql.NullInt64
		err = db.QueryRow(`SELECT SUM(LENGTH(leases)), MAX(LENGTH(leases)), `+
			`(SELECT SUM(FILE_SIZE) FROM information_schema.INNODB_SYS_TABLESPACES WHERE NAME LIKE 'locks/fenlock%'), `+
			`(SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS `+
			`WHERE VARIABLE_NAME = 'INNODB_HISTORY_LIST_LENGTH') FROM fenlock_stripes`).Scan(&bytes, &longest, &file, &undo)
		also = fmt.Sprintf("%d kB of leases, at most %d bytes in a row, %d kB of files, history list %d", bytes.Int64>>10,
			longest.Int64, file.Int64>>10, undo.Int64)
		return int(bytes.Int64) / leastLease, also, err
	}}
}

// leastLease is how many bytes a lease has at least: its holder.
const leastLease = node.IDLength

func namesEtcd(t *testing.T) filled {
	server := testserver.StartEtcd(t, 1)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Addrs()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return filled{"etcd://" + server.Addrs(), 2 * time.Second, func() (keys int, also string, err error) {
		all, err := client.Get(t.Context(), "\x00", clientv3.WithFromKey(), clientv3.WithCountOnly())
		if err != nil {
			return 0, "", err
		}
		leases, err := client.Leases(t.Context())
		if err != nil {
			return 0, "", err
		}
		status, err := client.Status(t.Context(), server.Addrs())
		if err != nil {
			return 0, "", err
		}
		return int(all.Count), fmt.Sprintf("%d leases, %d kB of database, %d kB in use, revision %d", len(leases.Leases),
			status.DbSize>>10, status.DbSizeInUse>>10, status.Header.Revision), nil
	}}
}
