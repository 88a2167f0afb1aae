package fencepgx_test

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/fence/fencepgx"
)

// pay writes under a lock with this token. A pool has Begin too.
func pay(ctx context.Context, conn *pgx.Conn, token fence.Token) error {
	var guard fencepgx.Guard
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := guard.Check(ctx, tx, "orders/42", token); err != nil {
			return err // a *fence.StaleError if a newer token was there
		}
		_, err := tx.Exec(ctx, "UPDATE orders SET paid = true WHERE id = 42")
		return err
	})
}

func ExampleGuard() {
	_ = pay
}
