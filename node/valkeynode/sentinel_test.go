package valkeynode_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// sentinelURL is the URL of the primary that sentinels watch.
func sentinelURL(kind testserver.Kind, addrs []string, more string) string {
	return string(kind) + "-sentinel://" + strings.Join(addrs, ",") + "/" + testserver.SentinelMaster + more
}

// A primary hangs, the sentinels promote its replica, and the primary goes on as a primary until
// the sentinels have told it. No two clients hold the lock. The holder is told. Waiters go on with
// a larger token, and are notified by the new primary.
func TestFailoverUnderSentinels(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		for _, hangs := range []bool{false, true} {
			t.Run(fmt.Sprint("hangs=", hangs), func(t *testing.T) {
				t.Parallel()
				primary, replicas := replicated(t, kind, managedMaxTTL, 2)
				grownUp(t, replicas[0])
				addrs := testserver.Sentinels(t, primary, 3)
				url := sentinelURL(kind, addrs, "")
				locker := func() *fenlock.Locker {
					return client(t, managedMaxTTL, func(c *fenlock.Config) { c.TTL = managedTTL }, url)
				}
				holder, other := locker(), locker()
				held := takes(t, holder, "orders/42")
				if hangs {
					primary.Pause()
				} else {
					primary.Kill()
				}
				var lock *fenlock.Lock
				eventually(t, func() (err error) {
					lock, err = other.TryAcquire(t.Context(), "orders/42")
					if err != nil && !errors.Is(err, fenlock.ErrNoQuorum) {
						t.Fatalf("during the failover: %v; want ErrNoQuorum", err)
					}
					return err
				})
				if left := held.Remaining(); left > 0 {
					t.Errorf("two hold at once: the old one for another %v", left)
				}
				isTold(t, held)
				if lock.Token() <= held.Token() {
					t.Errorf("token %d after %d", lock.Token(), held.Token())
				}
				if hangs {
					primary.Resume()
				}
				givesBack(t, lock)
				// The waiter is notified by the server that is the primary now.
				eventually(t, func() (err error) { lock, err = other.TryAcquire(t.Context(), "orders/42"); return err })
				next := make(chan error, 1)
				go func() {
					l, err := holder.Acquire(bounded(t), "orders/42")
					if err == nil && l.Token() <= lock.Token() {
						err = fmt.Errorf("token %d after %d", l.Token(), lock.Token())
					}
					next <- err
				}()
				eventually(t, func() error {
					for _, s := range replicas {
						if s.Do("PUBSUB", "CHANNELS", "fenlock-wake:*") != "[]" {
							return nil
						}
					}
					return errors.New("no client listens at the new primary")
				})
				givesBack(t, lock)
				if err := <-next; err != nil {
					t.Error(err)
				}
			})
		}
	})
}

