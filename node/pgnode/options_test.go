package pgnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
)

// socketed starts a server with a Unix socket in a folder, where the role guarded needs a password.
func socketed(t *testing.T) (server *testserver.Postgres, folder, port string) {
	t.Helper()
	folder, err := os.MkdirTemp("", "fenlock-pg-") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	rules := "local all all trust\nhost all guarded 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"
	file := filepath.Join(folder, "hba")
	if err := errors.Join(os.Chmod(folder, 0o777), os.WriteFile(file, []byte(rules), 0o644)); err != nil {
		t.Fatal(err)
	}
	server = testserver.StartPostgresWith(t, nil, "unix_socket_directories="+folder, "hba_file="+file)
	_, port, _ = net.SplitHostPort(server.Addr())
	return server, folder, port
}

// written writes a file, and returns its path.
func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The ways to name a server lead to one store: by the URL, the service and the environment.
func TestWaysToAServer(t *testing.T) {
	server, folder, port := socketed(t)
	for _, v := range []string{"PGHOST", "PGPORT", "PGSERVICE", "PGUSER", "PGDATABASE"} {
		t.Setenv(v, "") // as if not set
	}
	admin := open(t, server.DSN())
	if err := admin.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{`CREATE ROLE guarded LOGIN PASSWORD 'pa55word'`, `GRANT USAGE ON SCHEMA fenlock TO guarded`,
		`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA fenlock TO guarded`} {
		exec1(t, admin, s)
	}
	services := written(t, "[other]\nhost=192.0.2.1\n[locks]\nhost="+folder+"\nport="+port+
		"\ndbname=postgres\nuser=postgres\napplication_name=of service\n")
	socket, tcp := folder+":"+port+"/postgres", server.Addr()+"/postgres"
	dead := []string{"PGHOST=192.0.2.1", "PGPORT=1", "PGTARGETSESSIONATTRS=standby"}
	guarded := strings.Replace(server.DSN(), "postgres@", "guarded@", 1)
	for _, c := range []struct {
		what, url   string
		environment []string
		name        string // of the node
		program     string // application_name
	}{
		{"a parameter", "postgres://postgres@/postgres?host=" + folder + "&port=" + port, dead, socket, "fenlock"},
		{"an escaped folder", "postgres://postgres@" + url.PathEscape(folder) + ":" + port + "/postgres", dead, socket,
			"fenlock"},
		{"PGHOST, a folder", "postgres://postgres@/postgres", []string{"PGHOST=" + folder, "PGPORT=" + port}, socket,
			"fenlock"},
		{"PGHOST, and all else", "postgres://?port=" + port, []string{"PGHOST=127.0.0.1", "PGUSER=postgres",
			"PGDATABASE=postgres", "PGPORT=1", "PGSSLMODE=disable", "PGAPPNAME=of environment"}, tcp, "of environment"},
		{"a service", "postgres:///?service=locks", append(dead, "PGSERVICEFILE="+services), socket, "of service"},
		{"PGSERVICE", "postgres://?application_name=of%20URL",
			[]string{"PGSERVICEFILE=" + services, "PGSERVICE=locks"}, socket, "of URL"},
		{"PGSERVICE is of another server", server.DSN(),
			[]string{"PGSERVICEFILE=" + services, "PGSERVICE=other"}, tcp, "fenlock"},
		{"the environment is of another server", server.DSN(), dead, tcp, "fenlock"},
		{"PGPASSWORD", guarded, []string{"PGPASSWORD=pa55word"}, tcp, "fenlock"},
		{"a file of passwords", guarded,
			[]string{"PGPASSFILE=" + written(t, "127.0.0.1:"+port+":*:guarded:pa55word\n")}, tcp, "fenlock"},
		{"the URL's password, not the environment's", strings.Replace(guarded, "@", ":pa55word@", 1),
			[]string{"PGPASSWORD=wrong"}, tcp, "fenlock"},
	} {
		t.Run(c.what, func(t *testing.T) {
			for _, v := range c.environment {
				name, value, _ := strings.Cut(v, "=")
				t.Setenv(name, value)
			}
			n := alone(t, c.url)
			want(t, node.Granted)(n.Do(t.Context(), asAcquire(request(c.what, 0))))
			var program string
			if err := n.db.QueryRow(`SELECT current_setting('application_name')`).Scan(&program); err != nil ||
				program != c.program || n.String() != c.name {
				t.Errorf("%s calls itself %q: %v", n, program, err)
			}
			if l, err := admin.Inspect(t.Context(), c.what); err != nil || !l.Leased {
				t.Errorf("it is another store: %+v, %v", l, err)
			}
		})
	}

	t.Setenv("PGHOST", folder)
	t.Setenv("PGPORT", port)
	t.Run("one store by two URLs", func(t *testing.T) {
		pair := newSchema(t, server)
		first, second := open(t, in("postgres://postgres@/postgres", open(t, pair).schema)), open(t, pair)
		group := node.Group{Nodes: []node.Node{first, second}, MaxTTL: maxTTL, New: true}
		if err := errors.Join(first.Join(group), second.Join(group)); err != nil {
			t.Fatal(err)
		}
		if a, err := first.Do(t.Context(), asAcquire(request("a", 0))); err != nil {
			t.Errorf("%+v, %v", a, err)
		}
		if _, err := second.Do(t.Context(), asAcquire(request("a", 0))); !errors.Is(err, node.ErrMisconfigured) ||
			!strings.Contains(err.Error(), "this is the same server as") {
			t.Errorf("%v", err)
		}
	})
	t.Run("twice by the environment", func(t *testing.T) {
		err := fenlock.CheckNodes([]fenlock.Node{open(t, "postgres://postgres@/postgres"), open(t, "postgres:///postgres")})
		if !errors.Is(err, fenlock.ErrInvalid) || !strings.Contains(err.Error(), "the same node") {
			t.Errorf("%v", err)
		}
	})
}

