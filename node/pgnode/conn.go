package pgnode

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fenlock/fenlock/node"
)

// A request that is given up leaves its connection alive. The server starts a process for each
// connection, which has compiled nothing of the schema yet. On a busy machine its first answer
// takes longer than a request waits. If the connection ended with the request, the next request
// would begin with a new connection, and be given up as well, for ever.

const (
	connectTimeout = 10 * time.Second // for how long a connection is still made, unless the URL says longer
	finishTimeout  = 2 * time.Second  // for how long a statement goes on after that
)

// tries bounds how often an operation that lost to another transaction is begun.
const tries = 4

// statement is a statement on its way to the server, for one request.
type statement struct {
	n    *database
	text string
	args []any
	read func(*sql.Rows) error // what it writes must not be read where run has failed

	whole   bool // it is sent as a text, and not prepared before
	foreign bool // the caller's driver is not pgx's
	state   atomic.Int32
}

// What state is: the driver has the statement, or it never will.
const (
	undecided = iota
	handedOver
	givenUp
)

// run returns as soon as ctx is done. What was not sent by then never is; what was goes on for a
// little longer.
func (s *statement) run(ctx context.Context) error {
	n := s.n
	if ctx.Err() != nil {
		return unsent(ctx.Err())
	}
	select {
	case n.slots <- struct{}{}:
	case <-ctx.Done():
		return unsent(ctx.Err())
	}
	done := make(chan error, 1)
	err := n.closing.Spawn(func() {
		defer func() { <-n.slots }()
		done <- s.apart(ctx)
	})
	if err != nil {
		<-n.slots
		return unsent(err)
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	if s.state.CompareAndSwap(undecided, givenUp) {
		return unsent(ctx.Err())
	}
	return ctx.Err()
}

func unsent(err error) error { return fmt.Errorf("%w: %w", err, errUnsent) }

// apart is run without its caller. Where a connection of the pool had ended already, another one is
// tried: all of them may have.
func (s *statement) apart(ctx context.Context) error {
	var doubt error // of a driver that may say driver.ErrBadConn of what it has sent, as lib/pq does
	for range s.n.db.Stats().Idle + tries {
		err := s.once(ctx)
		switch {
		case errors.Is(err, driver.ErrBadConn) && ctx.Err() == nil:
		case doubt != nil && err != nil:
			return doubt
		default:
			return err
		}
		if !s.foreign {
			s.state.CompareAndSwap(handedOver, undecided)
		} else if s.state.Load() == handedOver {
			doubt = err
		}
	}
	return cmp.Or(doubt, unsent(driver.ErrBadConn))
}

func (s *statement) once(ctx context.Context) error {
	limit := s.n.connecting
	if s.n.db.Stats().Idle > 0 { // the pool asks one whether it is alive
		limit = finishTimeout
	}
	connecting, end := s.n.lasting(ctx, limit)
	defer end()
	conn, err := s.n.db.Conn(connecting)
	if err != nil {
		return err
	}
	defer conn.Close()
	running, end := s.n.lasting(ctx, finishTimeout)
	defer end()
	text, err := s.prepare(running, conn)
	if err != nil {
		return err
	}
	if !wanted(ctx) {
		return unsent(context.Canceled)
	}
	if ctx.Err() != nil || s.state.Load() != handedOver && !s.state.CompareAndSwap(undecided, handedOver) {
		return errUnsent
	}
	// Another driver than pgx's may ask the server first, and send the statement when that was
	// answered: a late message.
	rows, err := conn.QueryContext(running, text, s.args...)
	if err != nil {
		if hasCode(err, notSupported) { // what it has prepared may be of tables or functions that were made anew since
			conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		if pgconn.SafeToRetry(err) { // so says pgx of a connection that had ended, where it was not sure enough to say it so
			return driver.ErrBadConn
		}
		return err
	}
	defer rows.Close()
	return s.read(rows)
}

// callKey is of the call in the context of a request that was started and takes the slow path.
type callKey struct{}

// wanted reports whether a statement may still be sent. It may have waited long for a connection.
func wanted(ctx context.Context) bool {
	call, ok := ctx.Value(callKey{}).(node.Call)
	return !ok || call.Wanted()
}

// prepare returns what to send: the name of the statement, which the connection has prepared. On a
// new connection that asks the server, and the answer may come after the request was given up; pgx
// would send the statement then.
func (s *statement) prepare(ctx context.Context, conn *sql.Conn) (text string, err error) {
	text = s.text
	err = conn.Raw(func(c any) error {
		of, ok := c.(*stdlib.Conn)
		if s.foreign = !ok; s.foreign {
			return nil
		}
		s.n.poolSays.Do(func() {
			mode := of.Conn().Config().DefaultQueryExecMode
			s.n.prepares.Store(mode != pgx.QueryExecModeExec && mode != pgx.QueryExecModeSimpleProtocol)
		})
		if s.whole || !s.n.prepares.Load() {
			return nil
		}
		text = s.n.prepared(text)
		if _, err := of.Conn().Prepare(ctx, text, s.text); err != nil && reply(err) == nil {
			return driver.ErrBadConn
		} else if err != nil {
			return err
		}
		return nil
	})
	return text, err
}

// lasting returns a context that ends a while after ctx, and at once where the node is closed too.
func (n *database) lasting(ctx context.Context, while time.Duration) (context.Context, func()) {
	late, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		defer end()
		select {
		case <-late.Done():
		case <-n.closing.Done():
		case <-time.After(while):
		}
	})
	return late, func() {
		stop()
		end()
	}
}

// query reads one row. Statements are prepared once for each connection, which saves a third of the
// server's time. Behind pgbouncer, which gives each transaction any connection, they may not be
// there, or be there already. Nothing was executed then, and from now on they are sent whole. If it
// fails, what it scans to must not be read.
func (n *database) query(ctx context.Context, text string, args []any, to ...any) error {
	return n.send(ctx, text, args, func(rows *sql.Rows) error {
		if !rows.Next() {
			return cmp.Or(rows.Err(), sql.ErrNoRows)
		}
		if err := rows.Scan(to...); err != nil {
			return err
		}
		// What comes after the row, too: the commit may have failed.
		return cmp.Or(rows.Close(), rows.Err())
	})
}

// each reads all rows of a query, as query reads one.
func (n *database) each(ctx context.Context, text string, args []any, row func(scan func(...any) error) error) error {
	return n.send(ctx, text, args, func(rows *sql.Rows) error {
		for rows.Next() {
			if err := row(rows.Scan); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

func (n *database) send(ctx context.Context, text string, args []any, read func(*sql.Rows) error) error {
	if !n.unnamed.Load() {
		err := (&statement{n: n, text: text, args: args, read: read}).run(ctx)
		if !hasCode(err, undefinedStatement) && !hasCode(err, duplicateStatement) {
			return err
		}
		n.unnamed.Store(true)
	}
	args = append([]any{pgx.QueryExecModeExec}, args...)
	return (&statement{n: n, text: text, args: args, read: read, whole: true}).run(ctx)
}

// explain returns, for an error that the tables or functions of another format can have caused,
// which format is there.
func (n *database) explain(ctx context.Context, err error) error {
	if !ofAnotherFormat(err) {
		return err
	}
	var found string
	if n.query(ctx, n.sql.formatOf, nil, &found) != nil || found == format {
		return err
	}
	return node.NotSent(formatError(n.schema, found))
}
