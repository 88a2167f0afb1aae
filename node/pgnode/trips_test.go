package pgnode

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fenlock/fenlock/node"
)

// counted is a connection that counts what is written to it at a time: a round trip each. The pool
// pings a connection that was not used for a second, which does not count.
type counted struct {
	net.Conn
	writes *atomic.Int64
}

func (c counted) Write(b []byte) (int, error) {
	if !bytes.Contains(b, []byte("-- ping")) {
		c.writes.Add(1)
	}
	return c.Conn.Write(b)
}

// An operation takes one round trip: also on a name that was never used, and where it is refused.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	server := shared()
	n := open(t, newSchema(t, server))
	var writes atomic.Int64
	config := configured(t, server.DSN())
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return counted{c, &writes}, err
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	db.SetMaxOpenConns(1)
	counting := on(t, db, n.schema)
	other := alone(t, in(server.DSN(), n.schema))
	for _, name := range []string{"held", "also held"} {
		want(t, node.Granted)(other.Do(t.Context(), as(node.Acquire, request(name, 0))))
	}
	round := func(name, held string, report bool) {
		r := request(name, 0)
		for _, step := range []struct {
			what   string
			r      node.Request
			status node.Status
		}{
			{"acquire a new name", as(node.Acquire, r), node.Granted},
			{"extend", as(node.Extend, r), node.Granted},
			{"release", as(node.Release, r), node.Granted},
			{"acquire it again", as(node.Acquire, r), node.Granted},
			{"release it again", as(node.Release, r), node.Granted},
			{"acquire what is held", as(node.Acquire, request(held, 0)), node.Held},
		} {
			before := writes.Load()
			want(t, step.status)(counting.Do(t.Context(), step.r))
			if took := writes.Load() - before; took != 1 && report {
				t.Errorf("%s: %d round trips", step.what, took)
			}
		}
	}
	round("warm", "held", false) // it prepares its statements
	round("new", "also held", true)
}