// A host of the URL has its own port, whatever the environment says. TLS is as the host needs it.
func TestWhatIsLeftOpen(t *testing.T) {
	services := written(t, "[far]\nhost=db.example\nport=6000\ndbname=app\n[plain]\nhost=db.example\nsslmode=disable\n")
	for _, c := range []struct {
		url         string
		environment string
		name        string
		verified    bool
	}{
		{"postgres://u@db/app", "PGPORT=6000", "db/app", true},
		{"postgres://u@localhost/app", "PGHOST=db", "localhost/app", false},
		{"postgres://u@/app", "PGHOST=db", "db/app", true},
		{"postgres://u@/app", "PGHOST=localhost", "localhost/app", false},
		{"postgres://u@/app", "PGHOST=a,b", "a,b/app", true},
		{"postgres://u@/app?host=db&port=7", "PGPORT=6000", "db:7/app", true},
		{"postgres://u@/app?host=db", "PGPORT=6000", "db/app", true},
		{"postgres://u@/app?host=a,b&port=7,8", "", "a:7,b:8/app", true},
		{"postgres://u@/?host=fe80::1", "", "fe80::1/u", true},
		{"postgres://u@/?service=far", "PGPORT=7", "db.example:6000/app", true},
		{"postgres://u@db/?service=far", "", "db/app", true},
		{"postgres://u@/?service=plain", "PGPORT=7", "db.example:7/u", false},
		{"postgres://u@/?service=plain&sslmode=verify-full", "", "db.example/u", true},
		{"postgres://u@db/app", "PGSSLMODE=require", "db/app", false},
	} {
		t.Run(c.url+" "+c.environment, func(t *testing.T) {
			t.Setenv("PGSERVICEFILE", services)
			for _, v := range []string{"PGHOST", "PGPORT", "PGSERVICE", "PGDATABASE", "PGSSLMODE"} {
				t.Setenv(v, "")
			}
			if name, value, ok := strings.Cut(c.environment, "="); ok {
				t.Setenv(name, value)
			}
			n := open(t, c.url)
			host, _, _ := strings.Cut(c.name, "/")
			verified := n.own.TLSConfig != nil && !n.own.TLSConfig.InsecureSkipVerify
			if n.String() != c.name || strings.Join(hostsOf(n.own), ",") != host || verified != c.verified {
				t.Errorf("%s at %s, verified %v", n, hostsOf(n.own), verified)
			}
		})
	}
}

