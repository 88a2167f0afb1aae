package mysqlnode

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
	"weak"

	"github.com/fenlock/fenlock/node/engine"
)

// session is what was found out about the server at the other end of a connection. A
// connection leads to one run of one server for as long as it lasts.
type session struct {
	mariadb  bool
	version  string
	uid      string        // the variable of the server that has a number of its own; "" if there is none
	identity string        // see identityOf
	database string        // that is used on it
	tables   string        // the database, and when its tables came to be there, in seconds since 1970
	made     time.Duration // the later one of these times
	number   int64         // of the connection
	same     string        // a condition: the server is that with the identity, and the database is the one that was used
	started  int64         // when this run of it began, in seconds since 1970 on its clock; 0: it does not matter
	now      time.Duration
	unsynced string // why a crash may lose what was committed, "" if it does not
	unlogged bool   // the leases are in a table that a crash may lose
	volatile string // why a crash may lose leases, "" if it does not
	flushing string // the settings that this depends on, and that can be changed while it runs
	galera   bool
	own      bool   // the connection is the node's own
	writable string // how it says that it is not read-only
}

// flushing are the settings on which it depends whether a crash loses something, as far as
// they can be changed while a server runs.
const flushing = `CONCAT_WS(' ', @@global.innodb_flush_log_at_trx_commit, @@global.sync_binlog)`

// sessions are the connections that were looked at, by their addresses, as long as these are
// theirs. The pool does not say which ones it has closed.
type sessions struct {
	mu       sync.Mutex
	seen     map[weak.Pointer[byte]]*session
	database string // that of the first one
}

// of returns what a connection is known by, and false if it cannot be told from another.
func (*sessions) of(conn *sql.Conn) (key weak.Pointer[byte], is bool) {
	conn.Raw(func(c any) error {
		if v := reflect.ValueOf(c); v.Kind() == reflect.Pointer && !v.IsNil() && v.Type().Elem().Size() > 0 {
			key, is = weak.Make((*byte)(v.UnsafePointer())), true
		}
		return nil
	})
	return key, is
}

// get returns what was found out about a connection, or nil.
func (s *sessions) get(key weak.Pointer[byte]) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[key]
}

// forget has a connection looked at anew.
func (s *sessions) forget(conn *sql.Conn) {
	if key, is := s.of(conn); is {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.seen, key)
	}
}

// forgetAll has every connection looked at anew.
func (s *sessions) forgetAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.seen)
}

// in refuses a connection that uses another database than the first one did: its tables are another
// node's.
func (s *sessions) in(database string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.database == "" {
		s.database = database
	}
	if s.database != database {
		return engine.Misconfiguredf(
			"a connection of the pool uses the database %q, and the node is in %q: USE was executed on it", database, s.database)
	}
	return nil
}

// none reports whether no connection was ever made.
func (s *sessions) none() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen == nil
}

// put remembers it, and forgets the connections that are gone.
func (s *sessions) put(key weak.Pointer[byte], found *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = make(map[weak.Pointer[byte]]*session)
	}
	maps.DeleteFunc(s.seen, func(key weak.Pointer[byte], _ *session) bool { return key.Value() == nil })
	s.seen[key] = found
}

