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

const (
	aclUser     = "lock-user"
	aclPassword = "lock-secret"
	aclMaxTTL   = 200 * time.Millisecond
)

// permissions are those that a client of the locks with a prefix needs.
func permissions(t *testing.T, prefix string) []string {
	t.Helper()
	all, err := valkeynode.Permissions(prefix)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// allow has a server allow clients that do not log in what the locks with a prefix need, and no
// more.
func allow(t *testing.T, server *testserver.Server, prefix string) {
	t.Helper()
	line := append([]string{"ACL", "SETUSER", "default", "resetkeys", "resetchannels", "-@all"}, permissions(t, prefix)...)
	if reply := server.Do(line...); reply != "OK" {
		t.Fatalf("%q: %s", line, reply)
	}
}

func TestLeastPermissions(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, kind, "appendonly yes", "appendfsync always", "aof-load-truncated no",
			"repl-diskless-sync-delay 0")
		// It has to see what is promised. Of servers with such a file, the tests limit no user.
		follow(t, testserver.Start(t, kind, "appendonly yes"), server)
		inStep(t, server, 1)
		setUser := func(permissions []string) {
			line := append([]string{"ACL", "SETUSER", aclUser, "reset", "on", ">" + aclPassword}, permissions...)
			if reply := server.Do(line...); reply != "OK" {
				t.Fatalf("%q: %s", line, reply)
			}
		}
		all := permissions(t, valkeynode.DefaultPrefix)
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
			if permission != "+config|get" &&
				(!errors.Is(err, fenlock.ErrMisconfigured) || !strings.Contains(err.Error(), "ACL")) {
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
			return fmt.Errorf("acquire: %v %v", a.Status, a.Absence)
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

// A client that only looks can see everything, and take nothing.
func TestReadPermissions(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server, n := admitted(t, kind, groupTTL)
		held := granted(t, n, "held")
		all, err := valkeynode.ReadPermissions(valkeynode.DefaultPrefix)
		if err != nil {
			t.Fatal(err)
		}
		look := func() (*valkeynode.Node, error) {
			ctx := bounded(t)
			n := joined(t, strings.Replace(server.URL(), "://", "://"+aclUser+":"+aclPassword+"@", 1), groupTTL)
			lease, inspect := n.Inspect(ctx, held.Name)
			_, _, waiting := n.Waiting(ctx, held.Name, 10)
			listed := 0
			list := n.List(ctx, "", func(node.Lease) bool { listed++; return true })
			_, registers := n.Registers(ctx)
			err := errors.Join(inspect, waiting, list, registers)
			if err == nil && (lease.Label == "" || listed == 0) {
				t.Fatalf("%+v, %d listed", lease, listed)
			}
			return n, err
		}
		for i := -1; i < len(all); i++ {
			missing, rules := "", slices.Clone(all)
			if i >= 0 {
				missing, rules = all[i], slices.Delete(rules, i, i+1)
			}
			server.Do(append([]string{"ACL", "SETUSER", aclUser, "reset", "on", ">" + aclPassword}, rules...)...)
			reader, err := look()
			if (err != nil) != (missing != "") {
				t.Errorf("without %q: %v", missing, err)
			}
			if missing != "" {
				continue
			}
			before := server.Do("HGETALL", registersKey)
			for _, op := range []node.Op{node.Acquire, node.Confirm, node.Extend, node.Release, node.ForceRelease} {
				if a, err := reader.Do(bounded(t), as(op, held)); !errors.Is(err, fenlock.ErrMisconfigured) {
					t.Errorf("%v: %+v, %v; want ErrMisconfigured", op, a, err)
				}
			}
			if after := server.Do("HGETALL", registersKey); after != before || server.Do("EXISTS", "fenlock:held") != "1" {
				t.Errorf("the registers were %s and are %s", before, after)
			}
		}
	})
}

// The keys of a prefix are those, whatever characters it has.
func TestPermissionsOfAPrefix(t *testing.T) {
	for prefix, want := range map[string]string{
		"":           "~* &fenlock-wake:*",
		"app1:":      "~app1:* ~fenlock-registers:app1: ~fenlock-line:app1:* &fenlock-wake:*",
		"a*b[c]?\\:": `~a\*b\[c\]\?\\:* ~fenlock-registers:a\*b\[c\]\?\\: ~fenlock-line:a\*b\[c\]\?\\:* &fenlock-wake:*`,
		"a b\t":      "~a?b?* ~fenlock-registers:a?b? ~fenlock-line:a?b?* &fenlock-wake:*",
	} {
		if got := strings.Join(permissions(t, prefix), " "); !strings.HasPrefix(got, want+" +info") {
			t.Errorf("%q: %s", prefix, got)
		}
	}
	if rules, err := valkeynode.Permissions("fenlock-line:x"); !errors.Is(err, fenlock.ErrInvalid) {
		t.Errorf("%q, %v", rules, err)
	}
	if rules, err := valkeynode.ReadPermissions("fenlock-registers:"); !errors.Is(err, fenlock.ErrInvalid) {
		t.Errorf("%q, %v", rules, err)
	}
	each(t, func(t *testing.T, kind testserver.Kind) {
		const prefix = "a *[b]?\\: "
		server := testserver.Start(t, kind)
		server.MarkAdmitted(prefix, groupTTL)
		allow(t, server, prefix)
		n := joined(t, server.URL(), groupTTL, valkeynode.WithPrefix(prefix))
		want(t, node.Granted)(n.Do(bounded(t), as(node.Acquire, request("x", "one"))))
		other := joined(t, server.URL(), groupTTL, valkeynode.WithPrefix("a x[b]?\\: "))
		if a, err := other.Do(bounded(t), as(node.Acquire, request("x", "one"))); !errors.Is(err, fenlock.ErrMisconfigured) {
			t.Errorf("another prefix: %+v, %v", a, err)
		}
	})
}
