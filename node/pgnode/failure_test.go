package pgnode

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/node"
)

// through returns a URL that leads through a relay.
func through(t *testing.T, server *testserver.Postgres, rawURL string) (*proxy.Proxy, string) {
	t.Helper()
	p := proxy.New(server.Addr(), nil)
	t.Cleanup(p.Close)
	return p, strings.Replace(rawURL, server.Addr(), p.Addr(0), 1)
}

// unpinged opens a node that is the whole group. Its pool asks no connection whether it is alive:
// if the answer is held up, the statement is not sent.
func unpinged(t *testing.T, rawURL string) *Node {
	t.Helper()
	n := open(t, rawURL)
	n.db.Close()
	never := func(context.Context, stdlib.ShouldPingParams) bool { return false }
	n.db = stdlib.OpenDB(*n.own, stdlib.OptionShouldPing(never))
	n.db.SetMaxOpenConns(maxConnections)
	n.db.SetMaxIdleConns(maxConnections)
	return join(t, n, maxTTL, true)
}

// registerOf reads a name's register.
func registerOf(t *testing.T, n *Node, name string) uint64 {
	t.Helper()
	l, err := n.Inspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return uint64(l.Register)
}

// unanswered has an acquire carried out, and given up while its answer is held up.
func unanswered(t *testing.T, n, sees *Node, r node.Request) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := n.Do(ctx, asAcquire(r))
		done <- err
	}()
	for end := time.Now().Add(patience); ; {
		if l, err := sees.Inspect(t.Context(), r.Name); err != nil || time.Now().After(end) {
			t.Fatalf("%s was not carried out: %v", r.Name, err)
		} else if l.Leased {
			cancel()
			return <-done
		}
	}
}

// known makes the row of a name, and has a connection prepare what takes the name. So the next
// acquisition is one statement.
func known(t *testing.T, n *Node, name string) {
	t.Helper()
	for range 2 { // the first time, the row is made
		r := request(name, 0)
		want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
		want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
	}
}

// What was sent and not answered is unknown, and is carried out once at most: by
// database/sql, which tries again by itself, too.
func TestLostReply(t *testing.T) {
	t.Parallel()
	server := testserver.StartPostgres(t)
	u := newSchema(t, server)
	relay, through := through(t, server, u)
	sees, n := alone(t, u), unpinged(t, through)
	for _, of := range []*Node{sees, n} { // nothing else uses its connections, or removes the row that known makes
		of.swept.Store(time.Now().UnixMilli())
	}
	n.db.SetMaxOpenConns(1) // so that it has prepared what it sends
	for what, rule := range map[string]proxy.Rule{"lost": {From: proxy.Effect{Lose: true}},
		"held": {From: proxy.Effect{Hold: true}}} {
		want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("before "+what, 0))))
		known(t, n, what)
		before := registerOf(t, sees, what)
		lift := relay.Impose(rule)
		r := request(what, 0)
		if err := unanswered(t, n, sees, r); err == nil || errors.Is(err, node.ErrNotSent) ||
			!errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
		lift()
		if after := registerOf(t, sees, what); after != before+1 {
			t.Errorf("%s: the register went from %d to %d", what, before, after)
		}
		want(t, node.Held)(sees.Do(t.Context(), as(node.Acquire, request(what, 0))))
		want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
	}
	// A connection that the server has closed meanwhile: nothing was sent on it.
	if _, err := sees.db.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'`); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		before := registerOf(t, sees, fmt.Sprint("closed", i))
		a, err := n.Do(t.Context(), as(node.Acquire, request(fmt.Sprint("closed", i), 0)))
		if after := registerOf(t, sees, fmt.Sprint("closed", i)); after > before+1 ||
			err == nil && (a.Status != node.Granted || after != before+1) || errors.Is(err, node.ErrNotSent) && after != before {
			t.Errorf("%+v, %v: the register went from %d to %d", a, err, before, after)
		}
	}
}

// A server that hangs keeps no caller for longer than its context.
func TestHung(t *testing.T) {
	t.Parallel()
	server := shared()
	u := newSchema(t, server)
	relay, through := through(t, server, u)
	n := alone(t, through)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", 0))))
	lift := relay.Impose(proxy.Rule{To: proxy.Effect{Hold: true}, From: proxy.Effect{Hold: true}})
	for range 2 * maxConnections {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		done := make(chan error, 1)
		go func() {
			_, err := n.Do(ctx, as(node.Acquire, request("b", 0)))
			done <- err
		}()
		select {
		case err := <-done:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Fatal("it hangs as well")
		}
		cancel()
	}
	lift()
}

