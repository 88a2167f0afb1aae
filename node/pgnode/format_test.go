package pgnode

import (
	"errors"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// A schema of a later format comes in the place of ours while a client runs, whose connections have
// prepared everything. Its tables look the same, and mean something else.
func TestLaterFormatUnderARunningClient(t *testing.T) {
	t.Parallel()
	server := testserver.StartPostgres(t)
	u := newSchema(t, server)
	n := alone(t, u)
	n.db.SetMaxOpenConns(1)
	for range 3 {
		known(t, n, "a")
	}
	held := request("a", 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, held)))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, held)))
	later := strings.NewReplacer("serve"+format, "serve99", "voting"+format, "voting99", "'"+format+"'", "'99'").
		Replace(Schema(n.schema))
	admin := open(t, u)
	if _, err := admin.db.Exec(`DROP SCHEMA ` + n.schema + ` CASCADE; ` + later); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		`UPDATE fenlock.memory SET admitted = true, terms = $1, made = fenlock.me()`,
		`INSERT INTO fenlock.current SELECT s, 100, 1000000 FROM generate_series(0, 4095) AS s WHERE $1 <> ''`} {
		if _, err := admin.db.Exec(inSchema(statement, n.schema), n.ourTerms()); err != nil {
			t.Fatal(err)
		}
	}
	exec1(t, admin, `UPDATE fenlock.current SET name = 'c', holder = $1, expires = 9000000000000, origin = 1, token = 1 WHERE stripe = $2`,
		[]byte(held.Holder), node.Stripe("c"))
	for _, name := range []string{"b", "c"} {
		n.seen[node.Stripe(name)].Store(n.bit(name))
	}
	take, extend, release := request("b", 0), held, held
	extend.Name, release.Name = "c", "c"
	for _, r := range []node.Request{as(node.Acquire, take), as(node.Extend, extend), as(node.Release, release)} {
		n.contended[node.Stripe(r.Name)].Store(false)
		if !n.usual(r) {
			t.Fatalf("%v is not begun by a usual statement", r.Op)
		}
		if a, err := n.Do(t.Context(), r); !errors.Is(err, node.ErrMisconfigured) || !errors.Is(err, node.ErrNotSent) {
			t.Errorf("%v in a schema of a later format: %+v, %v", r.Op, a, err)
		}
	}
}
