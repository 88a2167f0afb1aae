package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/fence/fencesql"
	"github.com/fenlock/fenlock/internal/testserver"
)

// fenceDB is a database with a value that holders of a lock write. It has a history of the writes
// in the order in which they landed. The value and the history are the user's tables; the guard
// knows nothing of them.
type fenceDB struct {
	*sql.DB
	guard     fencesql.Guard
	isolation sql.IsolationLevel
}

const fenceResource = "orders/42"

// write is the user's transaction: check, then write under the token.
func (db *fenceDB) write(ctx context.Context, check checkFunc, token fence.Token) error {
	for {
		err := db.inTx(ctx, func(tx *sql.Tx) error {
			if err := check(ctx, tx, fenceResource, token); err != nil {
				return err
			}
			return land(ctx, tx, token)
		})
		var pgErr *pgconn.PgError
		if errors.As(err, &pgErr) && pgErr.Code == "40001" { // serialization failure
			continue
		}
		var myErr *mysql.MySQLError
		if errors.As(err, &myErr) && (myErr.Number == 1213 || myErr.Number == 1205) { // a circle, or a long wait
			continue
		}
		return err
	}
}

type checkFunc func(ctx context.Context, tx *sql.Tx, resource string, t fence.Token) error

func noCheck(context.Context, *sql.Tx, string, fence.Token) error { return nil }

func (db *fenceDB) inTx(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: db.isolation})
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func land(ctx context.Context, tx *sql.Tx, token fence.Token) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE accounts SET value = %d", token))
	if err == nil {
		_, err = tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO history (token) VALUES (%d)", token))
	}
	return err
}

func (db *fenceDB) value(t *testing.T) (value fence.Token) {
	t.Helper()
	if err := db.QueryRow("SELECT value FROM accounts").Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func (db *fenceDB) history(t *testing.T) (tokens []fence.Token) {
	t.Helper()
	rows, err := db.Query("SELECT token FROM history ORDER BY seq")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var token fence.Token
		if err := rows.Scan(&token); err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return tokens
}

// setUp makes the tables anew, so that each test begins with an empty database.
func (db *fenceDB) setUp(t *testing.T, identity string) {
	t.Helper()
	schema, err := db.guard.Schema()
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		"DROP TABLE IF EXISTS " + fencesql.DefaultTable,
		"DROP TABLE IF EXISTS accounts",
		"DROP TABLE IF EXISTS history",
		"CREATE TABLE accounts (value BIGINT NOT NULL)",
		"INSERT INTO accounts VALUES (0)",
		"CREATE TABLE history (seq " + identity + ", token BIGINT NOT NULL)",
		schema,
		schema, // IF NOT EXISTS
	} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func openSQLite(t *testing.T) *fenceDB {
	t.Helper()
	pool := database(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "fence.db")+
		"?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)")
	db := &fenceDB{DB: pool, guard: fencesql.Guard{Dialect: fencesql.SQLite}}
	db.setUp(t, "INTEGER PRIMARY KEY AUTOINCREMENT")
	return db
}

func openPostgres(t *testing.T, dsn string, isolation sql.IsolationLevel) *fenceDB {
	t.Helper()
	db := &fenceDB{DB: database(t, "pgx", dsn), guard: fencesql.Guard{Dialect: fencesql.PostgreSQL}, isolation: isolation}
	db.SetMaxOpenConns(20) // the server allows 100
	db.setUp(t, "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY")
	return db
}

func openMySQL(t *testing.T, dsn string, isolation sql.IsolationLevel) *fenceDB {
	t.Helper()
	db := &fenceDB{DB: database(t, "mysql", dsn), guard: fencesql.Guard{Dialect: fencesql.MySQL}, isolation: isolation}
	db.SetMaxOpenConns(20)
	db.setUp(t, "BIGINT AUTO_INCREMENT PRIMARY KEY")
	return db
}