// look asks a server what it is, and how it keeps what is committed. On a connection of one's own
// nothing else sets variables, begins transactions or uses another database.
func look(ctx context.Context, conn *sql.Conn, own bool) (*session, error) {
	s := &session{own: own}
	// The settings are read before it is decided what they mean: a change is found later.
	var autocommit int
	var most uint64
	var logged bool
	if err := conn.QueryRowContext(ctx,
		`SELECT @@version, `+flushing+
			`, @@global.read_only, @@autocommit, @@sql_select_limit, NOT @@log_bin OR @@sql_log_bin AND @@binlog_format <> 'STATEMENT'`).
		Scan(&s.version, &s.flushing, &s.writable, &autocommit, &most, &logged); err != nil {
		return nil, err
	}
	// A statement that compares servers does nothing on a replica. One that is promoted would have
	// neither the registers nor the mark, and would vote at once.
	if !logged {
		return nil, engine.Misconfiguredf("what is written on the connections of the pool is not in the binary log as rows, so that a replica has nothing of it: set binlog_format = ROW or MIXED, and leave sql_log_bin on")
	}
	if most < fewestRows {
		return nil, engine.Misconfiguredf("the connections of the pool have sql_select_limit = %d, so that tables are not read to their ends: leave it out of the DSN, or raise it on the server", most)
	}
	if err := committing(autocommit, 0); err != nil {
		return nil, err
	}
	if s.writable != "0" { // a word since MariaDB 12
		s.writable = "OFF"
	}
	s.mariadb = strings.Contains(s.version, "MariaDB")
	if err := s.supported(); err != nil {
		return nil, err
	}
	set, err := pairs(ctx, conn, `SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit',
		'log_bin', 'sync_binlog', 'debug_no_sync', 'innodb_flush_method', 'wsrep_on', 'server_uuid', 'server_uid')`)
	if err != nil {
		return nil, err
	}
	status, err := s.start(ctx, conn)
	if err != nil {
		return nil, err
	}
	s.galera = strings.EqualFold(set["wsrep_on"], "ON")
	s.unsynced = notDurable(set)
	for _, uid := range []string{"server_uid", "server_uuid"} { // MariaDB has the first since 10.6.17 and 10.11.7
		if set[uid] != "" {
			s.uid = uid
		}
	}
	if s.galera {
		s.identity = "galera " + status["wsrep_cluster_state_uuid"]
	}
	if err := conn.QueryRowContext(ctx, `SELECT `+s.identityOf()+`, CONNECTION_ID()`).Scan(&s.identity,
		&s.number); err != nil {
		return nil, err
	}
	return s, s.locate(ctx, conn)
}

// locate finds out in which tables the mark is. They are others, with the same rows, after a dump
// was loaded and after the server's files were put back. The same is true after a renaming or a
// copy of another database. MySQL and MariaDB say in the session's time zone when a table came to
// be there; in that of UTC no two zones differ.
//
// PARTITIONS has MariaDB ask the file system. TABLES has what was so when the server opened the
// table, which it does several times. After a chown of the files the answers would alternate.
func (s *session) locate(ctx context.Context, conn *sql.Conn) error {
	var database, other sql.NullString
	var meta, stripes sql.NullInt64
	const came = `(SELECT UNIX_TIMESTAMP(MAX(CREATE_TIME)) FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = `
	const engines = `(SELECT GROUP_CONCAT(CONCAT(TABLE_NAME, ' is kept by the engine ', ENGINE) ORDER BY TABLE_NAME DESC) FROM information_schema.TABLES
		WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ('fenlock_meta', 'fenlock_stripes', 'fenlock_listeners') AND ENGINE <> 'InnoDB')`
	err := conn.QueryRowContext(ctx,
		s.with(`time_zone='+00:00'`, `SELECT`,
			`CAST(DATABASE() AS BINARY), `+came+`'fenlock_meta'), `+came+`'fenlock_stripes'), `+engines)).
		Scan(&database, &meta, &stripes, &other)
	s.unlogged = other.String == unlogged
	switch {
	case err == nil && s.unlogged && s.galera:
		err = engine.Misconfiguredf("the table %s, which Galera does not replicate: ALTER TABLE fenlock_stripes ENGINE=InnoDB",
			unlogged)
	case err == nil && other.Valid && !s.unlogged:
		err = engine.Misconfiguredf("the table %s: only InnoDB is known to keep what it has committed", other.String)
	}
	if s.volatile = s.unsynced; s.unlogged {
		s.volatile = "fenlock_stripes is not logged"
	}
	s.database = database.String
	s.same = s.identityOf() + ` = ` + literal([]byte(s.identity))
	if !s.own {
		s.same += ` AND CAST(DATABASE() AS BINARY) <=> ` + literal([]byte(s.database))
	}
	if s.tables = s.database; !s.galera { // each member of a cluster has files of its own
		s.tables += fmt.Sprintf(" %d %d", meta.Int64, stripes.Int64)
		s.made = time.Duration(max(meta.Int64, stripes.Int64)) * time.Second
	}
	return err
}

