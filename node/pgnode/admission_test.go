package pgnode

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/nodetest"
)

func TestAdmission(t *testing.T) { // not beside others: it counts goroutines
	server := shared()
	nodetest.RunAdmission(t, func(t *testing.T) nodetest.Admission {
		t.Parallel()
		c := cluster{server, t, open(t, server.DSN())}
		name := c.database()
		return nodetest.Admission{
			Open: func() node.Node { return open(t, c.url(name)) },
			Wipe: func() {
				n := open(t, c.url(name))
				exec1(t, n, `DROP SCHEMA fenlock CASCADE`)
				if err := n.Migrate(t.Context()); err != nil {
					t.Fatal(err)
				}
			},
			Copy: func() (restore func()) {
				saved := c.copied(name)
				return func() { c.rename(saved, name) }
			},
			Wait: time.Sleep,
		}
	})
}

// patient sends an operation again where a connection was ended.
func patient(t testing.TB, n *Node, r node.Request) (a node.Answer, err error) {
	t.Helper()
	for range maxConnections + 1 {
		if a, err = n.Do(t.Context(), r); err == nil {
			break
		}
	}
	return a, err
}

// admitted has a node admitted, as if it had waited for the longest lease.
func admitted(t testing.TB, n *Node) {
	t.Helper()
	f, err := (admission{n}).Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if done, err := (admission{n}).Mark(t.Context(), f, n.admission.Terms(), nil); err != nil || !done {
		t.Fatal(done, err)
	}
}

// A schema that is made again forgets its leases. The first client to come waits for the longest of
// them, from when it was made. It does so also alone, and whatever is said of a database that was
// used.
func TestSchemaMadeAgain(t *testing.T) {
	t.Parallel()
	server := shared()
	n := open(t, newSchema(t, server))
	take(t, join(t, n, shortTTL, true), "a")
	lost := time.Now()
	exec1(t, n, `DROP SCHEMA fenlock CASCADE`)
	if err := n.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := join(t, open(t, in(server.DSN(), n.schema)), shortTTL, false)
	a, err := again.Do(t.Context(), asAcquire(request("a", 0)))
	// A machine may need longer for a connection than the schema is out.
	if late := time.Since(lost) >= admit.Quarantine(shortTTL); err != nil || a.Status != node.Rejoining && !late {
		t.Errorf("%+v, %v", a, err)
	} else if !late && (a.Absence.Cause != node.Unused || a.Absence.Wait <= 0 ||
		a.Absence.Wait > admit.Quarantine(shortTTL)) {
		t.Errorf("%+v", a.Absence)
	}
	returns(t, again, "a", lost)

	// It has waited before a client came.
	waited := open(t, newSchema(t, server))
	time.Sleep(admit.Quarantine(shortTTL) + 10*time.Millisecond)
	take(t, join(t, waited, shortTTL, false), "a")
}