// TestFenceSQL runs every test on SQLite, and on PostgreSQL and MariaDB with each
// isolation level that they have.
func TestFenceSQL(t *testing.T) {
	onEach := func(t *testing.T, open func(t *testing.T) *fenceDB) {
		for name, test := range map[string]func(*testing.T, *fenceDB){
			"refuses stale tokens":       fenceSQLRefusesStaleTokens,
			"forgets rolled back tokens": fenceSQLForgetsRolledBackTokens,
			"other errors":               fenceSQLOtherErrors,
			"table in schema":            fenceSQLTableInSchema,
			"under load":                 fenceSQLUnderLoad,
			"under load without guard":   fenceSQLUnderLoadWithoutGuard,
		} {
			t.Run(name, func(t *testing.T) { test(t, open(t)) })
		}
	}
	t.Run("SQLite", func(t *testing.T) { onEach(t, openSQLite) })
	server := testserver.StartPostgres(t)
	for _, isolation := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead,
		sql.LevelSerializable} {
		t.Run("PostgreSQL "+isolation.String(), func(t *testing.T) {
			onEach(t, func(t *testing.T) *fenceDB { return openPostgres(t, server.DSN(), isolation) })
		})
	}
	maria := testserver.StartMariaDB(t)
	for _, isolation := range []sql.IsolationLevel{sql.LevelReadUncommitted, sql.LevelReadCommitted,
		sql.LevelRepeatableRead, sql.LevelSerializable} {
		t.Run("MariaDB "+isolation.String(), func(t *testing.T) {
			onEach(t, func(t *testing.T) *fenceDB { return openMySQL(t, maria.DSN(), isolation) })
		})
	}
	t.Run("MariaDB with other settings", func(t *testing.T) {
		onEach(t, func(t *testing.T) *fenceDB {
			return openMySQL(t, maria.DSN()+"?clientFoundRows=true&interpolateParams=true&sql_mode=ANSI", sql.LevelDefault)
		})
	})
	repeatable := func(t *testing.T) *fenceDB { return openMySQL(t, maria.DSN(), sql.LevelRepeatableRead) }
	t.Run("MariaDB holds the row until commit", func(t *testing.T) {
		fenceSQLHoldsTheRow(t, repeatable,
			"SELECT count(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'INSERT INTO fenlock_fence%' AND TIME_MS > 50")
	})
	t.Run("MariaDB sees newer than it has read", func(t *testing.T) { fenceSQLReadBefore(t, repeatable(t)) })
	t.Run("MariaDB tells resources apart", func(t *testing.T) { fenceSQLBytes(t, repeatable(t)) })
	readCommitted := func(t *testing.T) *fenceDB { return openPostgres(t, server.DSN(), sql.LevelReadCommitted) }
	t.Run("PostgreSQL holds the row until commit", func(t *testing.T) {
		fenceSQLHoldsTheRow(t, readCommitted,
			"SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")
	})
	t.Run("PostgreSQL check-then-act loses", func(t *testing.T) { fenceSQLCheckThenAct(t, readCommitted(t)) })
	t.Run("PostgreSQL takes no operator of others", func(t *testing.T) { fenceSQLShadowed(t, readCommitted(t)) })
	t.Run("SQLite is busy until commit", func(t *testing.T) { fenceSQLBusy(t, openSQLite(t)) })
}

func fenceSQLRefusesStaleTokens(t *testing.T, db *fenceDB) {
	ctx := t.Context()
	for _, token := range []fence.Token{33, 33, 34, 34} { // equal: the same holder again
		if err := db.write(ctx, db.guard.Check, token); err != nil {
			t.Fatalf("token %d: %v", token, err)
		}
	}
	err := db.write(ctx, db.guard.Check, 33)
	var stale *fence.StaleError
	if !errors.Is(err, fence.ErrStale) || !errors.As(err, &stale) ||
		*stale != (fence.StaleError{Resource: fenceResource, Token: 33, Newest: 34}) {
		t.Fatalf("token 33 after 34: %v", err)
	}
	// What the transaction wrote before the check goes too.
	err = db.inTx(ctx, func(tx *sql.Tx) error {
		return errors.Join(land(ctx, tx, 33), db.guard.Check(ctx, tx, fenceResource, 33))
	})
	if !errors.Is(err, fence.ErrStale) {
		t.Fatalf("token 33, checked after the write: %v", err)
	}
	if got, want := db.history(t), []fence.Token{33, 33, 34, 34}; !slices.Equal(got, want) || db.value(t) != 34 {
		t.Errorf("history %v, value %d", got, db.value(t))
	}

	// Another resource has tokens of its own.
	if err := db.inTx(ctx, func(tx *sql.Tx) error { return db.guard.Check(ctx, tx, "orders/43", 1) }); err != nil {
		t.Errorf("another resource: %v", err)
	}
	// The largest token fits, and the one before it is still told apart.
	if err := db.write(ctx, db.guard.Check, fence.MaxToken); err != nil {
		t.Errorf("largest token: %v", err)
	}
	if err := db.write(ctx, db.guard.Check, fence.MaxToken-1); !errors.Is(err, fence.ErrStale) {
		t.Errorf("one less than the largest token: %v", err)
	}
}

