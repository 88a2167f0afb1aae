package mysqlnode

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/engine"
)

// format is the version of the tables and of what is in them. A program that finds
// another one must not touch them: it does not know what they promise.
const format = 2

// meta is the row of fenlock_meta: what the clients of the group agree on, and which run
// of which server may vote.
type meta struct {
	version int64 // random: another one after each write; 0: nothing was written since Migrate
	// out is when the tables were made, or from when on they had no mark: on the server's clock.
	out time.Duration

	Milliseconds int64  `json:"max_ttl_ms,omitempty"` // MaxTTL
	Members      string `json:"members,omitempty"`    // sorted

	// Server is what was admitted, "" if nothing is; Noticed is what was found to be out since then.
	// There is one of both at most. Tables and Started are that one's.
	Server  string `json:"server,omitempty"`
	Noticed string `json:"noticed,omitempty"`
	Tables  string `json:"tables,omitempty"`
	Started int64  `json:"started,omitempty"` // see session
	Cause   string `json:"cause,omitempty"`   // of Noticed: a key of causes

	Volatile string   `json:"volatile,omitempty"` // why a crash of Server may lose something
	Memory   string   `json:"memory,omitempty"`   // random: another one after each loss
	Empty    []string `json:"empty,omitempty"`    // as in node.Registers
}

// causes are what is recorded of why a server is out. Without a word it was never used.
var causes = map[string]node.Cause{"": node.Unused, "restarted": node.Restarted, "replaced": node.Replaced}

func (m *meta) terms() admit.Terms {
	return admit.Terms{MaxTTL: time.Duration(m.Milliseconds) * time.Millisecond, Members: m.Members}
}

// readMeta reads the row, and the server's clock with it.
func readMeta(ctx context.Context, conn *sql.Conn, s *session) (m *meta, now time.Duration, err error) {
	for range 3 {
		m = &meta{}
		var found, out int64
		var facts []byte
		var at reading
		var here bool
		err = conn.QueryRowContext(ctx,
			`SELECT format, version, made, facts, `+clock+`, `+s.same+` FROM fenlock_meta WHERE id = 1`).
			Scan(&found, &m.version, &out, &facts, &at.began, &at.since, &here)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return nil, 0, engine.Misconfiguredf("the table fenlock_meta is empty: %s", runMigrate)
		case err != nil:
			return nil, 0, err
		case found != format:
			return nil, 0, engine.Misconfiguredf("%w", formatError(found))
		case !here:
			return nil, 0, errMoved
		}
		if err := json.Unmarshal(facts, m); err != nil {
			return nil, 0, engine.Misconfiguredf(
				"the row of fenlock_meta was changed by something that is not fenlock: its facts cannot be read (%v)", err)
		}
		m.out = time.Duration(out) * time.Microsecond
		var ok bool
		if now, ok = at.time(); ok {
			return m, now, nil
		}
		if _, err := conn.ExecContext(ctx, `SET timestamp = DEFAULT`); err != nil {
			return nil, 0, err
		}
	}
	return nil, 0, errRetimed
}

// formatError is the error of tables that another version of fenlock has made. Nothing may be
// written there.
type formatError int

func (e formatError) Error() string {
	return fmt.Sprintf("the tables have the format %d, and this program knows format %d: use one version of fenlock",
		int(e), format)
}

// write writes the facts if no other client has since they were read, and reports whether it did.
// What else is set is SQL.
//
// Forget has every lease removed in the same statement, and gives every stripe another version.
// What a client has read before, it cannot write any more. All registers go up to their bound: one
// may have been lost in a table that has another engine now. It is one statement because a
// transaction of several would keep all rows locked for as long as a client is paused in the
// middle.
func (m *meta) write(ctx context.Context, conn *sql.Conn, s *session, after meta, out string, forget bool) (is bool,
	err error) {
	facts, err := json.Marshal(after)
	if err != nil {
		return false, err
	}
	tables, more := `fenlock_meta AS m`, ``
	if forget {
		tables = `fenlock_meta AS m JOIN fenlock_stripes AS s`
		// also of one below zero
		more = fmt.Sprintf(`, s.leases = x'', s.version = (s.version ^ %d) & %d, s.token = GREATEST(s.token, m.ahead)`,
			random()|1, math.MaxInt64)
	}
	return changed(ctx, conn, s.with(`sql_safe_updates=0`, `UPDATE`,
		fmt.Sprintf(`%s SET m.version = %d, m.facts = %s, m.made = %s%s WHERE m.id = 1 AND m.version = %d AND %s`,
			tables, random()|1, literal(facts), out, more, m.version, s.here(m.Volatile != ""))))
}

