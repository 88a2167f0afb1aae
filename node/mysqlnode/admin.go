package mysqlnode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"
)

// Inspect implements node.Admin.
func (n *Node) Inspect(ctx context.Context, name string) (l node.Lease, err error) {
	defer func() { err = n.fail("inspect", engine.Contextual(err, ctx, n.life)) }()
	r, err := n.see(ctx, node.Stripe(name), &l)
	if err != nil {
		return node.Lease{}, err
	}
	leases, err := decodeLeases(r.leases)
	if err != nil {
		return node.Lease{}, err
	}
	members, out := l.Members, l.Out
	l = leaseOf(r, name, leases[name])
	l.Members, l.Out = members, out
	return l, nil
}

// see reads a row, and what its node has recorded of the group into the lease.
func (n *Node) see(ctx context.Context, number int, l *node.Lease) (row, error) {
	conn, s, err := n.conn(ctx)
	if err != nil {
		return row{}, err
	}
	defer conn.Close()
	r, err := s.read(ctx, conn, number)
	if err != nil {
		return row{}, err
	}
	admitted, err := n.admitted(ctx, conn, s, r)
	if err != nil && !errors.Is(err, errConflict) {
		return row{}, err
	}
	l.Out = !admitted
	if m := n.facts.Load(); m != nil {
		l.Members = m.Members
	}
	return r, nil
}

func leaseOf(r row, name string, l rule.Lease) node.Lease {
	e := rule.Entry{Holder: l.Holder, Expires: l.Expires, Origin: l.Origin, Token: l.Token, Register: r.register}
	return e.Lease(name, r.now)
}

// Waiting implements node.Admin.
func (n *Node) Waiting(ctx context.Context, name string, limit int) (first []node.Waiter, all int, err error) {
	defer func() { err = n.fail("waiting", engine.Contextual(err, ctx, n.life)) }()
	r, err := n.see(ctx, node.Stripe(name), &node.Lease{})
	if err != nil {
		return nil, 0, err
	}
	store := rule.Store{}
	if store.Queues, err = decodeQueues(r.waiters); err != nil {
		return nil, 0, err
	}
	first, all = store.Waiting(name, r.now, limit)
	return first, all, nil
}

// pageSize is how many stripes List reads with one statement.
const pageSize = 256

// List implements node.Admin, in the order of the stripes. No connection is kept while
// yield runs: it may take its time, and call the node.
func (n *Node) List(ctx context.Context, prefix string, yield func(node.Lease) bool) error {
	for from := 0; from < node.Stripes; from += pageSize {
		page, err := n.page(ctx, prefix, from)
		if err != nil {
			return n.fail("list", engine.Contextual(err, ctx, n.life))
		}
		for _, l := range page {
			if !yield(l) {
				return nil
			}
		}
	}
	return nil
}

func (n *Node) page(ctx context.Context, prefix string, from int) (page []node.Lease, err error) {
	conn, s, err := n.conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	now, err := s.read(ctx, conn, from) // checks what has to be checked, and has the time
	if err != nil {
		return nil, err
	}
	rows, err := conn.QueryContext(ctx, fmt.Sprintf(`SELECT stripe, token, leases FROM fenlock_stripes
		WHERE stripe >= %d AND stripe < %d AND LENGTH(leases) > 0 ORDER BY stripe LIMIT %d`, from, from+pageSize, pageSize))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		r := row{now: now.now}
		if err := rows.Scan(&r.number, &r.register, &r.leases); err != nil {
			return nil, err
		}
		leases, err := decodeLeases(r.leases)
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(leases)) {
			if l := leaseOf(r, name, leases[name]); l.Leased && strings.HasPrefix(name, prefix) {
				page = append(page, l)
			}
		}
	}
	return page, rows.Err()
}
