package sqlnode

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
)

// problem checks that an error says what happened, to which file, and what to do.
func problem(t *testing.T, err error, path string, says ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one that says %q", says)
	}
	for _, part := range append(says, path) {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}

// Whoever deletes or replaces the file, or what SQLite keeps beside it, makes two groups of processes that do not
// see each other's leases. Those who notice must stop voting.
func TestFileDeletedOrReplaced(t *testing.T) {
	for what, change := range map[string]func(path string) error{
		"deleted": os.Remove,
		"moved":   func(path string) error { return os.Rename(path, path+".old") },
		"replaced": func(path string) error {
			if err := os.WriteFile(path+".new", nil, 0o600); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		},
		"locks deleted": func(path string) error { return os.Remove(path + "-shm") },
		"log deleted":   func(path string) error { return errors.Join(os.Remove(path+"-wal"), os.Remove(path+"-shm")) },
		"locks replaced": func(path string) error {
			return errors.Join(os.WriteFile(path+".new", nil, 0o600), os.Rename(path+".new", path+"-shm"))
		},
	} {
		t.Run(what, func(t *testing.T) {
			n, path := newNode(t)
			r := request("a", "me", 0)
			want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			a := want(t, node.Lost)(n.Do(t.Context(), as(node.Extend, r)))
			if !strings.Contains(a.Detail, "while it was open") {
				t.Errorf("the lease is lost, because %q", a.Detail)
			}
			_, release := n.Do(t.Context(), as(node.Release, r))
			_, acquire := n.Do(t.Context(), as(node.Acquire, request("b", "", 0)))
			_, inspect := n.Inspect(t.Context(), "a")
			list := n.List(t.Context(), "", func(node.Lease) bool { return true })
			for _, err := range []error{release, acquire, inspect, list} {
				problem(t, err, path, "while it was open")
				if !errors.Is(err, node.ErrMisconfigured) {
					t.Errorf("not misconfigured: %v", err)
				}
			}
		})
	}
}

