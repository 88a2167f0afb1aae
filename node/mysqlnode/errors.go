package mysqlnode

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/go-sql-driver/mysql"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/engine"
)

// mysqlError is what a server refuses a statement with.
type mysqlError = mysql.MySQLError

var errInvalidConn = mysql.ErrInvalidConn

// runMigrate is what to do about tables that are not there.
const runMigrate = "run fenlock migrate, once, as a user who may create tables"

// number returns the number of a server's error, 0 if err is none.
func number(err error) uint16 {
	var e *mysqlError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// unwritten marks the error of a write. If the server reports an error, a statement that is a
// transaction of its own was not carried out, and never will be. The exception is what the server
// can say during a commit: that it shuts down, or that the connection or the statement was killed.
// Anything else is unknown: the connection broke, or the context ended, which has the driver close
// the connection while the server goes on.
//
// A row of a table that is not logged stays written, also in part, if what comes after it fails.
func unwritten(err error, unlogged bool) error {
	switch number(err) {
	case 1021, 1030, 1114, 1969:
		if unlogged {
			return err
		}
		return node.NotSent(err)
	case 1213, 1020: // another write was certified before (Galera), or is newer than a snapshot
		return node.NotSent(fmt.Errorf("%w: %w", cas.ErrConflict, err))
	case 1205, 3024, 1290, 1792, 1836, 1874, 1142, 1143, 1044, 1146, 1049, 1046, 1047, 1153, 1406, 1054, 1064, 1040,
		1041, 1226:
		return node.NotSent(err)
	}
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrPktTooLarge) { // nothing was written to the network
		return node.NotSent(err)
	}
	return err
}

// advice says what an error of a server means and what a person can do about it, and
// whether waiting does not help.
func advice(err error) (text string, permanent bool) {
	switch number(err) {
	case 1045, 1698, 1251, 2061:
		return "the server refuses this user or password; look at the URL, and at CREATE USER on the server for the host that this client comes from", true
	case 1044:
		return "the user has no rights on this database; docs/mysql.md has the GRANT", true
	case 1142, 1143, 1227, 1370:
		return "the user lacks a right; docs/mysql.md has the GRANT", true
	case 1049:
		return "there is no such database on the server", true
	case 1046:
		return "no database is selected: name it in the URL or the DSN", true
	case 1146:
		return runMigrate, true
	case 1054:
		return "a table of this name is not fenlock's, or is of another version; " + runMigrate, true
	case 1792:
		return "the connections of the pool are for reading only (transaction_read_only or tx_read_only in the DSN, or on the server): turn that off", true
	case 1290, 1836, 1874:
		return "the server is read-only: it is a replica, or a primary that is being replaced; name the primary", true
	case 1040, 1203, 1226:
		return "the server has no connection left: raise max_connections (or max_user_connections), or use a smaller pool",
			false
	case 126, 127, 130, 134, 144, 145, 1034, 1035, 1194, 1195:
		return "a crash of the server has left a table damaged: REPAIR TABLE fenlock_stripes, as a user with SELECT and INSERT", true
	case 1205:
		return "another session keeps a row or table of fenlock locked: an open transaction of another program? SHOW PROCESSLIST and information_schema.INNODB_TRX show it", false
	case 1969, 3024:
		return "the statement took longer than max_statement_time (max_execution_time) allows; is the server overloaded, or a row locked?", false
	case 1317:
		return "another session has killed the statement (KILL QUERY)", false
	case 1927, 1053, 1077, 1079, 1094:
		return "the server is shutting down, or another session has killed the connection", false
	case 1047:
		return "this member of the Galera cluster is not part of a majority (wsrep_ready is OFF), and answers nothing", false
	case 1114, 1021:
		return "the table or the disk is full; free some space", false
	case 1153:
		return "a statement is longer than max_allowed_packet: raise that on the server", true
	case 3159:
		return "the server takes connections with TLS only: leave tls=off out", true
	case 1129:
		return "the server has blocked this host after connections that failed: FLUSH HOSTS on the server", true
	}
	switch {
	case errors.Is(err, mysql.ErrNoTLS):
		return "the server has no TLS: turn it on there, or say tls=off if the network is trusted", true
	case errors.Is(err, mysql.ErrPktTooLarge):
		return "a statement is longer than the driver's MaxAllowedPacket: raise that", true
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, mysql.ErrInvalidConn), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection has ended", false
	}
	return "", false
}

// isNetwork reports whether an error is of a connection, not of a server or a context.
func isNetwork(err error) bool {
	var of net.Error
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	return errors.As(err, &of) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// explained says what can be done about an error, and has it match node.ErrMisconfigured if
// waiting does not help.
func explained(err error) error {
	text, permanent := advice(err)
	return engine.Explain(err, text, permanent)
}
