package mysqlnode_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/mysqlnode"
)

// pooled makes a node on a pool of the caller's, in a database.
func pooled(t testing.TB, s *testserver.MariaDB, database, parameters string) (*mysqlnode.Node, *sql.DB) {
	t.Helper()
	db, err := sql.Open("mysql", "root@tcp("+s.Addr()+")/"+database+"?"+parameters)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	n, err := mysqlnode.New(db, s.Addr()+"/locks")
	if err != nil {
		t.Fatal(err)
	}
	return n, db
}

// saveTables copies the tables into another database of the server, as mysqldump and mysql do.
func saveTables(t testing.TB, s *testserver.MariaDB, to string) {
	t.Helper()
	statements := []string{`DROP DATABASE IF EXISTS ` + to, `CREATE DATABASE ` + to}
	for _, table := range []string{"fenlock_meta", "fenlock_stripes", "fenlock_listeners"} {
		statements = append(statements, fmt.Sprintf(`CREATE TABLE %s.%s LIKE locks.%[2]s`, to, table),
			fmt.Sprintf(`INSERT INTO %s.%s SELECT * FROM locks.%[2]s`, to, table))
	}
	run(t, s, statements...)
}

// putTablesBack renames tables into the place of those that are there.
func putTablesBack(t testing.TB, s *testserver.MariaDB, from string) {
	t.Helper()
	time.Sleep(1100 * time.Millisecond) // tables are known by the second in which they came to be there
	clear(t, s)
	run(t, s, fmt.Sprintf(`RENAME TABLE %s.fenlock_meta TO locks.fenlock_meta, %[1]s.fenlock_stripes TO locks.fenlock_stripes, %[1]s.fenlock_listeners TO locks.fenlock_listeners`, from))
}

