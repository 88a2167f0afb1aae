package transport

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// A subscription takes a place in the library's ring until it is confirmed, and
// none afterwards, however often it is lost and renewed.
func TestSubscriptionGivesItsSlotBack(t *testing.T) {
	s := testserver.Start(t, testserver.Kinds(t)[0])
	server, err := ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(server, resp.NewSecrets(""))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for range 3 {
		confirmed, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- c.Subscribe(ctx, "channel", func() { close(confirmed) }, func(string) {})
		}()
		select {
		case <-confirmed:
		case <-ctx.Done():
			t.Fatal("not confirmed")
		}
		if len(c.slots) != 0 {
			t.Fatalf("%d slots taken", len(c.slots))
		}
		s.Do("CLIENT", "KILL", "TYPE", "pubsub")
		if err := <-ended; errors.Is(err, context.DeadlineExceeded) {
			t.Fatal("the subscription goes on")
		}
		if len(c.slots) != 0 {
			t.Fatalf("%d slots taken when it is over", len(c.slots))
		}
	}
}
