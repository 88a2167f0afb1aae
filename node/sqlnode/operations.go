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
	if err = errors.Join(err, rule.CheckProposal(r.Token), rule.CheckHolder(string(r.Holder))); err != nil {
		return fenlock.Answer{}, n.errorf("acquire", fmt.Errorf("%w: %w", fenlock.ErrInvalid, err))
	}
	return n.apply(ctx, "acquire", r.Name, func(e *rule.Entry, now time.Duration) core.Reply {
		return rule.Acquire(e, now, string(r.Holder), ttl, r.Token)
	})
}

// Confirm implements fenlock.Node.
func (n *Node) Confirm(ctx context.Context, r fenlock.Request) (fenlock.Answer, error) {
	if err := rule.CheckToken(r.Token); err != nil {
		return fenlock.Answer{}, n.errorf("confirm", fmt.Errorf("%w: %w", fenlock.ErrInvalid, err))
	}
	return n.apply(ctx, "confirm", r.Name, func(e *rule.Entry, now time.Duration) core.Reply {
		return rule.Confirm(e, now, string(r.Holder), r.Token)
	})
}

// Extend implements fenlock.Node.
func (n *Node) Extend(ctx context.Context, r fenlock.Request) (fenlock.Answer, error) {
	ttl, err := rule.CheckTTL(r.TTL)
	if err = errors.Join(err, rule.CheckToken(r.Token), rule.CheckHolder(string(r.Holder))); err != nil {
		return fenlock.Answer{}, n.errorf("extend", fmt.Errorf("%w: %w", fenlock.ErrInvalid, err))
	}
	return n.apply(ctx, "extend", r.Name, func(e *rule.Entry, now time.Duration) core.Reply {
		return rule.Extend(e, now, string(r.Holder), ttl, r.Token)
	})
}

// Release implements fenlock.Node.
func (n *Node) Release(ctx context.Context, r fenlock.Request) (fenlock.Answer, error) {
	return n.apply(ctx, "release", r.Name, func(e *rule.Entry, now time.Duration) core.Reply {
		return rule.Release(e, now, string(r.Holder))
	})
}

// ForceRelease implements fenlock.Node.
func (n *Node) ForceRelease(ctx context.Context, name string, floor fence.Token) (fenlock.Answer, error) {
	if err := rule.CheckToken(floor); err != nil {
		return fenlock.Answer{}, n.errorf("force release", fmt.Errorf("%w: %w", fenlock.ErrInvalid, err))
	}
	return n.apply(ctx, "force release", name, func(e *rule.Entry, now time.Duration) core.Reply {
		return rule.ForceRelease(e, now, floor)
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

// apply runs an operation on the entry of a name, in one transaction.
func (n *Node) apply(ctx context.Context, op, name string, decide func(*rule.Entry, time.Duration) core.Reply) (fenlock.Answer, error) {
	answer, err := apart(ctx, func() (a fenlock.Answer, err error) {
		err = n.transact(ctx, writing, func(tx *sql.Tx) (changed bool, err error) {
			before, stored, err := n.load(ctx, tx, name)
			if err != nil {
				return false, err
			}
			// Read under the write lock, so that times in the file never go back.
			now, after := n.now(), before
			reply := decide(&after, now)
			a = fenlock.Answer{Status: fenlock.Status(reply.Status), Register: reply.Register}
			if a.Status == fenlock.Held {
				a.HeldBy, a.Remaining = fenlock.Holder(after.Holder).Label(), after.Expires-now
			}
			return n.store(ctx, tx, name, before, after, stored, now)
		})
		return a, err
	})
	if err != nil {
		return fenlock.Answer{}, n.errorf(op, err)
	}
	return answer, nil
}

// load reads the entry of a name. A lease of another boot is none, but its row
// is stored.
func (n *Node) load(ctx context.Context, tx *sql.Tx, name string) (e rule.Entry, stored bool, err error) {
	var holder []byte
	var expires int64
	var boot string
	err = tx.StmtContext(ctx, n.stmt.lease).QueryRowContext(ctx, []byte(name)).Scan(&holder, &expires, &boot)
	switch stored = err == nil; {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return e, false, err
	case stored && boot == n.boot:
		e.Holder, e.Expires = string(holder), time.Duration(expires)*time.Millisecond
	}
	e.Register, err = n.register(ctx, tx, name)
	return e, stored, err
}

// register reads the register of the name's stripe: 0 if it was never used.
func (n *Node) register(ctx context.Context, tx *sql.Tx, name string) (fence.Token, error) {
	var token int64
	err := tx.StmtContext(ctx, n.stmt.register).QueryRowContext(ctx, fenlock.Stripe(name)).Scan(&token)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	return fence.Token(token), nil
}

// purgeSize is how many expired leases a new one takes with it. More than one,
// so that rows of names that are never used again become fewer, not just
// not more.
const purgeSize = 4

// store writes what an operation changed, and reports whether it was anything.
func (n *Node) store(ctx context.Context, tx *sql.Tx, name string, before, after rule.Entry, stored bool, now time.Duration) (changed bool, err error) {
	exec := func(s *sql.Stmt, args ...any) {
		if err == nil {
			changed = true
			_, err = tx.StmtContext(ctx, s).ExecContext(ctx, args...)
		}
	}
	if after.Register != before.Register {
		exec(n.stmt.setRegister, fenlock.Stripe(name), int64(after.Register))
	}
	switch {
	case !after.Leased(now) && stored:
		exec(n.stmt.dropLease, []byte(name))
	case after.Leased(now) && (after.Holder != before.Holder || after.Expires != before.Expires):
		exec(n.stmt.setLease, []byte(name), []byte(after.Holder), after.Expires.Milliseconds(), n.boot)
		exec(n.stmt.purge, now.Milliseconds(), purgeSize)
	}
	return changed, err
}

// now is the time in the precision that the file keeps, so that a lease ends at
// the same moment whether it has been written or not.
func (n *Node) now() time.Duration { return n.clock().Truncate(time.Millisecond) }
