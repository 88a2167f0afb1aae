package sqlnode

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// line is the waiting line of one name, in the tables, during one transaction. It
// reads nothing before it is asked. After an error it does nothing more: end
// returns that error, and the transaction is rolled back.
//
// A line is one row in fenlock_lines, with its expiry, and one row for each waiter
// in fenlock_waiters. Without the first there is no line: an operation on a
// name that nobody waits for costs one look-up.
type line struct {
	node *Node
	ctx  context.Context
	tx   *sql.Tx
	name []byte
	now  time.Duration

	loaded  bool
	stored  bool          // has a row, maybe one that has expired
	alive   bool          // has one that has not
	expires time.Duration // if alive
	left    bool          // somebody has left
	changed bool
	err     error
}

// renewal is by how much a line may expire early, so that it is not written for
// each of its waiters' questions.
const renewal = time.Second

func (n *Node) line(ctx context.Context, tx *sql.Tx, name string, now time.Duration) *line {
	return &line{node: n, ctx: ctx, tx: tx, name: []byte(name), now: now}
}

// exists reports whether anybody is in line, before it was changed. A line of
// another boot is void: its waiters died with that boot.
func (l *line) exists() bool {
	if l.loaded {
		return l.alive
	}
	l.loaded = true
	var expires int64
	var boot string
	if l.stored = l.row(l.node.stmt.line, []any{l.name}, &expires, &boot); l.stored {
		l.expires = time.Duration(expires) * time.Millisecond
		l.alive = boot == l.node.boot && l.now < l.expires
	}
	return l.alive
}

// head returns the first in line, "" for nobody.
func (l *line) head() (waiter string) {
	if l.exists() {
		l.row(l.node.stmt.head, []any{l.name}, &waiter)
	}
	return waiter
}

// stamp returns the place of a waiter, and whether it is in line.
func (l *line) stamp(waiter string) (stamp int64, in bool) {
	if waiter != "" && l.exists() {
		in = l.row(l.node.stmt.stamp, []any{l.name, waiter}, &stamp)
	}
	return stamp, in
}

// ahead returns how many are before a waiter, or all if it is not in the line.
func (l *line) ahead(waiter string) (count int) {
	if !l.exists() {
		return 0
	}
	if stamp, in := l.stamp(waiter); in {
		l.row(l.node.stmt.before, []any{l.name, stamp, waiter}, &count)
	} else {
		l.row(l.node.stmt.all, []any{l.name}, &count)
	}
	return count
}

// join puts a waiter into the line, once: one who comes again keeps the place
// that it has. A full line takes nobody.
func (l *line) join(p node.Place) {
	if p.Waiter == "" {
		return
	}
	if _, in := l.stamp(p.Waiter); in || l.ahead("") >= rule.MaxQueue {
		return
	}
	if !l.exists() {
		if l.stored {
			l.exec(l.node.stmt.clear, l.name)
		}
		l.set(rule.QueueExpiry)
	}
	l.exec(l.node.stmt.join, l.name, p.Stamp, p.Waiter)
	// More rows than the one that was added, as with leases. Lines that have
	// expired are few: only those whose processes have all been killed.
	l.exec(l.node.stmt.purgeWaiters, l.now.Milliseconds(), purgeSize)
	l.exec(l.node.stmt.purgeLines, l.now.Milliseconds(), purgeSize)
}

// leave takes a waiter out of the line.
func (l *line) leave(waiter string) {
	if _, in := l.stamp(waiter); in {
		l.exec(l.node.stmt.leave, l.name, waiter)
		l.left = true
	}
}

// keep lets the line live on, since a waiter has asked.
func (l *line) keep() {
	if l.exists() && l.expires-l.now < rule.QueueExpiry-renewal {
		l.set(rule.QueueExpiry)
	}
}

func (l *line) set(expiry time.Duration) {
	l.stored, l.alive, l.expires = true, true, l.now+expiry
	l.exec(l.node.stmt.setLine, l.name, l.expires.Milliseconds(), l.node.boot)
}

// end removes the line if nobody is left in it, and reports whether anything
// was written.
func (l *line) end() (changed bool, err error) {
	if l.left {
		l.exec(l.node.stmt.dropLine, l.name)
	}
	return l.changed, l.err
}

// row reads one row, and reports whether it is there.
func (l *line) row(s *sql.Stmt, args []any, to ...any) bool {
	if l.err != nil {
		return false
	}
	err := l.tx.StmtContext(l.ctx, s).QueryRowContext(l.ctx, args...).Scan(to...)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		l.err = err
	}
	return err == nil
}

func (l *line) exec(s *sql.Stmt, args ...any) {
	if l.err == nil {
		l.changed = true
		_, l.err = l.tx.StmtContext(l.ctx, s).ExecContext(l.ctx, args...)
	}
}
