package sqlnode

import (
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

// pageSize is how many leases List reads in one transaction.
const pageSize = 256

// List implements node.Admin, in the order of the names' bytes. No
// transaction is open while yield runs: it may take its time, and call the node.
func (n *Node) List(ctx context.Context, yield func(node.Lease) bool) error {
	after := ""
	for {
		page, err := look(ctx, n, func(s *step) []node.Lease { return s.page(after) })
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

func (s *step) page(after string) (page []node.Lease) {
	n, now := s.node, s.node.now()
	query := s.tx.StmtContext(s.ctx, n.stmt.page)
	rows, err := query.QueryContext(s.ctx, []byte(after), now.Milliseconds(), n.boot, pageSize)
	if err != nil {
		s.err = err
		return nil
	}
	defer rows.Close()
	for rows.Next() {
		var name, holder []byte
		var expires int64
		if s.err = rows.Scan(&name, &holder, &expires); s.err != nil {
			return nil
		}
		e := rule.Entry{Holder: node.Holder(holder), Expires: time.Duration(expires) * time.Millisecond}
		page = append(page, e.Lease(string(name), now))
	}
	s.err = errors.Join(rows.Err(), rows.Close())
	for i := range page {
		page[i].Register = s.register(page[i].Name)
	}
	return page
}
