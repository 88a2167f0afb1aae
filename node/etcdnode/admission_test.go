//go:build unix

package etcdnode_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/etcdnode"
	"github.com/fenlock/fenlock/node/memnode"
)

// unjoined returns a node in no group.
func unjoined(t testing.TB, url string) *etcdnode.Node {
	t.Helper()
	n, err := etcdnode.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

func TestOneClusterIsOneNode(t *testing.T) {
	a, b := unjoined(t, fresh()), unjoined(t, fresh())
	g := node.Group{Nodes: []node.Node{a, b, memnode.New("m")}, MaxTTL: time.Second, New: true}
	if err := errors.Join(a.Join(g), b.Join(g)); err != nil {
		t.Fatal(err)
	}
	a.Do(t.Context(), request(node.Acquire, "a", "1", time.Second))
	if _, err := b.Do(t.Context(), request(node.Acquire, "a", "1", time.Second)); !errors.Is(err, node.ErrMisconfigured) ||
		!strings.Contains(err.Error(), "same server") {
		t.Errorf("%v; want ErrMisconfigured", err)
	}
}

// The mark of admission is deleted, and all else is there: it is what an operator does who restores
// a cluster. A client that has seen the mark must not go on without it, not even once.
func TestDeletedMark(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 1)
	n := unjoined(t, "etcd://"+e.Addrs())
	join(t, n, 500*time.Millisecond, false)
	became(t, n, request(node.Acquire, "a", "1", 300*time.Millisecond), node.Granted)
	held := request(node.Acquire, "b", "1", time.Minute)
	low := must(t, n, held, node.Granted).Register
	c := raw(t, e)
	for _, r := range []node.Request{as(node.Extend, held), request(node.Acquire, "a", "2", time.Second),
		as(node.Confirm, held), as(node.ForceRelease, held)} {
		if _, err := c.Delete(t.Context(), etcdnode.DefaultPrefix+"meta"); err != nil {
			t.Fatal(err)
		}
		must(t, n, r, node.Rejoining)
		became(t, n, request(node.Acquire, "other", fmt.Sprint(r.Op), 100*time.Millisecond), node.Granted)
	}
	must(t, n, as(node.Release, held), node.Lost) // all leases went with the first note
	held.Token = 1
	if a := must(t, n, held, node.Granted); a.Register != low+1 {
		t.Errorf("granted %d after %d: the registers were there", a.Register, low)
	}
}

// became waits for an answer.
func became(t testing.TB, n *etcdnode.Node, r node.Request, want node.Status) {
	t.Helper()
	eventually(t, func() error {
		a, err := n.Do(within(t, 2*time.Second), r)
		if err == nil && a.Status != want {
			err = fmt.Errorf("%+v", a)
		}
		return err
	})
}

