package pgnode

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// tries bounds how often an operation that lost to another transaction is begun.
const tries = 4

// Do implements node.Node.
func (n *Node) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	if err := rule.CheckShared(r); err != nil {
		return node.Answer{}, n.errorf(r.Op.String(), err)
	}
	if err := n.begin(); err != nil {
		return node.Answer{}, n.errorf(r.Op.String(), err)
	}
	defer n.running.Done()
	ctx, end := n.within(ctx)
	defer end()
	a, err := n.serve(ctx, r)
	if err == nil && a.Status == node.Rejoining {
		// It did nothing. If the node is admitted now, that was in vain.
		if a.Detail, err = n.rejoin.try(ctx, n); err == nil && a.Detail == "" {
			if a, err = n.serve(ctx, r); a.Status == node.Rejoining {
				a.Detail = "it has lost its memory once more"
			}
		}
	}
	if err != nil {
		return node.Answer{}, n.errorf(r.Op.String(), contextual(ctx, err))
	}
	if r.Op == node.Acquire {
		n.sweep()
	}
	if a.Status == node.Held && r.Place.Waiter != "" {
		n.hurry(r.Place.Waiter)
	}
	return a, nil
}

// Shares implements node.Sharer.
func (n *Node) Shares() {}

var _ node.Sharer = (*Node)(nil)

// within returns a context that Close ends too.
func (n *Node) within(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(n.closing, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// serve has the server carry out a request. It is sent again only if the server has said that
// it was rolled back.
func (n *Node) serve(ctx context.Context, r node.Request) (a node.Answer, err error) {
	for range tries {
		if a, err = n.call(ctx, r); err == nil || !again(err) {
			return a, err
		}
	}
	return a, err
}

func (n *Node) call(ctx context.Context, r node.Request) (a node.Answer, err error) {
	var status, ahead int
	var register, remaining, clock int64
	var heldBy []byte
	err = n.query(ctx, n.sql.serve, []any{
		int(r.Op), []byte(r.Name), node.Stripe(r.Name), []byte(r.Holder), r.TTL.Milliseconds(), int64(r.Token), int64(r.OwnToken),
		[]byte(r.Place.Waiter), r.Place.Stamp, n.rejoin.terms(), r.Shared,
	}, &status, &register, &heldBy, &remaining, &ahead, &clock)
	if err != nil {
		return node.Answer{}, err
	}
	if status < int(node.Granted) || status > int(node.Rejoining) || register < 0 || register > int64(fence.MaxToken) {
		return node.Answer{}, fmt.Errorf("the schema answered the status %d and the register %d, which are none: it was changed by hand", status, register)
	}
	a = node.Answer{Status: node.Status(status), Register: fence.Token(register)}
	if a.Status == node.Held {
		a.HeldBy, a.Slots, a.Ahead = node.Holder(heldBy).Label(), node.Holder(heldBy).Slots(), max(ahead, 0)
		a.Remaining, a.Clock = time.Duration(remaining)*time.Millisecond, time.Duration(clock)*time.Microsecond
	}
	return a, nil
}

// query reads one row. Statements are prepared once for each connection, which saves a third
// of the server's time. Behind pgbouncer, which gives each transaction any connection, they
// may not be there, or be there already: nothing was executed then, and from now on they
// are sent whole.
func (n *Node) query(ctx context.Context, text string, args []any, to ...any) error {
	if !n.unnamed.Load() {
		err := n.row(ctx, text, args, to)
		if !hasCode(err, undefinedStatement) && !hasCode(err, duplicateStatement) {
			return err
		}
		n.unnamed.Store(true)
	}
	return n.row(ctx, text, append([]any{pgx.QueryExecModeExec}, args...), to)
}

// row reads one row, and what comes after it: the commit may have failed. sql.Row does not say
// so if the context ends right after the row was read.
func (n *Node) row(ctx context.Context, text string, args, to []any) error {
	rows, err := n.db.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		return cmp.Or(rows.Err(), sql.ErrNoRows)
	}
	if err := rows.Scan(to...); err != nil {
		return err
	}
	return cmp.Or(rows.Close(), rows.Err())
}

// queryRows reads many rows, as query does.
func (n *Node) queryRows(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if !n.unnamed.Load() {
		rows, err := n.db.QueryContext(ctx, text, args...)
		if !hasCode(err, undefinedStatement) && !hasCode(err, duplicateStatement) {
			return rows, err
		}
		n.unnamed.Store(true)
	}
	return n.db.QueryContext(ctx, text, append([]any{pgx.QueryExecModeExec}, args...)...)
}

// contextual makes the error of a done context match ctx.Err(), whatever the driver made
// of it.
func contextual(ctx context.Context, err error) error {
	if cause := ctx.Err(); err != nil && cause != nil && reply(err) == nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

const (
	sweepEvery   = time.Minute
	sweepTimeout = 10 * time.Second
)

// sweep has what has expired removed, once a minute, in the background.
func (n *Node) sweep() {
	now, last := time.Now().UnixMilli(), n.swept.Load()
	if now-last < sweepEvery.Milliseconds() || !n.swept.CompareAndSwap(last, now) || n.begin() != nil {
		return
	}
	go func() {
		defer n.running.Done()
		ctx, cancel := context.WithTimeout(n.closing, sweepTimeout)
		defer cancel()
		for part := 1; part <= 4; part++ {
			var due bool
			if err := n.query(ctx, n.sql.sweep, []any{part}, &due); err != nil || !due {
				return // somebody else will
			}
		}
	}()
}