// sameOut leaves the time as it is since when the server is out.
const sameOut = `m.made`

// corrected returns the facts of a server that may vote, where these are outdated, and false if
// they are not.
func (m *meta) corrected(s *session) (after meta, differs bool) {
	after = *m
	if m.Volatile == "" {
		after.Volatile = s.volatile // what is committed from now on may be lost
	}
	return after, after.Volatile != m.Volatile
}

// of reports whether the row is of a server and its tables, in this run of it or another one.
func (m *meta) of(s *session) bool { return m.Server+m.Noticed == s.identity && m.Tables == s.tables }

// facts returns what the row says of a server at now. It does no I/O.
//
// A mark is of a run of a server, and of the tables in which it was made. It is of what the store
// is now as long as all of these are the same. In another run nothing was lost if the server has
// kept what it has committed. A run that may lose something is still not marked at once. It may
// lose that mark with the leases after it. Then the mark of before would say to the next run that
// nothing was lost.
func (m *meta) facts(s *session, now time.Duration) admit.Facts {
	f := admit.Facts{Server: s.identity, Terms: m.terms(), Recorded: m.version != 0, Untouched: true, Cause: node.Replaced}
	same, begun := m.of(s), s.begun()
	run := same && (s.galera || m.Started == s.started)
	switch {
	case m.Server != "":
		f.Marked, f.Votes, f.Kept = true, run, same && !run && m.Volatile == "" && s.volatile == ""
		if same {
			f.Cause = node.Restarted
		}
		if run && s.galera && s.volatile != "" && now-begun < admit.Quarantine(f.Terms.MaxTTL) {
			// If all members have crashed, this one was started a short time ago. Nothing is noted, since
			// the mark is that of the other members too.
			f.Votes, f.Marked, f.Counted, f.Out = false, false, true, max(now-begun, 0)
		}
	case m.Noticed != "":
		f.Counted, f.Out = run && m.out <= now+clockSlack, max(now-m.out, 0)
		if same {
			f.Cause = causes[m.Cause]
		}
	default:
		// A crash may have cost the record of the first admission, and leases with it; and the tables
		// may have been copied since they were made.
		since := max(m.out, begun, s.made)
		f.Counted, f.Cause, f.Out = since <= now+clockSlack, node.Unused, max(now-since, 0)
	}
	if f.Votes || f.Kept {
		f.Memory, f.Empty = m.Memory, m.Empty
	} else {
		f.Memory = m.lost(s)
	}
	return f
}

// clockSlack is how much later than now a time may be that was rounded up to the second. What is
// later still is of a clock that was set back.
const clockSlack = time.Second

// lost names what a server remembers that is not admitted: another one after each loss, each start
// and each note.
func (m *meta) lost(s *session) string {
	return fmt.Sprintf("%s, out since %d, after %s", s.place(), m.out.Microseconds(), m.Memory)
}

// noted returns the facts of a server that is out at now, and since when: by its own clock, as SQL.
func (m *meta) noted(s *session, cause node.Cause, now time.Duration) (after meta, out string) {
	after = meta{Milliseconds: m.Milliseconds, Members: m.Members, Noticed: s.identity, Tables: s.tables,
		Started: s.started}
	after.Memory = fmt.Sprintf("%016x", random())
	for word, is := range causes {
		if is == cause {
			after.Cause = word
		}
	}
	// Without a mark nothing is granted. With one that may be lost, no client takes one run for
	// another (session.here). So every lease is older than this run.
	older := m.Server == "" || m.Volatile != ""
	if begun := s.begun(); m.of(s) && older && !s.galera && m.Started != s.started && begun <= now {
		return after, fmt.Sprint(begun.Microseconds())
	}
	return after, clockBegan
}

// marked returns the facts of a server that is admitted.
func (m *meta) marked(s *session, own admit.Terms, empty []string, kept bool) meta {
	after := meta{Milliseconds: m.Milliseconds, Members: m.Members, Server: s.identity, Tables: s.tables,
		Started: s.started, Volatile: s.volatile}
	after.Memory, after.Empty = m.Memory, empty
	if !kept {
		after.Memory = fmt.Sprintf("%016x", random())
	}
	if m.Milliseconds == 0 {
		after.Milliseconds = own.MaxTTL.Milliseconds()
	}
	if m.Members == "" {
		after.Members = own.Members
	}
	return after
}
