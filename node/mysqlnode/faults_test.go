package mysqlnode_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/mysqlnode"
	"github.com/fenlock/fenlock/node/rule"
)

// A server that may have lost its leases does not vote until all have ended. It goes on with larger
// tokens, even with the table that is not logged as it was before the first lock. That is also so
// if the table is a logged one from then on.
func TestKilledServerLosesLocks(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{"": "", "logged": `ALTER TABLE fenlock_stripes ENGINE=InnoDB`} {
		t.Run(name, func(t *testing.T) { killedServerLosesLocks(t, statement) })
	}
}

func killedServerLosesLocks(t *testing.T, afterwards string) {
	s := testserver.StartMariaDB(t)
	n := made(t, s, brief, true)
	run(t, s, `FLUSH TABLES fenlock_stripes`)
	before := make(map[string][]byte)
	for _, file := range []string{"fenlock_stripes.MYD", "fenlock_stripes.MYI"} {
		path := filepath.Join(s.Data(), "locks", file)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before[path] = b
	}
	lock := as(node.Acquire, request(node.Acquire, "a"), brief)
	lock.Token = 1 << 50
	first := want(t, node.Granted)(n.Do(t.Context(), lock)).Register
	s.Kill()
	for path, b := range before {
		if err := os.WriteFile(path, b, 0o660); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Second) // a run is known by the second in which it began
	s.Restart()
	cause := node.Restarted
	if afterwards != "" {
		run(t, s, afterwards)
		cause = node.Replaced
	}
	other := made(t, s, brief, true)
	for _, n := range []*mysqlnode.Node{n, other} {
		if a := want(t, node.Rejoining)(n.Do(t.Context(), lock)); a.Absence.Cause != cause {
			t.Errorf("%+v", a)
		}
	}
	for _, n := range []*mysqlnode.Node{n, other} {
		admitted(t, n, brief)
		lock := as(node.Acquire, request(node.Acquire, "a"), brief)
		if next := want(t, node.Granted)(n.Do(t.Context(), lock)).Register; next <= first {
			t.Errorf("token %d after %d", next, first)
		} else {
			first = next
		}
		want(t, node.Granted)(n.Do(t.Context(), as(node.Release, lock)))
	}
}

// A server that keeps what it has committed goes on where it was killed.
func TestKilledServerKeepsLocks(t *testing.T) {
	t.Parallel()
	s := durable(t, testserver.StartMariaDB(t))
	n := ready(t, s)
	lock := take(t, n, "a")
	for range 2 {
		s.Kill()
		time.Sleep(time.Second)
		_, err := n.Do(t.Context(), as(node.Extend, lock))
		if problem(t, err, "mysql "+n.String()+": extend: "); !errors.Is(err, node.ErrNotSent) ||
			errors.Is(err, node.ErrMisconfigured) {
			t.Errorf("%v; want an error of a request that was not sent", err)
		}
		s.Restart()
		if got := want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, lock))).Register; got != lock.Token {
			t.Errorf("the lease's origin is %d; want %d", got, lock.Token)
		}
		other := ready(t, s)
		want(t, node.Held)(other.Do(t.Context(), request(node.Acquire, "a")))
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, lock)))
	if next := take(t, n, "a"); next.Token <= lock.Token {
		t.Errorf("token %d after %d", next.Token, lock.Token)
	}
}

