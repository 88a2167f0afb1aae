package mysqlnode

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
)

// A server cannot tell a client anything without being asked, so that a client that listens asks.
// It does so on a connection of its own, in one statement for all waiters of the process. That
// connection is also how others see that it is there. It ends with the process, and is gone from
// the list of processes soon.
//
// Between two questions a connection to MariaDB is parked: it waits on the server for a user lock
// that another session has. A client that has told it something ends that (KILL QUERY), which every
// user may do to its own sessions. One that is not parked at that moment is not woken. It asks
// again by itself, after a part of the time that it has waited already. (SLEEP in the place of
// GET_LOCK would not do. All sleepers share a mutex, and KILL QUERY waits for it, for two seconds
// or more, while MariaDB 10.11 does not answer at all.)

// rewrite is how often a listener says that it is there, and removes those that are gone.
const rewrite = 20 * time.Second

// longestSilence is how long a server may take to answer a listener. A connection whose
// other end is gone without a word is silent for a quarter of an hour otherwise.
const longestSilence = 10 * time.Second

// Attend implements cas.Teller: it listens on one connection until that fails.
func (n store) Attend(ctx context.Context, h *cas.Hearing) error {
	leave, err := n.keep()
	if err != nil {
		return err
	}
	defer leave()
	begin, cancel := context.WithTimeout(ctx, n.longestSilence())
	defer cancel()
	conn, err := n.db.Conn(begin)
	if err != nil {
		return err
	}
	l := &listener{node: n.pool, Hearing: h, conn: conn}
	defer l.close()
	if _, err := l.identify(begin); err != nil {
		return err
	}
	if _, err := l.park(begin, 0); err != nil {
		return err
	}
	now, err := l.register(begin)
	if err != nil {
		return err
	}
	defer l.unregister()
	h.Begun(now)
	for said := time.Now(); ; {
		if err := l.look(ctx); number(err) == killed {
			continue // the kill says that there is something
		} else if woken(err) != nil {
			return err
		}
		if err := woken(l.rest(ctx)); err != nil {
			return err
		}
		if time.Since(said) > n.rewriteEvery() {
			if _, err := l.register(ctx); woken(err) != nil {
				return err
			}
			said = time.Now()
		}
	}
}

// woken returns nil for the error of a statement that another client, or a limit, has ended.
func woken(err error) error {
	if slices.Contains([]uint16{killed, 1969}, number(err)) {
		return nil
	}
	return err
}

// killed is the error of a statement that KILL QUERY has ended.
const killed = 1317

// parking is the user lock that parked connections wait for. It is the whole server's, and kept for
// as long as any client waits: its name is one that no other program has.
const parking = "fenlock: parked connections"

// rest waits until it is worth looking again.
func (l *listener) rest(ctx context.Context) error {
	if l.polls {
		return l.Pause(ctx, l.node.rewriteEvery())
	}
	other, err := l.park(ctx, min(cmp.Or(l.node.rests, l.Rest()), l.node.rewriteEvery()))
	if err == nil && other {
		_, err = l.register(ctx)
	}
	return err
}

// park has the connection wait on the server, for so long at most. If it did not have to wait, no
// session has the lock. This one keeps it from then on, and another connection listens. If there is
// no other, the client polls from then on.
func (l *listener) park(ctx context.Context, most time.Duration) (other bool, err error) {
	if l.polls = l.polls || !l.server.mariadb || l.server.galera; l.polls {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, most+l.node.longestSilence())
	defer cancel()
	var got sql.NullBool
	err = l.conn.QueryRowContext(ctx, fmt.Sprintf(`SELECT GET_LOCK('%s', %.3f)`, parking, most.Seconds())).Scan(&got)
	if err != nil || !got.Bool {
		return false, err
	}
	leave, err := l.node.keep()
	if err != nil {
		l.polls = true
		_, err := l.conn.ExecContext(ctx, `DO RELEASE_LOCK('`+parking+`')`)
		return false, err
	}
	conn, err := l.node.db.Conn(ctx)
	if err != nil {
		leave()
		return false, err
	}
	l.stopParking()
	l.keeper, l.leave, l.conn = l.conn, leave, conn
	return true, nil
}

// stopParking ends the session that keeps the lock.
func (l *listener) stopParking() {
	if l.keeper != nil {
		discard(l.keeper)
		l.leave()
		l.keeper = nil
	}
}

