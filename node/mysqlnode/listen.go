package mysqlnode

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// How a client listens: on a connection of its own it looks whether one of its waiters was
// notified, and sleeps on the server if not, in one statement. Who notifies it ends that
// by KILL QUERY, which takes no right for a session of the same user. Where that does not
// work, it is told by looking.
const (
	nap       = 250 * time.Millisecond  // until KILL QUERY was seen to work
	longNap   = 2500 * time.Millisecond // from then on
	overlap   = time.Second             // by how much notices may be late: they carry the time at which their row was read
	rewrite   = 10 * time.Minute        // how often a listener says that it is there
	forgotten = time.Hour               // a listener that has not said so is none

	// How long a connection that failed is not tried again: twice as long after each
	// failure, give or take a quarter.
	minRelisten = 50 * time.Millisecond
	maxRelisten = 2 * time.Second
)

// Listen implements node.Queuer. It keeps one connection of the pool, until Close.
func (n *Node) Listen(ctx context.Context, client string, notify func(waiter string)) error {
	if err := rule.CheckClient(client); err != nil {
		return n.fail("listen", fmt.Errorf("%w: %w", node.ErrInvalid, err))
	}
	l := &listener{node: n, client: client, notify: notify, first: make(chan error, 1), told: make(map[notice]bool)}
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return n.fail("listen", errClosed)
	}
	n.work.Go(l.run)
	n.mu.Unlock()
	select {
	case err := <-l.first:
		return n.fail("listen", contextual(ctx, n.life, err))
	case <-ctx.Done():
		return n.fail("listen", ctx.Err())
	}
}

// listener is who looks for the notifications of a client's waiters.
type listener struct {
	node   *Node
	client string
	notify func(waiter string)
	first  chan error // how the first try went
	begun  bool       // it went

	told   map[notice]bool // what was told lately
	newest time.Duration   // notice that was told
	pushed bool            // KILL QUERY works
}

// run listens, again and again, until the node is closed.
func (l *listener) run() {
	ctx, wait := l.node.life, minRelisten
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
	l.answer(errClosed)
}

// answer gives Listen its answer, unless it has one.
func (l *listener) answer(err error) (first bool) {
	if !l.begun {
		l.begun, first = true, true
		l.first <- err
	}
	return first
}

// listen listens on one connection until that fails.
func (l *listener) listen(ctx context.Context) (listened bool, err error) {
	conn, err := l.node.db.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	s, err := l.node.session(ctx, conn)
	if err != nil {
		return false, err
	}
	var id int64
	if err := conn.QueryRowContext(ctx, `SELECT CONNECTION_ID()`).Scan(&id); err != nil {
		return false, err
	}
	now, err := l.register(ctx, conn, s, id)
	if err != nil {
		return false, err
	}
	// Who leaves in order says so, and nobody waits for it. The server finds out by
	// itself, too: the connection ends.
	defer l.unregister(s, id)
	l.newest = max(l.newest, now-overlap)
	if !l.answer(nil) {
		l.notify("") // notifications may have been missed
	}
	l.pushed = false
	l.node.work.Go(func() { l.try(ctx, s) })
	for said := time.Now(); ; {
		notices, err := l.sleep(ctx, conn)
		if err != nil {
			return true, err
		}
		for _, found := range notices {
			l.notify(found.waiter)
		}
		if time.Since(said) > rewrite {
			if _, err := l.register(ctx, conn, s, id); err != nil {
				return true, err
			}
			said = time.Now()
		}
	}
}

// register records that the waiters of the client can be told, and returns the time.
func (l *listener) register(ctx context.Context, conn *sql.Conn, s *session, id int64) (now time.Duration, err error) {
	var at reading
	if err := conn.QueryRowContext(ctx, `SELECT `+clock).Scan(&at.began, &at.since); err != nil {
		return 0, err
	}
	now, _ = at.time()
	_, err = conn.ExecContext(ctx, fmt.Sprintf(`INSERT INTO fenlock_listeners (client, connection, server, account, seen) VALUES (%s, %d, %s, CURRENT_USER(), %d)
		ON DUPLICATE KEY UPDATE connection = VALUES(connection), server = VALUES(server), account = VALUES(account), seen = VALUES(seen)`,
		literal([]byte(l.client)), id, literal([]byte(s.identity)), now.Microseconds()))
	if err != nil {
		return 0, err
	}
	_, err = conn.ExecContext(ctx, fmt.Sprintf(`DELETE FROM fenlock_listeners WHERE seen < %d`, (now-forgotten).Microseconds()))
	return now, err
}

// unregisterTimeout bounds the good-bye of a listener.
const unregisterTimeout = time.Second

