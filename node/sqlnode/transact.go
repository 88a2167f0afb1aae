package sqlnode

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/fenlock/fenlock/node/engine"
)

// access is what a transaction may do, and what its commit waits for.
type access uint8

const (
	reading access = iota
	writing        // its commit may be lost with the machine: leases end with the boot
	synced         // on the disk when it is answered: a register that was promised
)

// lockPatience bounds the wait for the write lock of a caller whose context has
// no earlier end. A transaction takes milliseconds; a lock held for so
// long belongs to a process that is stopped, or to somebody's open shell.
const lockPatience = 30 * time.Second

// step is what happens in one transaction. After an error it does nothing more: the
// transaction is rolled back.
type step struct {
	node    *Node
	ctx     context.Context
	tx      *sql.Tx
	changed bool
	err     error
}

// transact runs f in one transaction and commits if f has changed
// anything. A writing transaction has the write lock from its beginning.
//
// It begins again while another process has the lock. That is no retry of an
// operation: what failed to begin, or was rolled back, was not executed. A commit
// is tried once, and its error means that the outcome is not known.
func (n *Node) transact(ctx context.Context, a access, f func(*step)) error {
	start := time.Now()
	var busy error // says more than that the context has ended
	for wait := time.Millisecond; ; wait = min(2*wait, 25*time.Millisecond) {
		retry, err := n.try(ctx, a, f)
		if err != nil {
			if now := n.unchanged(); now != nil {
				return engine.Contextual(now, ctx) // says more than what SQLite makes of such a file
			}
		}
		if err != nil && retry && busy != nil && ctx.Err() != nil {
			return engine.Contextual(busy, ctx)
		}
		if err == nil || !retry || code(err) != sqlite3.SQLITE_BUSY {
			return engine.Contextual(err, ctx)
		}
		if busy = err; time.Since(start) > lockPatience {
			return err
		}
		// Half of it at random, so that two pollers do not stay in step.
		select {
		case <-ctx.Done():
			return engine.Contextual(err, ctx)
		case <-time.After(wait/2 + rand.N(wait/2+1)):
		}
	}
}

// try returns retry if nothing was executed.
func (n *Node) try(ctx context.Context, a access, f func(*step)) (retry bool, err error) {
	n.prepareWanted(ctx)
	conn, err := n.db.Conn(ctx)
	if err != nil {
		return true, err
	}
	defer conn.Close() // gives it back
	if a == synced {
		if _, err := conn.ExecContext(ctx, `PRAGMA synchronous = `+n.sync); err != nil {
			return true, err
		}
		// Should this fail, more is synced than has to be.
		defer conn.ExecContext(context.WithoutCancel(ctx), `PRAGMA synchronous = NORMAL`)
	}
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{ReadOnly: a == reading})
	if err != nil {
		return true, err
	}
	if err = cmp.Or(n.unchanged(), n.sameLocks(ctx, conn)); err != nil {
		tx.Rollback()
		return false, err
	}
	s := &step{node: n, ctx: ctx, tx: tx}
	f(s)
	if s.err != nil || !s.changed {
		tx.Rollback()
		return true, s.err
	}
	if err := tx.Commit(); err != nil {
		return false, err
	}
	return false, n.unchanged()
}

// apart runs f in a goroutine and returns when it ends or ctx is done. SQLite
// cannot be called back from the disk: a hanging fsync must not hold the caller.
// f's transaction then ends on its own, and later operations queue behind it.
func apart[T any](ctx context.Context, f func() (T, error)) (T, error) {
	var value T
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		value, err = f()
	}()
	select {
	case <-done:
		return value, err
	case <-ctx.Done():
	}
	// f watches ctx wherever it can. Its own error says more, if it is near.
	select {
	case <-done:
		return value, err
	case <-time.After(grace):
		var none T
		return none, fmt.Errorf("the disk did not answer: %w", ctx.Err())
	}
}

const grace = 50 * time.Millisecond

// look reads in one transaction, apart.
func look[T any](ctx context.Context, n *Node, f func(*step) T) (T, error) {
	return apart(ctx, func() (found T, err error) {
		err = n.transact(ctx, reading, func(s *step) { found = f(s) })
		return found, err
	})
}

// code returns the primary result code of SQLite (https://www.sqlite.org/rescode.html),
// or 0 if err is not one.
func code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// hint says what an operator can do about an error.
func hint(err error) string {
	var e *sqlite.Error
	if errors.As(err, &e) && e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE {
		return "there is no room for the -shm file beside it: the disk is full, or a quota or a limit is reached; free some space"
	}
	switch code(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return "another process has the file locked; is one of them stopped, or a sqlite3 shell in a transaction? fuser shows them"
	case sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN:
		return "the file and its folder must exist and be writable for this user; SQLite keeps -wal and -shm files beside it"
	case sqlite3.SQLITE_IOERR:
		return "reading or writing failed; look at the disk, its quota and the kernel's log"
	case sqlite3.SQLITE_CORRUPT:
		return "the file is damaged; when nobody holds a lock, delete it together with its -wal and -shm files (tokens then start again from the wall clock)"
	case sqlite3.SQLITE_FULL:
		return "the disk is full; free some space"
	case sqlite3.SQLITE_NOTADB:
		return "the file is something else; choose another path"
	}
	return ""
}

// errorf names the node in an error, and adds the hint.
func (n *Node) errorf(op string, err error) error {
	if err == nil {
		return nil
	}
	return engine.Explain(engine.Named("sqlite "+n.path, op, err), hint(err), false)
}
