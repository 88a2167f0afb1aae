package sqlnode

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// serve carries out a request in one transaction. Whoever is notified is told after it.
func (n *Node) serve(ctx context.Context, a access, r node.Request) (node.Answer, error) {
	return apart(ctx, func() (said node.Answer, err error) {
		var notified *pipe
		defer func() { notified.close() }()
		err = n.transact(ctx, a, func(tx *sql.Tx) (changed bool, err error) {
			before, stored, err := n.load(ctx, tx, r.Name)
			if err != nil {
				return false, err
			}
			// Read under the write lock, so that times in the file never go back.
			clock := n.clock()
			now := inFile(clock)
			e, q := before, n.queue(ctx, tx, r.Name, now)
			said, _ = rule.Serve(&e, q, now, r)
			if said.Status == node.Held {
				said.Clock = clock
			}
			notified.close() // of an earlier try
			notified = q.notified
			if e.Register != before.Register && a != synced {
				return false, errors.New("a register may not change in a transaction that is not synced")
			}
			if changed, err = q.end(); err != nil {
				return false, err
			}
			wrote, err := n.store(ctx, tx, r.Name, before, e, stored, now)
			return changed || wrote, err
		})
		if err == nil {
			notified.tell()
		}
		return said, err
	})
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
		e.Holder, e.Expires = node.Holder(holder), time.Duration(expires)*time.Millisecond
	}
	e.Register, err = n.register(ctx, tx, name)
	return e, stored, err
}

// register reads the register of the name's stripe: 0 if it was never used.
func (n *Node) register(ctx context.Context, tx *sql.Tx, name string) (fence.Token, error) {
	var token int64
	err := tx.StmtContext(ctx, n.stmt.register).QueryRowContext(ctx, node.Stripe(name)).Scan(&token)
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
		exec(n.stmt.setRegister, node.Stripe(name), int64(after.Register))
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

// now is the time in the precision of the file.
func (n *Node) now() time.Duration { return inFile(n.clock()) }

// inFile is a time in the precision that the file keeps, so that a lease ends
// at the same moment whether it has been written or not.
func inFile(clock time.Duration) time.Duration { return clock.Truncate(time.Millisecond) }
