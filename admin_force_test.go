package fenlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// The lock is free at once, its old holder hears of it and cannot come back, and the next
// has a larger token.
func TestForceRelease(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		a := c.admin()
		lock := take(t, c.locker(label("stuck")), name)
		other := c.locker()
		b, err := a.ForceRelease(t.Context(), name)
		wantErr(t, err)
		if b.Lock.State != admin.Held || b.Lock.Label != "stuck" || b.Lock.Token != lock.Token() || b.Token <= lock.Token() {
			t.Errorf("%+v; the token was %d", b, lock.Token())
		}
		for _, f := range c.nodes {
			if n := len(f.times("force release")); n != 1 {
				t.Errorf("node %v was asked %d times", f, n)
			}
		}
		next := take(t, other, name)
		if next.Token() <= b.Token {
			t.Errorf("token %d after %d", next.Token(), b.Token)
		}
		time.Sleep(ttl / 3)
		wantCause(t, lock.Context(), fenlock.ErrLost)
		wantErr(t, next.Extend(t.Context()))
		wantErr(t, next.Release(t.Context()))
		wantErr(t, lock.Release(t.Context()), fenlock.ErrLost)
		synctest.Wait()
		before := c.lease(0, name).Register
		b, err = a.ForceRelease(t.Context(), name)
		if wantErr(t, err); b.Token != 0 || b.Lock.State != admin.Free || c.lease(0, name).Register != before {
			t.Errorf("nothing to break, and %+v", b)
		}
	})
}

// A holder whose extension is under way, or that has raised its mark, is shut out too. So is a
// holder that some nodes cannot be asked about.
func TestForceReleaseBesideExtensions(t *testing.T) {
	bubbles(t, 5, map[string]func(*cluster){
		"nothing else": func(*cluster) {},
		"two are down": func(c *cluster) { c.nodes[0].set("look", down); c.nodes[0].set("force release", down) },
		"two hang": func(c *cluster) {
			for _, f := range c.nodes[3:] {
				f.set("look", fault{hang: true})
				f.set("force release", fault{hang: true})
			}
		},
		"registers differ": func(c *cluster) {
			for i, f := range c.nodes {
				f.view.Do(c.t.Context(), node.Request{Op: node.ForceRelease, Name: c.neighbour(),
					Token: fence.Token(time.Now().UnixMicro() + int64(i))})
			}
		},
	}, func(t *testing.T, c *cluster, prepare func(*cluster)) {
		a := c.admin()
		lock := take(t, c.locker(), name)
		stop := c.moves()
		time.Sleep(ttl/3 - 5*time.Millisecond)
		prepare(c)
		began := time.Now()
		b, err := a.ForceRelease(t.Context(), name)
		if wantErr(t, err); b.Token <= lock.Token() {
			t.Errorf("%+v", b)
		}
		if spent := time.Since(began); spent > 2*time.Second {
			t.Errorf("it took %v", spent)
		}
		time.Sleep(ttl)
		wantCause(t, lock.Context(), fenlock.ErrLost)
		stop()
	})
}

// neighbour is a name of the same stripe.
func (c *cluster) neighbour() string {
	for i := 0; ; i++ {
		if other := "neighbour-" + strings.Repeat("x",
			i%500) + string(rune('a'+i/500%26)); node.Stripe(other) == node.Stripe(name) {
			return other
		}
	}
}

// Without a majority nothing is broken, and the nodes' reasons are told.
func TestForceReleaseWithoutAMajority(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.admin()
		lock := take(t, c.locker(), name)
		c.nodes[0].set("look", down)
		c.nodes[1].set("look", down)
		_, err := a.ForceRelease(t.Context(), name)
		wantErr(t, err, fenlock.ErrNoQuorum, errDown)
		if err != nil && strings.Contains(err.Error(), "may have dropped") {
			t.Error(err)
		}
		for _, f := range c.nodes {
			if n := len(f.times("force release")); n != 0 {
				t.Errorf("node %v was asked %d times", f, n)
			}
		}
		time.Sleep(ttl)
		wantCause(t, lock.Context(), nil)

		c.nodes[0].heal()
		c.nodes[1].set(allOps, down)
		c.nodes[0].view.Crash() // it answers, and does not vote
		c.nodes[0].view.Restart()
		_, err = a.ForceRelease(t.Context(), name)
		wantErr(t, err, fenlock.ErrNoQuorum)
		if err == nil || !strings.Contains(err.Error(), "it does not vote") ||
			!strings.Contains(err.Error(), "some nodes may have dropped the lease") {
			t.Error(err)
		}
		_, err = a.ForceRelease(t.Context(), "a\n")
		wantErr(t, err, fenlock.ErrInvalid)
		lock.Release(t.Context())
	})
}

