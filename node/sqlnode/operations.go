package sqlnode

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/rule"
)

// Acquire implements fenlock.Node.
func (n *Node) Acquire(ctx context.Context, r fenlock.Request) (fenlock.Answer, error) {
	ttl, err := rule.CheckTTL(r.TTL)
	if err = errors.Join(err, rule.CheckProposal(r.Token), rule.CheckHolder(string(r.Holder)), rule.CheckPlace(rule.Place(r.Place))); err != nil {
		return fenlock.Answer{}, n.errorf("acquire", fmt.Errorf("%w: %w", fenlock.ErrInvalid, err))
	}
	a, err := n.apply(ctx, synced, "acquire", r.Name, func(v *visit) core.Reply {
		return v.acquireInLine(r.Place, func() core.Reply {
			return rule.Acquire(&v.entry, v.now, string(r.Holder), ttl, r.Token)
		})
	})
	if a.Status == fenlock.Held {
		n.checkPipe(r.Place.Waiter)
	}
	return a, err
}

// Confirm implements fenlock.Node.
func (n *Node) Confirm(ctx context.Context, r fenlock.Request) (fenlock.Answer, error) {
	if err := rule.CheckToken(r.Token); err != nil {
		return fenlock.Answer{}, n.errorf("confirm", fmt.Errorf("%w: %w", fenlock.ErrInvalid, err))
	}
	return n.apply(ctx, synced, "confirm", r.Name, func(v *visit) core.Reply {
		return rule.Confirm(&v.entry, v.now, string(r.Holder), r.Token)
	})
}

// Extend implements fenlock.Node.
func (n *Node) Extend(ctx context.Context, r fenlock.Request) (fenlock.Answer, error) {
	ttl, err := rule.CheckTTL(r.TTL)
	if err = errors.Join(err, rule.CheckToken(r.Token), rule.CheckHolder(string(r.Holder))); err != nil {
		return fenlock.Answer{}, n.errorf("extend", fmt.Errorf("%w: %w", fenlock.ErrInvalid, err))
	}
	return n.apply(ctx, writing, "extend", r.Name, func(v *visit) core.Reply {
		return rule.Extend(&v.entry, v.now, string(r.Holder), ttl, r.Token)
	})
}

// Release implements fenlock.Node.
func (n *Node) Release(ctx context.Context, r fenlock.Request) (fenlock.Answer, error) {
	if err := rule.CheckPlace(rule.Place(r.Place)); err != nil {
		return fenlock.Answer{}, n.errorf("release", fmt.Errorf("%w: %w", fenlock.ErrInvalid, err))
	}
	return n.apply(ctx, writing, "release", r.Name, func(v *visit) core.Reply {
		return v.releaseInLine(r.Place, func() core.Reply {
			return rule.Release(&v.entry, v.now, string(r.Holder))
		})
	})
}

// ForceRelease implements fenlock.Node.
func (n *Node) ForceRelease(ctx context.Context, name string, floor fence.Token) (fenlock.Answer, error) {
	if err := rule.CheckToken(floor); err != nil {
		return fenlock.Answer{}, n.errorf("force release", fmt.Errorf("%w: %w", fenlock.ErrInvalid, err))
	}
	return n.apply(ctx, synced, "force release", name, func(v *visit) core.Reply {
		return v.forceReleaseInLine(func() core.Reply {
			return rule.ForceRelease(&v.entry, v.now, floor)
		})
	})
}

// Inspect implements fenlock.Node.
func (n *Node) Inspect(ctx context.Context, name string) (fenlock.Lease, error) {
	lease, err := apart(ctx, func() (found fenlock.Lease, err error) {
		err = n.transact(ctx, reading, func(tx *sql.Tx) (bool, error) {
			e, _, err := n.load(ctx, tx, name)
			found = shown(name, e, n.now())
			return false, err
		})
		return found, err
	})
	if err != nil {
		return fenlock.Lease{}, n.errorf("inspect", err)
	}
	return lease, nil
}

// pageSize is how many leases List reads in one transaction.
const pageSize = 256

// List implements fenlock.Node, in the order of the names' bytes. No
// transaction is open while yield runs: it may take its time, and call the node.
func (n *Node) List(ctx context.Context, yield func(fenlock.Lease) bool) error {
	after := ""
	for {
		page, err := apart(ctx, func() (page []fenlock.Lease, err error) {
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

func (n *Node) page(ctx context.Context, tx *sql.Tx, after string) ([]fenlock.Lease, error) {
	now := n.now()
	rows, err := tx.StmtContext(ctx, n.stmt.page).QueryContext(ctx, []byte(after), now.Milliseconds(), n.boot, pageSize)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var entries []rule.Entry
	var names []string
	for rows.Next() {
		var name, holder []byte
		var expires int64
		if err := rows.Scan(&name, &holder, &expires); err != nil {
			return nil, err
		}
		names = append(names, string(name))
		entries = append(entries, rule.Entry{Holder: string(holder), Expires: time.Duration(expires) * time.Millisecond})
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	page := make([]fenlock.Lease, len(names))
	for i, name := range names {
		if entries[i].Register, err = n.register(ctx, tx, name); err != nil {
			return nil, err
		}
		page[i] = shown(name, entries[i], now)
	}
	return page, nil
}

// shown is what an operator sees of an entry.
func shown(name string, e rule.Entry, now time.Duration) fenlock.Lease {
	l := fenlock.Lease{Name: name, Register: e.Register}
	if e.Leased(now) {
		l.Label, l.Remaining = fenlock.Holder(e.Holder).Label(), e.Expires-now
	}
	return l
}
