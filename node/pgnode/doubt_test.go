package pgnode

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// What is not known to be whole is not believed.

// elsewhere returns the URL of a schema on another server.
func elsewhere(server *testserver.Postgres, n *Node) string { return in(server.DSN(), n.schema) }

func restore(t *testing.T, to *testserver.Postgres, dump []byte) {
	t.Helper()
	psql := exec.Command("psql", "-q", "-v", "ON_ERROR_STOP=1", to.DSN())
	psql.Stdin = bytes.NewReader(dump)
	if output, err := psql.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}

func exec1(t *testing.T, n *Node, statement string, args ...any) {
	t.Helper()
	if _, err := n.db.Exec(inSchema(statement, n.schema), args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// A replica that was promoted before it heard of the schema's first use does not take it for one
// that was never used.
func TestFirstUseIsLost(t *testing.T) {
	t.Parallel()
	primary := testserver.StartPostgres(t)
	n := short(t, newSchema(t, primary))
	replica := primary.Replica()
	replica.Stop()
	take(t, n, "a")
	primary.Kill()
	lost := time.Now()
	replica.Start()
	replica.Promote()
	returns(t, short(t, elsewhere(replica, n)), "a", lost)
}

// Nor does a server into which the schema was restored without its rows, or with those from
// before the first use.
func TestRestoredBeforeFirstUse(t *testing.T) {
	t.Parallel()
	server := testserver.StartPostgres(t)
	n := short(t, newSchema(t, server))
	full := server.Dump()
	bare, err := exec.Command("pg_dump", "--schema-only", server.DSN()).Output()
	if err != nil {
		t.Fatal(err)
	}
	take(t, n, "a")
	other := testserver.StartPostgres(t)
	restore(t, other, full)
	if a := want(t, node.Rejoining)(short(t, elsewhere(other, n)).Do(t.Context(),
		asAcquire(request("a", 0)))); a.Absence.Wait <= 0 {
		t.Errorf("%+v", a)
	}
	other = testserver.StartPostgres(t)
	restore(t, other, bare)
	if a, err := short(t, elsewhere(other, n)).Do(t.Context(), asAcquire(request("a", 0))); !errors.Is(err,
		node.ErrMisconfigured) || !strings.Contains(err.Error(), "without its rows") {
		t.Errorf("without rows: %+v, %v", a, err)
	}
}

// Transactions of two servers may have one number: those of young ones are small.
func TestDumpWithTheSameNumber(t *testing.T) {
	t.Parallel()
	server := testserver.StartPostgres(t)
	n := short(t, newSchema(t, server))
	_, token := take(t, n, "a")
	exec1(t, n, `UPDATE fenlock.registers SET reserved = reserved + 5`) // as if more had been promised
	dump := server.Dump()
	other := testserver.StartPostgres(t)
	restore(t, other, dump)
	restored := short(t, elsewhere(other, n))
	exec1(t, restored, `UPDATE fenlock.memory SET made = fenlock.me()`) // the same number
	if a, err := restored.Do(t.Context(), asAcquire(request("b", 0))); err != nil || a.Status != node.Rejoining {
		t.Errorf("%+v, %v", a, err)
	}
	// Of the registers, those count that were written ahead.
	r, err := restored.Registers(t.Context())
	if err != nil || r.Admitted || r.Tokens[node.Stripe("a")] < token+600_000_000 {
		t.Errorf("registers %d of a dump, where %d was promised: %v", r.Tokens[node.Stripe("a")], token, err)
	}
}

// A label is UTF-8 whatever the encoding of the database.
func TestLabelInAnotherEncoding(t *testing.T) {
	t.Parallel()
	server := testserver.StartPostgres(t)
	if _, err := open(t, server.DSN()).db.Exec(
		`CREATE DATABASE eucjp ENCODING 'EUC_JP' LOCALE 'C' TEMPLATE template0`); err != nil {
		t.Fatal(err)
	}
	u := strings.Replace(server.DSN(), "/postgres?", "/eucjp?", 1)
	if err := open(t, u).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := alone(t, u)
	told := listen(t, n, clients[0])
	r := request("a", 0)
	want(t, node.Granted)(n.Do(t.Context(), asAcquire(r)))
	want(t, node.Held)(n.Do(t.Context(), asAcquire(asks("a", clients[0]+":1:€", 1))))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
	if waiter := told.next(t); waiter != clients[0]+":1" {
		t.Errorf("%q was notified", waiter)
	}
}

// A request that waits for an admission that another has begun waits no longer than its context.
func TestAdmissionThatHangs(t *testing.T) {
	t.Parallel()
	server := shared()
	u := newSchema(t, server)
	n, other := alone(t, u), open(t, u)
	tx, err := other.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec(inSchema(`SELECT FROM fenlock.meta FOR UPDATE`, other.schema)); err != nil {
		t.Fatal(err)
	}
	first, end := context.WithCancel(t.Context())
	defer end()
	begun := make(chan error, 1)
	go func() {
		_, err := n.Do(first, asAcquire(request("a", 0)))
		begun <- err
	}()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		a, err := n.Do(ctx, asAcquire(request("a", 0)))
		cancel()
		if err == nil && a.Absence.Cause == node.UnderWay {
			break
		} else if time.Now().After(deadline) || err == nil && a.Status != node.Rejoining {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	select {
	case err := <-begun:
		t.Errorf("the other one is over: %v", err)
	default:
		end()
		<-begun
	}
}