// What is wrong with a URL of sentinels, each with what to do.
func TestSentinelsThatCannotTell(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		primary, _ := replicated(t, kind, time.Minute, 1)
		file := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(file, []byte("swordfish\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		wrong := filepath.Join(t.TempDir(), "wrong")
		if err := os.WriteFile(wrong, []byte("sardine\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		open, closed := testserver.Sentinels(t, primary, 2), testserver.Sentinels(t, primary, 1, "requirepass swordfish")
		elsewhere, _ := replicated(t, kind, time.Minute, 1)
		other := testserver.Sentinels(t, elsewhere, 1)
		scheme := string(kind) + "-sentinel://"
		for _, c := range []struct {
			url           string
			misconfigured bool
			says          string // "": it works
		}{
			{sentinelURL(kind, open, ""), false, ""},
			{sentinelURL(kind, append([]string{"127.0.0.1:1"}, open...), ""), false, ""},
			{sentinelURL(kind, append([]string{primary.Addr()}, open...), ""), false, ""},
			{sentinelURL(kind, closed, "?sentinelpasswordfile="+file), false, ""},
			{sentinelURL(kind, open, "?sentinelpasswordfile="+file), false, ""}, // it asks for none
			{sentinelURL(kind, append(other, open...), ""), false, ""},          // two of three
			{sentinelURL(kind, append(other, open[0]), ""), false, "more than half of the 2 sentinels have to name one primary"},
			{sentinelURL(kind, []string{open[0], "127.0.0.1:1"}, ""), false, "more than half of the 2 sentinels"},
			{scheme + open[0] + "/orders", true, `no primary is called "orders" at the sentinels ` + open[0]},
			{sentinelURL(kind, []string{"127.0.0.1:1", "127.0.0.1:2"}, ""), false, "no sentinel answers: 127.0.0.1:1: "},
			{sentinelURL(kind, []string{primary.Addr()}, ""), true, "this is no sentinel"},
			{string(kind) + "://" + open[0], true, "this is a sentinel, which holds no data: its URL is valkey-sentinel://"},
			{sentinelURL(kind, closed, ""), true, "sentinelpasswordfile"},
			{sentinelURL(kind, closed, "?sentinelpasswordfile="+wrong), true, "refuses the password"},
			{string(kind) + "s-sentinel://" + open[0] + "/primary", true, "write valkey for valkeys"},
		} {
			n := joined(t, c.url, time.Minute)
			var err error
			eventually(t, func() error {
				var a node.Answer
				a, err = n.Do(bounded(t), as(node.Acquire, long(fmt.Sprint("lock ", time.Now().UnixNano()), "one")))
				switch {
				case c.says == "" && err == nil && a.Status == node.Granted:
				case c.says != "" && err != nil && strings.Contains(err.Error(), c.says) &&
					errors.Is(err, fenlock.ErrMisconfigured) == c.misconfigured:
				default:
					return fmt.Errorf("%s: %+v, %v; want %q", c.url, a, err, c.says)
				}
				return nil
			})
			if err != nil && (strings.Contains(err.Error(), "swordfish") || strings.Contains(err.Error(), "sardine")) {
				t.Errorf("the password is in %v", err)
			}
		}
	})
}

// Sentinels and servers speak TLS, with certificates of one authority.
func TestSentinelsWithTLS(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.StartTLS(t, kind, "tls-replication yes")
		server.MarkAdmitted("fenlock:", time.Minute)
		addrs := testserver.Sentinels(t, server, 1)
		url := string(kind) + "s-sentinel://" + addrs[0] + "/" + testserver.SentinelMaster
		granted(t, joined(t, url+"?ca="+server.CAFile, time.Minute), "orders")
		n := joined(t, url, time.Minute)
		eventually(t, func() error {
			_, err := n.Do(bounded(t), as(node.Acquire, request("orders", "one")))
			if !errors.Is(err, fenlock.ErrMisconfigured) || !strings.Contains(err.Error(), "certificate is not trusted") {
				return fmt.Errorf("with the system's authorities: %v", err)
			}
			return nil
		})
	})
}

// URLs of sentinels that are refused when they are read, and what nodes are called.
func TestSentinelURLs(t *testing.T) {
	for url, says := range map[string]string{
		"valkey-sentinel://a:1,b:2":                                 "primary's name is missing",
		"valkey-sentinel://a:1/":                                    "primary's name is missing",
		"valkey-sentinel://a:1/x/y":                                 "database is not a number",
		"valkey-sentinel://a:1/x?sentineluser=eve":                  "no sentinelpasswordfile",
		"valkey-sentinel://a:1/x?sentinelpasswordfile=/nonexistent": "sentinelpasswordfile",
		"valkey-sentinel://a:1/x?witness=0":                         "witness is off, or a number",
		"valkey-sentinel://a:1/x?witness=all":                       "witness is off, or a number",
		"valkey-sentinel://a:1,a:1/x":                               "twice",
		"valkey://a:1,b:2":                                          "comma",
		"valkey://a?sentineluser=eve":                               "of sentinels",
	} {
		if _, err := valkeynode.Open(url); !errors.Is(err, fenlock.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q", url, err, says)
		}
	}
	for url, member := range map[string]string{
		"valkey-sentinel://b,a:1/orders":          "a:1,b:26379/orders",
		"redis-sentinel://a:1,b/orders/3":         "a:1,b:26379/orders/3",
		"rediss-sentinel://a:1/orders?name=one":   "one",
		"valkeys-sentinel://a:1/orders?witness=1": "a:1/orders",
	} {
		if n := open(t, url); n.Member() != member {
			t.Errorf("%s is called %q; want %q", url, n.Member(), member)
		}
	}
}
