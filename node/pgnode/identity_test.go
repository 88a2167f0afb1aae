package pgnode

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// cluster is a server whose databases a test makes, copies and renames.
type cluster struct {
	*testserver.Postgres
	t     testing.TB
	admin *Node
}

var databases atomic.Int64

func newCluster(t testing.TB) cluster {
	return cluster{shared(), t, open(t, shared().DSN())}
}

func (c cluster) exec(statements ...string) {
	c.t.Helper()
	for _, s := range statements {
		if _, err := c.admin.db.Exec(s); err != nil {
			c.t.Fatalf("%s: %v", s, err)
		}
	}
}

// url leads to fenlock's schema in a database.
func (c cluster) url(database string) string {
	return strings.Replace(c.DSN(), "/postgres?", "/"+database+"?", 1)
}

// database makes a database with fenlock's schema.
func (c cluster) database() (name string) {
	c.t.Helper()
	name = fmt.Sprint("db_", databases.Add(1))
	c.exec("CREATE DATABASE " + name)
	if err := open(c.t, c.url(name)).Migrate(context.Background()); err != nil {
		c.t.Fatal(err)
	}
	return name
}

// end ends the connections to a database, which can be copied or renamed then.
func (c cluster) end(database string) {
	c.t.Helper()
	c.exec(fmt.Sprintf(`SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE datname = '%s'`, database))
}

// copied returns the name of a copy of a database.
func (c cluster) copied(database string) (name string) {
	c.t.Helper()
	name = fmt.Sprint("db_", databases.Add(1))
	c.end(database)
	c.exec(fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", name, database))
	return name
}

// rename has a database take a name, whose database is called what it returns from then on.
func (c cluster) rename(database, to string) (aside string) {
	c.t.Helper()
	aside = fmt.Sprint("db_", databases.Add(1))
	c.end(database)
	c.end(to)
	c.exec(fmt.Sprintf("ALTER DATABASE %s RENAME TO %s", to, aside),
		fmt.Sprintf("ALTER DATABASE %s RENAME TO %s", database, to))
	return aside
}

// A copy by TEMPLATE has the unlogged tables, byte for byte, and takes the name of the database.
func TestCopyByTemplate(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	name := c.database()
	n := short(t, c.url(name))
	take(t, n, "free")
	saved := c.copied(name)
	before, err := n.Registers(t.Context())
	for range maxConnections { // connections that were ended
		if err == nil {
			break
		}
		before, err = n.Registers(t.Context())
	}
	if err != nil || !before.Admitted {
		t.Fatalf("%+v, %v", before, err)
	}
	r := request("a", 0)
	r.TTL = time.Hour
	a, err := patient(t, n, as(node.Acquire, r))
	token := want(t, node.Granted)(a, err).Register
	lost := time.Now()
	readers := request("shared", 0)
	readers.TTL, readers.Shared = time.Hour, true
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, readers)))
	late := c.copied(name) // with the leases
	c.rename(saved, name)  // which does not know of the token either: an old backup
	other := short(t, c.url(name))
	if r, err := other.Registers(t.Context()); err != nil || r.Admitted || r.Memory == "" || r.Memory == before.Memory {
		t.Errorf("the copy says %+v, %v, and the original said %+v", r, err, before)
	}
	if a := want(t, node.Rejoining)(other.Do(t.Context(), asAcquire(request("a", 0)))); a.Absence.Cause != node.Replaced {
		t.Errorf("%+v", a.Absence)
	}
	if f, err := (admission{other}).Facts(t.Context()); err != nil || f.Marked || f.Votes {
		t.Errorf("%+v, %v", f, err)
	}
	returns(t, other, "a", lost)

	// The leases that are in the copy are not there any more when it votes.
	c.rename(late, name)
	lost = time.Now()
	last := short(t, c.url(name))
	returns(t, last, "b", lost)
	if l, err := last.Inspect(t.Context(), "a"); err != nil || l.Leased || l.Out {
		t.Errorf("%+v, %v", l, err)
	}
	var left int
	if err := last.db.QueryRow(`SELECT count(*) FROM fenlock.readers`).Scan(&left); err != nil || left > 0 {
		t.Errorf("%d who shared a name are left: %v", left, err)
	}
	if a, err := last.Do(t.Context(), as(node.Extend, r)); err != nil || a.Register <= token {
		t.Errorf("a lease of before is extended with %+v, %v, where %d was promised", a, err, token)
	}
}

