//go:build unix

package etcdnode_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// With the one permission of docs/etcd.md a client can do all, also after its token has
// expired. With less, or with a wrong password, it is told what is missing.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	// less, and a busy machine meets one that has just expired twice in a row
	e := testserver.StartEtcd(t, 1, "--auth-token-ttl", "5")
	c := raw(t, e)
	ctx := t.Context()
	var errs []error
	do := func(_ any, err error) { errs = append(errs, err) }
	do(c.RoleAdd(ctx, "fenlock"))
	do(c.RoleGrantPermission(ctx, "fenlock", "/fenlock/", clientv3.GetPrefixRangeEnd("/fenlock/"),
		clientv3.PermissionType(clientv3.PermReadWrite)))
	do(c.UserAdd(ctx, "locks", "p@ss/word"))
	do(c.UserGrantRole(ctx, "locks", "fenlock"))
	do(c.UserAdd(ctx, "root", "root"))
	do(c.UserGrantRole(ctx, "root", "root"))
	do(c.AuthEnable(ctx))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	n := open(t, "etcd://locks:p%40ss%2Fword@"+e.Addrs())
	await(t, n)
	told := make(chan string, 10)
	if err := n.Listen(within(t, 10*time.Second), client1, func(w string) { told <- w }); err != nil {
		t.Fatal(err)
	}
	// Whatever is asked keeps a token alive: one that is to expire needs a silent client.
	silent := open(t, "etcd://locks:p%40ss%2Fword@"+e.Addrs())
	await(t, silent)
	for round := range 2 {
		held := request(node.Acquire, "a", "1", time.Minute)
		waiting := request(node.Acquire, "a", "2", time.Minute)
		waiting.Place = node.Place{Waiter: fmt.Sprint(client1, ":", round+1), Stamp: 1000}
		must(t, n, held, node.Granted)
		must(t, n, as(node.Extend, held), node.Granted)
		must(t, n, waiting, node.Held)
		must(t, n, as(node.Release, held), node.Granted)
		if w := <-told; w != waiting.Place.Waiter {
			t.Errorf("told %q", w)
		}
		must(t, n, waiting, node.Granted)
		waiting.Place = node.Place{}
		must(t, n, as(node.Release, waiting), node.Granted)
	}
	time.Sleep(8 * time.Second)
	// On a busy machine the new token may have expired as well before it is used.
	eventually(t, func() error {
		a, err := silent.Do(within(t, 20*time.Second), request(node.Acquire, "after its token", "1", time.Second))
		if err == nil && a.Status != node.Granted {
			err = fmt.Errorf("%+v", a)
		}
		return err
	})
	for url, want := range map[string]string{
		"etcd://locks:wrong-password@" + e.Addrs():         "user or password is wrong",
		"etcd://" + e.Addrs():                              "the cluster wants a user",
		"etcd://locks:p%40ss%2Fword@" + e.Addrs() + "/own": "the user lacks the role",
	} {
		n := open(t, url)
		_, err := n.Do(within(t, 10*time.Second), request(node.Acquire, "a", "1", time.Second))
		if !errors.Is(err, node.ErrMisconfigured) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want ErrMisconfigured with %q", err, want)
		}
		if strings.Contains(fmt.Sprint(err, n), "p@ss") || strings.Contains(fmt.Sprint(err, n), "wrong-password") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

// A cluster whose database is full.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 1, "--quota-backend-bytes", "2000000")
	n := open(t, "etcd://"+e.Addrs())
	await(t, n)
	held := request(node.Acquire, "a", "1", time.Minute)
	must(t, n, held, node.Granted)
	c := raw(t, e)
	var err error
	for i := 0; i < 1000 && err == nil; i++ {
		_, err = c.Put(t.Context(), fmt.Sprint("/other/", i), strings.Repeat("x", 100_000))
	}
	_, err = n.Do(within(t, 10*time.Second), request(node.Acquire, "b", "2", time.Minute))
	if err == nil || errors.Is(err, node.ErrMisconfigured) || !strings.Contains(err.Error(), "the database is full") {
		t.Errorf("%v; want an error that says what to do", err)
	}
	// which a slow machine does before
	if errors.Is(err, node.ErrNotSent) && !strings.Contains(err.Error(), "asking for an etcd lease") {
		t.Errorf("%v: it may have been carried out, as the last one before the database was full", err)
	}
	if _, err := n.Do(within(t, 10*time.Second), as(node.Release, held)); err == nil ||
		!strings.Contains(err.Error(), "the database is full") {
		t.Errorf("a release: %v; want an error that says what to do", err)
	}
}
