// Command invoices hands out the numbers of invoices, each once and without a gap.
package main

import (
	"context"
	"log"
	"net/http"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/examples/invoices/ledger"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/valkeynode"
)

func main() {
	var nodes []fenlock.Node
	for _, server := range ledger.Servers() {
		node, err := valkeynode.Open("valkey://"+server, valkeynode.WithPrefix(""))
		if err != nil {
			log.Fatal(err)
		}
		nodes = append(nodes, node)
	}
	locks, err := fenlock.New(fenlock.Config{Nodes: nodes, TTL: ledger.Expiry()})
	if err != nil {
		log.Fatal(err)
	}

	invoice := func(r *http.Request) (number int, err error) {
		err = locks.Do(r.Context(), "invoices", func(ctx context.Context, _ fence.Token) error {
			number, err = ledger.Next(ctx, r)
			return err
		})
		return number, err
	}
	if err := ledger.Serve(invoice); err != nil {
		log.Fatal(err)
	}
}
