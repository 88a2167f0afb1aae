package valkeynode_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// leastPermissions are all that a node's user needs, for the default prefix. A
// URL with a database number needs +select too. docs/valkey.md has the same line.
const leastPermissions = "~fenlock:* ~fenlock-registers:fenlock:* ~fenlock-line:fenlock:* &fenlock-wake:* " +
	"+info +config|get +script|exists +script|load +eval +evalsha +multi +exec " +
	"+get +getrange +set +del +pttl +pexpire +hget +hmget +hgetall +hset +hsetnx +hdel +time +scan " +
	"+zadd +zcard +zrange +zrank +zrem +zpopmin +publish +pubsub|numsub +subscribe"

const (
	aclUser     = "lock-user"
	aclPassword = "lock-secret"
	aclMaxTTL   = 200 * time.Millisecond
)

func TestLeastPermissions(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, kind, "appendonly yes", "appendfsync always")
		setUser := func(permissions []string) {
			line := append([]string{"ACL", "SETUSER", aclUser, "reset", "on", ">" + aclPassword}, permissions...)
			if reply := server.Do(line...); reply != "OK" {
				t.Fatalf("%q: %s", line, reply)
			}
		}
		all := strings.Fields(leastPermissions)
		setUser(all)
		if err := exercise(t, server); err != nil {
			t.Fatalf("with all of them: %v", err)
		}
		for i, permission := range all {
			setUser(slices.Delete(slices.Clone(all), i, i+1))
			err := exercise(t, server)
			if err == nil {
				t.Errorf("%s is not needed", permission)
				continue
			}
			if strings.Contains(err.Error(), aclPassword) {
				t.Errorf("without %s: the password is in %q", permission, err)
			}
			// CONFIG may be denied, as managed servers do: durability is then
			// not believed.
			if permission != "+config|get" && (!errors.Is(err, fenlock.ErrMisconfigured) || !strings.Contains(err.Error(), "ACL")) {
				t.Errorf("without %s: %v; want ErrMisconfigured, and the ACL as the reason", permission, err)
			}
		}
	})
}

// exercise does everything that a node can do, on a server that must be
// admitted anew and rebuilt first. It returns the first error.
func exercise(t *testing.T, server *testserver.Server) error {
	t.Helper()
	server.Do("FLUSHALL")
	server.Do("SCRIPT", "FLUSH")
	url := strings.Replace(server.URL(), "://", "://"+aclUser+":"+aclPassword+"@", 1)
	n, err := valkeynode.Open(url)
	if err != nil {
		return err
	}
	defer n.Close()
	if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: aclMaxTTL}); err != nil {
		return err
	}
	ctx := bounded(t)
	r := request("orders/42", "one")
	r.TTL = aclMaxTTL
	var a node.Answer
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if a, err = n.Do(ctx, as(node.Acquire, r)); err != nil {
			return fmt.Errorf("acquire: %w", err)
		}
		if a.Status == node.Granted {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("acquire: %v %s", a.Status, a.Detail)
		}
	}
	r.Token = a.Register
	other := request("orders/42", "two")
	other.TTL = aclMaxTTL
	client := strings.Repeat("a", 32)
	other.Place = node.Place{Waiter: client + ":1", Stamp: 1}
	gone := node.Request{Name: r.Name, Place: node.Place{Waiter: client + ":1"}}
	if err := n.Listen(ctx, client, func(string) {}); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	for _, r := range []node.Request{
		as(node.Acquire, other), as(node.Confirm, r), as(node.Extend, r), as(node.Release, r), as(node.Release, gone),
		as(node.Extend, r), as(node.ForceRelease, r), // which repairs it, and ends it
	} {
		if _, err := n.Do(ctx, r); err != nil {
			return fmt.Errorf("%v: %w", r.Op, err)
		}
	}
	_, inspect := n.Inspect(ctx, r.Name)
	_, _, waiting := n.Waiting(ctx, r.Name, 10)
	list := n.List(ctx, "", func(node.Lease) bool { return true })
	_, registers := n.Registers(ctx)
	if got := server.Do("HMGET", registersKey, "durable", "format"); got != "[1 "+testserver.Format+"]" {
		return fmt.Errorf("fsync always, or the format, is not recorded: %s", got)
	}
	return errors.Join(inspect, waiting, list, registers)
}
