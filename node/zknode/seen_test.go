package zknode

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
)

// An extension never arrives, a client writes about another name of the
// stripe, and the holder's process closes its node. Its lease stays for its TTL.
func TestCloseAfterALostExtension(t *testing.T) {
	t.Parallel()
	url := freshURL()
	n, other := voting(t, url), voting(t, url)
	stripe, sibling := node.Stripe("a"), ""
	for i := 0; sibling == ""; i++ {
		if name := fmt.Sprint("b", i); node.Stripe(name) == stripe {
			sibling = name
		}
	}
	r := lasting(request("a", "me", 0), 20*time.Second)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	l, err := storeOf(n).Load(t.Context(), stripe)
	if err != nil {
		t.Fatal(err)
	}
	// what Save does for an extension that is sent, over a connection that is lost then
	u := l.State.(under)
	l.Touched, l.TouchedBy = r.Name, r.Holder
	z, changed, err := u.Next(l.Record, u.memory, l.Clock, u.session)
	if err != nil || len(changed) != 1 {
		t.Fatal(changed, err)
	}
	n.seen.Saved(stripe, z, u.Timed, changed, false)
	want(t, node.Granted)(other.Do(t.Context(), as(node.Acquire, request(sibling, "other", 0))))
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, request(sibling, "me", 0))))
	n.Close()
	late := open(t, url) // which has asked about no session yet
	a, err := late.Do(t.Context(), as(node.Acquire, request("a", "rival", 0)))
	if err == nil && a.Status == node.Rejoining {
		t.Fatal(a)
	}
	if err != nil || a.Status != node.Held {
		t.Errorf("a lease of 20s is over at once: %+v, %v", a, err)
	}
}

// What a closer look has found is not forgotten, if another client was first meanwhile.
func TestCloserLookOnce(t *testing.T) {
	t.Parallel()
	url := freshURL()
	n, other := voting(t, url), voting(t, url)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "dead", 0))))
	n.seen.Close()
	n.session.Close(true) // its process is gone, and its session
	s := storeOf(other)
	stripe := node.Stripe("a")
	l, err := s.Load(t.Context(), stripe)
	if err != nil || l.Closer == nil {
		t.Fatal(l, err)
	}
	if r, err := l.Closer(t.Context()); err != nil || len(r.Leases) > 0 {
		t.Fatalf("%q, %v", r.Leases, err)
	}
	// the Save lost a race, and it begins again
	l, err = s.Load(t.Context(), stripe)
	if err != nil {
		t.Fatal(err)
	}
	if l.Closer == nil && len(l.Leases) > 0 {
		t.Error("the lease of a session that is gone counts again")
	}
	a, err := other.Do(t.Context(), as(node.Acquire, request("a", "next", 0)))
	if err != nil || a.Status != node.Granted {
		t.Errorf("a dead holder's lock is refused: %+v, %v", a, err)
	}
}

// A client whose wall clock is ahead finds a stripe that is not there, and another is first to make
// it. The lease of that one, which is killed, ends for it as for any other.
func TestAbsentStripeAndClockAhead(t *testing.T) {
	t.Parallel()
	url := freshURL()
	n, other := voting(t, url), voting(t, url)
	// what other.read returns for wire.NoNode if its clock is an hour ahead
	ahead := time.Duration(time.Now().Add(time.Hour).UnixMicro()) * time.Microsecond
	timed := cas.Timed{Memory: other.vote.Load().memory, At: ahead}
	if err := other.seen.Load(new(cas.Loaded), node.Stripe("a"), timed); err != nil {
		t.Fatal(err)
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, lasting(request("a", "dead", 0), time.Second))))
	n.stop()
	n.session.Close(true) // even its session is gone
	eventually(t, other, as(node.Acquire, request("a", "next", 0)))
}

// A lock of a process that was killed is not shown once its session has ended, though no client has
// written there since. That of a living process is shown, also to a client that has just come.
func TestDeadHolderIsNotShown(t *testing.T) {
	t.Parallel()
	url := freshURL()
	dead, living := voting(t, url), voting(t, url)
	want(t, node.Granted)(dead.Do(t.Context(), as(node.Acquire, request("of the dead", "dead", 0))))
	want(t, node.Granted)(living.Do(t.Context(), as(node.Acquire, request("of the living", "living", 0))))
	shown := func() (names []string) {
		n := open(t, url)
		defer n.Close()
		for _, name := range []string{"of the dead", "of the living"} {
			if l, err := n.Inspect(t.Context(), name); err != nil {
				t.Fatal(err)
			} else if l.Leased {
				names = append(names, "inspected "+name)
			}
		}
		if err := n.List(t.Context(), "", func(l node.Lease) bool {
			names = append(names, "listed "+l.Name)
			return true
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		return names
	}
	all := []string{"inspected of the dead", "inspected of the living", "listed of the dead", "listed of the living"}
	if got := shown(); !slices.Equal(got, all) {
		t.Errorf("%q", got)
	}
	dead.stop()
	dead.session.Close(true) // its process is gone, and its session
	if got := shown(); !slices.Equal(got, []string{all[1], all[3]}) {
		t.Errorf("%q, after the holder's session has ended", got)
	}
}
