package sqlnode

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// Inspect implements node.Admin.
func (n *Node) Inspect(ctx context.Context, name string) (node.Lease, error) {
	lease, err := apart(ctx, func() (found node.Lease, err error) {
		err = n.transact(ctx, reading, func(tx *sql.Tx) (bool, error) {
			e, _, err := n.load(ctx, tx, name)
			found = e.Lease(name, n.now())
			return false, err
		})
		return found, err
	})
	if err != nil {
		return node.Lease{}, n.errorf("inspect", err)
	}
	return lease, nil
}

// pageSize is how many leases List reads in one transaction.
const pageSize = 256

// List implements node.Admin, in the order of the names' bytes. No
// transaction is open while yield runs: it may take its time, and call the node.
func (n *Node) List(ctx context.Context, yield func(node.Lease) bool) error {
	after := ""
	for {
		page, err := apart(ctx, func() (page []node.Lease, err error) {
			err = n.transact(ctx, reading, func(tx *sql.Tx) (_ bool, err error) {
				page, err = n.page(ctx, tx, after)
				return false, err
			})
			return page, err
		})
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

func (n *Node) page(ctx context.Context, tx *sql.Tx, after string) ([]node.Lease, error) {
	now := n.now()
	rows, err := tx.StmtContext(ctx, n.stmt.page).QueryContext(ctx, []byte(after), now.Milliseconds(), n.boot, pageSize)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var page []node.Lease
	for rows.Next() {
		var name, holder []byte
		var expires int64
		if err := rows.Scan(&name, &holder, &expires); err != nil {
			return nil, err
		}
		e := rule.Entry{Holder: node.Holder(holder), Expires: time.Duration(expires) * time.Millisecond}
		page = append(page, e.Lease(string(name), now))
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	for i := range page {
		if page[i].Register, err = n.register(ctx, tx, page[i].Name); err != nil {
			return nil, err
		}
	}
	return page, nil
}
