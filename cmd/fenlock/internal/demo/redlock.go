//go:build linux || darwin || freebsd

package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"time"

	"github.com/valkey-io/valkey-go"
)

// redlock is an acquisition of Redlock as it is usually written. It is SET NX PX on all servers,
// and a client with a majority has the lock. That a server without its memory must stay down for a
// TTL is left to the operator. It returns what each server said, and whether the lock is held.
func redlock(ctx context.Context, key string, ttl time.Duration, addresses ...string) (said []string, held bool) {
	value, granted := rand.Text(), 0
	for _, address := range addresses {
		switch err := setNX(ctx, address, key, value, ttl); {
		case err == nil:
			granted++
			said = append(said, "OK")
		case errors.Is(err, valkey.Nil):
			said = append(said, "taken")
		default:
			said = append(said, "cut off")
		}
	}
	return said, granted > len(addresses)/2
}

func setNX(ctx context.Context, address, key, value string, ttl time.Duration) error {
	c, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{address}, ForceSingleClient: true,
		DisableCache: true,
		DisableRetry: true, Dialer: net.Dialer{Timeout: time.Second}})
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Do(ctx, c.B().Set().Key(key).Value(value).Nx().Px(ttl).Build()).Error()
}
