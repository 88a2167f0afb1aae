package fencesql_test

import (
	"context"
	"database/sql"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/fence/fencesql"
)

// pay writes under a lock with this token.
func pay(ctx context.Context, db *sql.DB, token fence.Token) error {
	guard := fencesql.Guard{Dialect: fencesql.PostgreSQL}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	if err := guard.Check(ctx, tx, "orders/42", token); err != nil {
		return err // a *fence.StaleError if a newer token was there
	}
	if _, err := tx.ExecContext(ctx, "UPDATE orders SET paid = true WHERE id = 42"); err != nil {
		return err
	}
	return tx.Commit()
}

func ExampleGuard() {
	_ = pay
}
