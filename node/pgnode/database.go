package pgnode

import (
	"cmp"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"

	"github.com/jackc/pgx/v5"
)

// database is what statements are sent to.
type database struct {
	db     *sql.DB
	own    *pgx.ConnConfig // nil: the pool is the caller's
	name   string          // for people
	schema string
	sql    statements

	password func() (string, error) // of the URL's file, nil: none

	connecting time.Duration // for how long a connection is still made after the request was given up

	slots    chan struct{} // one for each connection that is asked for
	poolSays sync.Once     // whether it prepares statements
	prepares atomic.Bool
	unnamed  atomic.Bool // prepared statements do not outlive a transaction here
	names    sync.Map    // of prepared statements, by their texts

	closing *engine.Lifetime // until Close
}

// callersMost is how many connections of a caller's pool are asked for at a time.
const callersMost = 256

func newDatabase(db *sql.DB, schema string) *database {
	return &database{db: db, schema: schema, sql: statementsIn(schema), closing: engine.NewLifetime(),
		connecting: connectTimeout,
		slots:      make(chan struct{}, cmp.Or(db.Stats().MaxOpenConnections, callersMost))}
}

// prepared returns what a statement is called where it is prepared.
func (n *database) prepared(text string) string {
	if name, ok := n.names.Load(text); ok {
		return name.(string)
	}
	sum := sha256.Sum256([]byte(text))
	name := "fenlock_" + hex.EncodeToString(sum[:16])
	n.names.Store(text, name)
	return name
}

// errorf names the node in an error, and says what can be done about it. It marks errors that
// waiting does not mend, and those of requests that were certainly not carried out.
func (n *database) errorf(op string, err error) error {
	if err == nil || errors.As(err, new(redacted)) { // it is named already
		return err
	}
	advice, lasting := advice(n.schema, err)
	named := engine.Explain(engine.Named("postgres "+n.name, op, redacted{err}), advice, lasting)
	if undone(err) {
		return node.NotSent(named)
	}
	return named
}