// A cluster is stopped, set back to a copy of its data, and started again. It has forgotten a
// lease, and its clients notice. It has the earlier mark as well, so a client that has not yet
// heard of this makes a lease there. That lease does not survive.
func TestSetBack(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 1)
	m := e.Members[0]
	url := "etcd://" + e.Addrs()
	n, other := unjoined(t, url), unjoined(t, url)
	join(t, n, 10*time.Second, true)
	join(t, other, 10*time.Second, true)
	await(t, n)
	await(t, other)
	stray := request(node.Acquire, "stray", "1", time.Minute) // no timer must go off, and hear of it first
	must(t, n, stray, node.Granted)
	m.Stop()
	backup := t.TempDir()
	if err := os.CopyFS(backup+"/data", os.DirFS(m.Data())); err != nil {
		t.Fatal(err)
	}
	e.Start(m)
	held := request(node.Acquire, "a", "1", time.Minute)
	became(t, n, held, node.Granted)
	must(t, other, request(node.Acquire, "a", "2", time.Second), node.Held)
	for i := range 40 { // more than is written before any request is answered: etcd leases that end, for one
		by := []*etcdnode.Node{n, other}[i%2]
		work := request(node.Acquire, "work", "2", time.Second)
		must(t, by, work, node.Granted)
		must(t, by, as(node.Release, work), node.Granted)
	}
	m.Stop()
	if err := errors.Join(os.RemoveAll(m.Data()), os.Rename(backup+"/data", m.Data())); err != nil {
		t.Fatal(err)
	}
	e.Start(m)
	var said string
	leases := func() []string { return beginning(keysOf(t, raw(t, e), etcdnode.DefaultPrefix), "lease/") }
	// As a client does whose answer is lost, or that has not heard of later revisions.
	if _, err := raw(t, e).Put(t.Context(), etcdnode.DefaultPrefix+"lease/another",
		strings.TrimPrefix(leases()[0], "lease/stray ")); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		a, err := n.Do(within(t, 2*time.Second), as(node.Extend, stray))
		if err == nil {
			t.Fatalf("set back: %+v", a)
		}
		if !strings.Contains(err.Error(), "set back from revision") {
			return err // it is being started
		}
		return nil
	})
	if all := leases(); len(all) != 2 {
		t.Errorf("with the mark of before there are the leases %q", all)
	}
	eventually(t, func() error {
		a, err := other.Do(within(t, 2*time.Second), request(node.Acquire, "a", "2", time.Second))
		if err != nil {
			said = err.Error()
			return err
		}
		if a.Status != node.Rejoining {
			t.Fatalf("set back: %+v, and before %q", a, said)
		}
		return nil
	})
	if !strings.Contains(said, "set back from revision") {
		t.Errorf("said %q", said)
	}
	if after := leases(); len(after) != 0 {
		t.Errorf("the store is noted to be out, and has the leases %q", after)
	}
	late := unjoined(t, url) // a client that comes now finds it written down
	join(t, late, 10*time.Second, true)
	must(t, late, request(node.Acquire, "b", "3", time.Second), node.Rejoining)
	became(t, late, request(node.Acquire, "a", "2", time.Second), node.Granted)
	became(t, n, request(node.Acquire, "n", "2", time.Second), node.Granted)
}

// Keys that fenlock never writes were written by hand. A client that locks these names is told at
// once, and all others go on.
func TestKeysByHand(t *testing.T) {
	t.Parallel()
	url := fresh()
	n := open(t, url)
	await(t, n)
	c := raw(t, shared())
	prefix := url[strings.Index(url, "/test/"):] + "/"
	held := request(node.Acquire, "held", "1", time.Minute)
	must(t, n, held, node.Granted)
	stripe := fmt.Sprintf("register/%03x", node.Stripe("register"))
	for _, key := range []string{"queue/a/garbage", "queue/b/00000000000001/nobody", "queue/held/zzz", "lease/c", stripe} {
		if _, err := c.Put(t.Context(), prefix+key, "zzz"); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []node.Request{
		request(node.Acquire, "a", "1", time.Minute), request(node.Acquire, "b", "1", time.Minute), as(node.Release, held),
		request(node.Acquire, "c", "1", time.Minute), request(node.Acquire, "register", "1", time.Minute),
	} {
		if a, err := n.Do(within(t, 10*time.Second), r); err == nil || !strings.Contains(err.Error(), "changed by hand") {
			t.Errorf("%v of %s: %+v, %v; want an error that says why", r.Op, r.Name, a, err)
		}
	}
	must(t, n, request(node.Acquire, "others", "1", time.Minute), node.Granted)
	must(t, n, as(node.Extend, held), node.Granted)
}

// Keys that are read as numbers, but are not those of registers. What such a key says must not
// stand for a register, which would be raised to less than was promised then.
func TestRegistersByHand(t *testing.T) {
	t.Parallel()
	c := raw(t, shared())
	for _, key := range []string{"-01", "-00", "+1f", "0x1", " 1f", "0AF"} {
		url := fresh()
		if _, err := c.Put(t.Context(), prefixOf(url)+"register/"+key, "0fffffffffffff"); err != nil {
			t.Fatal(err)
		}
		n := unjoined(t, url)
		join(t, n, time.Minute, true)
		if r, err := n.Registers(t.Context()); err == nil || !strings.Contains(err.Error(), "changed by hand") {
			t.Errorf("%q: %v, %v; want an error that says why", key, r.Tokens, err)
		}
		if err := n.Store().Raise(t.Context(), admit.Facts{}, map[int]fence.Token{0: 5}); err == nil {
			t.Errorf("%q: raised", key)
		}
	}
}