// The database gets to be out while an operation is under way that has seen that it votes. Its
// lease is gone once the loss is noted, and the loss is not noted before; nor by a client whose
// transactions do not see the lease.
func TestStrayLease(t *testing.T) {
	t.Parallel()
	server := testserver.StartPostgres(t)
	u := newSchema(t, server)
	n, other := short(t, u), short(t, u)
	exec1(t, n, `CREATE ROLE snapshot LOGIN SUPERUSER`)
	exec1(t, n, `ALTER ROLE snapshot SET default_transaction_isolation = 'repeatable read'`)
	snapshot := short(t, strings.Replace(u, "//postgres@", "//snapshot@", 1))
	n.swept.Store(time.Now().UnixMilli()) // the row of a free name stays
	take(t, n, "warm")
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", 0)))) // its row is there
	want(t, node.Granted)(n.Do(t.Context(), as(node.ForceRelease, node.Request{Name: "a"})))
	tx, err := other.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec(inSchema(`SELECT FROM fenlock.current WHERE stripe = $1 FOR UPDATE`, n.schema),
		node.Stripe("a")); err != nil {
		t.Fatal(err)
	}
	waiting := func(count int) {
		t.Helper()
		var found int
		for end := time.Now().Add(patience); found < count; time.Sleep(5 * time.Millisecond) {
			if err := other.db.QueryRow(
				`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`).Scan(&found); err != nil ||
				time.Now().After(end) {
				t.Fatalf("%d wait for a lock, not %d: %v", found, count, err)
			}
		}
	}
	r := request("a", 0)
	r.TTL = time.Hour
	granted := make(chan node.Answer, 1)
	go func() {
		a, _ := n.Do(t.Context(), as(node.Acquire, r))
		granted <- a
	}()
	waiting(1)
	exec1(t, n, `DELETE FROM fenlock.memory`)
	f, err := (admission{other}).Facts(t.Context())
	if err != nil || f.Marked || f.Counted {
		t.Fatalf("%+v, %v", f, err)
	}
	if done, err := (admission{snapshot}).Note(t.Context(), f); done || !errors.Is(err, node.ErrMisconfigured) ||
		!strings.Contains(err.Error(), "default_transaction_isolation") {
		t.Errorf("a loss is noted by a snapshot: %v, %v", done, err)
	}
	noted := make(chan error, 1)
	go func() {
		done, err := (admission{other}).Note(t.Context(), f)
		if err == nil && !done {
			err = errors.New("it noted nothing")
		}
		noted <- err
	}()
	waiting(2)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-noted; err != nil {
		t.Fatal(err)
	}
	if a := <-granted; a.Status != node.Granted {
		t.Fatalf("%+v: the test tests nothing", a)
	}
	if l, err := other.Inspect(t.Context(), "a"); err != nil || l.Leased {
		t.Errorf("the lease is there: %+v, %v", l, err)
	}
}

