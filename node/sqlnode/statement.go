package sqlnode

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// statement is one of the node's. Database/sql prepares it again on a connection that
// replaces a broken one.
type statement struct {
	text     string
	prepared atomic.Pointer[sql.Stmt]
	used     int // before it was prepared, counted by whoever has the connection
}

// statements are prepared when the node is opened if every lock needs them, so that a
// table which somebody else has changed is found then. The others, most of them about waiters, are
// prepared once they are used often: a process that takes one lock and ends has none of them.
type statements struct {
	lease, register, page, waiting          statement
	setLease, dropLease, setRegister, purge statement

	queue, head, stamp, before, all                                       statement
	setQueue, dropQueue, clear, insert, remove, purgeWaiters, purgeQueues statement

	mu     sync.Mutex
	wanted []*statement
}

// often is after how many uses a statement is prepared.
const often = 2

func (n *Node) setStatements() {
	n.stmt.lease.text = `SELECT holder, expires, boot, origin, token FROM fenlock_leases WHERE name = ?`
	n.stmt.register.text = `SELECT token FROM fenlock_registers WHERE stripe = ?`
	n.stmt.page.text = `SELECT name, holder, expires, origin, token FROM fenlock_leases
		WHERE name >= ? AND name > ? AND substr(name, 1, ?) = ? AND expires > ? AND boot = ? ORDER BY name LIMIT ?`
	n.stmt.waiting.text = `SELECT stamp, waiter FROM fenlock_waiters WHERE name = ? ORDER BY stamp, waiter LIMIT ?`
	n.stmt.setLease.text = `INSERT INTO fenlock_leases (name, holder, expires, boot, origin, token) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires = excluded.expires, boot = excluded.boot,
			origin = excluded.origin, token = excluded.token`
	n.stmt.dropLease.text = `DELETE FROM fenlock_leases WHERE name = ?`
	n.stmt.setRegister.text = `INSERT INTO fenlock_registers (stripe, token) VALUES (?, ?)
		ON CONFLICT (stripe) DO UPDATE SET token = excluded.token`
	n.stmt.purge.text = `DELETE FROM fenlock_leases WHERE name IN
		(SELECT name FROM fenlock_leases WHERE expires <= ? ORDER BY expires LIMIT ?)`
	n.stmt.queue.text = `SELECT expires, boot FROM fenlock_lines WHERE name = ?`
	n.stmt.head.text = `SELECT waiter FROM fenlock_waiters WHERE name = ? ORDER BY stamp, waiter LIMIT 1`
	n.stmt.stamp.text = `SELECT stamp FROM fenlock_waiters WHERE name = ? AND waiter = ?`
	n.stmt.before.text = `SELECT count(*) FROM fenlock_waiters WHERE name = ? AND (stamp, waiter) < (?, ?)`
	n.stmt.all.text = `SELECT count(*) FROM fenlock_waiters WHERE name = ?`
	n.stmt.setQueue.text = `INSERT INTO fenlock_lines (name, expires, boot) VALUES (?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET expires = excluded.expires, boot = excluded.boot`
	n.stmt.dropQueue.text = `DELETE FROM fenlock_lines WHERE name = ?1
		AND NOT EXISTS (SELECT 1 FROM fenlock_waiters WHERE name = ?1)`
	n.stmt.clear.text = `DELETE FROM fenlock_waiters WHERE name = ?`
	n.stmt.insert.text = `INSERT INTO fenlock_waiters (name, stamp, waiter) VALUES (?, ?, ?)`
	n.stmt.remove.text = `DELETE FROM fenlock_waiters WHERE name = ? AND waiter = ?`
	n.stmt.purgeWaiters.text = `DELETE FROM fenlock_waiters WHERE (name, waiter) IN
		(SELECT w.name, w.waiter FROM
			(SELECT name FROM fenlock_lines WHERE expires <= ?1 ORDER BY expires LIMIT ?2) AS l
			CROSS JOIN fenlock_waiters AS w ON w.name = l.name LIMIT ?2)`
	n.stmt.purgeQueues.text = `DELETE FROM fenlock_lines WHERE name IN
		(SELECT name FROM fenlock_lines WHERE expires <= ?1 ORDER BY expires LIMIT ?2)
		AND NOT EXISTS (SELECT 1 FROM fenlock_waiters AS w WHERE w.name = fenlock_lines.name)`
}

func (n *Node) prepareUsual(ctx context.Context) error {
	s := &n.stmt
	var errs []error
	for _, usual := range []*statement{&s.lease, &s.register, &s.setLease, &s.dropLease, &s.setRegister, &s.purge, &s.queue} {
		errs = append(errs, n.prepareOne(ctx, usual))
	}
	return errors.Join(errs...)
}

func (n *Node) prepareOne(ctx context.Context, s *statement) error {
	prepared, err := n.db.PrepareContext(ctx, s.text)
	if err == nil {
		s.prepared.Store(prepared)
	}
	return err
}

// prepareWanted prepares what earlier transactions have used often. It needs the connection.
// What fails is prepared another time, and tells of its error when it is used.
func (n *Node) prepareWanted(ctx context.Context) {
	n.stmt.mu.Lock()
	wanted := n.stmt.wanted
	n.stmt.wanted = nil
	n.stmt.mu.Unlock()
	for _, s := range wanted {
		if n.prepareOne(ctx, s) != nil {
			n.stmt.want(s)
		}
	}
}

func (all *statements) want(s *statement) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if !slices.Contains(all.wanted, s) {
		all.wanted = append(all.wanted, s)
	}
}

// query asks what has rows.
func (s *step) query(of *statement, args ...any) (*sql.Rows, error) {
	if p := s.prepared(of); p != nil {
		return p.QueryContext(s.ctx, args...)
	}
	return s.tx.QueryContext(s.ctx, of.text, args...)
}

// row reads one row, and reports whether it is there.
func (s *step) row(of *statement, args []any, to ...any) bool {
	if s.err != nil {
		return false
	}
	var found *sql.Row
	if p := s.prepared(of); p != nil {
		found = p.QueryRowContext(s.ctx, args...)
	} else {
		found = s.tx.QueryRowContext(s.ctx, of.text, args...)
	}
	err := found.Scan(to...)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		s.err = err
	}
	return err == nil
}

func (s *step) exec(what *statement, args ...any) {
	if s.err != nil {
		return
	}
	s.changed = true
	if p := s.prepared(what); p != nil {
		_, s.err = p.ExecContext(s.ctx, args...)
	} else {
		_, s.err = s.tx.ExecContext(s.ctx, what.text, args...)
	}
}

// prepared returns the statement for this transaction, nil if only its text is there yet.
func (s *step) prepared(of *statement) *sql.Stmt {
	if p := of.prepared.Load(); p != nil {
		return s.tx.StmtContext(s.ctx, p)
	}
	if of.used++; of.used == often {
		s.node.stmt.want(of)
	}
	return nil
}
