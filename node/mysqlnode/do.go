package mysqlnode

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"
)

// Shares implements node.Sharer.
func (n *Node) Shares() {}

// Do implements node.Node. A conflict with another client, and a connection that turns out
// to be broken before anything was written on it, are no end: nothing was carried out, and
// it begins again.
func (n *Node) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	if err := rule.CheckShared(r); err != nil {
		return node.Answer{}, n.fail(r.Op.String(), err)
	}
	if facts := n.facts.Load(); facts != nil && (r.Op == node.Acquire || r.Op == node.Extend) {
		if longest := facts.terms().MaxTTL; longest > 0 && r.TTL > longest {
			return node.Answer{}, n.fail(r.Op.String(), node.NotSent(engine.Misconfiguredf("the group's longest lease is %v, and a longer one, of %v, was asked for", longest, r.TTL)))
		}
	}
	until, over, err := n.life.Request(ctx)
	if err != nil {
		return node.Answer{}, n.fail(r.Op.String(), err)
	}
	defer over()
	a, err := n.serve(until, r)
	if err != nil {
		return node.Answer{}, n.fail(r.Op.String(), engine.Contextual(err, ctx, n.life))
	}
	n.heardOf(r, a)
	return a, nil
}

// mostBroken is how many connections in a row may turn out to be broken.
const mostBroken = 3

// serve carries out a request. An error that is not marked with node.ErrNotSent is of a
// statement that may have been executed.
func (n *Node) serve(ctx context.Context, r node.Request) (node.Answer, error) {
	number := node.Stripe(r.Name)
	leave, err := n.turns.Take(ctx, number)
	if err != nil {
		return node.Answer{}, node.NotSent(err)
	}
	defer leave()
	if r.Op == node.Release {
		if a, done, err := n.releaseAtOnce(ctx, number, r); done {
			return a, err
		}
	}
	broken := 0
	for try := 0; ; try++ {
		a, err := n.try(ctx, number, r)
		switch {
		case err == nil:
			return a, nil
		case ctx.Err() != nil:
			return a, err
		case errors.Is(err, errConflict):
		case errors.Is(err, node.ErrNotSent) && isBroken(err) && broken < mostBroken:
			broken++
			continue
		default:
			return a, err
		}
		// Half of it at random. Whoever was faster needs the time of one commit.
		wait := min(time.Millisecond<<min(try, 5), 20*time.Millisecond)
		select {
		case <-time.After(rand.N(wait)):
		case <-ctx.Done():
			return node.Answer{}, node.NotSent(ctx.Err())
		}
	}
}

// errConflict says that somebody else has written the row since it was read.
var errConflict = errors.New("another client has changed the row")

// conn returns a connection and what is known of its server.
func (n *Node) conn(ctx context.Context) (*sql.Conn, *session, error) { return n.connect(ctx, false) }

// freshConn is conn, after a new look at the server.
func (n *Node) freshConn(ctx context.Context) (*sql.Conn, *session, error) {
	return n.connect(ctx, true)
}

func (n *Node) connect(ctx context.Context, fresh bool) (*sql.Conn, *session, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.patience, cancel)()
	conn, err := n.db.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	if fresh {
		n.sessions.forget(conn)
	}
	s, err := n.session(ctx, conn)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, s, nil
}

func (n *Node) try(ctx context.Context, number int, r node.Request) (node.Answer, error) {
	conn, s, err := n.conn(ctx)
	if err != nil {
		return node.Answer{}, node.NotSent(err)
	}
	defer func() { conn.Close() }()
	before, err := s.read(ctx, conn, number)
	if err != nil {
		if _, permanent := advice(err); permanent || errors.Is(err, node.ErrMisconfigured) {
			n.sessions.forgetAll() // what a person mends may be other tables, or another server's
		}
		return node.Answer{}, node.NotSent(err)
	}
	admitted, err := n.admitted(ctx, conn, s, before)
	// A release promises nothing: a server that is out may carry it out. Another server may not.
	if err != nil && (r.Op != node.Release || errors.Is(err, errMoved) || errors.Is(err, errShared)) {
		return node.Answer{}, node.NotSent(err)
	}
	if !admitted && r.Op != node.Release {
		conn.Close() // other nodes are asked without one
		why, err := n.admission.Admit(ctx)
		if err == nil && why == (node.Absence{}) {
			err = errConflict // begin again
		}
		if err != nil {
			return node.Answer{}, node.NotSent(err)
		}
		return node.Answer{Status: node.Rejoining, Absence: why}, nil
	}
	w := written{before.stripe, s, before.now, time.Now()}
	a, err := n.decide(ctx, conn, w, before.now, r)
	if err != nil {
		n.recent.take(number)
	}
	return a, err
}

// releaseAtOnce releases on the row as this process has written it last. A release
// promises nothing, so whether the server may vote does not matter. It is not done if the
// row is another one by now.
func (n *Node) releaseAtOnce(ctx context.Context, number int, r node.Request) (a node.Answer, done bool, err error) {
	w, ok := n.recent.take(number)
	if !ok {
		return a, false, nil
	}
	conn, s, err := n.conn(ctx)
	if err != nil {
		return a, false, nil
	}
	defer conn.Close()
	if s.identity != w.server.identity || s.started != w.server.started {
		return a, false, nil
	}
	a, err = n.decide(ctx, conn, w, w.now+time.Since(w.at), r)
	switch {
	case err == nil && a.Status == node.Granted:
		return a, true, nil
	case err != nil && !errors.Is(err, node.ErrNotSent):
		return a, true, err // it may have been executed
	}
	return a, false, nil
}

// decide carries out a request on a row that was read, at now.
func (n *Node) decide(ctx context.Context, conn *sql.Conn, w written, now time.Duration, r node.Request) (node.Answer, error) {
	var failed error
	reachable := func(waiter string) bool {
		is := false
		if failed == nil {
			is, failed = w.server.reach(ctx, conn, waiter)
		}
		return is
	}
	after, a, err := w.stripe.serve(r, now, reachable)
	if err = errors.Join(err, failed); err != nil {
		return node.Answer{}, node.NotSent(err)
	}
	if a.Status != node.Granted && after.same(w.stripe) {
		return a, nil
	}
	after.version = random()
	if n.beforeWrite != nil {
		n.beforeWrite()
	}
	is, err := w.stripe.write(ctx, conn, after, w.server.here(n.facts.Load()))
	if err != nil {
		return node.Answer{}, unwritten(err)
	}
	if !is {
		return node.Answer{}, node.NotSent(errConflict)
	}
	w.stripe = after
	n.recent.put(w)
	return a, nil
}

// isBroken reports whether an error is one of the connection.
func isBroken(err error) bool {
	var refused *mysqlError
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, errInvalidConn) || !errors.As(err, &refused) && isNetwork(err)
}
