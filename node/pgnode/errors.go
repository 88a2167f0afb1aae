package pgnode

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenlock/fenlock/node/engine"
)

// SQLSTATEs (PostgreSQL documentation, appendix A), and those of the schema's own that people can
// do something about.
const (
	insufficientPrivilege = "42501"
	undefinedTable        = "42P01"
	undefinedColumn       = "42703"
	undefinedFunction     = "42883"
	undefinedSchema       = "3F000"
	undefinedDatabase     = "3D000"
	undefinedStatement    = "26000" // a prepared one
	duplicateStatement    = "42P05"
	notSupported          = "0A000"
	undefinedObject       = "42704"
	invalidValue          = "22023"
	readOnly              = "25006"
	tooManyConnections    = "53300"
	diskFull              = "53100"
	outOfMemory           = "53200"
	canceled              = "57014"
	serialization         = "40001"
	deadlock              = "40P01"
	lockTimeout           = "55P03"
	badPassword           = "28P01"
	badAuthorization      = "28000"
	startingUp            = "57P03"
	protocolViolation     = "08P01"
	isolationOfOurs       = "FL001"
)

// errUnsent is the error of a request that was given up before its statement was sent.
var errUnsent = errors.New("there was no connection in time")

// reply returns what the server said, nil if an error is not from it.
func reply(err error) *pgconn.PgError {
	var said *pgconn.PgError
	errors.As(err, &said)
	return said
}

func hasCode(err error, code string) bool {
	said := reply(err)
	return said != nil && said.Code == code
}

// undone reports whether an operation was certainly not carried out, and never will be. A
// server that answers a statement with an error has rolled it back, since the statement is
// the transaction. Not so where it says farewell at once (FATAL): it may have committed
// and been shut down while it waited for a replica. Nor where a connection is the matter: a
// pooler says so of one that broke while a statement was under way.
func undone(err error) bool {
	var connecting *pgconn.ConnectError
	if errors.As(err, &connecting) || errors.Is(err, errUnsent) || pgconn.SafeToRetry(err) {
		return true
	}
	said := reply(err)
	return said != nil && said.SeverityUnlocalized == "ERROR" && !aboutConnections(said.Code)
}

// aboutConnections reports whether an SQLSTATE is one of connection exceptions, protocol
// violations (class 08), shutdowns or crashes (57P).
func aboutConnections(code string) bool {
	return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "57P")
}

// again reports whether an operation that was not carried out may be tried again at once:
// it lost to another transaction.
func again(err error) bool {
	return undone(err) && (hasCode(err, serialization) || hasCode(err, deadlock))
}

// ofAnotherFormat reports whether tables or functions of another format can have caused an error.
func ofAnotherFormat(err error) bool {
	return hasCode(err, undefinedTable) || hasCode(err, undefinedFunction) || hasCode(err, undefinedColumn) ||
		hasCode(err, undefinedSchema)
}

// advice says what a person can do about an error, and whether waiting does not help.
func advice(schema string, err error) (text string, lasting bool) {
	said := reply(err)
	if said == nil {
		return "", false
	}
	switch said.Code {
	case undefinedTable, undefinedFunction, undefinedSchema, undefinedColumn:
		return fmt.Sprintf("fenlock's schema %q is not there, or is another version's: run \"fenlock migrate\" once, as a user who may create it", schema), true
	case insufficientPrivilege:
		return fmt.Sprintf("the user lacks a right: GRANT USAGE ON SCHEMA %[1]s TO …; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %[1]s TO …; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA %[1]s TO …", schema), true
	case undefinedDatabase:
		return "create the database, or name another one in the URL", true
	case badPassword, badAuthorization:
		return "the server refuses this user: check user, password and pg_hba.conf", true
	case undefinedObject, invalidValue:
		return "check options in the URL, or PGOPTIONS", true
	case protocolViolation:
		if strings.Contains(said.Message, "startup parameter") {
			return "pgbouncer takes no such parameter: leave it out (options, PGOPTIONS), and have the server set it (ALTER ROLE … SET)", true
		}
	case readOnly, notSupported:
		return "this is a replica, or a database that is read only: name the primary, or all hosts of the cluster", true
	case isolationOfOurs:
		return "set default_transaction_isolation to read committed for this user or database", true
	case tooManyConnections:
		return "the server has no connection left: raise max_connections, or put pgbouncer in front of it", false
	case diskFull, outOfMemory:
		return "the server is out of room", false
	case canceled:
		return "a statement_timeout of the server, or a pg_cancel_backend of another session", false
	case lockTimeout:
		return "a lock_timeout of the server", false
	case startingUp:
		return "the server is starting, stopping, or a replica that is catching up", false
	}
	return "", false
}

// redacted hides what pgx repeats of a connection string: user and password.
type redacted struct{ error }

var secrets = lazily(`(?i)(password|user)=\S+|//[^/@\s]*@`)

func (e redacted) Error() string { return secrets().ReplaceAllString(e.error.Error(), "…") }

func (e redacted) Unwrap() error { return e.error }

// contextual makes the error of a done context match ctx.Err(), whatever the driver made
// of it.
func contextual(ctx context.Context, err error) error {
	if reply(err) != nil {
		return err
	}
	return engine.Contextual(err, ctx)
}

// lazily compiles an expression when it is first asked for: a program that has this engine
// may use another.
func lazily(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