func (l *listener) unregister(s *session, id int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.node.life), unregisterTimeout)
	defer cancel()
	conn, err := l.node.db.Conn(ctx)
	if err != nil {
		return
	}
	defer conn.Close()
	// The session may still be asleep there, and keeps the tables from being changed.
	if now, err := l.node.session(ctx, conn); err == nil && now.identity == s.identity && now.started == s.started {
		conn.ExecContext(ctx, fmt.Sprintf(`KILL %d`, id))
	}
	conn.ExecContext(ctx, fmt.Sprintf(`DELETE FROM fenlock_listeners WHERE client = %s AND connection = %d`, literal([]byte(l.client)), id))
}

// try finds out whether this user may wake its own sessions.
func (l *listener) try(ctx context.Context, s *session) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if conn, err := l.node.db.Conn(ctx); err == nil {
		defer conn.Close()
		l.node.wake(ctx, conn, s, listenerAt{client: l.client})
	}
}

// sleep waits for a notice, and returns those that were not told yet.
func (l *listener) sleep(ctx context.Context, conn *sql.Conn) (found []notice, err error) {
	long := nap
	if l.pushed {
		long = longNap
	}
	// The client is in it for who looks for this statement in the list of processes.
	const recent = `FROM fenlock_stripes WHERE turns > %d AND INSTR(notices, '%s') > 0`
	var slept int
	err = conn.QueryRowContext(ctx, fmt.Sprintf(`SELECT SLEEP(IF(EXISTS(SELECT 1 `+recent+`), 0, %.3f))`,
		l.newest.Microseconds(), l.client, long.Seconds())).Scan(&slept)
	switch {
	case number(err) == 1317, err == nil && slept == 1: // MariaDB and MySQL say it in different ways
		l.pushed = true
	case err != nil:
		return nil, err
	}
	floor := l.newest - overlap
	rows, err := conn.QueryContext(ctx, fmt.Sprintf(`SELECT turns, notices `+recent, floor.Microseconds(), l.client))
	if err != nil {
		if number(err) == 1317 { // it was meant for the sleep
			return nil, nil
		}
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var turns int64
		var text []byte
		if err := rows.Scan(&turns, &text); err != nil {
			return nil, err
		}
		// Also if that notice is another client's: it must not end the next sleep at once.
		l.newest = max(l.newest, time.Duration(turns)*time.Microsecond)
		for _, n := range decodeNotices(text) {
			if client, _, _ := strings.Cut(n.waiter, ":"); client != l.client || l.told[n] || n.at <= floor {
				continue
			}
			l.told[n] = true
			found = append(found, n)
		}
	}
	if err := rows.Err(); err != nil && number(err) != 1317 {
		return found, err
	}
	for n := range l.told {
		if n.at <= l.newest-overlap {
			delete(l.told, n)
		}
	}
	return found, nil
}

// listenerAt is a listener that was looked for.
type listenerAt struct {
	client     string
	there      bool
	connection int64 // 0: it does not sleep at the moment, or is another user's, or on another server
}

// reach looks for who listens for a waiter. Of another user, or on another member of a
// cluster, it is not known whether it is still there; then it is believed.
func (s *session) reach(ctx context.Context, conn *sql.Conn, waiter string) (listenerAt, error) {
	client, _, _ := strings.Cut(waiter, ":")
	found := listenerAt{client: client}
	var id int64
	var near bool
	var here sql.NullInt64
	var doing sql.NullString
	err := conn.QueryRowContext(ctx, fmt.Sprintf(`SELECT l.connection, l.server = %s AND l.account = CURRENT_USER(), p.ID, p.INFO
		FROM fenlock_listeners AS l LEFT JOIN information_schema.PROCESSLIST AS p ON p.ID = l.connection WHERE l.client = %s`,
		literal([]byte(s.identity)), literal([]byte(client)))).Scan(&id, &near, &here, &doing)
	switch {
	case err == sql.ErrNoRows:
		return found, nil
	case err != nil:
		return found, err
	}
	asleep := doing.Valid && strings.Contains(doing.String, "SLEEP(") && strings.Contains(doing.String, client)
	found.there = !near || here.Valid && (asleep || !doing.Valid || strings.Contains(doing.String, client))
	if near && asleep {
		found.connection = id
	}
	return found, nil
}

// wake ends the sleep of a listener. Should that fail, it wakes by itself.
func (n *Node) wake(ctx context.Context, conn *sql.Conn, s *session, l listenerAt) {
	if l.connection == 0 {
		var err error
		if l, err = s.reach(ctx, conn, l.client); err != nil || l.connection == 0 {
			return
		}
	}
	conn.ExecContext(ctx, fmt.Sprintf(`KILL QUERY %d`, l.connection))
}
