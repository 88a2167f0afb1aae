package mysqlnode

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node/engine"
)

// Which listeners are still there: a row of fenlock_listeners outlives a client that was killed.

const (
	missed     = 3         // a listener that has not said so often that it is there is gone
	mostSilent = time.Hour // the same while the one that looks has not said so in time itself
	mostGone   = 100       // that are removed at once
)

// besideUs is an expression for a listener l. It tells whether this connection leads to the run of
// the server that the listener is connected to, as its user. Then its connection is in the list of
// processes.
func (s *session) besideUs() string {
	return fmt.Sprintf(`(l.server = %s AND l.started = %d AND l.account = CURRENT_USER())`, literal([]byte(s.identity)),
		s.started)
}

// gone is the same for whether the listener's client is known to be gone; p is its connection, if
// there is one. Of another user, or on another member of a cluster, it is not known.
func (s *session) gone() string {
	gone := s.besideUs() + ` AND p.ID IS NULL`
	if !s.galera {
		gone += fmt.Sprintf(` OR l.server = %s AND l.started <> %d`, literal([]byte(s.identity)), s.started)
	}
	return `(` + gone + `)`
}

// reach reports whether a client listens for a waiter. It is believed where it is not known. The
// connection is one that this one may wake, 0 for none.
func (s *session) reach(ctx context.Context, conn *sql.Conn, waiter string) (is bool, connection int64, err error) {
	var gone bool
	err = conn.QueryRowContext(ctx, fmt.Sprintf(`SELECT %s, IF(%s AND p.ID IS NOT NULL, l.connection, 0) FROM fenlock_listeners AS l
		LEFT JOIN information_schema.PROCESSLIST AS p ON p.ID = l.connection WHERE l.client = %s`, s.gone(), s.besideUs(),
		literal([]byte(engine.ClientOf(waiter))))).Scan(&gone, &connection)
	if errors.Is(err, sql.ErrNoRows) {
		return false, 0, nil
	}
	return err == nil && !gone, connection, err
}

// forget removes the listeners whose clients are known to be gone. Where that is not known, those
// go that have said nothing for so long, or in the future. It looks without a lock first, and locks
// only what it removes; what has changed since then stays.
func (s *session) forget(ctx context.Context, conn *sql.Conn, now, silent time.Duration) error {
	before := func(ago time.Duration) string {
		return fmt.Sprintf(`l.seen NOT BETWEEN %d AND %d`, (now - ago).Microseconds(), (now + silent).Microseconds())
	}
	where := before(silent) // members of a cluster may have been started in the same second
	if !s.galera {
		// The list of processes may be older than the row of a listener that has come since then.
		where = s.gone() + ` AND ` + before(0) + ` OR NOT ` + s.besideUs() + ` AND ` + before(silent)
	}
	var clients, all []string
	var client []byte
	var connection, seen int64
	err := each(ctx, conn, fmt.Sprintf(`SELECT l.client, l.connection, l.seen FROM fenlock_listeners AS l
		LEFT JOIN information_schema.PROCESSLIST AS p ON p.ID = l.connection WHERE %s LIMIT %d`, where, mostGone), func() error {
		clients = append(clients, literal(client))
		all = append(all, fmt.Sprintf(`(%s, %d, %d)`, literal(client), connection, seen))
		return nil
	}, &client, &connection, &seen)
	if err != nil || len(all) == 0 {
		return err
	}
	_, err = conn.ExecContext(ctx,
		fmt.Sprintf(`DELETE FROM fenlock_listeners WHERE client IN (%s) AND (client, connection, seen) IN (%s)`,
			strings.Join(clients, ", "), strings.Join(all, ", ")))
	if slices.Contains([]uint16{1020, 1205, 1213}, number(err)) {
		return nil // another listener removes them too, or one of them has come back
	}
	return err
}

// steady is for how long a listener has said in time that it is there. A listener may not have done
// so, since the server or itself stood still or the server's clock was set. It does not know then
// whether the others could.
type steady struct{ since, last time.Duration }

// said tells it that the listener says so now, as it has to every so often. Times are the server's.
func (s *steady) said(now, every time.Duration) time.Duration {
	if now < s.last || now-s.last > 2*every {
		s.since = now
	}
	s.last = now
	return now - s.since
}