// Each error names the parameter or the variable, and has no password.
func TestWrongOptions(t *testing.T) {
	const secret = "pa55word"
	services := written(t, "[strange]\nhost=db\npassword="+secret+"\nkeepalives=1\n"+
		"[addressed]\nhostaddr=192.0.2.1\npassword="+secret+"\n")
	for _, c := range []struct{ query, environment, says string }{
		{"u:" + secret + "@a/d?connect_timeout=0", "", "connect_timeout is 1 to 3600 seconds"},
		{"u:" + secret + "@a/d?connect_timeout=2s", "", "connect_timeout is 1 to 3600 seconds"},
		{"u:" + secret + "@a/d", "PGCONNECT_TIMEOUT=2s", "invalid connect_timeout"},
		{"u:" + secret + "@a/d", "PGSSLMODE=off", "sslmode is invalid"},
		{"u:" + secret + "@a,b/d?target_session_attrs=any", "", "target_session_attrs is any, and there are several hosts"},
		{"u:" + secret + "@a,b/d?target_session_attrs=standby", "", "target_session_attrs is one of any, read-write"},
		{"u:" + secret + "@a/d?host=b", "", "the parameter host or port too"},
		{"u:" + secret + "@a/d?port=7", "", "the parameter host or port too"},
		{"u:" + secret + "@/d?host=a&port=x", "", "invalid port"},
		{"u:" + secret + "@/d?host=a,b&port=1,2,3", "", "3 port numbers to 2 hosts"},
		{"u:" + secret + "@/d", "PGPORT=70000", "invalid port"},
		{"u:" + secret + "@/d", "PGHOSTADDR=192.0.2.1", "PGHOSTADDR"},
		{"u:" + secret + "@/d?service=absent", "", `service: there is no "absent" in ` + services},
		{"u:" + secret + "@/d", "PGSERVICE=absent", `service: there is no "absent" in ` + services},
		{"u:" + secret + "@/d?service=addressed", "", "hostaddr"},
		{"u:" + secret + "@/d?service=strange", "", `the service "strange" has the setting "keepalives"`},
		{"u:" + secret + "@%2Fa%zz/d", "", "a folder that cannot be parsed"},
		{"u:" + secret + "@%2Fa:x/d", "", "cannot be parsed"},
		{"u:" + secret + "@/d?hots=a", "", `no parameter "hots"`},
	} {
		t.Run(c.query+" "+c.environment, func(t *testing.T) {
			t.Setenv("PGSERVICEFILE", services)
			for _, v := range []string{"PGHOST", "PGPORT", "PGSERVICE"} {
				t.Setenv(v, "")
			}
			if name, value, ok := strings.Cut(c.environment, "="); ok {
				t.Setenv(name, value)
			}
			n, err := Open("postgres://" + c.query)
			if !errors.Is(err, node.ErrInvalid) || !strings.Contains(err.Error(), c.says) ||
				strings.Contains(err.Error(), secret) {
				t.Errorf("%v, %v; want %q", n, err, c.says)
			}
		})
	}
	t.Setenv("PGSERVICEFILE", filepath.Join(t.TempDir(), "none"))
	if _, err := Open("postgres:///d?service=a"); !errors.Is(err, node.ErrInvalid) ||
		!strings.Contains(err.Error(), "PGSERVICEFILE") {
		t.Errorf("%v", err)
	}
}

// Options of the session change nothing that the schema does: it names what it uses.
func TestSessionOptions(t *testing.T) {
	t.Parallel()
	server := shared()
	u := newSchema(t, server)
	admin := alone(t, u)
	theirs := "theirs_" + admin.schema
	for _, s := range []string{`CREATE SCHEMA %s`, `CREATE TABLE %s.pg_class (oid int, relnamespace int)`,
		`CREATE TABLE %s.pg_namespace (oid int, nspname text)`, `CREATE TABLE %s.leases (name text)`,
		`CREATE TABLE %s.meta (key text)`, `CREATE TABLE %s.memory (id text)`,
		`CREATE FUNCTION %s.greatest_of(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint'`,
		`CREATE FUNCTION %s.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT now() - interval ''1 year'''`} {
		exec1(t, admin, fmt.Sprintf(s, theirs))
	}
	for _, options := range []string{"-c search_path=" + theirs, "-c search_path=" + theirs + ",pg_catalog",
		"-c bytea_output=escape -c standard_conforming_strings=off -c DateStyle=German -c TimeZone=Asia/Tokyo",
		"-c statement_timeout=20s -c synchronous_commit=off -c jit=off"} {
		for _, mode := range []bool{false, true} {
			n := alone(t, u+"&options="+strings.ReplaceAll(url.QueryEscape(options), "+", "%20"))
			n.unnamed.Store(mode)
			name := fmt.Sprint(options, mode)
			for range 2 {
				r := request(name, 0)
				want(t, node.Granted)(n.Do(t.Context(), asAcquire(r)))
				want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, r)))
				want(t, node.Held)(admin.Do(t.Context(), asAcquire(request(name, 0))))
				if l, err := n.Inspect(t.Context(), name); err != nil || !l.Leased || l.Out || l.Remaining > maxTTL {
					t.Errorf("%s: %+v, %v", options, l, err)
				}
				want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
			}
			if r, err := n.Registers(t.Context()); err != nil || !r.Admitted {
				t.Errorf("%s: %+v, %v", options, r, err)
			}
			if err := n.Migrate(t.Context()); err != nil {
				t.Errorf("%s: %v", options, err)
			}
			if e, err := n.Examine(t.Context(), node.Look{}); err != nil || !e.Admitted {
				t.Errorf("%s: %+v, %v", options, e, err)
			}
		}
	}
	n := alone(t, u+"&options=-c%20default_transaction_isolation=serializable")
	if _, err := n.Do(t.Context(), asAcquire(request("a", 0))); !errors.Is(err, node.ErrMisconfigured) {
		t.Errorf("another isolation: %v", err)
	}
}

