package zknode

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// A client may be paused between two steps of an admission, while others go on. These tests call
// the steps by hand.

func linkOf(t *testing.T, n *Node) *session.Link {
	t.Helper()
	link, err := n.session.Link(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return link
}

func factsOf(t *testing.T, n *Node) admit.Facts {
	t.Helper()
	f, err := storeOf(n).Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// tree is all that is below the root but the clock, with its number of the last change.
func tree(t *testing.T, n *Node) string {
	t.Helper()
	var b strings.Builder
	var add func(path string)
	link := linkOf(t, n)
	add = func(path string) {
		replies, err := link.Do(t.Context(), wire.Sync{Path: path}, wire.Get{Path: path}, wire.Children{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		if replies[1].Err != wire.OK || path == n.paths.clock() {
			return
		}
		fmt.Fprintf(&b, "%s %x %q\n", path, replies[1].Stat.Mzxid, replies[1].Data)
		for _, part := range replies[2].Children {
			add(path + "/" + part)
		}
	}
	add(n.root)
	return b.String()
}

// noted has the loss of an ensemble noted, and returns what the client finds then.
func noted(t *testing.T, n *Node) admit.Facts {
	t.Helper()
	f, err := n.Admission().Noted(t.Context())
	if err != nil || f.Votes || f.Marked || !f.Counted {
		t.Fatalf("%+v, %v; want that it is out", f, err)
	}
	return f
}

// marked has an ensemble admitted, whatever the time.
func marked(t *testing.T, n *Node, f admit.Facts) {
	t.Helper()
	if done, err := storeOf(n).Mark(t.Context(), f, n.Admission().Terms(), nil); !done || err != nil {
		t.Fatalf("marked %v, %v", done, err)
	}
}

// The steps of a client that was paused do nothing to what is there by now. The root was removed
// and made again, with the same versions everywhere.
func TestPausedWhileTheRootIsMadeAgain(t *testing.T) {
	url := freshURL()
	paused, other := openFor(t, time.Hour, false, url), openFor(t, time.Hour, false, url)
	f := noted(t, paused)
	const stripe = 7
	if err := storeOf(paused).Raise(t.Context(), f, map[int]fence.Token{stripe: 3}); err != nil {
		t.Fatal(err)
	}
	removeRoot(t, url)
	g := noted(t, other)
	if f.State.(state).version != g.State.(state).version || f.Memory == g.Memory {
		t.Fatalf("%+v, and then %+v: the test is about something else", f, g)
	}
	if err := storeOf(other).Raise(t.Context(), g, map[int]fence.Token{stripe: 1000}); err != nil {
		t.Fatal(err)
	}
	before := tree(t, other)
	if err := storeOf(paused).Raise(t.Context(), f, map[int]fence.Token{stripe: 2000, stripe + 1: 5}); err != nil {
		t.Fatal(err)
	}
	if done, err := storeOf(paused).Mark(t.Context(), f, paused.Admission().Terms(), nil); done || err != nil {
		t.Errorf("marked %v, %v what was found before the root was removed", done, err)
	}
	if done, err := storeOf(paused).Note(t.Context(), f); done || err != nil {
		t.Errorf("noted %v, %v what was found before the root was removed", done, err)
	}
	if after := tree(t, other); after != before {
		t.Errorf("a client that was paused has made\n%s of\n%s", after, before)
	}
}

// Another client was first: the memory is admitted by now, and has leases that count.
func TestPausedWhileAnotherAdmits(t *testing.T) {
	url := freshURL()
	paused, other := openFor(t, time.Hour, false, url), openFor(t, time.Hour, false, url)
	f := noted(t, paused)
	marked(t, other, factsOf(t, other))
	held := request("held", "me", 0)
	want(t, node.Granted)(other.Do(t.Context(), as(node.Acquire, held)))
	before := tree(t, other)
	if done, err := storeOf(paused).Mark(t.Context(), f, paused.Admission().Terms(), nil); done || err != nil {
		t.Errorf("marked %v, %v once more", done, err)
	}
	if done, err := storeOf(paused).Note(t.Context(), f); done || err != nil {
		t.Errorf("noted %v, %v that it is out", done, err)
	}
	if err := storeOf(paused).Raise(t.Context(), f, map[int]fence.Token{9: 9}); err != nil {
		t.Error(err)
	}
	if after := tree(t, other); after != before {
		t.Errorf("a client that was paused has made\n%s of\n%s", after, before)
	}
	want(t, node.Held)(paused.Do(t.Context(), as(node.Acquire, request("held", "rival", 0))))
}

// What was found before the ensemble was set back looks the same after that, and another client has
// admitted it in between, and holds.
func TestPausedWhileSetBack(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t)
	const maxTTL = time.Second
	url := "zk://" + server.Addr()
	paused, other := openFor(t, maxTTL, false, url), openFor(t, maxTTL, false, url)
	noted(t, other)
	f := factsOf(t, paused)
	restore := backup(t, server)
	ready(t, other)
	want(t, node.Granted)(other.Do(t.Context(), as(node.Acquire, lasting(request("a", "me", 0), maxTTL))))
	abandoned(other, new(faulty))
	restore()
	if done, err := storeOf(paused).Mark(t.Context(), f, paused.Admission().Terms(), nil); done || err != nil {
		t.Errorf("marked %v, %v what was found before it was set back", done, err)
	}
}

// A part of what there has to be was removed by hand, while it was out.
func TestRaiseWithoutStripes(t *testing.T) {
	n := openFor(t, time.Hour, false, freshURL())
	f := noted(t, n)
	put(t, n, wire.Delete{Path: n.paths.stripes(), Version: wire.Any})
	if err := storeOf(n).Raise(t.Context(), f, map[int]fence.Token{9: 9}); !errors.Is(err, node.ErrMisconfigured) ||
		!strings.Contains(err.Error(), "a person has removed "+n.paths.stripes()) {
		t.Errorf("%v", err)
	}
}

// A client that has not heard of the loss makes no lease. A lease from before does not count when
// the ensemble is admitted again, although its session lives, and its process does not remove it.
func TestStrayLease(t *testing.T) {
	url := freshURL()
	const maxTTL = time.Second
	stray, other := votingFor(t, maxTTL, url), votingFor(t, maxTTL, url)
	memory, held := stray.vote.Load().memory, lasting(request("held", "stray", 0), maxTTL)
	first := want(t, node.Granted)(stray.Do(t.Context(), as(node.Acquire, held)))
	stray.stop() // as in a process that is stopped
	other.lose(memory)
	noted(t, other)
	replies, err := linkOf(t, stray).Do(t.Context(),
		wire.Multi{wire.Check{Path: stray.paths.mark(memory), Version: wire.Any},
			wire.Create{Path: stray.paths.stripe(9), ACL: stray.acl}})
	if err != nil || replies[0].Err != wire.NoNode || replies[0].Failed != 0 {
		t.Errorf("a multi that names the mark of before: %+v, %v", replies, err)
	}
	if l, err := other.look(t.Context(), "held"); err != nil || !l.there {
		t.Fatalf("%+v, %v: the test is about a lease that is there", l, err)
	}
	ready(t, other)
	fresh := openFor(t, maxTTL, true, url) // and has not seen it before
	if l, err := fresh.Inspect(t.Context(), "held"); err != nil || l.Leased || l.Out {
		t.Errorf("%+v, %v: a lease of before counts after the admission", l, err)
	}
	if err := other.List(t.Context(), "",
		func(l node.Lease) bool { t.Errorf("%+v is listed", l); return true }); err != nil {
		t.Error(err)
	}
	rival := lasting(request("held", "rival", first.Register+100), maxTTL)
	want(t, node.Granted)(other.Do(t.Context(), as(node.Acquire, rival)))
	want(t, node.Granted)(other.Do(t.Context(), as(node.Release, rival)))
	if a := want(t, node.Granted)(stray.Do(t.Context(), as(node.Extend, held))); a.Register <= first.Register {
		t.Errorf("the origin is %d, as before a rival had it", a.Register)
	}
}

// A client that has not heard of the loss, and need not read before it writes, is refused by the
// multi itself.
func TestMarkOfBeforePromisesNothing(t *testing.T) {
	for _, op := range []node.Op{node.Acquire, node.Confirm, node.Extend, node.ForceRelease, node.Release} {
		url := freshURL()
		stray, other := openFor(t, time.Hour, true, url), openFor(t, time.Hour, true, url)
		ready(t, other)
		ready(t, stray)
		r := request("a", "me", 0)
		r.Token = want(t, node.Granted)(stray.Do(t.Context(), as(node.Acquire, r))).Register + 1
		if op == node.Acquire {
			want(t, node.Granted)(stray.Do(t.Context(), as(node.Release, r)))
		}
		other.lose(other.vote.Load().memory)
		noted(t, other)
		before := tree(t, other)
		want := node.Rejoining
		if op == node.Release { // which promises nothing
			want = node.Lost
		}
		if a, err := stray.Do(t.Context(), as(op, r)); err != nil || a.Status != want {
			t.Errorf("%v: %+v, %v on an ensemble that is out", op, a, err)
		}
		if after := tree(t, other); after != before {
			t.Errorf("%v: it does not vote, and\n%s became\n%s", op, before, after)
		}
	}
}

// The registers that were read are worth nothing if they were lost meanwhile.
func TestLostWhileRegistersAreRead(t *testing.T) {
	url, next := freshURL(), newHook()
	other := voting(t, url)
	n := open(t, url, WithDial(next.dial)) // it has seen no register, so that it looks for none before
	lost := false
	lose := func() {
		other.lose(other.vote.Load().memory)
		noted(t, other)
		lost = true
	}
	next.Store(&lose)
	if r, err := n.Registers(t.Context()); !errors.Is(err, errNotAdmitted) || !lost {
		t.Errorf("%+v, %v of an ensemble that is out (%v)", r, err, lost)
	}
}
