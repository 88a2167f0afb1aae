//go:build linux

package cluster

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/tests/faults/library"
)

// operator is a node as those see it who look after a server.
type operator interface {
	node.Node
	node.Admin
	node.Examiner
}

// look opens the harness's way to the node of a server.
func (m *Member) look(t testing.TB) error {
	err := m.open()
	if err == nil {
		t.Cleanup(func() { m.operator.Close() })
	}
	return err
}

func (m *Member) open() error {
	n, err := library.OpenNode(m.Engine.url(m.server.Addr(), m.server.Addr(), m.number))
	if err == nil {
		m.operator = n.Engine().(operator)
	}
	return err
}

// migrate makes the tables of a database.
func migrate(m *Member, _ Persistence) error {
	ctx, cancel := context.WithTimeout(context.Background(), HealLimit)
	defer cancel()
	return m.operator.(interface{ Migrate(context.Context) error }).Migrate(ctx)
}

// examine asks what the server says of itself.
func (m *Member) examine(timeout time.Duration) (node.Examination, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return m.operator.Examine(ctx, node.Look{MaxTTL: m.Engine.TTL})
}

func (m *Member) version() (string, error) {
	e, err := m.examine(Patience)
	return e.Product + " " + e.Version, err
}

// again calls f until it succeeds, and no longer than a while: a connection that was
// there before a restart fails once.
func again(while time.Duration, f func(ctx context.Context) error) (err error) {
	for end := time.Now().Add(while); ; time.Sleep(pollInterval) {
		ctx, cancel := context.WithTimeout(context.Background(), min(while, Patience))
		err = f(ctx)
		cancel()
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

// leases returns what the server has, reserved names too.
func (m *Member) leases(ctx context.Context) (all []node.Lease, err error) {
	err = m.operator.List(ctx, "", func(l node.Lease) bool {
		all = append(all, l)
		return true
	})
	return all, err
}

func (m *Member) leftovers() (left []Leftover, err error) {
	err = again(Patience, func(ctx context.Context) error {
		leases, err := m.leases(ctx)
		left = nil
		for _, l := range leases {
			left = append(left, Leftover{Name: l.Name,
				Text: fmt.Sprintf("holder %s, reserved %v, %v left", l.Label, l.Reserved, l.Remaining)})
		}
		return err
	})
	return left, err
}

// release ends leases that a clock which was set back would keep for years. A living holder extends
// a lease sooner than once in a TTL. So a lease that still has more than that left, a TTL after the
// clock is right, has no holder any more.
func (m *Member) release() error {
	ctx, cancel := context.WithTimeout(context.Background(), Brief)
	defer cancel()
	leases, err := m.leases(ctx)
	for _, l := range leases {
		if l.Remaining > m.Engine.TTL && err == nil {
			_, err = m.operator.Do(ctx, node.Request{Op: node.ForceRelease, Name: l.Name})
		}
	}
	return err
}

// Exec runs statements as the harness, past the proxy, each by itself.
func (m *Member) Exec(ctx context.Context, statements ...string) error {
	driver, source := m.Engine.database(m.Server().Addr())
	db, err := sql.Open(driver, source)
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, s := range statements {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// act runs statements as the harness, unless the server is down or stopped. If one fails, back
// undoes what was done.
func (m *Member) act(back func() error, statements ...string) (heal func() error, err error) {
	if m.Server().Pid() == 0 || m.Frozen() {
		return nil, fmt.Errorf("%w: the server is down, or stopped", ErrNotNow)
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := m.Exec(ctx, statements...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotNow, errors.Join(err, back()))
	}
	return back, nil
}

// ReadOnly has the server refuse to write. That may outlast a restart, so heal waits for a
// server that is down.
func (m *Member) ReadOnly() (heal func() error, err error) {
	return m.act(func() error {
		return again(HealLimit, func(ctx context.Context) error { return m.Exec(ctx, m.Engine.readOnly(false)...) })
	}, m.Engine.readOnly(true)...)
}

// Replace has the database's tables made anew, as an operator does who begins again. heal makes
// them.
func (m *Member) Replace() (heal func() error, err error) {
	return m.act(func() error {
		return again(HealLimit, func(context.Context) error { return migrate(m, Off) })
	}, m.Engine.drop...)
}

// EndSessions has the server end the connections of all others.
func (m *Member) EndSessions() (heal func() error, err error) {
	return m.act(func() error { return nil }, m.Engine.endSessions)
}
