//go:build unix

package etcdnode_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/etcdnode"
	"github.com/fenlock/fenlock/node/memnode"

	clientv3 "go.etcd.io/etcd/client/v3"
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

// A prefix that nothing is recorded for may have been deleted a moment ago: no store votes until
// the longest lease would have ended. A member that is asked twice does not count twice.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	url := fresh()
	n, other := unjoined(t, url), unjoined(t, url)
	r := request(node.Acquire, "a", "1", time.Second)
	if a := must(t, n, r, node.Rejoining); a.Absence.Cause != node.NotJoined {
		t.Errorf("in no group: %+v", a.Absence)
	}
	const maxTTL = 2 * time.Second
	var mu sync.Mutex
	var warned []string
	warn := func(_ node.Node, m string) {
		mu.Lock()
		defer mu.Unlock()
		warned = append(warned, m)
	}
	for _, n := range []*etcdnode.Node{n, other} {
		if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: maxTTL, Warn: warn}); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	var a node.Answer
	eventually(t, func() (err error) {
		if a, err = n.Do(within(t, time.Second), r); err == nil && a.Status == node.Rejoining &&
			(a.Absence.Cause != node.Unused || a.Absence.Wait <= 0 || a.Absence.Wait > admit.Quarantine(maxTTL)) &&
			a.Absence.Cause != node.UnderWay {
			t.Errorf("out: %+v", a.Absence)
		}
		if err == nil && a.Status != node.Granted {
			err = fmt.Errorf("%+v", a)
		}
		return err
	})
	if took := time.Since(began); took < maxTTL {
		t.Errorf("admitted after %v; want %v at least", took, maxTTL)
	}
	must(t, other, request(node.Acquire, "a", "2", time.Second), node.Held)
	mu.Lock()
	defer mu.Unlock()
	if len(warned) != 1 || !strings.Contains(warned[0], "tokens") {
		t.Errorf("warned %q; want one warning, by the one that admitted it", warned)
	}
}

func TestClientsAgreeOnMaxTTL(t *testing.T) {
	url := fresh()
	await(t, open(t, url))
	n := unjoined(t, url)
	join(t, n, time.Minute, true)
	for range 3 {
		a, err := n.Do(t.Context(), request(node.Acquire, "a", "1", time.Second))
		if !errors.Is(err, node.ErrMisconfigured) || !strings.Contains(err.Error(), "30s") ||
			!strings.Contains(err.Error(), "1m0s") {
			t.Errorf("%+v, %v; want ErrMisconfigured with both", a, err)
		}
	}
	grouped, more := unjoined(t, url), memnode.New("m")
	if err := grouped.Join(node.Group{Nodes: []node.Node{grouped, more, memnode.New("o")},
		MaxTTL: 30 * time.Second}); err != nil {
		t.Fatal(err)
	}
	if _, err := grouped.Do(t.Context(), request(node.Acquire, "a", "1", time.Second)); !errors.Is(err,
		node.ErrMisconfigured) || !strings.Contains(err.Error(), "belongs to another group") {
		t.Errorf("in a group of three: %v; want ErrMisconfigured", err)
	}
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

// The keys are deleted while clients use them: the store does not vote until it is safe.
func TestDeletedKeys(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 1)
	url := "etcd://" + e.Addrs()
	n, other := unjoined(t, url), unjoined(t, url)
	join(t, n, 2*time.Second, true)
	join(t, other, 2*time.Second, true)
	held := request(node.Acquire, "a", "1", time.Second)
	await(t, n)
	await(t, other)
	must(t, n, held, node.Granted)
	if _, err := raw(t, e).Delete(t.Context(), etcdnode.DefaultPrefix, clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	must(t, other, request(node.Acquire, "a", "2", time.Second), node.Rejoining)
	must(t, n, as(node.Extend, held), node.Rejoining)
	if l, err := other.Inspect(t.Context(), "a"); err != nil || !l.Out {
		t.Errorf("shown as %+v, %v; want it out", l, err)
	}
	became(t, other, request(node.Acquire, "a", "2", time.Second), node.Granted)
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

// The address leads to another cluster from now on, with as much behind it as the first.
func TestAnotherAddress(t *testing.T) {
	t.Parallel()
	first, second := testserver.StartEtcd(t, 1), testserver.StartEtcd(t, 1)
	for range 50 {
		if _, err := raw(t, second).Put(t.Context(), "x", "y"); err != nil {
			t.Fatal(err)
		}
	}
	await(t, open(t, "etcd://"+second.Addrs()))
	p := proxy.New(first.Members[0].Addr(), nil)
	defer p.Close()
	n := unjoined(t, "etcd://"+p.Addr(0))
	join(t, n, 30*time.Second, true)
	must(t, n, request(node.Acquire, "a", "1", time.Minute), node.Granted)
	p.Retarget(second.Members[0].Addr())
	var said string
	eventually(t, func() error {
		a, err := n.Do(within(t, 2*time.Second), request(node.Acquire, "a", "2", time.Minute))
		switch {
		case err == nil && said == "":
			t.Fatalf("at another cluster: %+v", a)
		case err != nil && strings.Contains(err.Error(), "another cluster"):
			said = err.Error()
		}
		return err
	})
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

// The data is gone, and a new cluster answers at the same address.
func TestAnotherCluster(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 1)
	m := e.Members[0]
	n := unjoined(t, "etcd://"+e.Addrs())
	join(t, n, 2*time.Second, true)
	await(t, n)
	must(t, n, request(node.Acquire, "a", "1", time.Second), node.Granted)
	m.Kill()
	if err := os.RemoveAll(m.Data()); err != nil {
		t.Fatal(err)
	}
	e.Start(m)
	eventually(t, func() error {
		a, err := n.Do(within(t, 2*time.Second), request(node.Acquire, "a", "2", time.Second))
		if err == nil && a.Status != node.Rejoining {
			t.Fatalf("a cluster without data: %+v", a)
		}
		return err
	})
	became(t, n, request(node.Acquire, "a", "3", time.Second), node.Granted)
}

// Registers are rebuilt from the other nodes of a group.
func TestRebuiltFromOthers(t *testing.T) {
	t.Parallel()
	n := unjoined(t, fresh())
	a, b := memnode.New("a"), memnode.New("b")
	g := node.Group{Nodes: []node.Node{n, a, b}, MaxTTL: time.Second}
	r := request(node.Acquire, "x", "1", time.Millisecond)
	r.Token = 1 << 51
	for _, other := range []*memnode.Node{a, b} {
		if err := other.Join(g); err != nil {
			t.Fatal(err)
		}
		for i := range 300 { // more than one transaction has
			r.Name = fmt.Sprint("x", i)
			if _, err := other.Do(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := n.Join(g); err != nil {
		t.Fatal(err)
	}
	low := request(node.Acquire, "x7", "2", time.Second)
	low.Token = 5
	var got node.Answer
	eventually(t, func() (err error) {
		if got, err = n.Do(within(t, 2*time.Second), low); err == nil && got.Status != node.Granted {
			err = fmt.Errorf("%+v", got)
		}
		return err
	})
	if got.Register <= 1<<51 {
		t.Errorf("granted %d; want more than the others' %d", got.Register, uint64(1<<51))
	}
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