// unlogged is what is found of tables that were altered to wait for no disk, on MariaDB.
const unlogged = "fenlock_stripes is kept by the engine MyISAM"

// with returns a statement, which begins with a verb, that has a variable set for itself only.
func (s *session) with(setting, verb, rest string) string {
	if s.mariadb {
		return `SET STATEMENT ` + setting + ` FOR ` + verb + ` ` + rest
	}
	return verb + ` /*+ SET_VAR(` + setting + `) */ ` + rest
}

// place names the run of the server, and the tables. Members of a cluster are not told apart.
func (s *session) place() string {
	if s.galera {
		return s.identity + " " + s.tables
	}
	return fmt.Sprintf("%s %s since %d", s.identity, s.tables, s.started)
}

// begun is when this run of the server began, or a little later.
func (s *session) begun() time.Duration { return time.Duration(s.started)*time.Second + time.Second }

// here returns a condition for a statement that writes: that it is executed by the server that was
// looked at. A proxy may have moved the connection since the row was read. Where a run of a server
// may have lost what the one before had, it has to be the same connection.
func (s *session) here(volatile bool) string {
	if s.volatile == "" && !volatile {
		return s.same
	}
	return fmt.Sprintf("%s AND CONNECTION_ID() = %d", s.same, s.number)
}

// unchanged returns more of a condition, for a write on a connection on which nothing was read
// before. It has what read refuses, and that the server's clock is where it was reckoned to be.
func (s *session) unchanged(clock time.Duration) string {
	where := fmt.Sprintf(` AND @@global.read_only = '%s' AND %s + %s BETWEEN %d AND %d`, s.writable,
		clockBegan, clockSince, clock.Microseconds()+1, (clock + slack).Microseconds())
	if !s.own {
		where += ` AND @@autocommit = 1 AND ` + s.inTransaction() + ` = 0`
	}
	if !s.unlogged {
		where += ` AND ` + flushing + ` = ` + literal([]byte(s.flushing))
	}
	return where
}

// errMoved is the error for a connection that leads to another server, or database, than it did.
var errMoved = errors.New("the connection leads to another server than when it was made, or to another database: a proxy moves it between servers, or sends reads to replicas (name the primary itself), or USE was executed on it")

// errShared is the same, where the server may be the same.
var errShared = errors.New("the connection is another one of the server's than when it was made: a proxy shares its connections, so that a restart of the server, which may lose locks, cannot be noticed; name the primary itself, or have each commit on the disk")

// fewestRows is how many rows a connection has to be able to read. What may have more says
// so itself (LIMIT).
const fewestRows = 100

// committing refuses a connection whose statements are not transactions of their own.
func committing(autocommit, transaction int) error {
	switch {
	case autocommit == 0:
		return engine.Misconfiguredf(
			"the connections of the pool have autocommit off (autocommit=0 in the DSN, or on the server): turn it on")
	case transaction != 0:
		return engine.Misconfiguredf("the program has left a connection of the pool in a transaction (BEGIN without COMMIT or ROLLBACK), which would undo what is written there: use BeginTx")
	}
	return nil
}

// inTransaction returns an expression that is not 0 if a connection is in a transaction. On MySQL
// there is none that every user may use.
func (s *session) inTransaction() string {
	if s.mariadb {
		return `@@in_transaction`
	}
	return `0`
}