// A register that was written by hand is not carried to the other nodes, and its node
// counts as one that failed.
func TestForceReleaseBelievesNoHugeNumbers(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(), name)
		c.nodes[0].view.Crash()
		c.nodes[0].view.Restart()
		c.nodes[0].view.Admit(map[int]fence.Token{node.Stripe(name): fence.MaxToken - 5})
		b, err := c.admin().ForceRelease(t.Context(), name)
		if wantErr(t, err); b.Token > node.MaxRegister || c.lease(1, name).Register > node.MaxRegister ||
			c.lease(2, name).Register != c.lease(1, name).Register {
			t.Errorf("%+v; registers %d, %d", b, c.lease(1, name).Register, c.lease(2, name).Register)
		}
		time.Sleep(ttl)
		wantCause(t, lock.Context(), fenlock.ErrLost)
	})
}

// A node that cannot show its leases has no part in it, and says so.
func TestAdminNeedsNodesThatShow(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a, err := admin.New([]node.Node{c.nodes[0].node()})
		wantErr(t, err)
		_, err = a.Inspect(t.Context(), name)
		wantErr(t, err, fenlock.ErrNoQuorum, errors.ErrUnsupported)
		_, err = a.List(t.Context(), "", "", 0)
		wantErr(t, err, fenlock.ErrNoQuorum, errors.ErrUnsupported)
		_, err = admin.New(nil)
		wantErr(t, err, fenlock.ErrInvalid)
		l := c.locker()
		_, err = admin.Of(l).Inspect(t.Context(), name)
		wantErr(t, err, fenlock.ErrNoQuorum)
	})
}

// recorded is a node that has recorded whose group it is in.
type recorded struct {
	shown
	members string
}

func (r recorded) Engine() any { return r }

func (r recorded) Inspect(ctx context.Context, name string) (node.Lease, error) {
	l, err := r.shown.Inspect(ctx, name)
	l.Members = r.members
	return l, err
}

// A majority of some of a group's nodes, or of nodes of several groups, breaks nothing. A node of
// another group has no part in it.
func TestForceReleaseInAnotherGroup(t *testing.T) {
	bubbles(t, 3, map[string]struct {
		members []string
		refused bool
	}{
		"as recorded":            {[]string{"a b c", "a b c", "a b c"}, false},
		"one has nothing":        {[]string{"a b c", "", "a b c"}, false},
		"one of a group":         {[]string{"a b c"}, true},
		"two of a group":         {[]string{"a b c", "a b c"}, true},
		"one of another group":   {[]string{"a b c", "d e f", "a b c"}, false},
		"the first of another":   {[]string{"d e f", "a b c", "a b c"}, false},
		"one of a smaller group": {[]string{"a b c", "a b c", "d"}, false},
		"three groups":           {[]string{"a b c", "d e f", "g h i"}, true},
	}, func(t *testing.T, c *cluster, of struct {
		members []string
		refused bool
	}) {
		lock := take(t, c.locker(), name)
		synctest.Wait() // until the third node has it as well
		var nodes []node.Node
		for i, m := range of.members {
			nodes = append(nodes, recorded{shown{faulty: c.nodes[i]}, m})
		}
		a, err := admin.New(nodes)
		wantErr(t, err)
		b, err := a.ForceRelease(t.Context(), name)
		want := 0
		if of.refused {
			wantErr(t, err, fenlock.ErrNoQuorum, fenlock.ErrMisconfigured)
		} else {
			wantErr(t, err)
			for _, m := range of.members {
				if m == "a b c" || m == "" {
					want++
				}
			}
		}
		if n := c.requests("force release"); n != want || (b.Token == 0) != of.refused {
			t.Errorf("%d requests, want %d: %+v", n, want, b)
		}
		lock.Release(t.Context())
	})
}

// Where nodes may have forgotten a lease, "it is free" is no answer.
func TestForceReleaseBesideForgetfulNodes(t *testing.T) {
	for _, nodes := range [][]node.Node{
		{memnode.New("a"), memnode.New("b"), memnode.New("c")},
		{memnode.New("a"), memnode.New("b"), forgetful{memnode.New("c")}},
	} {
		_, forgotten := nodes[2].(forgetful)
		a, err := admin.New(nodes)
		wantErr(t, err)
		b, err := a.ForceRelease(t.Context(), name)
		wantErr(t, err)
		if (b.Token != 0) != forgotten {
			t.Errorf("forgetful %v: %+v", forgotten, b)
		}
	}
}
