package sqlnode

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// Inspect implements node.Admin.
func (n *Node) Inspect(ctx context.Context, name string) (node.Lease, error) {
	lease, err := look(ctx, n, func(s *step) node.Lease {
		e, _ := s.load(name)
		return e.Lease(name, n.now())
	})
	return lease, n.errorf("inspect", err)
}

// Waiting implements node.Admin.
func (n *Node) Waiting(ctx context.Context, name string, limit int) (first []node.Waiter, all int, err error) {
	type queued struct {
		first []node.Waiter
		all   int
	}
	found, err := look(ctx, n, func(s *step) (found queued) {
		now := n.clock()
		q := &queue{step: s, name: []byte(name), now: inFile(now)}
		if found.all, _ = q.Ahead(""); found.all == 0 {
			return found
		}
		rows, err := s.query(&n.stmt.waiting, q.name, limit)
		if err != nil {
			s.err = err
			return found
		}
		defer rows.Close()
		for rows.Next() {
			var at node.Place
			if s.err = rows.Scan(&at.Stamp, &at.Waiter); s.err != nil {
				return found
			}
			found.first = append(found.first, node.WaiterOf(at, now))
		}
		s.err = rows.Err()
		return found
	})
	return found.first, found.all, n.errorf("waiting", err)
}

// pageSize is how many leases List reads in one transaction.
const pageSize = 256

// List implements node.Admin, in the order of the names' bytes. No
// transaction is open while yield runs: it may take its time, and call the node.
func (n *Node) List(ctx context.Context, prefix string, yield func(node.Lease) bool) error {
	after := ""
	for {
		page, err := look(ctx, n, func(s *step) []node.Lease { return s.page(prefix, after) })
		if err != nil {
			return n.errorf("list", err)
		}
		for _, l := range page {
			if !yield(l) {
				return nil
			}
			after = l.Name
		}
		if len(page) < pageSize {
			return nil
		}
	}
}

func (s *step) page(prefix, after string) (page []node.Lease) {
	n, now := s.node, s.node.now()
	rows, err := s.query(&n.stmt.page, []byte(prefix), []byte(after), len(prefix), []byte(prefix), now.Milliseconds(), n.boot, pageSize)
	if err != nil {
		s.err = err
		return nil
	}
	defer rows.Close()
	for rows.Next() {
		var name, holder []byte
		var expires, origin, token int64
		if s.err = rows.Scan(&name, &holder, &expires, &origin, &token); s.err != nil {
			return nil
		}
		e := rule.Entry{Holder: node.Holder(holder), Expires: time.Duration(expires) * time.Millisecond,
			Origin: s.number("the origin of a lease", origin), Token: s.number("the token of a lease", token)}
		page = append(page, e.Lease(string(name), now))
	}
	s.err = cmp.Or(s.err, errors.Join(rows.Err(), rows.Close()))
	for i := range page {
		page[i].Register = s.register(page[i].Name)
	}
	return page
}