// soon returns when something is as it has to be: what other hosts say may come late.
func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it is not so that %s", what)
		}
	}
}

// leads waits until the connections of a client lead to the server with a port.
func leads(t *testing.T, rawURL, port string) {
	t.Helper()
	n := open(t, rawURL)
	soon(t, rawURL+" leads to "+port, func() bool {
		var at string
		err := n.db.QueryRowContext(t.Context(), `SELECT current_setting('port')`).Scan(&at)
		return err == nil && at == port
	})
}

// between returns a URL with several hosts.
func between(rawURL string, hosts ...string) string {
	before, after, _ := strings.Cut(rawURL, "@")
	_, path, _ := strings.Cut(after, "/")
	return before + "@" + strings.Join(hosts, ",") + "/" + path
}

// A host that is down, or says nothing, is passed over.
func TestHostsThatAreDown(t *testing.T) {
	t.Parallel()
	server := shared()
	u := newSchema(t, server)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for what, u := range map[string]string{"down": between(u, "127.0.0.1:1", server.Addr()),
		"silent":     between(u, silent.Addr().String(), server.Addr()) + "&connect_timeout=1",
		"not needed": between(u, server.Addr(), silent.Addr().String())} {
		n := alone(t, u)
		want(t, node.Granted)(n.Do(t.Context(), asAcquire(request(what, 0))))
	}
	if n := open(t, between(u, "a", "b")); n.own.ConnectTimeout == 0 || n.own.ConnectTimeout*2 > n.connecting {
		t.Errorf("%v for each of two hosts, and %v for both", n.own.ConnectTimeout, n.connecting)
	}
	n := open(t, between(u, "a", "b")+"&connect_timeout=60")
	if n.own.ConnectTimeout != time.Minute || n.connecting != 2*time.Minute {
		t.Errorf("%v for each of two hosts, and %v for both", n.own.ConnectTimeout, n.connecting)
	}
}

// Of several hosts the newest primary is used, in whatever order they are named, also by a client
// that was connected before.
func TestNewestPrimary(t *testing.T) {
	t.Parallel()
	old := testserver.StartPostgres(t)
	u := newSchema(t, old)
	promoted := old.Replica()
	first, second := strings.Split(old.Addr(), ":")[1], strings.Split(promoted.Addr(), ":")[1]
	urls := []string{between(u, old.Addr(), promoted.Addr()), between(u, promoted.Addr(), old.Addr())}
	for _, u := range urls {
		leads(t, u, first)
	}
	config := configured(t, urls[0]+"&target_session_attrs=read-write")
	delete(config.RuntimeParams, "schema")
	before := keepTo(config, nil)
	before.closing = open(t, u).closing
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil || before.reset(t.Context(), conn) != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())

	promoted.Promote() // and the old one goes on
	for _, u := range urls {
		leads(t, u, second)
	}
	before.mu.Lock()
	before.began = before.began.Add(-2 * lookEvery)
	before.mu.Unlock()
	soon(t, "a connection to the new primary is used, and one to the old is not", func() bool {
		after, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer after.Close(t.Context())
		return before.reset(t.Context(), conn) != nil && before.reset(t.Context(), after) == nil
	})
	promoted.Kill()
	if c, err := pgx.ConnectConfig(t.Context(), config); err == nil || !errors.Is(err, errOlderPrimary) {
		t.Errorf("it goes back to the old primary: %v, %v", c, err)
	}
}