// start finds out when the server was started, and returns more of its status. Uptime is counted
// from the second in which a statement begins, and no statement has both. So the clock is read
// before and after it, until that was one second. A step of the clock moves both, and not the
// difference.
func (s *session) start(ctx context.Context, conn *sql.Conn) (status map[string]string, err error) {
	var before, after int64
	for range 10 {
		if err := conn.QueryRowContext(ctx, `SELECT UNIX_TIMESTAMP()`).Scan(&before); err != nil {
			return nil, err
		}
		if status, err = pairs(ctx, conn,
			`SHOW GLOBAL STATUS WHERE Variable_name IN ('Uptime', 'wsrep_cluster_state_uuid')`); err != nil {
			return nil, err
		}
		if err := conn.QueryRowContext(ctx, `SELECT UNIX_TIMESTAMP()`).Scan(&after); err != nil {
			return nil, err
		}
		if before == after {
			uptime, err := strconv.ParseUint(status["uptime"], 10, 64) // it wraps around with a timestamp of the past
			if err != nil {
				return nil, fmt.Errorf("the server does not say for how long it has been up (SHOW GLOBAL STATUS): %w", err)
			}
			s.started, s.now = after-int64(uptime), time.Duration(after)*time.Second
			return status, nil
		}
	}
	return nil, errors.New("the server takes seconds for the simplest statements: when it was started is not known")
}

// pairs reads a table of names, in lower case here, and values.
func pairs(ctx context.Context, conn *sql.Conn, query string) (map[string]string, error) {
	all := make(map[string]string)
	var name, value string
	return all, each(ctx, conn, query, func() error {
		all[strings.ToLower(name)] = value
		return nil
	}, &name, &value)
}

// supported refuses servers that are too old, or that this was never tried on.
func (s *session) supported() error {
	number, _, _ := strings.Cut(s.version, "-")
	if s.mariadb { // some clients are told 5.5.5-10.11.2-MariaDB
		number = strings.TrimPrefix(s.version, "5.5.5-")
	}
	var major, minor int
	fmt.Sscanf(number, "%d.%d", &major, &minor)
	switch {
	case s.mariadb && (major < 10 || major == 10 && minor < 6):
		return engine.Misconfiguredf("the server is MariaDB %d.%d; 10.6 is the oldest that is supported", major, minor)
	case !s.mariadb && major < 8:
		return engine.Misconfiguredf("the server is MySQL %d.%d; 8.0 is the oldest that is supported", major, minor)
	}
	return nil
}

// identityOf returns an expression that tells servers apart: a replica, and a copy of the
// data on another machine, have another value.
//
// MySQL has a random server_uuid in a file beside the data. MariaDB has nothing like it:
// its server_uid is a hash of the machine's network address and the port. A name alone
// does not tell machines apart, since a machine that is replaced often has it again.
// On Galera all members are one store, which has a name of its own.
//
// MariaDB's server_id can be changed while the server runs. Each connection has the one that it
// began with; only the global one is the same for all.
func (s *session) identityOf() string {
	switch {
	case s.galera:
		return literal([]byte(s.identity)) // its members are one: which of them answers does not matter
	case s.uid != "":
		return `CAST(CONCAT_WS(' ', @@` + s.uid + `, @@hostname, @@port, @@global.server_id, @@datadir) AS BINARY)`
	}
	return `CAST(CONCAT_WS(' ', @@hostname, @@port, @@global.server_id, @@datadir) AS BINARY)`
}

// notDurable says why a crash of the server may lose what it has committed, or "".
//
// With the binary log, a transaction that InnoDB has on the disk is rolled back by the
// recovery if that log has lost it.
func notDurable(set map[string]string) string {
	switch flush := set["innodb_flush_log_at_trx_commit"]; {
	case flush != "1" && flush != "3":
		return "innodb_flush_log_at_trx_commit is " + flush + ", not 1"
	case strings.EqualFold(set["log_bin"], "ON") && set["sync_binlog"] != "1":
		return "log_bin is ON and sync_binlog is " + set["sync_binlog"] + ", not 1"
	case strings.EqualFold(set["debug_no_sync"], "ON"):
		return "debug_no_sync is ON"
	case strings.EqualFold(set["innodb_flush_method"], "nosync") ||
		strings.EqualFold(set["innodb_flush_method"], "littlesync"):
		return "innodb_flush_method is " + set["innodb_flush_method"]
	}
	return ""
}