// A client that is paused between two steps does nothing to a database that has changed since.
func TestPausedBetweenSteps(t *testing.T) {
	t.Parallel()
	server := testserver.StartPostgres(t)
	u := newSchema(t, server)
	n := short(t, u)
	s, ctx := admission{n}, t.Context()
	own := n.admission.Terms()
	facts := func() admit.Facts {
		t.Helper()
		f, err := s.Facts(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	step := func(what string, want bool) func(bool, error) {
		return func(done bool, err error) {
			t.Helper()
			if err != nil || done != want {
				t.Errorf("%s: %v, %v", what, done, err)
			}
		}
	}
	fresh := facts()
	if fresh.Recorded || fresh.Votes || !fresh.Counted || fresh.Cause != node.Unused || fresh.Memory == "" {
		t.Errorf("a schema that was just made says %+v", fresh)
	}
	step("a note of what was noted", true)(s.Note(ctx, fresh))
	step("twice", false)(s.Note(ctx, fresh))
	step("a mark for a memory that is gone", false)(s.Mark(ctx, fresh, own, nil))
	out := facts()
	if !out.Recorded || out.Memory == fresh.Memory {
		t.Errorf("%+v after %+v", out, fresh)
	}
	for _, token := range []fence.Token{900, 1000} {
		if err := s.Raise(ctx, out, map[int]fence.Token{7: token}); err != nil {
			t.Fatal(err)
		}
	}
	step("a mark", true)(s.Mark(ctx, out, own, []string{"one", "two"}))
	step("twice", false)(s.Mark(ctx, out, own, nil))
	step("a note of what was before the mark", false)(s.Note(ctx, out))
	marked := facts()
	step("a mark for a database that votes", false)(s.Mark(ctx, marked, own, nil))
	if !marked.Votes || marked.Terms.MaxTTL != shortTTL || fmt.Sprint(marked.Empty) != "[one two]" ||
		marked.Memory != out.Memory {
		t.Errorf("%+v", marked)
	}
	// Registers that are raised long after do not go down, and the database votes.
	if err := s.Raise(ctx, out, map[int]fence.Token{7: 10}); err != nil {
		t.Fatal(err)
	}
	if r, err := n.Registers(ctx); err != nil || !r.Admitted || r.Tokens[7] != 1000 {
		t.Errorf("%+v, %v", r, err)
	}
	// Other terms are recorded by now.
	exec1(t, n, `TRUNCATE fenlock.memory`)
	step("a note of what was marked", false)(s.Note(ctx, marked))
	lost := facts()
	step("a note of a loss", true)(s.Note(ctx, lost))
	lost = facts()
	exec1(t, n, `UPDATE fenlock.meta SET value = '9000 alone' WHERE key = 'terms'`)
	step("a mark under terms that have changed", false)(s.Mark(ctx, lost, own, nil))
	// And where the server crashed meanwhile.
	server.Kill()
	server.Start()
	for range maxConnections {
		if _, err := s.Facts(ctx); err == nil {
			break
		}
	}
	step("a note of before the crash", false)(s.Note(ctx, lost))
}

// content is all that the tables have, for a test that nothing is written.
func content(t testing.TB, n *Node) (all string) {
	t.Helper()
	for _, table := range []string{"meta", "registers", "memory", "current", "leases", "readers"} {
		var rows string
		if err := n.db.QueryRow(inSchema(`SELECT coalesce(string_agg(x::text, ';' ORDER BY x::text), '') FROM fenlock.`+table+
			` AS x`, n.schema)).Scan(&rows); err != nil {
			t.Fatal(err)
		}
		all += table + ": " + rows + "\n"
	}
	return all
}

// Each thing that does not fit has an error of its own that says what, and nothing is written.
func TestWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	server := shared()
	for what, c := range map[string]struct {
		change []string
		group  func(n, other *Node, g *node.Group)
		says   []string
	}{
		"another MaxTTL": {group: func(_, _ *Node, g *node.Group) { g.MaxTTL = 2 * shortTTL },
			says: []string{"MaxTTL", "1.5s", "3s"}},
		"another group": {group: func(n, other *Node, g *node.Group) { g.Nodes = []node.Node{n, other} },
			says: []string{"another group", "alone"}},
		"a newer format": {change: []string{`UPDATE fenlock.meta SET value = '99' WHERE key = 'format'`,
			`TRUNCATE fenlock.memory`}, says: []string{`format "99"`, "update this program"}},
		"a newer format, other tables": {change: []string{`UPDATE fenlock.meta SET value = '99' WHERE key = 'format'`,
			`ALTER FUNCTION fenlock.serve` + format + ` RENAME TO serve99`},
			says: []string{`format "99"`, "update this program"}},
		"an older format": {change: []string{`UPDATE fenlock.meta SET value = '1' WHERE key = 'format'`,
			`ALTER FUNCTION fenlock.serve` + format + ` RENAME TO serve`}, says: []string{`format "1"`, "DROP SCHEMA"}},
		"two terms": {change: []string{`UPDATE fenlock.meta SET value = '9000 alone' WHERE key = 'terms'`},
			group: func(_, _ *Node, g *node.Group) { g.MaxTTL = 9 * time.Second },
			says:  []string{"meta and memory", "9000 alone", "1500 alone"}},
		"no terms": {change: []string{`UPDATE fenlock.meta SET value = 'whatever' WHERE key = 'terms'`,
			`TRUNCATE fenlock.memory`}, says: []string{"whatever", "no fenlock wrote"}},
		"a mark without a name": {change: []string{`UPDATE fenlock.memory SET id = ''`},
			says: []string{"not with which memory"}},
		"a memory that survives a crash": {change: []string{`ALTER TABLE fenlock.memory SET LOGGED`},
			says: []string{"SET UNLOGGED"}},
		"the same, after a crash": {change: []string{`ALTER TABLE fenlock.memory SET LOGGED`, `TRUNCATE fenlock.memory`},
			says: []string{"SET UNLOGGED"}},
		"registers that survive none": {change: []string{`ALTER TABLE fenlock.registers SET UNLOGGED`,
			`TRUNCATE fenlock.memory`}, says: []string{"SET UNLOGGED"}},
		"facts that survive none": {change: []string{`ALTER TABLE fenlock.meta SET UNLOGGED`, `TRUNCATE fenlock.memory`},
			says: []string{"SET UNLOGGED"}},
	} {
		u := newSchema(t, server)
		n := short(t, u)
		take(t, n, "a")
		for _, statement := range c.change {
			exec1(t, n, statement)
		}
		before := content(t, n)
		other := open(t, u)
		g := node.Group{Nodes: []node.Node{other}, MaxTTL: shortTTL, New: true}
		if c.group != nil {
			c.group(other, n, &g)
		}
		if err := other.Join(g); err != nil {
			t.Fatal(err)
		}
		r := request("b", 0)
		for _, op := range []node.Op{node.Acquire, node.Extend, node.Confirm} {
			a, err := other.Do(t.Context(), as(op, r))
			if !errors.Is(err, node.ErrMisconfigured) || !errors.Is(err, node.ErrNotSent) {
				t.Errorf("%s: %+v, %v", what, a, err)
				continue
			}
			for _, word := range c.says {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%s: %q is not in %v", what, word, err)
				}
			}
			if strings.Count(err.Error(), "postgres "+other.String()) > 1 {
				t.Errorf("%s: it repeats itself: %v", what, err)
			}
		}
		if after := content(t, n); !strings.HasPrefix(after, before) &&
			withoutEmptyRegister(after) != withoutEmptyRegister(before) {
			t.Errorf("%s: there was\n%s and is\n%s", what, before, after)
		}
	}
}

