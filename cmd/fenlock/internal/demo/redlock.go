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

// redlock is Redlock as it is usually written: SET NX PX on all servers, and who has a
// majority holds. That a server must stay down for a TTL, if it
// forgets, is left to whoever starts it.
type redlock struct {
	addresses []string
	value     string // tells its keys from another client's
}

func newRedlock(addresses ...string) *redlock {
	return &redlock{addresses: addresses, value: rand.Text()}
}

// acquire returns what each server said, and whether the lock is held.
func (l *redlock) acquire(ctx context.Context, key string, ttl time.Duration) (said []string, held bool) {
	granted := 0
	for _, address := range l.addresses {
		ok, err := l.set(ctx, address, key, ttl)
		switch {
		case err != nil:
			said = append(said, "cut off")
		case ok:
			granted++
			said = append(said, "OK")
		default:
			said = append(said, "taken")
		}
	}
	return said, granted > len(l.addresses)/2
}

// count returns on how many servers the key is this client's.
func (l *redlock) count(ctx context.Context, key string) (n int) {
	for _, address := range l.addresses {
		c, err := dial(address)
		if err != nil {
			continue
		}
		if value, err := c.Do(ctx, c.B().Get().Key(key).Build()).ToString(); err == nil && value == l.value {
			n++
		}
		c.Close()
	}
	return n
}

func (l *redlock) set(ctx context.Context, address, key string, ttl time.Duration) (bool, error) {
	c, err := dial(address)
	if err != nil {
		return false, err
	}
	defer c.Close()
	err = c.Do(ctx, c.B().Set().Key(key).Value(l.value).Nx().Px(ttl).Build()).Error()
	if errors.Is(err, valkey.Nil) {
		return false, nil
	}
	return err == nil, err
}

func dial(address string) (valkey.Client, error) {
	return valkey.NewClient(valkey.ClientOption{InitAddress: []string{address}, ForceSingleClient: true, DisableCache: true,
		DisableRetry: true, Dialer: net.Dialer{Timeout: time.Second}})
}