// The same if others have made the file anew beside a log that was left, and emptied
// that: SQLite itself says then that it cannot read.
func TestFileMadeAnewBesideItsLog(t *testing.T) {
	n, path := newNode(t)
	r := request("a", "me", 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	_, err := n.db.Exec(`PRAGMA shrink_memory`) // it has to read
	if err := errors.Join(err, os.Truncate(path+"-wal", 0)); err != nil {
		t.Fatal(err)
	}
	_, err = n.Do(t.Context(), as(node.Extend, r))
	problem(t, err, path, "disk I/O error") // as long as the file is the same
	if err := errors.Join(os.WriteFile(path+".new", nil, 0o600), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		a := want(t, node.Lost)(n.Do(t.Context(), as(node.Extend, r)))
		if !strings.Contains(a.Detail, "replaced by another while it was open") {
			t.Errorf("the lease is lost, because %q", a.Detail)
		}
	}
	_, err = n.Inspect(t.Context(), "a")
	problem(t, err, path, "replaced by another while it was open")
}

// Whoever holds a lock in a file that is deleted learns it with the next extension, not
// when the validity has run out: others can have the lock at once.
func TestDeletedFileEndsTheLock(t *testing.T) {
	n, path := newNode(t)
	l, err := fenlock.New(fenlock.Config{Nodes: []node.Node{n}})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := l.Acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{lock.Extend(t.Context()), context.Cause(lock.Context())} {
		problem(t, err, path, "it does not have the lease any more", "deleted or moved while it was open")
		if !errors.Is(err, fenlock.ErrLost) {
			t.Errorf("not lost: %v", err)
		}
	}
}

// A connection that is made anew, as after an interrupted query, must not make
// the file anew: the next one would get an empty node with every lock free.
func TestDeletedFileIsNotMadeAgain(t *testing.T) {
	n, path := newNode(t)
	n.db.SetMaxIdleConns(-1) // closes the connection
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err := n.Do(t.Context(), as(node.Acquire, request("a", "", 0)))
	problem(t, err, path, "deleted or moved while it was open")
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file is there again (%v)", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is not a database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := OpenFile(text)
	problem(t, err, text, "not a database", "choose another path")

	_, err = OpenFile(dir)
	problem(t, err, dir, "not a regular file")

	// A mistake in a path must not make folders, and a lock that excludes nobody.
	missing := filepath.Join(dir, "typo", "x.db")
	_, err = OpenFile(missing)
	problem(t, err, missing, "the folder "+filepath.Dir(missing)+" does not exist")
	if _, err := os.Stat(filepath.Dir(missing)); !os.IsNotExist(err) {
		t.Errorf("the folder was made (%v)", err)
	}

	below := filepath.Join(text, "x.db")
	_, err = OpenFile(below)
	problem(t, err, below, "not a directory")
}

func TestNewerFormatIsRefused(t *testing.T) {
	n, path := newNode(t)
	for value, says := range map[string]string{"4": "newer fenlock (format 4", "soon": "no fenlock wrote", "0": "no fenlock wrote"} {
		if _, err := n.db.Exec(`UPDATE fenlock_meta SET value = ?`, value); err != nil {
			t.Fatal(err)
		}
		_, err := OpenFile(path)
		problem(t, err, path, says)
	}
}

// A lease of format 1 has no origin. It is respected, and the tables have the column
// from then on.
func TestFirstFormatIsMigrated(t *testing.T) {
	n, path := newNode(t)
	old := request("a", "old", 7)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, old)))
	if _, err := n.db.Exec(`UPDATE fenlock_meta SET value = '1'; ALTER TABLE fenlock_leases DROP COLUMN origin;
		ALTER TABLE fenlock_leases DROP COLUMN token`); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // once is enough
		n = open(t, path)
		want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, request("a", "new", 0))))
		want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, old)))
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, old)))
	r := request("a", "new", 0)
	first := want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r))).Register
	if again := want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, r))).Register; again != first || first != 8 {
		t.Errorf("the origin is %d after a grant of %d", again, first)
	}
}

// A lease of format 2 has no token of its holder's. It goes on being extended.
func TestSecondFormatIsMigrated(t *testing.T) {
	n, path := newNode(t)
	r := request("a", "old", 7)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	if _, err := n.db.Exec(`UPDATE fenlock_meta SET value = '2'; ALTER TABLE fenlock_leases DROP COLUMN token`); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = open(t, path)
	r.Token, r.OwnToken = 0, 7
	want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, r)))
	if l, err := n.Inspect(t.Context(), "a"); err != nil || l.Origin != 7 || l.Token != 7 {
		t.Errorf("%+v, %v", l, err)
	}
}

// The application's own tables in the same file stay as they are.
func TestTablesBesideOthers(t *testing.T) {
	n, path := newNode(t)
	if _, err := n.db.Exec(`CREATE TABLE leases (tenant TEXT); INSERT INTO leases VALUES ('x')`); err != nil {
		t.Fatal(err)
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "", 0))))
	var rows int
	if err := open(t, path).db.QueryRow(`SELECT count(*) FROM leases`).Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows, %v", rows, err)
	}
}

// A full disk is an error, and what was not written was not granted.
func TestFull(t *testing.T) {
	n, path := newNode(t)
	other := open(t, path)
	if _, err := n.db.Exec(`PRAGMA max_page_count = 12`); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("n", 500)
	var failed string
	for i := range 1000 {
		name := long + string(rune('a'+i%26)) + string(rune('a'+i/26%26))
		if _, err := n.Do(t.Context(), as(node.Acquire, request(name, "", 5))); err != nil {
			problem(t, err, path, "full", "free some space")
			failed = name
			break
		}
	}
	if failed == "" {
		t.Fatal("the file never filled up")
	}
	l, err := other.Inspect(t.Context(), failed)
	if err != nil || l.Remaining != 0 {
		t.Errorf("after the failed acquire: %+v, %v", l, err)
	}
	before := l.Register
	if _, err := n.db.Exec(`PRAGMA max_page_count = 1000000`); err != nil {
		t.Fatal(err)
	}
	if a := want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request(failed, "", 0)))); a.Register != before+1 {
		t.Errorf("granted %d after %d", a.Register, before)
	}
	check(t, n)
}

