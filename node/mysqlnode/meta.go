package mysqlnode

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node/rule"
)

// format is the version of the tables and of what is in them. A program that finds
// another one must not touch them: it does not know what they promise.
const format = 1

// meta is the row of fenlock_meta: what the clients of the group agree on, and which run
// of which server may vote.
type meta struct {
	version int64         // random: another one after each write
	made    time.Duration // when the tables were made, on the server's clock

	Milliseconds int64  `json:"max_ttl_ms,omitempty"` // MaxTTL
	Members      string `json:"members,omitempty"`

	// Server and Started are what was admitted; Server is "" if nothing was.
	Server   string   `json:"server,omitempty"`
	Started  int64    `json:"started,omitempty"`  // see session
	Volatile string   `json:"volatile,omitempty"` // why a crash of it may lose something
	Memory   string   `json:"memory,omitempty"`   // another one after each loss
	Empty    []string `json:"empty,omitempty"`    // as in node.Registers

	// Noticed is a server that is not admitted, and Since is when that was seen first, in
	// microseconds of its clock.
	Noticed string `json:"noticed,omitempty"`
	Since   int64  `json:"since,omitempty"`
}

func (m *meta) maxTTL() time.Duration { return time.Duration(m.Milliseconds) * time.Millisecond }

// anyMembers is the record where clients name the nodes in different ways, and the
// operator answers for it.
const anyMembers = "*"

// check returns why a client of a group must not use this node, or nil. With another
// MaxTTL it would let a server vote before the leases have ended that this has forgotten;
// with other nodes, two majorities need have no node in common.
func (m *meta) check(maxTTL time.Duration, members string) error {
	switch {
	case m.Milliseconds != 0 && m.maxTTL() != maxTTL:
		return misconfigured("the group's MaxTTL is %v, as recorded in fenlock_meta, and this client's is %v: all clients must agree", m.maxTTL(), maxTTL)
	case m.Members != "" && m.Members != anyMembers && !slices.Equal(sorted(m.Members), sorted(members)):
		return misconfigured("this node belongs to another group of nodes than this client names, %s (the group is %s): all clients must name the same ones, in the same way",
			strings.Join(sorted(members), ", "), strings.Join(sorted(m.Members), ", "))
	}
	return nil
}

func sorted(members string) []string { return slices.Sorted(strings.FieldsSeq(members)) }

// readMeta reads the row, and the server's clock with it.
func readMeta(ctx context.Context, conn *sql.Conn) (m *meta, now time.Duration, err error) {
	for range 3 {
		m = &meta{}
		var found, made int64
		var facts []byte
		var at reading
		err = conn.QueryRowContext(ctx, `SELECT format, version, made, facts, `+clock+` FROM fenlock_meta WHERE id = 1`).
			Scan(&found, &m.version, &made, &facts, &at.began, &at.since)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return nil, 0, misconfigured("the table fenlock_meta is empty: %s", runMigrate)
		case err != nil:
			return nil, 0, err
		case found != format:
			return nil, 0, misconfigured("the tables have the format %d, and this program knows format %d: use one version of fenlock", found, format)
		}
		if err := json.Unmarshal(facts, m); err != nil {
			return nil, 0, misconfigured("the row of fenlock_meta was changed by something that is not fenlock: its facts cannot be read (%v)", err)
		}
		m.made = time.Duration(made) * time.Microsecond
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

// write writes the facts if nobody else has since they were read, and reports whether it
// did.
func (m *meta) write(ctx context.Context, conn *sql.Conn, after *meta) (is bool, err error) {
	facts, err := json.Marshal(after)
	if err != nil {
		return false, err
	}
	after.version = random()
	result, err := conn.ExecContext(ctx, fmt.Sprintf(`UPDATE fenlock_meta SET version = %d, facts = %s WHERE id = 1 AND version = %d`,
		after.version, literal(facts), m.version))
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	return rows == 1, err
}

// verdict is what is to be done with a server that is not admitted. It is decided without
// I/O.
type verdict uint8

const (
	vote    verdict = iota // it is admitted
	goOn                   // it is the server that was, and has lost nothing: record its new run
	wait                   // leases that it may have forgotten may still be held
	observe                // it has been seen for the first time: record that
	rebuild                // they have ended: read the registers of the others
)

// decide returns the verdict on a server at now, in a group with this longest lease, for
// wait how long that takes still, and why.
func (m *meta) decide(s *session, now, maxTTL time.Duration) (v verdict, left time.Duration, why string) {
	quarantine := max(maxTTL, m.maxTTL())
	quarantine += rule.Drift(quarantine)
	ago := func(since time.Duration) (verdict, time.Duration) {
		if since > now+time.Second { // see begun
			// The clock was set back. The wait is begun anew: it would last until the clock is there again.
			if since = time.Duration(m.Since) * time.Microsecond; m.Noticed != s.identity || since > now {
				return observe, 0
			}
		}
		if left := quarantine - (now - since); left > 0 {
			return wait, min(left, quarantine)
		}
		return rebuild, 0
	}
	begun := time.Duration(s.started)*time.Second + time.Second // rounded down
	switch {
	case m.Server == "":
		if v, left = ago(m.made); v != wait && s.volatile != "" {
			// A crash may have cost the record of the first admission, and leases with it.
			v, left = ago(begun)
		}
		return v, left, "its tables are new, or were emptied, and who used older ones may still hold locks"
	case m.Server == s.identity && (s.galera || m.Started == s.started):
		if s.galera && s.volatile != "" { // if all members have crashed, this one was started a short time ago
			if v, left = ago(begun); v == wait {
				return v, left, "it was started a short time ago and may have forgotten leases (" + s.volatile + ")"
			}
		}
		return vote, 0, ""
	case m.Server == s.identity && m.Volatile == "":
		return goOn, 0, ""
	case m.Server == s.identity:
		v, left = ago(begun)
		return v, left, "it was started a short time ago and may have forgotten leases (" + m.Volatile + ")"
	case m.Noticed != s.identity:
		return observe, 0, ""
	}
	v, left = ago(time.Duration(m.Since) * time.Microsecond)
	return v, left, "it is another server than the one that was used (a replica that was promoted, or a backup on another machine), and may lack the newest leases"
}

// memory names what a server remembers that is not admitted: another one after each loss.
func (m *meta) lost(s *session) string {
	return fmt.Sprintf("%s since %d, after %s", s.identity, s.started, m.Memory)
}

// corrected returns the facts of a server that may vote where they say something that is
// not so any more, or nil.
func (m *meta) corrected(s *session) *meta {
	after := *m
	if s.volatile != "" && m.Volatile == "" {
		after.Volatile = s.volatile // what is committed from now on may be lost
	}
	// What was noticed of another server ends here: this one grants locks again. When the
	// other one comes back it lacks those, and its wait begins anew.
	after.Noticed, after.Since = "", 0
	if after.Volatile == m.Volatile && m.Noticed == "" {
		return nil
	}
	return &after
}

// admittedAs returns the facts of a server that is admitted.
func (m *meta) admittedAs(s *session, maxTTL time.Duration, members string, empty []string) *meta {
	after := *m
	after.Server, after.Started, after.Volatile = s.identity, s.started, s.volatile
	after.Memory, after.Empty = fmt.Sprintf("%016x", random()), empty
	after.Noticed, after.Since = "", 0
	if after.Milliseconds == 0 {
		after.Milliseconds = maxTTL.Milliseconds()
	}
	if after.Members == "" {
		after.Members = members
	}
	return &after
}