// One that may have lost something does not vote until the longest lease has ended,
// counted from its start. That is also so where the setting was changed while it ran.
func TestForgetfulServerWaits(t *testing.T) {
	t.Parallel()
	const maxTTL = 3 * time.Second
	for name, settings := range map[string][]string{
		"flush":           {"innodb-flush-log-at-trx-commit=2"},
		"log":             {"log-bin=log", "sync-binlog=0", "server-id=7"},
		"later":           nil,
		"while connected": nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := testserver.StartMariaDB(t, settings...)
			n := made(t, s, maxTTL, true)
			lock := request(node.Acquire, "a")
			lock.TTL = maxTTL
			first := want(t, node.Granted)(n.Do(t.Context(), lock)).Register
			if name == "later" {
				run(t, s, `SET GLOBAL innodb_flush_log_at_trx_commit = 2`)
				again := open(t, s.URL()) // a client that connects sees it
				join(t, again, maxTTL, false)
				want(t, node.Held)(again.Do(t.Context(), as(node.Acquire, request(node.Acquire, "a"), maxTTL)))
			}
			if name == "while connected" {
				run(t, s, `SET GLOBAL innodb_flush_log_at_trx_commit = 2`)
				want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, lock)))
			}
			s.Kill()
			time.Sleep(time.Second) // a run is known by the second in which it began
			s.Restart()
			start := time.Now()
			a, err := n.Do(t.Context(), as(node.Extend, lock))
			if err != nil || a.Status != node.Rejoining || a.Absence.Cause != node.Restarted || a.Absence.Wait <= 0 ||
				a.Absence.Wait > admit.Quarantine(maxTTL) {
				t.Fatalf("%+v, %v; want rejoining", a, err)
			}
			if e, err := n.Examine(t.Context(), node.Look{}); err != nil || e.Admitted || e.Wait <= 0 || !e.Rebuild ||
				e.Why != node.Restarted.String() {
				t.Errorf("%+v, %v", e, err)
			}
			for a.Status == node.Rejoining && time.Since(start) < time.Minute {
				time.Sleep(50 * time.Millisecond)
				if a, err = n.Do(t.Context(), as(node.Acquire, request(node.Acquire, "a"), maxTTL)); err != nil {
					t.Fatal(err)
				}
			}
			if a.Status != node.Granted || a.Register <= first {
				t.Errorf("%+v after %v; want a token above %d", a, time.Since(start), first)
			}
			// The server's start is known to the second, rounded up here.
			if took := time.Since(start); took < maxTTL-2*time.Second {
				t.Errorf("it voted after %v", took)
			}
		})
	}
}

// A crash may cost the record of the first admission as well, with all that was granted since. What
// is left are tables that were made long ago and were never used. The settings of the next run do
// not tell what those of the one before were.
func TestCrashAfterTheFirstLock(t *testing.T) {
	t.Parallel()
	const maxTTL = 3 * time.Second
	for name, next := range map[string]string{"volatile": "innodb-flush-log-at-trx-commit=0",
		"durable": "innodb-flush-log-at-trx-commit=1"} {
		t.Run(name, func(t *testing.T) {
			s := testserver.StartMariaDB(t, "innodb-flush-log-at-trx-commit=0")
			n := open(t, s.URL())
			if err := n.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(maxTTL + time.Second) // the tables are old, and on the disk
			join(t, n, maxTTL, false)
			want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request(node.Acquire, "a"), maxTTL)))
			s.Kill()
			s.Restart(next)
			another := open(t, s.URL())
			join(t, another, maxTTL, false)
			want(t, node.Rejoining)(another.Do(t.Context(), as(node.Acquire, request(node.Acquire, "a"), maxTTL)))
		})
	}
}

