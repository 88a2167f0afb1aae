package mysqlnode

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"
)

// A server cannot tell a client anything without being asked, so that who listens asks. It
// does so on a connection of its own, in one statement for all waiters of the process.
// That connection is also how others see that it is there: it ends with the process, and
// is gone from the list of processes at once.
//
// (KILL QUERY could end a statement that sleeps on the server. But two of them at once that
// mean one sleeper keep MariaDB 10.11 from answering anybody for two seconds or more.)
const (
	overlap = time.Second      // by how much notices may be late: they carry the time at which their row was read
	rewrite = 20 * time.Second // how often a listener says that it is there, and removes those that are gone

	// How long a connection that failed is not tried again: twice as long after each
	// failure, give or take a quarter.
	minRelisten = 50 * time.Millisecond
	maxRelisten = 2 * time.Second
)

// longestSilence is how long a server may take to answer a listener. A connection whose
// other end is gone without a word is silent for a quarter of an hour otherwise.
const longestSilence = 10 * time.Second

// Listen implements node.Queuer. It keeps one connection of the pool, until Close.
func (n *Node) Listen(ctx context.Context, client string, notify func(waiter string)) error {
	if err := rule.CheckClient(client); err != nil {
		return n.fail("listen", fmt.Errorf("%w: %w", node.ErrInvalid, err))
	}
	l := &listener{node: n, client: client, notify: notify, first: make(chan error, 1), told: make(map[notice]bool)}
	l.line.changed = make(chan struct{}, 1)
	n.mu.Lock()
	if n.lines == nil {
		n.lines = make(map[string]*line)
	}
	n.lines[client] = &l.line
	n.mu.Unlock()
	if err := n.life.Spawn(l.run); err != nil {
		return n.fail("listen", err)
	}
	select {
	case err := <-l.first:
		return n.fail("listen", engine.Contextual(err, ctx, n.life))
	case <-ctx.Done():
		return n.fail("listen", ctx.Err())
	}
}

// heardOf is told of every answer: who waits, and how many are before it.
func (n *Node) heardOf(r node.Request, a node.Answer) {
	client, _, _ := strings.Cut(r.Place.Waiter, ":")
	if client == "" {
		return
	}
	n.mu.Lock()
	l := n.lines[client]
	n.mu.Unlock()
	switch {
	case l == nil:
	case r.Op == node.Acquire && a.Status == node.Held:
		l.waits(r.Place.Waiter, node.Stripe(r.Name), a.Ahead)
	case r.Op == node.Acquire && a.Status == node.Granted, r.Op == node.Release && r.Place.Stamp == 0:
		l.leaves(r.Place.Waiter)
	}
}

// listener is who looks for the notifications of a client's waiters.
type listener struct {
	node   *Node
	client string
	notify func(waiter string)
	line   line
	first  chan error // how the first try went
	begun  bool       // it went

	steady steady          // for how long it has said in time that it is there
	told   map[notice]bool // what was told lately
	newest time.Duration   // of the notices that were seen
}

// run listens, again and again, until the node is closed.
func (l *listener) run() {
	ctx, wait := l.node.life.Life(), minRelisten
	for ctx.Err() == nil {
		listened, err := l.listen(ctx)
		if listened {
			wait = minRelisten
		}
		l.answer(err)
		select {
		case <-time.After(time.Duration((0.75 + rand.Float64()/2) * float64(wait))):
		case <-ctx.Done():
		}
		wait = min(2*wait, maxRelisten)
	}
	l.answer(engine.ErrClosed)
}

// answer gives Listen its answer, unless it has one.
func (l *listener) answer(err error) (first bool) {
	if !l.begun {
		l.begun, first = true, true
		l.first <- err
	}
	return first
}

// kept counts the connections of each pool that listeners keep: Nodes may share one.
var kept struct {
	mu sync.Mutex
	of map[*sql.DB]int
}

// keep makes room for one listener more, until leave is called. One connection is left for
// what is not a listener, or nobody would have any.
func (n *Node) keep() (leave func(), err error) {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if kept.of == nil {
		kept.of = make(map[*sql.DB]int)
	}
	if most := n.db.Stats().MaxOpenConnections; !n.own && most > 0 && kept.of[n.db]+1 >= most {
		return nil, fmt.Errorf("all but one of the pool's %d connections are kept by others who wait for locks: raise SetMaxOpenConns", most)
	}
	n.kept(1)
	return func() {
		kept.mu.Lock()
		defer kept.mu.Unlock()
		n.kept(-1)
	}, nil
}

// kept counts. A pool of the Node's own grows with it. Called with kept.mu held.
func (n *Node) kept(more int) {
	if kept.of[n.db] += more; n.own {
		n.db.SetMaxOpenConns(mostConnections + kept.of[n.db])
	}
	if kept.of[n.db] == 0 {
		delete(kept.of, n.db)
	}
}

