package pgnode

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/node"
)

// If a server is slow while a connection is made, requests that are given up meanwhile do not each
// ask for another. The first connection serves those that come later. What was given up was not
// sent.
func TestSlowConnection(t *testing.T) {
	t.Parallel()
	server := shared()
	u := newSchema(t, server)
	schema := open(t, u).schema
	relay, through := through(t, server, server.DSN())
	config := configured(t, through)
	begun := 0
	db := stdlib.OpenDB(*config, stdlib.OptionBeforeConnect(func(context.Context, *pgx.ConnConfig) error {
		begun++
		return nil
	}))
	defer db.Close()
	db.SetMaxOpenConns(1)
	n := on(t, db, schema)
	lift := relay.Impose(proxy.Rule{From: proxy.Effect{Hold: true}})
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := n.Do(ctx, as(node.Acquire, request("a", 0)))
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, node.ErrNotSent) {
			t.Fatalf("a server that says nothing: %v", err)
		}
	}
	lift()
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", 0))))
	if begun != 1 {
		t.Errorf("%d connections were made for it", begun)
	}
}

// mortal is a connection that ends with its generation. Neither pgx nor the pool knows before
// something is sent.
type mortal struct {
	net.Conn
	of      int64
	current *atomic.Int64
}

func (m mortal) Write(b []byte) (int, error) {
	if m.of < m.current.Load() {
		return 0, syscall.ECONNRESET
	}
	return m.Conn.Write(b)
}

// mortals has connections end when the number that it returns grows.
func mortals(t *testing.T, dsn string) (*pgx.ConnConfig, *atomic.Int64) {
	config, current := configured(t, dsn), new(atomic.Int64)
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return mortal{c, current.Load(), current}, err
	}
	return config, current
}

// Connections of the pool that had ended are no reason to fail, even if all had. What was not sent
// is sent on another one.
func TestConnectionsThatHadEnded(t *testing.T) {
	t.Parallel()
	server := shared()
	schema := open(t, newSchema(t, server)).schema
	config, current := mortals(t, server.DSN())
	db := stdlib.OpenDB(*config)
	defer db.Close()
	const many = 8
	db.SetMaxOpenConns(many)
	db.SetMaxIdleConns(many)
	n := on(t, db, schema)
	for range 2 { // the pool pings what was not used for a second
		var conns []*sql.Conn
		for range many {
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
		}
		for _, conn := range conns {
			conn.Close()
		}
	}
	current.Add(1)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", 0))))
	db.SetMaxOpenConns(1)
	for range 3 { // from the second on its statement is prepared where it ended
		var one int
		if err := n.query(t.Context(), "SELECT 1", nil, &one); err != nil || one != 1 {
			t.Fatalf("%d, %v", one, err)
		}
		if err := n.query(t.Context(), "SELECT 1", nil, &one); err != nil {
			t.Fatal(err)
		}
		current.Add(1)
	}
}

// A new connection asks the server to prepare a statement. If the request is given up meanwhile,
// the statement is not sent when the answer comes. Its release may have been carried out on another
// connection.
func TestLatePrepare(t *testing.T) {
	t.Parallel()
	server := shared()
	u := newSchema(t, server)
	relay, through := through(t, server, u)
	sees, n := alone(t, u), alone(t, through)
	want(t, node.Granted)(sees.Do(t.Context(), as(node.Acquire, request("x", 0))))
	n.swept.Store(time.Now().UnixMilli()) // nothing else uses its connection
	n.terms.Store(sees.terms.Load())
	n.db.SetMaxOpenConns(1)
	for range 2 { // the pool pings a connection that was not used for a second
		if err := n.db.Ping(); err != nil {
			t.Fatal(err)
		}
	}
	lift := relay.Impose(proxy.Rule{From: proxy.Effect{Hold: true}})
	r := request("late", 0)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	_, err := n.Do(ctx, as(node.Acquire, r))
	cancel()
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, node.ErrNotSent) {
		t.Errorf("a statement that is not prepared in time: %v", err)
	}
	if _, err := sees.Do(t.Context(), as(node.Release, r)); err != nil {
		t.Fatal(err)
	}
	lift()
	if err := n.db.Ping(); err != nil { // after all that the connection was used for
		t.Fatal(err)
	}
	want(t, node.Granted)(sees.Do(t.Context(), as(node.Acquire, request("late", 0))))
}