// Two databases that both vote, of which one takes the name of the other. Nothing in it has
// changed, and the leases that its new clients have are not there.
func TestDatabaseThatTakesAName(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	one, two := c.database(), c.database()
	take(t, short(t, c.url(one)), "a")
	take(t, short(t, c.url(two)), "b")
	c.rename(two, one)
	returns(t, short(t, c.url(one)), "a", time.Now())
}

// The functions name their schema, so that one which is renamed does not work.
func TestSchemaThatTakesAName(t *testing.T) {
	t.Parallel()
	server := testserver.StartPostgres(t)
	n, other := short(t, newSchema(t, server)), short(t, newSchema(t, server))
	take(t, n, "a")
	take(t, other, "b")
	exec1(t, n, fmt.Sprintf(`ALTER SCHEMA %s RENAME TO aside`, n.schema))
	exec1(t, n, fmt.Sprintf(`ALTER SCHEMA %s RENAME TO %s`, other.schema, n.schema))
	if a, err := short(t, in(server.DSN(), n.schema)).Do(t.Context(), asAcquire(request("a", 0))); !errors.Is(err,
		node.ErrMisconfigured) {
		t.Errorf("%+v, %v", a, err)
	}
}

// The server's identity is compared though only the owner of the schema may know it.
func TestIdentityIsTheSameForAll(t *testing.T) {
	t.Parallel()
	server := testserver.StartPostgres(t)
	u := newSchema(t, server)
	n := short(t, u)
	exec1(t, n, `REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC`)
	exec1(t, n, `CREATE ROLE unknowing LOGIN`)
	exec1(t, n, `GRANT USAGE ON SCHEMA `+n.schema+` TO unknowing`)
	exec1(t, n, `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA `+n.schema+` TO unknowing`)
	other := short(t, strings.Replace(u, "//postgres@", "//unknowing@", 1))
	take(t, n, "a")
	take(t, other, "b")
	take(t, n, "c")
	one, err := n.Registers(t.Context())
	two, err2 := other.Registers(t.Context())
	if err != nil || err2 != nil || one.Server != two.Server || !one.Admitted || !two.Admitted {
		t.Errorf("%+v, %v beside %+v, %v", one, err, two, err2)
	}
}

// No operation pays for knowing which database it is in: the plan has it as a constant.
func TestHomeIsAConstant(t *testing.T) {
	t.Parallel()
	server := shared()
	n := open(t, newSchema(t, server))
	var plan strings.Builder
	err := n.each(t.Context(), inSchema(
		`EXPLAIN (VERBOSE, COSTS off) SELECT m.home = fenlock.home() FROM fenlock.memory AS m`, n.schema), nil,
		func(scan func(...any) error) error {
			var line string
			err := scan(&line)
			fmt.Fprintln(&plan, line)
			return err
		})
	if err != nil || strings.Contains(plan.String(), "home()") {
		t.Errorf("%v:\n%s", err, plan.String())
	}
}

// A client goes on with the usual statements in a copy of the database, which has its leases, byte
// for byte.
func TestUsualOperationsInACopy(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	name := c.database()
	n := short(t, c.url(name))
	known(t, n, "free")
	held, _ := take(t, n, "held")
	late := c.copied(name)
	c.rename(late, name)
	for _, r := range []node.Request{as(node.Extend, held), as(node.Acquire, request("free", 0))} {
		if r.TTL = shortTTL; !n.usual(r) {
			t.Fatalf("%v is not begun by a usual statement", r.Op)
		}
		a, err := n.Do(t.Context(), r)
		for i := 0; err != nil && i < 2*maxConnections; i++ { // connections that were ended
			a, err = n.Do(t.Context(), r)
		}
		if a := want(t, node.Rejoining)(a, err); a.Absence.Cause != node.Replaced {
			t.Errorf("%v: %+v", r.Op, a.Absence)
		}
	}
}