// withoutEmptyRegister leaves out the row of a register that no number was promised of.
func withoutEmptyRegister(content string) string {
	return strings.ReplaceAll(content, fmt.Sprintf(";(%d,0,0)", node.Stripe("b")), "")
}

// Clients that reach a group of one by other names agree.
func TestAliasOfAGroupOfOne(t *testing.T) {
	t.Parallel()
	server := shared()
	u := newSchema(t, server)
	take(t, short(t, u), "a")
	take(t, short(t, u+"&name=other"), "b")
	// Terms that the operator answers for.
	n := short(t, u)
	exec1(t, n, `UPDATE fenlock.meta SET value = '1500 *' WHERE key = 'terms'`)
	exec1(t, n, `TRUNCATE fenlock.memory`)
	returns(t, n, "c", time.Now())
	other := open(t, u)
	if err := other.Join(node.Group{Nodes: []node.Node{other, n}, MaxTTL: shortTTL}); err != nil {
		t.Fatal(err)
	}
	take(t, other, "d")
}

// What the first to come waits for, and what a person should know of standbys, is found out by
// looking, which changes nothing.
func TestExamine(t *testing.T) {
	t.Parallel()
	primary := testserver.StartPostgres(t)
	u := newSchema(t, primary)
	n := open(t, u)
	before := content(t, n)
	e, err := n.Examine(t.Context(), node.Look{MaxTTL: time.Hour})
	if err != nil || e.Admitted || e.Wait < 50*time.Minute || e.Wait > admit.Quarantine(time.Hour) || e.Memory == "" ||
		e.Server == "" {
		t.Errorf("a schema that is new: %+v, %v", e, err)
	}
	if after := content(t, n); after != before {
		t.Errorf("there was\n%s and is\n%s", before, after)
	}
	take(t, short(t, u), "a")
	standby := func() (found []node.Finding) {
		t.Helper()
		e, err := n.Examine(t.Context(), node.Look{})
		if err != nil || !e.Admitted || e.MaxTTL != shortTTL || e.Members != nil {
			t.Fatalf("%+v, %v", e, err)
		}
		for _, f := range e.Findings {
			if f.Check == "standby" {
				found = append(found, f)
			}
		}
		return found
	}
	if found := standby(); found != nil {
		t.Errorf("a server without standbys: %+v", found)
	}
	primary.Replica()
	exec1(t, n, `SELECT pg_create_physical_replication_slot('gone')`)
	// until it is connected
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var follow int
		if err := n.db.QueryRow(
			`SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'`).Scan(&follow); err != nil || follow > 0 {
			break
		}
	}
	found := standby()
	if len(found) != 1 || found[0].Severity != node.Warning ||
		!strings.HasPrefix(found[0].Reason, "1 standbys follow this server, and 1 did") || found[0].Advice == "" {
		t.Errorf("%+v", found)
	}
	// A user without rights sees that there are some.
	exec1(t, n, `CREATE ROLE looks LOGIN`)
	exec1(t, n, `GRANT USAGE ON SCHEMA `+n.schema+` TO looks`)
	exec1(t, n, `GRANT SELECT ON ALL TABLES IN SCHEMA `+n.schema+` TO looks`)
	n = open(t, strings.Replace(u, "//postgres@", "//looks@", 1))
	if found := standby(); len(found) != 1 ||
		!strings.HasPrefix(found[0].Reason, "1 standbys follow this server, and 1 did") {
		t.Errorf("%+v", found)
	}
}