// A client that comes to tables that took the place of others does not believe the mark in them:
// they lack the newest locks. Neither if they are used where they are, under the same name.
func TestCopyOfTheTables(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	run(t, s, `CREATE DATABASE other`)
	for name, c := range map[string]struct {
		url   string
		scene func()
	}{
		"renamed into place": {s.URL(), func() { putTablesBack(t, s, "saved") }},
		"loaded into place": {s.URL(), func() {
			time.Sleep(1100 * time.Millisecond)
			clear(t, s)
			for _, table := range []string{"fenlock_meta", "fenlock_stripes", "fenlock_listeners"} {
				run(t, s, fmt.Sprintf(`CREATE TABLE %s LIKE saved.%[1]s`, table),
					fmt.Sprintf(`INSERT INTO %s SELECT * FROM saved.%[1]s`, table))
			}
		}},
		"in another database": {"mysql://root@" + s.Addr() + "/saved?name=" + s.Addr() + "/locks", func() {}},
		"renamed away": {"mysql://root@" + s.Addr() + "/other?name=" + s.Addr() + "/locks", func() {
			run(t, s, `RENAME TABLE saved.fenlock_meta TO other.fenlock_meta, saved.fenlock_stripes TO other.fenlock_stripes, saved.fenlock_listeners TO other.fenlock_listeners`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := used(t, s, brief)
			saveTables(t, s, "saved")
			lock := as(node.Acquire, request(node.Acquire, "held"), brief)
			want(t, node.Granted)(n.Do(t.Context(), lock))
			c.scene()
			began := time.Now()
			other := open(t, c.url)
			join(t, other, brief, false)
			a := want(t, node.Rejoining)(other.Do(t.Context(), as(node.Acquire, request(node.Acquire, "held"), brief)))
			if a.Absence.Cause != node.Replaced || a.Absence.Wait <= 0 {
				t.Errorf("%+v", a)
			}
			if name == "renamed into place" || name == "loaded into place" { // the one that was connected hears of it, too
				want(t, node.Rejoining)(n.Do(t.Context(), as(node.Extend, lock)))
			}
			admitted(t, other, brief)
			if after := time.Since(began); after < brief {
				t.Errorf("it votes after %v", after)
			}
			admitted(t, n, brief)
		})
	}
}

// A folder of data that was copied has a mark, and lacks the newest locks: put back on the same
// server, and under another one.
func TestCopyOfTheData(t *testing.T) {
	t.Parallel()
	s, other := durable(t, testserver.StartMariaDB(t)), testserver.StartMariaDB(t)
	n := made(t, s, brief, true)
	admitted(t, n, brief)
	s.Stop()
	saved := t.TempDir()
	replace := func(to, from string) {
		t.Helper()
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		if output, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	}
	replace(saved, s.Data())
	s.Restart()
	lock := as(node.Acquire, request(node.Acquire, "held"), brief)
	want(t, node.Granted)(n.Do(t.Context(), lock)) // a restart alone costs nothing
	s.Stop()
	other.Stop()
	time.Sleep(1100 * time.Millisecond) // tables are known by the second in which they came to be there
	replace(s.Data(), saved)
	replace(other.Data(), saved)
	s.Restart()
	other.Restart()
	moved := open(t, other.URL()+"?name="+n.String())
	join(t, moved, brief, false)
	for _, n := range []*mysqlnode.Node{n, moved} {
		if a := want(t, node.Rejoining)(n.Do(t.Context(),
			as(node.Acquire, request(node.Acquire, "held"), brief))); a.Absence.Cause != node.Replaced {
			t.Errorf("%+v", a)
		}
		admitted(t, n, brief)
	}
}

// A run that keeps less than the one before may lose its mark together with the locks after it. The
// mark of before must not say to the next run that nothing was lost.
func TestVolatileRunBetweenDurableOnes(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	n := used(t, s, time.Minute)
	s.Stop()
	time.Sleep(time.Second) // a run is known by the second in which it began
	s.Restart("innodb-flush-log-at-trx-commit=0", "innodb-flush-log-at-timeout=1000")
	first, err := n.Do(t.Context(), as(node.Acquire, request(node.Acquire, "held"), time.Minute))
	if err != nil || first.Status != node.Rejoining || first.Absence.Cause != node.Restarted || first.Absence.Wait <= 0 {
		t.Errorf("%+v, %v", first, err)
	}
	s.Kill()
	s.Restart("innodb-flush-log-at-trx-commit=1")
	other := open(t, s.URL())
	join(t, other, time.Minute, false)
	a, err := other.Do(t.Context(), as(node.Acquire, request(node.Acquire, "held"), time.Minute))
	if err != nil || a.Status == node.Granted && first.Status == node.Granted {
		t.Errorf("two clients have the lock: %+v, %v", a, err)
	}
}

// Tables that keep nothing for certain are not used, whatever their rows say.
func TestTablesOfAnotherEngine(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	for _, table := range []string{"fenlock_meta", "fenlock_stripes"} {
		used(t, s, brief).Close()
		run(t, s, `ALTER TABLE `+table+` ENGINE=Aria`)
		n := open(t, s.URL())
		join(t, n, brief, false)
		_, err := n.Do(t.Context(), as(node.Acquire, request(node.Acquire, "a"), brief))
		refused(t, err, table, "Aria", "only InnoDB")
	}
}

// A connection of a pool that was sent to another database, which has the same tables, grants
// nothing.
func TestPoolWithTwoDatabases(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	used(t, s, time.Minute)
	saveTables(t, s, "saved")
	n, db := pooled(t, s, "locks", "")
	db.SetMaxIdleConns(1)
	join(t, n, time.Minute, false)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request(node.Acquire, "held"), time.Minute)))
	if _, err := db.Exec(`USE saved`); err != nil {
		t.Fatal(err)
	}
	a, err := n.Do(t.Context(), as(node.Acquire, request(node.Acquire, "held"), time.Minute))
	if problem(t, err, "another database", "USE"); !errors.Is(err, node.ErrNotSent) {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := db.Exec(`USE saved`); err != nil { // another connection: that one was closed
		t.Fatal(err)
	}
	f, err := n.Store().Facts(t.Context()) // which looks at the server anew
	if problem(t, err, `"saved"`, `"locks"`, "USE"); !errors.Is(err, node.ErrMisconfigured) {
		t.Errorf("%+v, %v", f, err)
	}
}

// The name of a database is the same, whatever character set a connection has.
func TestDatabaseInAnyCharacterSet(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	run(t, s, "CREATE DATABASE `schlösser`")
	var before any
	for _, charset := range []string{"utf8mb4", "latin1"} {
		n, _ := pooled(t, s, "schl%C3%B6sser", "charset="+charset)
		if err := n.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		join(t, n, brief, true)
		admitted(t, n, brief)
		f, err := n.Store().Facts(t.Context())
		if before == nil {
			before = f.State
		}
		if err != nil || !f.Votes || f.State != before {
			t.Errorf("%s: %+v, %v; before: %+v", charset, f, err, before)
		}
	}
}

// Clients that raise the registers at the same time do not keep each other from it.
func TestRaisedByMany(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t, "innodb-flush-log-at-trx-commit=2")
	n := used(t, s, time.Minute)
	all := make(map[int]fence.Token)
	for i := range node.Stripes {
		all[i] = fence.Token(i + 1)
	}
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for range 5 {
				if err := n.Store().Raise(t.Context(), admit.Facts{}, all); err != nil {
					t.Error(err)
				}
			}
		})
	}
	clients.Wait()
}

