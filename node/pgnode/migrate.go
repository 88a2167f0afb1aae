package pgnode

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fenlock/fenlock/node"
)

// Migrate makes the schema with its tables and functions, in one transaction, unless they
// are there. It needs the right to create a schema in the database, or an empty one of that
// name. What is there and is not fenlock's stays as it is: the error matches
// node.ErrMisconfigured.
func (n *Node) Migrate(ctx context.Context) error {
	return n.errorf("migrate", n.migrate(ctx))
}

func (n *Node) migrate(ctx context.Context) error {
	ctx, over, err := n.closing.Begin(ctx)
	if err != nil {
		return err
	}
	defer over()
	tx, err := n.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	// Two that migrate at once: the second one waits, and finds what the first has made.
	if _, err := tx.ExecContext(ctx, `LOCK TABLE pg_catalog.pg_namespace IN SHARE ROW EXCLUSIVE MODE`); err != nil &&
		!hasCode(err, insufficientPrivilege) {
		return err
	} else if err != nil {
		tx.Rollback()
		if tx, err = n.db.BeginTx(ctx, nil); err != nil {
			return err
		}
		defer tx.Rollback()
	}
	if _, err := tx.ExecContext(ctx, `SET LOCAL search_path = pg_catalog, pg_temp`); err != nil {
		return err
	}
	var has bool
	var objects int
	if err := tx.QueryRowContext(ctx, n.sql.has, n.schema).Scan(&has); err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, n.sql.found, n.schema).Scan(&objects); err != nil {
		return err
	}
	text := Schema(n.schema)
	switch {
	case objects > 0:
		return n.checkFormat(ctx, tx)
	case has:
		text = createSchema().ReplaceAllString(text, "")
	}
	// Without arguments it is sent as it is, all statements at once.
	if _, err := tx.ExecContext(ctx, text); err != nil {
		return err
	}
	return tx.Commit()
}

// createSchema is what only who may create schemas, or owns this one, may do.
var createSchema = lazily(`(?m)^(CREATE|COMMENT ON) SCHEMA .*;$`)

// checkFormat returns nil if the schema is of the format that this program knows.
func (n *Node) checkFormat(ctx context.Context, tx *sql.Tx) error {
	var found string
	err := tx.QueryRowContext(ctx, n.sql.formatOf).Scan(&found)
	switch {
	case hasCode(err, undefinedTable), hasCode(err, undefinedColumn), errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf(
			"%w: there is a schema %q with tables, and they are not fenlock's: choose another one by the parameter schema",
			node.ErrMisconfigured, n.schema)
	case err != nil:
		return err
	case found != format:
		return formatError(n.schema, found)
	}
	return nil
}

// Schema returns the statements that Migrate sends to a database without the schema.
func (n *Node) Schema() string { return Schema(n.schema) }
