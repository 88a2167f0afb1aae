//go:build unix

package etcdnode_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
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
	join(t, n, time.Second, false)
	became(t, n, request(node.Acquire, "a", "1", 300*time.Millisecond), node.Granted)
	held := request(node.Acquire, "b", "1", time.Second)
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
	must(t, n, as(node.Release, held), node.Lost) // no lease of before the first note counts
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
	join(t, n, time.Minute, true)
	join(t, other, time.Minute, true)
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
	late := unjoined(t, url) // a client that comes now finds it written down
	join(t, late, time.Minute, true)
	must(t, late, request(node.Acquire, "b", "3", time.Second), node.Rejoining)
	became(t, late, request(node.Acquire, "stray", "2", time.Second), node.Granted) // no lease of before counts
	became(t, n, request(node.Acquire, "n", "2", time.Second), node.Granted)
}

// Keys that fenlock never writes were written by hand. A client that locks names of these stripes
// is told at once, and all others go on.
func TestKeysByHand(t *testing.T) {
	t.Parallel()
	c := raw(t, shared())
	for key, value := range map[string]string{"0": "zzz", "1": "fenlock stripe 9\n",
		"2": "fenlock stripe 2\nmemory 5\n", "-1": "x", "007": "x", "+1": "x"} {
		url := fresh()
		n := open(t, url)
		await(t, n)
		held := request(node.Acquire, named(3), "1", time.Minute)
		must(t, n, held, node.Granted)
		if _, err := c.Put(t.Context(), prefixOf(url)+"stripe/"+key, value); err != nil {
			t.Fatal(err)
		}
		if stripe, err := strconv.Atoi(key); err == nil && strconv.Itoa(stripe) == key && stripe >= 0 {
			a, err := n.Do(within(t, 10*time.Second), request(node.Acquire, named(stripe), "1", time.Minute))
			if !errors.Is(err, node.ErrMisconfigured) || !strings.Contains(err.Error(), "stripe/"+key) {
				t.Errorf("%q: %+v, %v; want an error that says where", key, a, err)
			}
		}
		must(t, n, as(node.Extend, held), node.Granted)
		// What such a key says must not stand for a register.
		if r, err := n.Registers(within(t, 10*time.Second)); !errors.Is(err, node.ErrMisconfigured) {
			t.Errorf("%q: %v, %v; want an error that says why", key, r.Tokens, err)
		}
		if err := n.Store().Raise(t.Context(), admit.Facts{}, map[int]fence.Token{0: 5}); err == nil {
			t.Errorf("%q: raised", key)
		}
	}
}

// named returns a name of a stripe.
func named(stripe int) string {
	for i := 0; ; i++ {
		if name := fmt.Sprint("n", i); node.Stripe(name) == stripe {
			return name
		}
	}
}
