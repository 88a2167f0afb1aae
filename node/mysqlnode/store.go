package mysqlnode

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/engine"
)

// store is what package cas asks of a server.
type store struct{ *pool }

// state is what a Save compares, and the facts of an admission.
type state struct {
	version int64 // of the row
	meta    int64 // the version of fenlock_meta
	place   string
	conn    *sql.Conn        // on which it was read, until the operation is over; nil: a later one
	server  *session         // at the other end of it
	parked  map[string]int64 // connections of the clients that Reachable has found, to wake them
}

// Load implements cas.Store. The connection is kept for the write: that it is in no transaction was
// seen on it.
func (n store) Load(ctx context.Context, stripe int) (cas.Loaded, error) {
	conn, s, err := n.conn(ctx)
	if err != nil {
		return cas.Loaded{}, again(err)
	}
	l, err := n.load(ctx, conn, s, stripe)
	if err != nil {
		conn.Close()
		return l, again(err)
	}
	l.Close = func() { conn.Close() }
	return l, nil
}

func (n store) load(ctx context.Context, conn *sql.Conn, s *session, stripe int) (cas.Loaded, error) {
	r, err := s.read(ctx, conn, stripe)
	if err != nil {
		if _, permanent := advice(err); permanent || errors.Is(err, node.ErrMisconfigured) {
			n.sessions.forgetAll() // what a person mends may be other tables, or another server's
		}
		return cas.Loaded{}, err
	}
	votes, err := n.admitted(ctx, conn, s, r)
	var format formatError
	// not even for a release, which a server that is out may carry out
	if errors.Is(err, errMoved) || errors.Is(err, errShared) || errors.As(err, &format) {
		return cas.Loaded{}, err
	}
	n.ahead.Store(r.ahead)
	l := cas.Loaded{Clock: r.now - early, Record: r.Record, Server: s.identity, Votes: votes, Unfit: err,
		State: state{r.version, r.meta, s.place(), conn, s, map[string]int64{}}}
	if m := n.facts.Load(); m != nil {
		l.Terms = m.terms()
	}
	return l, nil
}

// aheadBy is by how much the bound of the registers exceeds the token that needs it. Tokens follow
// the clients' clocks, in microseconds, so that it is written every ten minutes.
const aheadBy = 10 * 60 * 1_000_000

// Save implements cas.Store. It may come without a Load, on a connection of its own. What decides
// whether it can be carried out there is in its conditions.
func (n store) Save(ctx context.Context, stripe int, r cas.Record, over cas.Loaded) (cas.Loaded, error) {
	if n.beforeWrite != nil {
		n.beforeWrite()
	}
	was := over.State.(state)
	conn, s, where := was.conn, was.server, ""
	if conn == nil {
		var err error
		if conn, s, err = n.conn(ctx); err != nil {
			return over, node.NotSent(err)
		}
		defer conn.Close()
		if s.place() != was.place {
			return over, cas.ErrConflict // it is to be looked at
		}
		where = s.unchanged(over.Clock)
	}
	here := s.here(n.volatile())
	if token := int64(r.Register); token > n.ahead.Load() {
		token = min(token+aheadBy, int64(fence.MaxToken))
		if err := raiseAhead(ctx, conn, token, here); err != nil {
			return over, again(node.NotSent(err)) // the bound counts for nothing
		}
		n.ahead.Store(token)
	}
	version := random()
	is, err := write(ctx, conn, stripe, over.Record, was.version, was.meta, r, version, here+where)
	if err = unwritten(err, s.unlogged); errors.Is(err, node.ErrNotSent) {
		return over, again(err)
	}
	if err != nil {
		return over, err
	}
	if !is {
		return over, cas.ErrConflict
	}
	wake(ctx, conn, r.Fresh, was.parked)
	over.Record, over.Clock, over.Close = r, 0, nil
	over.State = state{version: version, meta: was.meta, place: was.place, server: s, parked: was.parked}
	return over, nil
}

// volatile reports whether the row of fenlock_meta says that a crash may lose something, or was
// never read.
func (n store) volatile() bool {
	m := n.facts.Load()
	return m == nil || m.Volatile != ""
}

// Reachable implements cas.Teller.
func (n store) Reachable(ctx context.Context, over cas.Loaded, client string) (bool, error) {
	was := over.State.(state)
	conn, s := was.conn, was.server
	if conn == nil {
		var err error
		if conn, s, err = n.conn(ctx); err != nil {
			return false, err
		}
		defer conn.Close()
	}
	is, connection, err := s.reach(ctx, conn, client)
	if connection != 0 {
		was.parked[client] = connection
	}
	return is, err
}

// wake ends the waiting of those that were told something. If that fails, they look by themselves.
func wake(ctx context.Context, conn *sql.Conn, notices []string, parked map[string]int64) {
	for _, text := range notices {
		if n, is := node.ParseNotice(text); is {
			client := engine.ClientOf(n.Waiter)
			if connection := parked[client]; connection != 0 {
				conn.ExecContext(ctx, fmt.Sprintf(`KILL QUERY %d`, connection))
				delete(parked, client)
			}
		}
	}
}

// again marks the error of a connection that turned out to be broken before anything was written on
// it.
func again(err error) error {
	if isBroken(err) && !errors.Is(err, cas.ErrConflict) {
		return cas.Again(err)
	}
	return err
}

// isBroken reports whether an error is one of the connection.
func isBroken(err error) bool {
	var refused *mysqlError
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, errInvalidConn) ||
		!errors.As(err, &refused) && isNetwork(err)
}

// pageSize is how many stripes List reads with one statement.
const pageSize = 256

// listed is a row that was read.
type listed struct {
	stripe int
	cas.Loaded
}

// List implements cas.Store, in the order of the stripes.
func (n store) List(ctx context.Context, yield func(stripe int, l cas.Loaded) bool) error {
	for from := 0; from < node.Stripes; from += pageSize {
		page, err := n.page(ctx, from)
		if err != nil {
			return err
		}
		for _, row := range page {
			if !yield(row.stripe, row.Loaded) {
				return nil
			}
		}
	}
	return nil
}

func (n store) page(ctx context.Context, from int) (page []listed, err error) {
	conn, s, err := n.conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	now, err := s.read(ctx, conn, from) // checks what has to be checked, and has the time
	if err != nil {
		return nil, err
	}
	var stripe int
	var token int64
	var leases []byte
	err = s.scan(ctx, conn, fmt.Sprintf(`SELECT stripe, token, leases FROM fenlock_stripes
		WHERE stripe >= %d AND stripe < %d AND LENGTH(leases) > 0 ORDER BY stripe LIMIT %d`, from, from+pageSize, pageSize), func() error {
		r := cas.Record{Register: fence.Token(token), Leases: leases}
		page = append(page, listed{stripe, cas.Loaded{Clock: now.now, Record: r}})
		return nil
	}, &stripe, &token, &leases)
	return page, err
}
