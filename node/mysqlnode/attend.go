package mysqlnode

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
)

// A server cannot tell a client anything without being asked, so that a client that listens asks.
// It does so on a connection of its own, in one statement for all waiters of the process. That
// connection is also how others see that it is there. It ends with the process, and is gone from
// the list of processes at once.
//
// (KILL QUERY could end a statement that sleeps on the server. But two of them at once that mean
// one sleeper keep MariaDB 10.11 from answering at all for two seconds or more.)

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
	defer conn.Close()
	s, err := n.session(begin, conn)
	if err != nil {
		return err
	}
	l := &listener{node: n.pool, Hearing: h, conn: conn, server: s}
	var autocommit, transaction int
	err = conn.QueryRowContext(begin, `SELECT CONNECTION_ID(), @@autocommit, `+s.inTransaction()).Scan(&l.number,
		&autocommit, &transaction)
	if err = cmp.Or(err, committing(autocommit, transaction)); err != nil {
		return err
	}
	now, err := l.register(begin)
	if err != nil {
		return err
	}
	defer l.unregister()
	h.Begun(now)
	for said := time.Now(); ; {
		if err := l.look(ctx); err != nil {
			return err
		}
		if err := h.Pause(ctx, n.rewriteEvery()); err != nil {
			return err
		}
		if time.Since(said) > n.rewriteEvery() {
			if _, err := l.register(ctx); err != nil {
				return err
			}
			said = time.Now()
		}
	}
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
}

// register records that the waiters of the client can be told, removes the records of clients
// that are gone, and returns the time.
func (l *listener) register(ctx context.Context) (now time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.node.longestSilence())
	defer cancel()
	var at reading
	if err := l.conn.QueryRowContext(ctx, `SELECT `+clock).Scan(&at.began, &at.since); err != nil {
		return 0, err
	}
	now, _ = at.time()
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
	err := each(ctx, l.conn, fmt.Sprintf(`SELECT -1, %s + %s, x'' UNION ALL SELECT stripe, turns, notices FROM fenlock_stripes WHERE turns > %d AND (%s) LIMIT %d`,
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
