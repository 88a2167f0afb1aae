//go:build linux

package cluster

import (
	"context"
	"fmt"
	"testing"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/natsnode"
)

// NATS is a server of NATS that syncs each write. Its clock decides, and no library can move it:
// the server is a static program.
var NATS = &Engine{
	Name: "nats", TTL: TTL, WallClock: true,
	start: func(t testing.TB, _ Persistence, _ []string) Server { return nats{testserver.StartNATS(t), t} },
	url: func(_, through string, node int) string {
		return fmt.Sprintf("nats://%s/LOCKS?sync_interval=always&name=%d", through, node)
	},
	prepare: migrate,
}

// nats is a server of NATS.
type nats struct {
	*testserver.NATS
	t testing.TB
}

// Restart starts the server again, and makes the bucket anew if that was wiped.
func (s nats) Restart() {
	s.NATS.Restart()
	n, err := natsnode.Open(NATS.url("", s.Addr(), 0))
	if err != nil {
		s.t.Fatal(err)
	}
	defer n.Close()
	if err := again(Patience, func(ctx context.Context) error { return n.Migrate(ctx) }); err != nil {
		s.t.Fatal(err)
	}
}