// listen listens on one connection until that fails.
func (l *listener) listen(ctx context.Context) (listened bool, err error) {
	leave, err := l.node.keep()
	if err != nil {
		return false, err
	}
	defer leave()
	begin, cancel := context.WithTimeout(ctx, l.silence())
	defer cancel()
	conn, err := l.node.db.Conn(begin)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	s, err := l.node.session(begin, conn)
	if err != nil {
		return false, err
	}
	var id int64
	var autocommit, transaction int
	err = conn.QueryRowContext(begin, `SELECT CONNECTION_ID(), @@autocommit, `+s.inTransaction()).Scan(&id, &autocommit, &transaction)
	if err = cmp.Or(err, committing(autocommit, transaction)); err != nil {
		return false, err
	}
	now, err := l.register(begin, conn, s, id)
	if err != nil {
		return false, err
	}
	defer l.unregister(id)
	l.newest = max(l.newest, now-overlap)
	if !l.answer(nil) {
		l.notify("") // notifications may have been missed
	}
	for said := time.Now(); ; {
		if err := l.look(ctx, conn); err != nil {
			return true, err
		}
		timer := time.NewTimer(min(l.line.pause(), l.rewrite()))
		select {
		case <-timer.C:
		case <-l.line.changed:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return true, ctx.Err()
		}
		if time.Since(said) > l.rewrite() {
			if _, err := l.register(ctx, conn, s, id); err != nil {
				return true, err
			}
			said = time.Now()
		}
	}
}

func (l *listener) silence() time.Duration { return cmp.Or(l.node.silence, longestSilence) }

func (l *listener) rewrite() time.Duration { return cmp.Or(l.node.rewrite, rewrite) }

// register records that the waiters of the client can be told, removes the records of clients
// that are gone, and returns the time.
func (l *listener) register(ctx context.Context, conn *sql.Conn, s *session, id int64) (now time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.silence())
	defer cancel()
	var at reading
	if err := conn.QueryRowContext(ctx, `SELECT `+clock).Scan(&at.began, &at.since); err != nil {
		return 0, err
	}
	now, _ = at.time()
	_, err = conn.ExecContext(ctx, fmt.Sprintf(`INSERT INTO fenlock_listeners (client, connection, server, started, account, seen)
		VALUES (%s, %d, %s, %d, CURRENT_USER(), %d) ON DUPLICATE KEY UPDATE connection = VALUES(connection), server = VALUES(server),
		started = VALUES(started), account = VALUES(account), seen = VALUES(seen)`,
		literal([]byte(l.client)), id, literal([]byte(s.identity)), s.started, now.Microseconds()))
	if err != nil {
		return 0, err
	}
	silent := mostSilent
	if l.steady.said(now, l.rewrite()) > missed*l.rewrite() {
		silent = missed * l.rewrite()
	}
	return now, s.forget(ctx, conn, now, silent)
}

// unregisterTimeout bounds the good-bye of a listener.
const unregisterTimeout = time.Second

// unregister says that the client has gone. Others would find out all the same.
func (l *listener) unregister(id int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.node.life), unregisterTimeout)
	defer cancel()
	conn, err := l.node.db.Conn(ctx)
	if err != nil {
		return
	}
	defer conn.Close()
	conn.ExecContext(ctx, fmt.Sprintf(`DELETE FROM fenlock_listeners WHERE client = %s AND connection = %d`, literal([]byte(l.client)), id))
}

// look reads the notices that are new, tells those that are for this client, and has the
// others say which queues move.
func (l *listener) look(ctx context.Context, conn *sql.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, l.silence())
	defer cancel()
	floor := l.newest - overlap
	where := fmt.Sprintf(`INSTR(notices, '%s') > 0`, l.client)
	if stripes := l.line.stripes(); stripes != "" {
		where += ` OR stripe IN (` + stripes + `)`
	}
	// The first row is the clock.
	rows, err := conn.QueryContext(ctx, fmt.Sprintf(`SELECT -1, %s + %s, x'' UNION ALL SELECT stripe, turns, notices FROM fenlock_stripes WHERE turns > %d AND (%s) LIMIT %d`,
		clockBegan, clockSince, floor.Microseconds(), where, node.Stripes+1))
	if err != nil {
		return err
	}
	defer rows.Close()
	var found []notice
	now := time.Duration(math.MaxInt64)
	for rows.Next() {
		var stripe int
		var turns int64
		var text []byte
		if err := rows.Scan(&stripe, &turns, &text); err != nil {
			return err
		}
		if stripe < 0 {
			now = time.Duration(turns) * time.Microsecond
			continue
		}
		l.newest = max(l.newest, time.Duration(turns)*time.Microsecond)
		for _, n := range decodeNotices(text) {
			if l.told[n] || n.at <= floor {
				continue
			}
			l.told[n] = true
			if client, _, _ := strings.Cut(n.waiter, ":"); client == l.client {
				found = append(found, n)
			}
			l.line.moved(stripe)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	// Where the server's clock was set back, what comes is older than what was seen.
	l.newest = min(l.newest, now)
	for n := range l.told {
		if n.at <= l.newest-overlap {
			delete(l.told, n)
		}
	}
	for _, n := range found {
		l.notify(n.waiter)
	}
	return nil
}
