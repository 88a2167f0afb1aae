package mysqlnode_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/mysqlnode"
)

// What is not waited for any more does not stay on the server, however long the table is locked.
func TestNothingPilesUp(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	n := ready(t, s)
	take(t, n, "warm up")
	_, db := pooled(t, s, "locks", "")
	ctx, end := context.WithCancel(t.Context())
	defer end()
	go db.ExecContext(ctx, `SELECT SLEEP(1000) FROM fenlock_stripes LIMIT 1`)
	parked(t, s, "User sleep")
	for i := range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		n.Do(ctx, request(node.Acquire, fmt.Sprint(i)))
		cancel()
	}
	left := 1
	for end := time.Now().Add(3 * time.Minute); left > 0; time.Sleep(10 * time.Millisecond) {
		query(t, s, `SELECT COUNT(*) FROM information_schema.PROCESSLIST
			WHERE COMMAND = 'Query' AND STATE <> 'User sleep' AND ID <> CONNECTION_ID()`, &left)
		if time.Now().After(end) {
			t.Fatalf("%d statements still wait", left)
		}
	}
}

// A statement that is ended after it has written the row has written it, in a table that is not
// logged.
func TestEndedAfterTheWrite(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	take(t, ready(t, s), "warm up")
	run(t, s, `CREATE TRIGGER late AFTER UPDATE ON fenlock_stripes FOR EACH ROW DO SLEEP(100)`,
		`SET GLOBAL max_statement_time = 0.5`)
	n := ready(t, s)
	_, err := n.Do(t.Context(), request(node.Acquire, "a"))
	run(t, s, `SET GLOBAL max_statement_time = 0`, `DROP TRIGGER late`)
	l, look := open2(t, s.URL()).Inspect(t.Context(), "a")
	if problem(t, err, "1969"); look != nil || !l.Leased || errors.Is(err, node.ErrNotSent) {
		t.Errorf("%v; %+v, %v", err, l, look)
	}
}

// stalling is a connection on which nothing is read any more after so many bytes.
type stalling struct {
	net.Conn
	left    int
	stopped chan<- bool
	until   <-chan struct{}
}

func (s *stalling) Read(b []byte) (int, error) {
	if s.left < 0 {
		s.stopped <- true
		<-s.until
		return 0, net.ErrClosed
	}
	n, err := s.Conn.Read(b)
	s.left -= n
	return n, err
}

// A client that stops while it reads many rows does not keep the table locked.
func TestStoppedReader(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	n := ready(t, s)
	take(t, n, "warm up")
	run(t, s, `UPDATE fenlock_stripes SET leases = REPEAT('x', 60000) WHERE stripe < 256`)
	stopped, until := make(chan bool, 100), make(chan struct{})
	mysql.RegisterDialContext("stalling", func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			conn.(*net.TCPConn).SetReadBuffer(4096)
		}
		return &stalling{conn, 100_000, stopped, until}, err
	})
	db, err := sql.Open("mysql", strings.Replace(s.DSN(), "tcp", "stalling", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	slow, err := mysqlnode.New(db, n.String())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	defer close(until)
	go slow.List(t.Context(), "", func(node.Lease) bool { return true })
	<-stopped
	name := "a"
	for node.Stripe(name) < 256 {
		name += "a"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second) // a server gives up after 60 s by default
	defer cancel()
	want(t, node.Granted)(n.Do(ctx, request(node.Acquire, name)))
}

// A server that repairs no table by itself is one to look at.
func TestServerThatRepairsNothing(t *testing.T) {
	t.Parallel()
	for options, want := range map[string]int{"OFF": 1, "BACKUP,QUICK": 0} {
		s := testserver.StartMariaDB(t, "myisam-recover-options="+options)
		e, err := ready(t, s).Examine(t.Context(), node.Look{})
		found := 0
		for _, f := range e.Findings {
			if strings.Contains(fmt.Sprint(f), "myisam_recover_options") {
				found++
			}
		}
		if err != nil || found != want {
			t.Errorf("%s: %+v, %v", options, e.Findings, err)
		}
	}
}
