package sqlnode

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"modernc.org/sqlite"
)

// The primary result codes of SQLite that this package tells apart
// (https://www.sqlite.org/rescode.html).
const (
	codePerm     = 3
	codeBusy     = 5
	codeLocked   = 6
	codeReadonly = 8
	codeIOErr    = 10
	codeCorrupt  = 11
	codeFull     = 13
	codeCantOpen = 14
	codeNotADB   = 26
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

// transact runs f in one transaction and commits if f says that it changed
// anything. A writing transaction has the write lock from its beginning.
//
// It begins again while another process has the lock. That is no retry of an
// operation: what failed to begin, or was rolled back, was not executed. A commit
// is tried once, and its error means that the outcome is not known.
func (n *Node) transact(ctx context.Context, a access, f func(*sql.Tx) (changed bool, err error)) error {
	start := time.Now()
	var busy error // says more than that the context has ended
	for wait := time.Millisecond; ; wait = min(2*wait, 25*time.Millisecond) {
		retry, err := n.try(ctx, a, f)
		if err != nil && retry && busy != nil && ctx.Err() != nil {
			return contextual(ctx, busy)
		}
		if err == nil || !retry || code(err) != codeBusy {
			return contextual(ctx, err)
		}
		if busy = err; time.Since(start) > lockPatience {
			return err
		}
		// Half of it at random, so that two pollers do not stay in step.
		select {
		case <-ctx.Done():
			return contextual(ctx, err)
		case <-time.After(wait/2 + rand.N(wait/2+1)):
		}
	}
}

// try returns retry if nothing was executed.
func (n *Node) try(ctx context.Context, a access, f func(*sql.Tx) (bool, error)) (retry bool, err error) {
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
	if err = n.unchanged(); err != nil {
		tx.Rollback()
		return false, err
	}
	changed, err := f(tx)
	if err != nil || !changed {
		tx.Rollback()
		return true, err
	}
	if err := tx.Commit(); err != nil {
		return false, err
	}
	return false, n.unchanged()
}

// unchanged returns an error if the file at the path is not the one that was
// opened. Those who open the path now get another file, and their leases are
// not in ours: there could be two holders. The same if a link leads to the file
// at a new place: SQLite looks for the log, and locks, beside it.
func (n *Node) unchanged() error {
	if err := n.isAt(n.path); err != nil || n.real == n.path {
		return err
	}
	return n.isAt(n.real)
}

func (n *Node) isAt(path string) error {
	now, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("the file was deleted or moved while it was open; end all programs that use it before you change it: %w", err)
	}
	if !os.SameFile(n.file, now) {
		return errors.New("the file was replaced by another while it was open; end all programs that use it before you change it")
	}
	return nil
}

// apart runs f in a goroutine and returns when it ends or ctx is done. SQLite
// cannot be called back from the disk: a hanging fsync must not hold the caller.
// f's transaction then ends on its own, and later operations queue behind it.
func apart[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	// f watches ctx wherever it can. Its own error says more, if it is near.
	select {
	case r := <-done:
		return r.value, r.err
	case <-time.After(grace):
		var none T
		return none, fmt.Errorf("the disk did not answer: %w", ctx.Err())
	}
}

const grace = 50 * time.Millisecond

// contextual makes the error of a done context match ctx.Err(), whatever
// the driver made of the interruption.
func contextual(ctx context.Context, err error) error {
	if cause := ctx.Err(); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// code returns the primary result code of SQLite, or 0 if err is not one.
func code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// hint says what an operator can do about an error.
func hint(err error) string {
	switch code(err) {
	case codeBusy, codeLocked:
		return "another process has the file locked; is one of them stopped, or a sqlite3 shell in a transaction? fuser shows them"
	case codePerm, codeReadonly, codeCantOpen:
		return "the file and its folder must exist and be writable for this user; SQLite keeps -wal and -shm files beside it"
	case codeIOErr:
		return "reading or writing failed; look at the disk, its quota and the kernel's log"
	case codeCorrupt:
		return "the file is damaged; when nobody holds a lock, delete it together with its -wal and -shm files (tokens then start again from the wall clock)"
	case codeFull:
		return "the disk is full; free some space"
	case codeNotADB:
		return "the file is something else; choose another path"
	}
	return ""
}

// errorf names the node in an error, and adds the hint.
func (n *Node) errorf(op string, err error) error {
	if h := hint(err); h != "" {
		return fmt.Errorf("sqlite %s: %s: %w (%s)", n.path, op, err, h)
	}
	return fmt.Errorf("sqlite %s: %s: %w", n.path, op, err)
}