// A connection whose statement does not fit the tables any more is not used again.
func TestStatementOfBefore(t *testing.T) {
	t.Parallel()
	server := shared()
	n := open(t, newSchema(t, server))
	n.db.SetMaxOpenConns(1)
	text := inSchema("SELECT * FROM fenlock.of_before", n.schema)
	ask := func() error { return n.each(t.Context(), text, nil, func(func(...any) error) error { return nil }) }
	for _, s := range []string{"CREATE TABLE fenlock.of_before (a int)",
		"ALTER TABLE fenlock.of_before ALTER a TYPE text"} {
		if _, err := n.db.Exec(inSchema(s, n.schema)); err != nil {
			t.Fatal(err)
		}
		ask()
	}
	if err := ask(); err != nil {
		t.Error(err)
	}
}

// misleading is a driver that, as lib/pq does, says ErrBadConn of a connection that broke after the
// statement was sent. Then no connection can be made: the server is silent, or refuses them.
type misleading struct {
	driver.Connector
	after          driver.Connector // nil: it is silent, and giveUp is called
	giveUp         func()
	breaks, broken atomic.Bool
}

type misleadingConn struct {
	*stdlib.Conn
	of *misleading
}

func (m *misleading) Connect(ctx context.Context) (driver.Conn, error) {
	if m.broken.Load() {
		if m.after != nil {
			return m.after.Connect(ctx)
		}
		m.giveUp()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c, err := m.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &misleadingConn{c.(*stdlib.Conn), m}, nil
}

func (c *misleadingConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.Conn.QueryContext(ctx, text, args)
	if err == nil && strings.Contains(text, ".serve"+format+"(") && c.of.breaks.CompareAndSwap(true, false) {
		to := make([]driver.Value, len(rows.Columns()))
		for rows.Next(to) == nil {
		}
		rows.Close()
		c.of.broken.Store(true)
		return nil, driver.ErrBadConn
	}
	return rows, err
}

// A statement that may have been carried out is not marked as not sent.
func TestDriverThatMisleads(t *testing.T) {
	t.Parallel()
	server := shared()
	sees := alone(t, newSchema(t, server))
	want(t, node.Granted)(sees.Do(t.Context(), as(node.Acquire, request("x", 0))))
	connector := func(dsn string) driver.Connector {
		return stdlib.GetConnector(*configured(t, dsn))
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for name, after := range map[string]driver.Connector{
		"silent":  nil,
		"refuses": connector(strings.Replace(server.DSN(), server.Addr(), closed.Addr().String(), 1)),
	} {
		m := &misleading{Connector: connector(server.DSN()), after: after}
		db := sql.OpenDB(m)
		defer db.Close()
		n := on(t, db, sees.schema)
		want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("y "+name, 0))))
		db.SetMaxIdleConns(0)
		ctx, cancel := context.WithCancel(t.Context())
		m.giveUp = cancel
		m.breaks.Store(true)
		a, err := n.Do(ctx, as(node.Acquire, request("z "+name, 0)))
		cancel()
		if err == nil || errors.Is(err, node.ErrNotSent) {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
		if l, err := sees.Inspect(t.Context(), "z "+name); err != nil || !l.Leased {
			t.Fatalf("the test shows nothing: %+v, %v", l, err)
		}
	}
}

// A request that is given up leaves the connection of another driver alive, too.
func TestAnotherDriver(t *testing.T) {
	t.Parallel()
	server := shared()
	schema := open(t, newSchema(t, server)).schema
	relay, through := through(t, server, server.DSN())
	config := configured(t, through)
	var begun atomic.Int64
	db := sql.OpenDB(&misleading{Connector: stdlib.GetConnector(*config,
		stdlib.OptionBeforeConnect(func(context.Context, *pgx.ConnConfig) error {
			begun.Add(1)
			return nil
		}))})
	defer db.Close()
	db.SetMaxOpenConns(1)
	n := on(t, db, schema)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", 0))))
	lift := relay.Impose(proxy.Rule{From: proxy.Effect{Hold: true}})
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := n.Do(ctx, as(node.Acquire, request("b", 0))); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a server that says nothing: %v", err)
		}
		cancel()
	}
	lift()
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("c", 0))))
	if made := begun.Load(); made != 1 {
		t.Errorf("%d connections were made for it", made)
	}
}

// Connections that end as soon as they are made are not made on and on.
func TestConnectionsThatEndAtOnce(t *testing.T) {
	t.Parallel()
	server := shared()
	schema := open(t, newSchema(t, server)).schema
	config, current := mortals(t, server.DSN())
	db := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(func(context.Context, *pgx.Conn) error {
		current.Add(1)
		return nil
	}))
	defer db.Close()
	n := on(t, db, schema)
	var one int
	if err := n.query(t.Context(), "SELECT 1", nil, &one); !errors.Is(err, errUnsent) {
		t.Errorf("%v", err)
	}
	if made := current.Load(); made > 2*tries {
		t.Errorf("%d connections were made", made)
	}
}