// A replica that was promoted, and a backup on another machine, have what they have.
func TestAnotherServerWaits(t *testing.T) {
	t.Parallel()
	const maxTTL = 2 * time.Second
	s := testserver.StartMariaDB(t, "server-id=1")
	n := made(t, s, maxTTL, true)
	lock := as(node.Acquire, request(node.Acquire, "a"), maxTTL)
	first := want(t, node.Granted)(n.Do(t.Context(), lock)).Register
	s.Stop()
	s.Restart("server-id=2")
	other := open(t, s.URL())
	join(t, other, maxTTL, false)
	start := time.Now()
	a := want(t, node.Rejoining)(other.Do(t.Context(), lock))
	for a.Status == node.Rejoining && time.Since(start) < time.Minute {
		time.Sleep(20 * time.Millisecond)
		var err error
		if a, err = n.Do(t.Context(), as(node.Acquire, request(node.Acquire, "a"), maxTTL)); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(start); a.Status != node.Granted || a.Register <= first || took < maxTTL {
		t.Errorf("%+v after %v; want a token above %d after %v", a, took, first, maxTTL)
	}
	// The first one again, which has not the newest locks now.
	s.Stop()
	s.Restart("server-id=1")
	want(t, node.Rejoining)(n.Do(t.Context(), as(node.Extend, lock)))
	r, err := n.Registers(t.Context())
	if err != nil || r.Admitted || r.Tokens[node.Stripe("a")] < a.Register {
		t.Errorf("%+v, %v", r, err)
	}
}

// A server that is stopped keeps callers for as long as they want to wait, and what it was asked
// for is not known.
func TestStoppedServer(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	n := ready(t, s)
	lock := take(t, n, "a")
	s.Pause()
	for _, r := range []node.Request{as(node.Release, lock), as(node.Extend, lock), request(node.Acquire, "b")} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := n.Do(ctx, r)
		cancel()
		if problem(t, err, n.String()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v: %v", r.Op, err)
		}
		if known := errors.Is(err, node.ErrNotSent); known != (r.Op != node.Release) {
			t.Errorf("%v: %v: not sent is %v", r.Op, err, known) // a release is written at once, the others have to read first
		}
	}
	s.Resume()
	want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "b")))
}

// An answer that was lost is not known, and the request is not sent again. That holds for the
// driver and database/sql, which do repeat what they take for not sent.
func TestLostReply(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	ready(t, s)
	p := proxy.New(s.Addr(), nil)
	t.Cleanup(p.Close)
	through := func(client int) *mysqlnode.Node {
		t.Helper()
		n := open(t, "mysql://root@"+p.Addr(client)+"/locks?name="+s.Addr()+"/locks")
		join(t, n, maxTTL, true)
		take(t, n, fmt.Sprint("warm up ", client))
		return n
	}
	t.Run("lost", func(t *testing.T) {
		n := through(1)
		before := take(t, n, "a")
		want(t, node.Granted)(n.Do(t.Context(), as(node.Release, before)))
		updates := counted(t, s)
		// The row is read through an open network, what is written loses its answer.
		n.BeforeWrite(func() {
			lift := p.Impose(proxy.Rule{From: proxy.Effect{Lose: true}})
			time.AfterFunc(200*time.Millisecond, lift)
		})
		r := request(node.Acquire, "a")
		_, err := n.Do(t.Context(), r)
		n.BeforeWrite(nil)
		if err == nil || errors.Is(err, node.ErrNotSent) {
			t.Fatalf("%v; want an error of a request that may have been executed", err)
		}
		if sent := counted(t, s) - updates; sent != 1 {
			t.Errorf("sent %d times", sent)
		}
		l, err := n.Inspect(t.Context(), "a")
		if err != nil || l.Register != before.Token+1 || !l.Leased {
			t.Errorf("%+v, %v; want it executed once", l, err)
		}
		want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
	})
	t.Run("late", func(t *testing.T) {
		n, other := through(2), ready(t, s)
		var lift func()
		n.BeforeWrite(func() {
			lift = p.Impose(proxy.Rule{To: proxy.Effect{Hold: true}})
		})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		r := request(node.Acquire, "late")
		_, err := n.Do(ctx, r)
		n.BeforeWrite(nil)
		if err == nil || errors.Is(err, node.ErrNotSent) {
			t.Fatalf("%v; want an error of a request that may be executed", err)
		}
		lock := take(t, other, "late")
		updates := counted(t, s)
		lift()
		for end := time.Now().Add(3 * time.Minute); counted(t, s) == updates; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("what was held back has not arrived")
			}
		}
		if got := want(t, node.Granted)(other.Do(t.Context(), as(node.Extend, lock))).Register; got != lock.Token {
			t.Errorf("a request that arrived late has changed something: origin %d, not %d", got, lock.Token)
		}
	})
	t.Run("partition", func(t *testing.T) {
		n := through(3)
		lift := p.Impose(proxy.Rule{Cut: true})
		_, err := n.Do(t.Context(), request(node.Acquire, "cut"))
		if problem(t, err, n.String()); !errors.Is(err, node.ErrNotSent) || errors.Is(err, node.ErrMisconfigured) {
			t.Errorf("%v", err)
		}
		lift()
		take(t, n, "cut")
	})
}