// check lets SQLite look for damage.
func check(t *testing.T, n *Node) {
	t.Helper()
	var result string
	if err := n.db.QueryRow(`PRAGMA integrity_check`).Scan(&result); err != nil || result != "ok" {
		t.Errorf("integrity check: %q, %v", result, err)
	}
}

// The settings that the promises rest on are in effect on the connection.
func TestSettings(t *testing.T) {
	n, _ := newNode(t)
	for pragma, value := range map[string]string{"journal_mode": "wal", "synchronous": "1", "busy_timeout": "0", "wal_autocheckpoint": "100"} {
		var got string
		if err := n.db.QueryRow(`PRAGMA ` + pragma).Scan(&got); err != nil || got != value {
			t.Errorf("%s is %q, %v; want %q", pragma, got, err, value)
		}
	}
}

// What promises a number is on the disk before it is answered; what only ends or
// prolongs a lease, which a crash of the machine ends anyway, need not be.
func TestWhatIsSynced(t *testing.T) {
	n, _ := newNode(t)
	level := func(q interface {
		QueryRowContext(context.Context, string, ...any) *sql.Row
	}) (level string) {
		if err := q.QueryRowContext(t.Context(), `PRAGMA synchronous`).Scan(&level); err != nil {
			t.Fatal(err)
		}
		return level
	}
	for a, want := range map[access]string{reading: "1", writing: "1", synced: "2"} {
		err := n.transact(t.Context(), a, func(s *step) {
			if got := level(s.tx); got != want {
				t.Errorf("access %d: synchronous is %s in the transaction; want %s", a, got, want)
			}
		})
		if got := level(n.db); err != nil || got != "1" {
			t.Errorf("access %d: synchronous is %s afterwards, %v; want 1", a, got, err)
		}
	}

	r := request("a", "", 0)
	r.Token = want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r))).Register
	n.sync = "(" // whoever sets it gets an error
	b := request("b", "", 1)
	for _, r := range []node.Request{as(node.Acquire, b), as(node.Confirm, r), as(node.Extend, r), as(node.ForceRelease, b)} {
		if a, err := n.Do(t.Context(), r); err == nil {
			t.Errorf("%v is not synced: %+v", r.Op, a)
		}
	}
	renew := as(node.Extend, r)
	renew.Token = 0
	want(t, node.Granted)(n.Do(t.Context(), renew))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))

	// Should an operation raise a register all the same, it fails.
	if a, err := n.serve(t.Context(), writing, as(node.Acquire, r)); err == nil {
		t.Errorf("a register that is not synced: %+v", a)
	}
	if l, err := n.Inspect(t.Context(), "a"); err != nil || l.Register != r.Token {
		t.Errorf("the register is %d, %v; want %d", l.Register, err, r.Token)
	}
}

func TestReadOnlyIsExplained(t *testing.T) {
	n, path := newNode(t)
	if _, err := n.db.Exec(`PRAGMA query_only = ON`); err != nil {
		t.Fatal(err)
	}
	_, err := n.Do(t.Context(), as(node.Acquire, request("a", "", 0)))
	problem(t, err, path, "readonly", "must exist and be writable")
}

// A disk that hangs must not hold the caller: nothing can interrupt an fsync.
func TestHangingDiskDoesNotHoldTheCaller(t *testing.T) {
	hang := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := apart(ctx, func() (int, error) {
		<-hang
		return 1, nil
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	close(hang)
}
