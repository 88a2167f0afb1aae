package mysqlnode

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/engine"
)

// Registers implements cas.Store.
func (n store) Registers(ctx context.Context) (r node.Registers, err error) {
	conn, s, err := n.freshConn(ctx)
	if err != nil {
		return r, err
	}
	defer conn.Close()
	// A server that is read-only may be the primary of before, or a replica: whether the node votes
	// is not its to say.
	if _, err := s.read(ctx, conn, 0); err != nil {
		return r, err
	}
	m, now, err := readMeta(ctx, conn, s)
	if err != nil {
		return r, err
	}
	f := m.facts(s, now)
	r = node.Registers{Server: f.Server, Memory: f.Memory, Admitted: f.Votes || f.Kept, Empty: f.Empty,
		MaxTTL: f.Terms.MaxTTL, Members: f.Terms.Members, Tokens: map[int]fence.Token{}}
	// With the condition, the registers are those of the facts, or none.
	var read, stripe int
	var token int64
	err = s.scan(ctx, conn, fmt.Sprintf(`SELECT stripe, token FROM fenlock_stripes
		WHERE (SELECT version FROM fenlock_meta WHERE id = 1) = %d AND %s LIMIT %d`, m.version, s.here(m.Volatile != ""), node.Stripes+1), func() error {
		read++
		if stripe < 0 || stripe >= node.Stripes || token < 0 || token > int64(fence.MaxToken) {
			return fmt.Errorf("%w: stripe %d has the register %d", cas.ErrDamaged, stripe, token)
		}
		if token > 0 {
			r.Tokens[stripe] = fence.Token(token)
		}
		return nil
	}, &stripe, &token)
	if err != nil {
		return r, err
	}
	if read == 0 {
		// Another client has noted or admitted it meanwhile; or all rows are missing.
		if _, err := usedStripes(ctx, conn); err != nil {
			return r, err
		}
		return r, cas.ErrConflict
	}
	return r, missing(read)
}

// missing refuses a table of stripes that lacks some: each may have been a register that counts.
func missing(rows int) error {
	if rows < node.Stripes {
		return engine.Misconfiguredf("%d rows are missing in fenlock_stripes, which has been emptied: %s", node.Stripes-rows,
			runMigrate)
	}
	return nil
}

// usedStripes returns how many stripes have a register.
func usedStripes(ctx context.Context, conn *sql.Conn) (used int, err error) {
	var rows int
	if err := conn.QueryRowContext(ctx, `SELECT COUNT(*), COUNT(NULLIF(token, 0)) FROM fenlock_stripes`).Scan(&rows,
		&used); err != nil {
		return 0, err
	}
	return used, missing(rows)
}

// admitted reports whether the server that a row was read from may vote.
func (n store) admitted(ctx context.Context, conn *sql.Conn, s *session, r row) (bool, error) {
	if !r.here {
		conn.Raw(func(any) error { return driver.ErrBadConn }) // has the pool close it
		return false, errMoved
	}
	if r.flushing != s.flushing {
		// The settings were changed under it. What they mean is looked up anew.
		n.sessions.forget(conn)
		return false, cas.ErrConflict
	}
	m := n.facts.Load()
	if m == nil || m.version != r.meta {
		var err error
		if m, _, err = readMeta(ctx, conn, s); err != nil {
			return false, err
		}
		n.facts.Store(m)
	}
	if f := m.facts(s, r.now); !f.Votes || f.Memory == "" || m.version != r.meta {
		n.sessions.forget(conn) // what is known of the server may be old
		return false, nil
	}
	if r.session != s.number && s.here(m.Volatile != "") != s.same {
		n.sessions.forget(conn)
		return false, errShared
	}
	// A client that only looks may have no right to write.
	if after, differs := m.corrected(s); differs && n.joined() {
		if _, err := m.write(ctx, conn, s, after, sameOut, false); err != nil {
			return false, err
		}
		return false, cas.ErrConflict
	}
	return true, nil
}

// looked is what facts were made of.
type looked struct {
	version int64
	place   string
}

// Facts implements admit.Store.
func (n store) Facts(ctx context.Context) (f admit.Facts, err error) {
	conn, s, err := n.freshConn(ctx)
	if err != nil {
		return f, explained(err)
	}
	defer conn.Close()
	f, err = factsOf(ctx, conn, s)
	return f, explained(err)
}

func factsOf(ctx context.Context, conn *sql.Conn, s *session) (f admit.Facts, err error) {
	if _, err := s.read(ctx, conn, 0); err != nil { // refuses what must not be written to
		return f, err
	}
	m, now, err := readMeta(ctx, conn, s)
	if err != nil {
		return f, err
	}
	used, err := usedStripes(ctx, conn)
	if err != nil {
		return f, err
	}
	f = m.facts(s, now)
	f.Recorded, f.State = f.Recorded || used > 0, looked{m.version, s.place()}
	return f, nil
}

// Note implements admit.Store. The leases go in the same step.
func (n store) Note(ctx context.Context, f admit.Facts) (bool, error) {
	return n.change(ctx, f, true, func(m *meta, s *session, now time.Duration) (meta,
		string) {
		return m.noted(s, f.Cause, now)
	})
}

// Mark implements admit.Store. The leases go in the same step, unless none was lost.
func (n store) Mark(ctx context.Context, f admit.Facts, own admit.Terms, empty []string) (bool, error) {
	return n.change(ctx, f, !f.Kept, func(m *meta, s *session, _ time.Duration) (meta, string) {
		return m.marked(s, own, empty, f.Kept), sameOut
	})
}

// change writes the row of a server that is still what the facts say.
func (n store) change(ctx context.Context, f admit.Facts, forget bool,
	to func(m *meta, s *session, now time.Duration) (meta, string)) (bool, error) {
	conn, s, err := n.freshConn(ctx)
	if err != nil {
		return false, explained(err)
	}
	defer conn.Close()
	m, now, err := readMeta(ctx, conn, s)
	if err != nil || f.State != (looked{m.version, s.place()}) {
		return false, explained(err)
	}
	after, out := to(m, s, now)
	is, err := m.write(ctx, conn, s, after, out, forget)
	return is, explained(err)
}

// Raise implements admit.Store, after the bound of the registers. The rows are there, so that it
// inserts none.
func (n store) Raise(ctx context.Context, _ admit.Facts, tokens map[int]fence.Token) error {
	var rows strings.Builder
	var highest fence.Token
	for _, stripe := range slices.Sorted(maps.Keys(tokens)) { // two clients that lock rows in one order do not deadlock
		token := tokens[stripe]
		if stripe < 0 || stripe >= node.Stripes || token > fence.MaxToken {
			return fmt.Errorf("another node has the register %d for stripe %d, which is invalid", uint64(token), stripe)
		}
		highest = max(highest, token)
		if rows.Len() > 0 {
			rows.WriteByte(',')
		}
		fmt.Fprintf(&rows, "(%d,%d,%d,0,x'',x'',x'')", stripe, random(), uint64(token))
	}
	conn, s, err := n.conn(ctx)
	if err != nil {
		return explained(err)
	}
	defer conn.Close()
	if err := raiseAhead(ctx, conn, int64(highest), s.same); err != nil {
		return explained(err)
	}
	_, err = conn.ExecContext(ctx,
		`INSERT INTO fenlock_stripes (stripe, version, token, turns, leases, waiters, notices) VALUES `+rows.String()+
			` ON DUPLICATE KEY UPDATE version = VALUES(version), token = GREATEST(token, VALUES(token))`)
	return explained(err)
}