// An answer that comes after its time costs no connection: a server that was slow for a
// moment is not slower by it.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	server := testserver.StartPostgres(t)
	u := newSchema(t, server)
	relay, through := through(t, server, u)
	sees, n := alone(t, u), unpinged(t, through)
	n.swept.Store(time.Now().UnixMilli()) // nothing else uses its connections
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", 0))))
	for i := range 10 {
		known(t, n, fmt.Sprint("late", i))
	}
	connections := func() (pids string) {
		err := sees.db.QueryRow(`SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE application_name = 'fenlock' AND client_port IS NOT NULL`).Scan(&pids)
		if err != nil {
			t.Fatal(err)
		}
		return pids
	}
	before := connections()
	for i := range 10 {
		lift := relay.Impose(proxy.Rule{From: proxy.Effect{Hold: true}})
		err := unanswered(t, n, sees, request(fmt.Sprint("late", i), 0))
		lift()
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		// until the answer is there
		for end := time.Now().Add(patience); n.db.Stats().InUse > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("a connection is not given back")
			}
		}
	}
	if after := connections(); after != before {
		t.Errorf("the connections were %s, and are %s", before, after)
	}
}

// Each error says what is wrong and what to do, whether waiting helps, and whether
// anything may have happened.
func TestErrors(t *testing.T) {
	t.Parallel()
	server := testserver.StartPostgres(t)
	u := newSchema(t, server)
	admin := open(t, u)
	exec := func(statements ...string) {
		t.Helper()
		for _, s := range statements {
			exec1(t, admin, s)
		}
	}
	as := func(user, rawURL string) string {
		return strings.Replace(rawURL, "//postgres@", "//"+user+":secret@", 1)
	}
	schema := admin.schema
	exec(`CREATE ROLE stranger LOGIN`, `CREATE ROLE slow LOGIN`, `CREATE ROLE reader LOGIN`, `CREATE ROLE snapshot LOGIN`,
		`CREATE ROLE impatient LOGIN`,
		`ALTER ROLE reader SET default_transaction_read_only = on`,
		`ALTER ROLE snapshot SET default_transaction_isolation = 'repeatable read'`,
		`ALTER ROLE impatient SET lock_timeout = 1`, `ALTER ROLE slow CONNECTION LIMIT 0`, `CREATE SCHEMA theirs`,
		`CREATE TABLE theirs.meta (id int)`, `CREATE ROLE leasing LOGIN`)
	for _, role := range []string{"slow", "reader", "snapshot", "impatient", "leasing"} {
		exec(`GRANT USAGE ON SCHEMA "`+schema+`" TO `+role,
			`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "`+schema+`" TO `+role)
	}
	ours := open(t, in(u, "theirs"))
	if err := ours.Migrate(t.Context()); !errors.Is(err, node.ErrMisconfigured) ||
		!strings.Contains(err.Error(), "not fenlock's") {
		t.Errorf("a schema of others: %v", err)
	}
	for what, c := range map[string]struct {
		url      string
		say      string
		lasting  bool
		executed bool
	}{
		"nobody has migrated":   {in(u, "absent"), "fenlock migrate", true, false},
		"other tables":          {in(u, "theirs"), "fenlock migrate", true, false},
		"no database":           {strings.Replace(u, "/postgres?", "/nothing?", 1), "create the database", true, false},
		"no rights":             {as("stranger", u), "GRANT EXECUTE", true, false},
		"no such user":          {as("nobody", u), "check user, password", true, false},
		"read only":             {as("reader", u), "name the primary", true, false},
		"other isolation":       {as("snapshot", u), "default_transaction_isolation", true, false},
		"no connections":        {as("slow", u), "max_connections", false, false},
		"nobody at the address": {strings.Replace(u, server.Addr(), "127.0.0.1:1", 1), "refused", false, false},
	} {
		n := alone(t, c.url)
		a, err := n.Do(t.Context(), asAcquire(request("a", 0)))
		switch {
		case err == nil:
			t.Errorf("%s: %+v", what, a)
		case !strings.Contains(err.Error(), c.say) || !strings.Contains(err.Error(), n.String()) ||
			strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: %v; want %q in it", what, err, c.say)
		case errors.Is(err, node.ErrMisconfigured) != c.lasting || errors.Is(err, node.ErrNotSent) == c.executed:
			t.Errorf("%s: %v: misconfigured %v, not sent %v", what, err, errors.Is(err, node.ErrMisconfigured),
				errors.Is(err, node.ErrNotSent))
		}
	}
	// The rights that docs/postgres.md names are enough, and no more than that.
	want(t, node.Granted)(alone(t, as("leasing", u)).Do(t.Context(), asAcquire(request("mine", 0))))
	twice := alone(t, u)
	if err := twice.Join(node.Group{Nodes: []node.Node{twice}, MaxTTL: shortTTL}); !errors.Is(err, node.ErrInvalid) {
		t.Errorf("joined two groups: %v", err)
	}
	looks := open(t, u) // in no group
	if l, err := looks.Inspect(t.Context(), "mine"); err != nil || !l.Leased || l.Out {
		t.Errorf("inspect: %+v, %v", l, err)
	}
	want(t, node.Granted)(looks.Do(t.Context(), node.Request{Op: node.ForceRelease, Name: "mine"}))

	// Another session is in the way for longer than the server allows.
	tx, err := admin.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	want(t, node.Granted)(alone(t, u).Do(t.Context(), asAcquire(request("a", 0))))
	if _, err := tx.Exec(inSchema(`SELECT FROM fenlock.current WHERE stripe = $1 FOR UPDATE`, schema),
		node.Stripe("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := alone(t, as("impatient", u)).Do(t.Context(), asAcquire(request("a", 0))); err == nil ||
		!strings.Contains(err.Error(), "lock_timeout") || !errors.Is(err, node.ErrNotSent) {
		t.Errorf("a lock timeout: %v", err)
	}
}

func asAcquire(r node.Request) node.Request { return as(node.Acquire, r) }

// A pool that its owner closes is an error, and Close leaves it open.
func TestPoolOfTheCaller(t *testing.T) {
	t.Parallel()
	server := shared()
	u := newSchema(t, server)
	db := stdlib.OpenDB(*configured(t, server.DSN()))
	defer db.Close()
	n := on(t, db, open(t, u).schema)
	want(t, node.Granted)(n.Do(t.Context(), asAcquire(request("a", 0))))
	listen(t, n, ids(1)[0])
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Ping(); err != nil {
		t.Errorf("the pool after Close: %v", err)
	}
	if _, err := n.Do(t.Context(), asAcquire(request("a", 0))); !errors.Is(err, node.ErrNotSent) {
		t.Errorf("after Close: %v", err)
	}
	n = on(t, db, n.schema)
	db.Close()
	if _, err := n.Do(t.Context(), asAcquire(request("a", 0))); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("a pool that is closed: %v", err)
	}
	for what, f := range map[string]func() (*Node, error){
		"no pool":      func() (*Node, error) { return New(nil, "a", "") },
		"no name":      func() (*Node, error) { return New(db, "", "") },
		"a bad schema": func() (*Node, error) { return New(db, "a", `x"; DROP`) },
	} {
		if _, err := f(); !errors.Is(err, node.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Migrate can be repeated, by several at once, and needs no more than a schema of its own.
func TestMigrate(t *testing.T) {
	t.Parallel()
	server := testserver.StartPostgres(t)
	n := open(t, in(server.DSN(), "fresh"))
	done := make(chan error)
	for range 4 {
		go func() { done <- n.Migrate(context.Background()) }()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := n.Migrate(t.Context()); err != nil {
		t.Error(err)
	}
	for _, s := range []string{`CREATE ROLE builder LOGIN`, `CREATE SCHEMA given AUTHORIZATION builder`} {
		if _, err := n.db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	builder := alone(t, strings.Replace(in(server.DSN(), "given"), "//postgres@", "//builder@", 1))
	if err := builder.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, node.Granted)(builder.Do(t.Context(), asAcquire(request("a", 0))))
	if _, err := n.db.Exec(`UPDATE fresh.meta SET value = '9' WHERE key = 'format'`); err != nil {
		t.Fatal(err)
	}
	if err := n.Migrate(t.Context()); !errors.Is(err, node.ErrMisconfigured) || !strings.Contains(err.Error(), "format") {
		t.Errorf("a newer format: %v", err)
	}
}

// However much has expired since the last sweep, one removes it, in transactions that remove a part
// each.
func TestSweepKeepsUp(t *testing.T) {
	t.Parallel()
	server := shared()
	n := alone(t, newSchema(t, server))
	held := request("held", 0)
	want(t, node.Granted)(n.Do(t.Context(), asAcquire(held)))
	for _, statement := range []string{
		`INSERT INTO fenlock.leases SELECT 'gone' || i::text::bytea, i % 4096, CASE WHEN i % 2 = 0 THEN 'a holder'::bytea END, 1, 1, 1, true FROM generate_series(1, 50000) AS i`,
		`INSERT INTO fenlock.current SELECT i, 1, 1, 'gone' || i::text::bytea, NULL, 1, 1, 1, false, true FROM generate_series(0, 4095) AS i ON CONFLICT DO NOTHING`,
		`INSERT INTO fenlock.readers SELECT 'gone' || i::text::bytea, 'somebody', 1, 1, 1 FROM generate_series(1, 25000) AS i`,
		`INSERT INTO fenlock.queues SELECT 'gone' || i::text::bytea, 1 FROM generate_series(1, 5000) AS i`,
		`INSERT INTO fenlock.waiters SELECT 'gone' || i::text::bytea, 1, 'somebody' FROM generate_series(1, 5000) AS i`,
		`UPDATE fenlock.sweeps SET at = 0`,
	} {
		if _, err := n.db.Exec(inSchema(statement, n.schema)); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	n.swept.Store(0)
	want(t, node.Granted)(n.Do(t.Context(), asAcquire(request("one more", 0))))
	left := func() (all string) {
		if err := n.db.QueryRow(inSchema(`SELECT concat_ws(' ', (SELECT count(*) FROM fenlock.held), (SELECT count(*) FROM fenlock.readers),
			(SELECT count(*) FROM fenlock.queues), (SELECT count(*) FROM fenlock.waiters))`, n.schema)).Scan(&all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	for deadline := time.Now().Add(patience); left() != "2 0 0 0"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s leases, readers, queues and waiters are there, and only 2 leases have not expired", left())
		}
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, held)))
}

// A client asks for a sweep once a minute. A moment less on the server's clock is not too soon, or
// the client would sweep every other minute.
func TestSweepIsDue(t *testing.T) {
	t.Parallel()
	n := open(t, newSchema(t, shared()))
	for _, c := range []struct {
		age string
		due bool
	}{{"1000000", true}, {"59000", true}, {"0", false}, {"-59000", true}} {
		exec1(t, n, inSchema(`INSERT INTO fenlock.sweeps VALUES (true, fenlock.clock() / 1000 - $1::bigint)
			ON CONFLICT (one) DO UPDATE SET at = excluded.at`, n.schema), c.age)
		var due bool
		if err := n.query(t.Context(), n.sql.sweep, []any{1}, &due); err != nil || due != c.due {
			t.Errorf("%s ms after the last sweep: %v, %v", c.age, due, err)
		}
	}
}

func TestURL(t *testing.T) {
	t.Parallel()
	for _, good := range []struct{ url, name string }{
		{"postgres://u:p@db.example/app", "db.example/app"},
		{"postgresql://u@127.0.0.1:5433/app?sslmode=disable&schema=locks", "127.0.0.1:5433/app/locks"},
		{"postgres://u@a:1,b:2/app?target_session_attrs=read-write", "a:1,b:2/app"},
		{"postgres://u@%2Frun%2Fpg,%2Fvar:5433/app", "/run/pg,/var:5433/app"},
		{"postgres://u@h", "h/u"},
		{"postgres://u@[::1]:5432/app?name=one", "[::1]:5432/app"},
	} {
		n, err := Open(good.url)
		if err != nil {
			t.Errorf("%s: %v", good.url, err)
			continue
		}
		if n.String() != good.name {
			t.Errorf("%s is %s", good.url, n)
		}
		n.Close()
	}
	const secret = "pa55word"
	for _, bad := range []string{ // what package engine refuses is in its tests
		"mysql://u:" + secret + "@h/d", "postgres:opaque", "postgres://u:" + secret + "@h/d?sslmod=disable",
		"postgres://u:" + secret + "@h/d?schema=a-b", "postgres://u:" + secret + "@h/d?sslrootcert=/does/not/exist",
		"postgres://u:" + secret + "@h/d?option=-c%20fsync%3Doff", "postgres://u:" + secret + "@h/d?password=" + secret,
	} {
		n, err := Open(bad)
		if !errors.Is(err, node.ErrInvalid) {
			t.Errorf("%s: %v, %v", bad, n, err)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("the password is in %v", err)
		}
	}
	// Far away, who the server is has to be proven unless the URL says otherwise.
	for url, verified := range map[string]bool{"postgres://u@db/a": true, "postgres://u@db/a?sslmode=require": false,
		"postgres://u@localhost/a": false, "postgres://u@localhost,db/a": true} {
		n := open(t, url)
		if c := n.own.TLSConfig; (c != nil && !c.InsecureSkipVerify) != verified {
			t.Errorf("%s: verified %v", url, !verified)
		}
	}
}

// A server that says ERROR has rolled back. A pooler that says so of a broken connection does not
// know. Nor does an error without the word that is never translated tell.
func TestUndone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		severity, code string
		undone         bool
	}{{"ERROR", deadlock, true}, {"ERROR", canceled, true}, {"FATAL", canceled, false}, {"", "08P01", false},
		{"", canceled, false}, {"ERROR", "08P01", false}, {"ERROR", "08006", false}, {"ERROR", "57P01", false},
		{"PANIC", "XX000", false}} {
		if got := undone(&pgconn.PgError{SeverityUnlocalized: c.severity, Severity: "ERROR", Code: c.code}); got != c.undone {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