// A client that has found no tables looks at those which come to be there after that, although its
// connections are the same. They may be old ones.
func TestTablesLoadedBesideAClient(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	n := used(t, s, time.Minute)
	saveTables(t, s, "saved")
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request(node.Acquire, "held"), time.Minute)))
	clear(t, s)
	_, err := n.Do(t.Context(), as(node.Acquire, request(node.Acquire, "held"), time.Minute))
	problem(t, err, "1146")
	putTablesBack(t, s, "saved")
	a := want(t, node.Rejoining)(n.Do(t.Context(), as(node.Acquire, request(node.Acquire, "held"), time.Minute)))
	if a.Absence.Cause != node.Replaced {
		t.Errorf("%+v", a)
	}
}

// MariaDB has several copies of what it knows of a table's files. After these were touched, as by
// chown, all clients still find the same tables there. Otherwise each would note the loss that
// another has mended.
func TestFilesAreTouched(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	n := used(t, s, brief)
	db, err := sql.Open("mysql", s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	hold := func(copies int) (leave func()) {
		var all sync.WaitGroup
		for range copies {
			all.Go(func() { db.Exec(`SELECT SLEEP(1) FROM fenlock_stripes, fenlock_meta WHERE stripe = 1`) })
		}
		for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			var held int
			query(t, s, `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User sleep'`, &held)
			if held == copies {
				break
			}
		}
		return all.Wait
	}
	hold(2)()
	time.Sleep(time.Second) // files are known by the second in which they were touched
	files, err := filepath.Glob(s.Data() + "/locks/*.frm")
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %v", files, err)
	}
	if output, err := exec.Command("chmod", slices.Concat([]string{"a+w"}, files)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	var found []string
	for _, copies := range []int{3, 0, 1, 2, 3} {
		leave := hold(copies)
		f, err := n.Store().Facts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if place := fmt.Sprint(f.State); !slices.Contains(found, place) {
			found = append(found, place)
		}
		leave()
	}
	if len(found) != 1 {
		t.Errorf("the server is in %d states: %s", len(found), strings.Join(found, "; "))
	}
}

// server_id is changed while the server runs, as when it gets its first replica. That costs one
// quarantine, and clients with old connections agree with others.
func TestServerIDIsChanged(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	n := used(t, s, brief)
	run(t, s, `SET GLOBAL server_id = 77`)
	other := open(t, s.URL())
	join(t, other, brief, false)
	want(t, node.Rejoining)(other.Do(t.Context(), as(node.Acquire, request(node.Acquire, "a"), brief)))
	_, err := n.Do(t.Context(), as(node.Acquire, request(node.Acquire, "a"), brief))
	if problem(t, err, "leads to another server"); !errors.Is(err, node.ErrNotSent) {
		t.Errorf("%v", err)
	}
	admitted(t, n, brief)
	admitted(t, other, brief)
	admitted(t, n, brief)
}

// A replica has what its primary has, or the primary is refused: one that is promoted with nothing
// would take itself for new.
func TestReplica(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"STATEMENT", "MIXED", "ROW"} {
		t.Run(format, func(t *testing.T) {
			primary := testserver.StartMariaDB(t, "log-bin=log", "sync-binlog=1", "server-id=1", "binlog-format="+format)
			if format == "STATEMENT" {
				err := open(t, primary.URL()).Migrate(t.Context())
				if problem(t, err, "binlog_format = ROW"); !errors.Is(err, node.ErrMisconfigured) {
					t.Errorf("%v", err)
				}
				return
			}
			replica := testserver.StartMariaDB(t, "server-id=2")
			_, port, _ := strings.Cut(primary.Addr(), ":")
			run(t, replica, `CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=`+port+
				`, MASTER_USER='root', MASTER_LOG_FILE='log.000001', MASTER_LOG_POS=4`, `START SLAVE`)
			n := used(t, primary, time.Minute)
			want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request(node.Acquire, "a"), time.Minute)))
			for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
				var tables, rows int
				if query(t, replica, `SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'locks'`,
					&tables); tables == 3 {
					query(t, replica, `SELECT COUNT(*) FROM fenlock_meta, fenlock_stripes`, &rows)
				}
				if rows == node.Stripes && contents(t, replica) == contents(t, primary) {
					break
				}
				if time.Now().After(end) {
					t.Fatal("the replica has something else")
				}
			}
			run(t, replica, `STOP SLAVE`)
			promoted := open(t, replica.URL()+"?name="+n.String())
			join(t, promoted, time.Minute, false)
			a := want(t, node.Rejoining)(promoted.Do(t.Context(), as(node.Acquire, request(node.Acquire, "a"), time.Minute)))
			if a.Absence.Cause != node.Replaced || a.Absence.Wait < 30*time.Second {
				t.Errorf("%+v", a)
			}
		})
	}
}
