package mysqlnode_test

import (
	"errors"
	"testing"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// statements is how many SELECT and UPDATE statements a server has had.
func statements(t testing.TB, s *testserver.MariaDB) (selects, updates int) {
	t.Helper()
	query(t, s, `SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Com_update'`, &updates)
	query(t, s, `SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Com_select'`, &selects)
	return selects, updates
}

// An operation on what this process has written last is one statement. What was read before may be
// old, on a member of a cluster that lags behind. So nothing is granted without a write, which
// fails then; refusals write nothing.
func TestOperationIsOneStatement(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	n := ready(t, s)
	lock := take(t, n, "a")
	selects, updates := statements(t, s)
	for _, r := range []node.Request{as(node.Extend, lock), as(node.Confirm, lock), as(node.Release, lock),
		as(node.Acquire, lock)} {
		want(t, node.Granted)(n.Do(t.Context(), r))
	}
	selectsAfter, updatesAfter := statements(t, s)
	if own := 2; selectsAfter-selects != own || updatesAfter-updates != 4 { // own are those of the counting itself
		t.Errorf("%d SELECT and %d UPDATE statements", selectsAfter-selects-own, updatesAfter-updates)
	}
	lock = take(t, n, "b")
	want(t, node.Granted)(n.Do(t.Context(), as(node.Confirm, lock)))
	_, updates = statements(t, s)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Confirm, lock))) // changes nothing
	want(t, node.Held)(n.Do(t.Context(), request(node.Acquire, "b")))
	want(t, node.Lost)(n.Do(t.Context(), request(node.Extend, "b")))
	if _, after := statements(t, s); after != updates+1 {
		t.Errorf("%d UPDATE statements for a confirm and two refusals", after-updates)
	}
	other := ready(t, s)
	n.BeforeWrite(func() { // it begins again, with what is there then
		n.BeforeWrite(nil)
		want(t, node.Granted)(other.Do(t.Context(), request(node.ForceRelease, "b")))
	})
	want(t, node.Lost)(n.Do(t.Context(), as(node.Confirm, lock)))
}

// A release is carried out whatever was recorded, and before anything was read, but not in tables
// of another version.
func TestReleaseBeforeAnything(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	lock := take(t, ready(t, s), "a")
	one, other := ready(t, s), ready(t, s)
	run(t, s, `UPDATE fenlock_meta SET facts = 'x', version = version + 1`)
	want(t, node.Granted)(one.Do(t.Context(), as(node.Release, lock)))
	run(t, s, `UPDATE fenlock_meta SET format = 99, version = version + 1`)
	if a, err := other.Do(t.Context(), as(node.Release, lock)); !errors.Is(err, node.ErrMisconfigured) ||
		!errors.Is(err, node.ErrNotSent) {
		t.Errorf("%+v, %v", a, err)
	}
}

// What was changed on the server since the row was read counts for a write without a read, too.
func TestRememberedRowIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	s := durable(t, testserver.StartMariaDB(t))
	n := ready(t, s)
	lock := take(t, n, "a")
	run(t, s, `SET GLOBAL read_only = 1`)
	if a, err := n.Do(t.Context(), as(node.Extend, lock)); !errors.Is(err, node.ErrMisconfigured) ||
		!errors.Is(err, node.ErrNotSent) {
		t.Errorf("read-only: %+v, %v", a, err)
	}
	run(t, s, `SET GLOBAL read_only = 0`)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, lock)))
	run(t, s, `SET GLOBAL innodb_flush_log_at_trx_commit = 2`)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, lock)))
	var volatile string
	query(t, s, `SELECT COALESCE(JSON_VALUE(facts, '$.volatile'), '') FROM fenlock_meta`, &volatile)
	if problem(t, errors.New(volatile), "innodb_flush_log_at_trx_commit"); t.Failed() {
		t.Error("a lease that a crash may take was granted before that was recorded")
	}
	other := ready(t, s)
	want(t, node.Lost)(other.Do(t.Context(), request(node.Release, "a")))
	want(t, node.Held)(other.Do(t.Context(), request(node.Acquire, "a")))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, lock)))
	want(t, node.Granted)(other.Do(t.Context(), request(node.Acquire, "a")))
	want(t, node.Held)(n.Do(t.Context(), request(node.Acquire, "a"))) // free, as n remembers
}

// A mark that was made anew is not that under which this process has written last.
func TestRememberedRowOfAnotherMark(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	n := ready(t, s)
	lock := take(t, n, "a")
	run(t, s, `UPDATE fenlock_meta SET version = 0, facts = '{}'`)
	want(t, node.Rejoining)(n.Do(t.Context(), as(node.Extend, lock)))
}