// counted returns how many UPDATE statements a server has had.
func counted(t testing.TB, s *testserver.MariaDB) (n int) {
	t.Helper()
	db, err := sql.Open("mysql", s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var name string
	if err := db.QueryRow(`SHOW GLOBAL STATUS LIKE 'Com_update'`).Scan(&name, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A server with a row that another session has locked says so, and nothing was carried out.
func TestLockedRow(t *testing.T) {
	t.Parallel()
	s := durable(t, testserver.StartMariaDB(t, "innodb-lock-wait-timeout=1", "max-statement-time=2"))
	n := ready(t, s)
	take(t, n, "warm up")
	db, err := sql.Open("mysql", s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec(`SELECT * FROM fenlock_stripes FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	r := request(node.Acquire, "a")
	_, err = n.Do(t.Context(), r)
	if problem(t, err, "1205", "open transaction"); !errors.Is(err, node.ErrNotSent) ||
		errors.Is(err, node.ErrMisconfigured) {
		t.Errorf("%v", err)
	}
	run(t, s, `SET GLOBAL innodb_lock_wait_timeout = 50`, `SET GLOBAL max_statement_time = 0.3`)
	late := ready(t, s)
	_, err = late.Do(t.Context(), r)
	if problem(t, err, "1969", "max_statement_time"); !errors.Is(err, node.ErrNotSent) {
		t.Errorf("%v", err)
	}
	tx.Rollback()
	want(t, node.Granted)(n.Do(t.Context(), r))
}

// between is a node of another kind, which is asked while a server is admitted.
type between struct {
	node.Node
	asked func()
}

func (b *between) Engine() any { return b }

func (b *between) String() string { return "between" }

func (b *between) Join(node.Group) error { return nil }

func (b *between) Registers(context.Context) (node.Registers, error) {
	b.asked()
	return node.Registers{Server: "between", Admitted: true}, nil
}

// A server that ends while the others are asked for their registers is not admitted. Nor is its
// next run, on what was found out about this one.
func TestRestartedWhileAdmitted(t *testing.T) {
	t.Parallel()
	const maxTTL = 3 * time.Second
	for name, restarts := range map[string]bool{"down": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			s := testserver.StartMariaDB(t, "innodb-flush-log-at-trx-commit=2")
			n := open(t, s.URL())
			if err := n.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			// the tables are old enough, and so is this run, known by the second
			time.Sleep(maxTTL + rule.Drift(maxTTL) + 2*time.Second)
			asked := 0
			other := &between{asked: func() {
				if asked++; asked > 1 {
					return
				}
				s.Kill()
				if restarts {
					time.Sleep(time.Second) // a run is known by the second in which it began
					s.Restart()
				}
			}}
			if err := n.Join(node.Group{Nodes: []node.Node{n, other}, MaxTTL: maxTTL}); err != nil {
				t.Fatal(err)
			}
			r := as(node.Acquire, request(node.Acquire, "a"), maxTTL)
			want(t, node.Rejoining)(n.Do(t.Context(), r))
			if asked == 0 {
				t.Fatal("the other node was not asked")
			}
			if !restarts {
				return
			}
			e, err := n.Examine(t.Context(), node.Look{MaxTTL: maxTTL})
			if err != nil || e.Admitted {
				t.Errorf("%+v, %v; the new run is admitted", e, err)
			}
		})
	}
}