// A token whose transaction was rolled back has written nothing, and stops no other client.
func fenceSQLForgetsRolledBackTokens(t *testing.T, db *fenceDB) {
	fault := errors.New("the user's own")
	err := db.inTx(t.Context(), func(tx *sql.Tx) error {
		if err := db.guard.Check(t.Context(), tx, fenceResource, 34); err != nil {
			t.Fatal(err)
		}
		return fault
	})
	if !errors.Is(err, fault) {
		t.Fatal(err)
	}
	if err := db.write(t.Context(), db.guard.Check, 33); err != nil {
		t.Errorf("token 33 after a rollback of 34: %v", err)
	}
}

func fenceSQLOtherErrors(t *testing.T, db *fenceDB) {
	for name, c := range map[string]struct {
		guard fencesql.Guard
		token fence.Token
		want  error // nil: any that is not one of ours
	}{
		"no token":        {db.guard, 0, fence.ErrInvalidToken},
		"token too large": {db.guard, fence.MaxToken + 1, fence.ErrInvalidToken},
		"no table":        {fencesql.Guard{Dialect: db.guard.Dialect, Table: "missing"}, 1, nil},
	} {
		err := db.write(t.Context(), c.guard.Check, c.token)
		if err == nil || errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrInvalidToken) != (c.want != nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := db.history(t); got != nil {
		t.Errorf("written: %v", got)
	}
}

// A table in a schema, which "AS f" in the statement makes possible.
func fenceSQLTableInSchema(t *testing.T, db *fenceDB) {
	guard := fencesql.Guard{Dialect: db.guard.Dialect, Table: "main.my_fence"}
	if guard.Dialect == fencesql.MySQL {
		guard.Table = "app.my_fence"
		for _, statement := range []string{"DROP DATABASE IF EXISTS app", "CREATE DATABASE app"} {
			if _, err := db.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	if guard.Dialect == fencesql.PostgreSQL {
		guard.Table = "app.my_fence"
		if _, err := db.Exec("DROP SCHEMA IF EXISTS app CASCADE; CREATE SCHEMA app"); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := guard.Schema()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(schema); err != nil {
		t.Fatal(err)
	}
	if err := db.write(t.Context(), guard.Check, 34); err != nil {
		t.Errorf("token 34: %v", err)
	}
	if err := db.write(t.Context(), guard.Check, 33); !errors.Is(err, fence.ErrStale) {
		t.Errorf("token 33 after 34: %v", err)
	}
}

// Many holders write at once. What landed only ever grew, and the value is the largest token that
// was committed. Without the guard the same run loses writes. The first to commit has a token in
// the middle, so that older ones come later whatever the scheduler does.
func fenceSQLUnderLoad(t *testing.T, db *fenceDB) {
	committed := runHolders(t, db, db.guard.Check)
	history := db.history(t)
	if !slices.IsSorted(history) {
		t.Errorf("a write landed after a newer one: %v", history)
	}
	if db.value(t) != holders || slices.Max(committed) != holders || len(committed) != len(history) {
		t.Errorf("value %d, committed %v, history %v", db.value(t), committed, history)
	}
}

func fenceSQLUnderLoadWithoutGuard(t *testing.T, db *fenceDB) {
	runHolders(t, db, noCheck)
	if history := db.history(t); slices.IsSorted(history) {
		t.Errorf("no write came too late, so the test with the guard proves nothing: %v", history)
	}
}

const holders = 40

// runHolders lets holders write at once, and returns the tokens that committed.
func runHolders(t *testing.T, db *fenceDB, check checkFunc) (committed []fence.Token) {
	if err := db.write(t.Context(), check, holders/2); err != nil {
		t.Fatal(err)
	}
	committed = append(committed, holders/2)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, n := range rand.Perm(holders) {
		token := fence.Token(n + 1)
		wg.Go(func() {
			err := db.write(t.Context(), check, token)
			switch {
			case err == nil:
				mu.Lock()
				committed = append(committed, token)
				mu.Unlock()
			case !errors.Is(err, fence.ErrStale):
				t.Errorf("token %d: %v", token, err)
			}
		})
	}
	wg.Wait()
	return committed
}

// Between Check and Commit the resource belongs to the transaction: the other waits for the
// row, and decides when that is free. A query counts those who wait.
func fenceSQLHoldsTheRow(t *testing.T, open func(*testing.T) *fenceDB, countWaiting string) {
	for _, c := range []struct {
		name          string
		first, second fence.Token
		commit        bool
		stale         bool // the second one is refused
		value         fence.Token
	}{
		{"older first", 33, 34, true, false, 34},
		{"newer first", 34, 33, true, true, 34},
		{"newer first and rolled back", 34, 33, false, false, 33},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := t.Context()
			db := open(t)
			first, err := db.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer first.Rollback()
			if err := db.guard.Check(ctx, first, fenceResource, c.first); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- db.write(ctx, db.guard.Check, c.second) }()
			for waiting := 0; waiting == 0; { // ends with the test's deadline, if it never waits
				err := db.QueryRow(countWaiting).Scan(&waiting)
				if err != nil {
					t.Fatal(err)
				}
				select {
				case err := <-done:
					t.Fatalf("the second transaction did not wait for the first: %v", err)
				default:
				}
			}
			if err := land(ctx, first, c.first); err != nil {
				t.Fatal(err)
			}
			if c.commit {
				err = first.Commit()
			} else {
				err = first.Rollback()
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := <-done; errors.Is(err, fence.ErrStale) != c.stale || (err != nil) != c.stale {
				t.Errorf("second transaction: %v", err)
			}
			if got := db.value(t); got != c.value {
				t.Errorf("value %d, want %d", got, c.value)
			}
		})
	}
}

// A transaction that has read before it checks sees an old database from then on; not so
// the check.
func fenceSQLReadBefore(t *testing.T, db *fenceDB) {
	if err := db.write(t.Context(), db.guard.Check, 30); err != nil {
		t.Fatal(err)
	}
	err := db.inTx(t.Context(), func(tx *sql.Tx) error {
		var value int
		if err := tx.QueryRow("SELECT value FROM accounts").Scan(&value); err != nil {
			t.Fatal(err)
		}
		if err := db.write(t.Context(), db.guard.Check, 34); err != nil {
			t.Fatal(err)
		}
		return db.guard.Check(t.Context(), tx, fenceResource, 33)
	})
	if !errors.Is(err, fence.ErrStale) {
		t.Errorf("token 33 after 34: %v", err)
	}
}

// Resources are bytes: no collation takes one for another, and one that does not fit is
// an error, whatever the sql_mode.
func fenceSQLBytes(t *testing.T, db *fenceDB) {
	for i, resource := range []string{"a", "A", "a ", "ä", "Ä", "\xff", "\x00", "a\x00", "", strings.Repeat("x", 1024)} {
		token := fence.Token(100 - i)
		if err := db.inTx(t.Context(),
			func(tx *sql.Tx) error { return db.guard.Check(t.Context(), tx, resource, token) }); err != nil {
			t.Errorf("%q: %v", resource, err)
		}
	}
	err := db.inTx(t.Context(), func(tx *sql.Tx) error {
		if _, err := tx.Exec("SET sql_mode = ''"); err != nil {
			t.Fatal(err)
		}
		return db.guard.Check(t.Context(), tx, strings.Repeat("x", 1025), 1)
	})
	if err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("too long: %v", err)
	}
}

// The same on SQLite, where the second is told that the database is busy: not that its token is
// stale, which is not known yet.
func fenceSQLBusy(t *testing.T, db *fenceDB) {
	ctx := t.Context()
	first, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Rollback()
	if err := db.guard.Check(ctx, first, fenceResource, 34); err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "PRAGMA busy_timeout = 0"); err != nil {
		t.Fatal(err)
	}
	second, err := conn.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.guard.Check(ctx, second, fenceResource, 33)
	if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "SQLITE_BUSY") {
		t.Errorf("second transaction: %v", err)
	}
	second.Rollback()
	if err := errors.Join(land(ctx, first, 34), first.Commit()); err != nil {
		t.Fatal(err)
	}
	if err := db.write(ctx, db.guard.Check, 33); !errors.Is(err, fence.ErrStale) {
		t.Errorf("again, when the first is through: %v", err)
	}
}

// Reading the newest token and comparing it in the program looks like a guard, and is none. Client
// 1 is paused between its check and its write.
func fenceSQLCheckThenAct(t *testing.T, db *fenceDB) {
	ctx := t.Context()
	if err := db.write(ctx, db.guard.Check, 33); err != nil {
		t.Fatal(err)
	}
	paused, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer paused.Rollback()
	var newest fence.Token
	if err := paused.QueryRow("SELECT token FROM "+fencesql.DefaultTable+" WHERE resource = $1",
		fenceResource).Scan(&newest); err != nil || newest > 33 {
		t.Fatal(newest, err)
	}
	if err := db.write(ctx, db.guard.Check, 34); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(land(ctx, paused, 33), paused.Commit()); err != nil {
		t.Fatal(err)
	}
	if got := db.value(t); got != 33 {
		t.Errorf("value %d: the paused client should have overwritten 34 here", got)
	}
}