func (l *listener) close() {
	discard(l.conn)
	l.stopParking()
}

// discard ends a connection, instead of giving it back to the pool. It may have the user lock, and
// a client that takes it for a listener's may end a statement on it.
func discard(conn *sql.Conn) {
	conn.Raw(func(any) error { return driver.ErrBadConn })
	conn.Close()
}

func (n *pool) longestSilence() time.Duration { return cmp.Or(n.silence, longestSilence) }

func (n *pool) rewriteEvery() time.Duration { return cmp.Or(n.rewrite, rewrite) }

// listener looks for the notifications of a client's waiters.
type listener struct {
	*cas.Hearing
	node   *pool
	conn   *sql.Conn
	server *session
	number int64 // of the connection
	polls  bool  // it cannot be parked

	keeper *sql.Conn // has the lock that others are parked on, or nil
	leave  func()    // gives back the room for the keeper
}

// identify finds out which connection it is, and the time.
func (l *listener) identify(ctx context.Context) (now time.Duration, err error) {
	if l.server, err = l.node.session(ctx, l.conn); err != nil {
		return 0, err
	}
	var at reading
	var autocommit, transaction int
	err = l.conn.QueryRowContext(ctx, `SELECT CONNECTION_ID(), @@autocommit, `+l.server.inTransaction()+`, `+clock).
		Scan(&l.number, &autocommit, &transaction, &at.began, &at.since)
	now, _ = at.time()
	return now, cmp.Or(err, committing(autocommit, transaction))
}

// register records that the waiters of the client can be told, removes the records of clients
// that are gone, and returns the time.
func (l *listener) register(ctx context.Context) (now time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.node.longestSilence())
	defer cancel()
	if now, err = l.identify(ctx); err != nil {
		return 0, err
	}
	_, err = l.conn.ExecContext(ctx, fmt.Sprintf(`INSERT INTO fenlock_listeners (client, connection, server, started, account, seen)
		VALUES (%s, %d, %s, %d, CURRENT_USER(), %d) ON DUPLICATE KEY UPDATE connection = VALUES(connection), server = VALUES(server),
		started = VALUES(started), account = VALUES(account), seen = VALUES(seen)`,
		literal([]byte(l.Client())), l.number, literal([]byte(l.server.identity)), l.server.started, now.Microseconds()))
	if err != nil {
		return 0, err
	}
	silent, every := mostSilent, l.node.rewriteEvery()
	if l.node.saidInTime(l.Client(), now, every) > missed*every {
		silent = missed * every
	}
	return now, l.server.forget(ctx, l.conn, now, silent)
}

// unregisterTimeout bounds the good-bye of a listener.
const unregisterTimeout = time.Second

// unregister says that the client has gone. Others would find out all the same.
func (l *listener) unregister() {
	ctx, cancel := context.WithTimeout(context.Background(), unregisterTimeout)
	defer cancel()
	conn, err := l.node.db.Conn(ctx)
	if err != nil {
		return
	}
	defer conn.Close()
	conn.ExecContext(ctx, fmt.Sprintf(`DELETE FROM fenlock_listeners WHERE client = %s AND connection = %d`,
		literal([]byte(l.Client())), l.number))
}

// look reads the notices that are new: those for this client, and those that say which queues move.
func (l *listener) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.node.longestSilence())
	defer cancel()
	where := fmt.Sprintf(`INSTR(notices, '%s') > 0`, l.Client())
	if stripes := strings.Trim(strings.ReplaceAll(fmt.Sprint(l.Stripes()), " ", ","), "[]"); stripes != "" {
		where += ` OR stripe IN (` + stripes + `)`
	}
	// The first row is the clock.
	var stripe int
	var now, turns int64
	var notices []byte
	err := l.server.scan(ctx, l.conn, fmt.Sprintf(`SELECT -1, %s + %s, x'' UNION ALL SELECT stripe, turns, notices FROM fenlock_stripes WHERE turns > %d AND (%s) LIMIT %d`,
		clockBegan, clockSince, l.Floor().Microseconds(), where, node.Stripes+1), func() error {
		if stripe < 0 {
			now = turns
		} else {
			l.Heard(stripe, notices)
		}
		return nil
	}, &stripe, &turns, &notices)
	if err != nil {
		return err
	}
	l.Looked(time.Duration(now) * time.Microsecond)
	return nil
}
