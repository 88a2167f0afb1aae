package goredisnode

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/fenlock/fenlock/node/respnode/resp"
	"github.com/redis/go-redis/v9"
)

// After a loss the server is looked at again: what the pool connects to next may be another one.
// Otherwise each later answer would have to prove itself a second time.
func TestLossIsAnotherConnection(t *testing.T) {
	client := redis.NewClient(&redis.Options{MaxRetries: -1, DialerRetries: 1,
		Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("lost") }})
	defer client.Close()
	l := newLink(client)
	defer l.Close()
	before := l.Dial()
	if !l.Up(before) {
		t.Error("nothing was lost, and it is not up")
	}
	if _, err := l.Do(t.Context(), resp.Command{"PING"}); err == nil {
		t.Error("no error")
	}
	if l.Up(before) || !l.Up(l.Dial()) {
		t.Error("after a loss it is up as before")
	}
}