// Hosts that are not one cluster are refused, and two primaries of one timeline.
func TestHostsOfTwoClusters(t *testing.T) {
	t.Parallel()
	server, other := shared(), testserver.StartPostgres(t)
	u := newSchema(t, server)
	n := alone(t, between(u, server.Addr(), other.Addr()))
	soon(t, "hosts of two clusters are refused", func() bool {
		_, err := n.Do(t.Context(), as(node.Release, request("a", 0)))
		return errors.Is(err, node.ErrMisconfigured) && strings.Contains(err.Error(), "not of one cluster")
	})
	config := configured(t, between(server.DSN(), server.Addr(), "127.0.0.1:1")+"&target_session_attrs=read-write")
	twin := keepTo(config, nil)
	twin.closing = n.closing
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	<-twin.looked
	twin.mu.Lock()
	copied := *twin.seen[server.Addr()]
	copied.started, twin.seen["another"] = "another time", &copied
	twin.mu.Unlock()
	if _, err := pgx.ConnectConfig(t.Context(), config); !errors.Is(err, node.ErrMisconfigured) ||
		!strings.Contains(err.Error(), "another is a primary as well") {
		t.Errorf("%v", err)
	}
}

// severally returns how a client with several hosts connects, which is read-write.
func severally(t *testing.T, hosts ...string) (*pgx.ConnConfig, *hosts) {
	t.Helper()
	config := configured(t, between("postgres://postgres@/postgres?sslmode=disable", hosts...)+
		"&target_session_attrs=read-write")
	c := keepTo(config, nil)
	c.closing = engine.NewLifetime()
	t.Cleanup(func() {
		c.closing.End()
		c.closing.Wait()
	})
	return config, c
}

// connect returns a connection to one of several hosts, and its port.
func connect(t *testing.T, config *pgx.ConnConfig) (conn *pgx.Conn, port string) {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	_, port, _ = net.SplitHostPort(conn.PgConn().Conn().RemoteAddr().String())
	return conn, port
}

// A primary that was started anew is not taken for another one, although the hosts were asked a
// moment ago.
func TestPrimaryIsStartedAnew(t *testing.T) {
	t.Parallel()
	server := testserver.StartPostgres(t)
	config, c := severally(t, server.Addr(), "127.0.0.1:1")
	connect(t, config)
	<-c.looked
	server.Stop()
	server.Start()
	connect(t, config)
}

// A host that says nothing does not keep what the others say from being used.
func TestSilentHost(t *testing.T) {
	t.Parallel()
	old := testserver.StartPostgres(t)
	promoted := old.Replica()
	promoted.Promote()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	config, c := severally(t, old.Addr(), promoted.Addr(), silent.Addr().String())
	soon(t, "the promoted one is used", func() bool {
		_, port := connect(t, config)
		return port == strings.Split(promoted.Addr(), ":")[1]
	})
	select {
	case <-c.looked:
		t.Error("the silent host had given up before: the test shows nothing")
	default:
	}
	// Also where it is down the next time.
	promoted.Kill()
	c.mu.Lock()
	c.began = time.Time{}
	c.mu.Unlock()
	config.ConnectTimeout = time.Second // for the silent one
	if _, err := pgx.ConnectConfig(t.Context(), config); !errors.Is(err, errOlderPrimary) {
		t.Errorf("%v", err)
	}
}

// What a server says that is no PostgreSQL server is not used.
func TestHostSaysSomethingElse(t *testing.T) {
	t.Parallel()
	server := shared()
	for _, columns := range []int{0, 1, 3} {
		config, c := severally(t, server.Addr(), hostile(t, columns))
		connect(t, config)
		<-c.looked
		if len(c.seen) != 1 {
			t.Errorf("%d columns: %+v", columns, c.seen)
		}
	}
}

// hostile starts a server that answers each statement with a row of so many columns.
func hostile(t *testing.T, columns int) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				b := pgproto3.NewBackend(conn, conn)
				if _, err := b.ReceiveStartupMessage(); err != nil {
					return
				}
				b.Send(&pgproto3.AuthenticationOk{})
				b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
				for b.Flush() == nil {
					if m, err := b.Receive(); err != nil {
						return
					} else if _, is := m.(*pgproto3.Query); !is {
						return
					}
					fields, values := make([]pgproto3.FieldDescription, columns), make([][]byte, columns)
					for i := range columns {
						fields[i].Name, values[i] = []byte("c"), []byte("off")
					}
					for range 2 {
						b.Send(&pgproto3.RowDescription{Fields: fields})
						b.Send(&pgproto3.DataRow{Values: values})
						b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
					}
					b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
				}
			}()
		}
	}()
	return l.Addr().String()
}
