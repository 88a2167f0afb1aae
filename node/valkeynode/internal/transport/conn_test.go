package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
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
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
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

// A server that answers too slowly for its callers, but answers, keeps its connection. What they
// gave up keeps its places in the library's ring. A full ring would ignore the contexts of later
// callers.
func TestContextsCountWhileAnswersAreLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := ParseURL("valkey://127.0.0.1:1")
		if err != nil {
			t.Fatal(err)
		}
		var there net.Conn
		fast := make(chan struct{})
		server.dial = func(context.Context, string, *net.Dialer) (net.Conn, error) {
			var here net.Conn
			there, here = net.Pipe()
			go func() {
				there.Read(make([]byte, 4096))
				there.Write([]byte("%2\r\n+version\r\n+8.0.0\r\n+proto\r\n:3\r\n"))
				go io.Copy(io.Discard, there)
				for range maxInFlight {
					select {
					case <-time.After(silence - time.Millisecond):
					case <-fast:
					}
					there.Write([]byte(answer))
				}
			}()
			return here, nil
		}
		c, err := Open(server, resp.NewSecrets(""))
		if err != nil {
			t.Fatal(err)
		}
		for round := range 3 {
			start := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			var all sync.WaitGroup
			for range maxInFlight {
				all.Go(func() { c.Do(ctx, resp.Command{"PING"}) })
			}
			all.Wait()
			cancel()
			if after := time.Since(start); after != 100*time.Millisecond {
				t.Errorf("round %d ends %v after it began, long after its context", round, after)
			}
			time.Sleep(silence + 2*time.Second)
		}
		if c.Dial() != 1 || c.lost() != nil {
			t.Error("the connection was lost")
		}
		close(fast)
		time.Sleep(silence + 2*time.Second)
		if n := len(c.slots); n > maxInFlight/10 {
			t.Errorf("%d slots taken when all was answered", n)
		}
		there.Close()
		c.Close()
		time.Sleep(silence + 2*time.Second)
		if n := len(c.slots); n > 0 {
			t.Errorf("%d slots taken when the connection is closed", n)
		}
	})
}

// A connection is closed when its server seems to have been replaced, unless it is quite new or
// another one is meant.
func TestRenewClosesAnOldConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := ParseURL("valkey://127.0.0.1:1")
		if err != nil {
			t.Fatal(err)
		}
		server.dial = func(context.Context, string, *net.Dialer) (net.Conn, error) {
			there, here := net.Pipe()
			go func() {
				defer there.Close()
				there.Read(make([]byte, 4096))
				there.Write([]byte("%2\r\n+version\r\n+8.0.0\r\n+proto\r\n:3\r\n"))
				for {
					if _, err := there.Read(make([]byte, 4096)); err != nil {
						return
					}
					there.Write([]byte(answer))
				}
			}()
			return here, nil
		}
		c, err := Open(server, resp.NewSecrets(""))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Do(t.Context(), resp.Command{"PING"}); err != nil {
			t.Fatal(err)
		}
		made := c.newest.Load().made
		time.Sleep(time.Until(made.Add(staleAfter)))
		if c.Renew(1); !c.Up(1) {
			t.Errorf("closed %v after it was made", time.Since(made))
		}
		time.Sleep(time.Nanosecond)
		if c.Renew(2); !c.Up(1) {
			t.Error("closed for another one")
		}
		if c.Renew(1); c.Up(1) {
			t.Error("an old connection is kept")
		}
		c.Close()
	})
}
