package fenlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// shown is a node that shows what it has, unless a fault of "look" is in the way. It may have other
// waiters than those that came to it.
type shown struct {
	*faulty
	looks  *atomic.Int64 // how often it was looked at, if that is counted
	others []node.Waiter
}

func (s shown) Engine() any { return s }

func (s shown) reach(ctx context.Context) error {
	if s.looks != nil {
		s.looks.Add(1)
	}
	s.mu.Lock()
	how := s.faults["look"]
	s.mu.Unlock()
	if how.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(how.request)
	return how.err
}

func (s shown) Inspect(ctx context.Context, name string) (node.Lease, error) {
	if err := s.reach(ctx); err != nil {
		return node.Lease{}, err
	}
	return s.view.Inspect(ctx, name)
}

func (s shown) Waiting(ctx context.Context, name string, limit int) ([]node.Waiter, int, error) {
	if err := s.reach(ctx); err != nil {
		return nil, 0, err
	}
	if s.others != nil {
		return s.others, len(s.others), nil
	}
	return s.view.Waiting(ctx, name, limit)
}

func (s shown) List(ctx context.Context, prefix string, yield func(node.Lease) bool) error {
	if err := s.reach(ctx); err != nil {
		return err
	}
	return s.view.List(ctx, prefix, yield)
}

func (c *cluster) admin() *admin.Admin {
	c.t.Helper()
	return c.adminOf(func(i int) node.Node { return shown{faulty: c.nodes[i]} })
}

func (c *cluster) adminOf(as func(i int) node.Node) *admin.Admin {
	c.t.Helper()
	var nodes []node.Node
	for i := range c.nodes {
		nodes = append(nodes, as(i))
	}
	a, err := admin.New(nodes)
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

// Its holder, since when, with which token, for how long, and its waiters.
func TestInspect(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		a := c.admin()
		look := func() admin.LockInfo {
			t.Helper()
			l, err := a.Inspect(t.Context(), name)
			wantErr(t, err)
			if l.Name != name || len(l.Votes) != 5 || l.Votes[4].Node != c.nodes[4].String() {
				t.Errorf("%+v", l)
			}
			return l
		}
		if l := look(); l.State != admin.Free || l.Label != "" || l.Token != 0 || l.Left != 0 || !l.Since.IsZero() ||
			l.Waiting != 0 {
			t.Errorf("never locked: %+v", l)
		}
		began := time.Now()
		lock := take(t, c.lockerOn((*faulty).queuer, label("host/1")), name)
		time.Sleep(time.Microsecond) // the nodes that no majority needed
		holds := func(l admin.LockInfo) {
			t.Helper()
			if l.State != admin.Held || l.Label != "host/1" || l.Token != lock.Token() ||
				!l.Since.Equal(began.Truncate(time.Millisecond)) ||
				l.Left < lock.Remaining() || l.Left > ttl {
				t.Errorf("%+v; the token is %d", l, lock.Token())
			}
			for _, v := range l.Votes {
				if !v.Holds || !v.Leased || v.Label != "host/1" || v.Err != nil || v.Reserved {
					t.Errorf("%+v", v)
				}
			}
		}
		holds(look())
		var waiting []*fenlock.Lock
		for i := range 3 {
			time.Sleep(time.Second)
			l := c.lockerOn((*faulty).queuer, label(fmt.Sprint("waiter ", i)))
			go func() {
				if lock, err := l.Acquire(t.Context(), name); err == nil {
					waiting = append(waiting, lock)
				}
			}()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		l := look()
		holds(l)
		if len(l.Waiters) != 3 || l.Waiting != 3 {
			t.Fatalf("%+v", l)
		}
		for i, w := range l.Waiters {
			if since := 10*time.Second + time.Duration(2-i)*1001*time.Millisecond; w.Label != fmt.Sprint("waiter ", i) ||
				w.Waited < since || w.Waited > since+time.Second || w.Nodes != 5 {
				t.Errorf("waiter %d: %+v", i, w)
			}
		}
		wantErr(t, lock.Release(t.Context()))
		synctest.Wait()
		if l := look(); l.State != admin.Held || l.Label != "waiter 0" || l.Waiting != 2 || len(waiting) != 1 ||
			l.Token != waiting[0].Token() {
			t.Errorf("after the release: %+v", l)
		}
		for range 3 {
			wantErr(t, waiting[len(waiting)-1].Release(t.Context()))
			synctest.Wait()
		}
	})
}

// Each holder that shares a name is shown, by the majority's word.
func TestInspectedShares(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.admin()
		var locks []*fenlock.Lock
		for i := range 3 {
			lock, err := c.lockerOn((*faulty).queuer, label(fmt.Sprint("reader/", i))).AcquireShared(t.Context(), name)
			wantErr(t, err)
			locks = append(locks, lock)
			time.Sleep(time.Second)
		}
		slots, err := c.lockerOn((*faulty).queuer, label("worker")).Slots("slots", 5)
		wantErr(t, err)
		slot, err := slots.Acquire(t.Context())
		wantErr(t, err)
		time.Sleep(time.Millisecond)
		look := func(name string) admin.LockInfo {
			t.Helper()
			l, err := a.Inspect(t.Context(), name)
			wantErr(t, err)
			page, err := a.List(t.Context(), name, "", 1)
			wantErr(t, err)
			if len(page.Locks) != 1 || fmt.Sprint(page.Locks[0].Shares) != fmt.Sprint(l.Shares) ||
				page.Locks[0].Slots != l.Slots {
				t.Errorf("listed as %+v; inspected as %+v", page.Locks, l)
			}
			return l
		}
		l := look(name)
		if len(l.Shares) != 3 || l.MoreShares || l.Slots != 0 || l.State != admin.Held {
			t.Fatalf("%+v", l)
		}
		for i, s := range l.Shares {
			if s.Label != fmt.Sprint("reader/", i) || s.Nodes != 3 || s.Token != locks[i].Token() ||
				time.Since(s.Since) < time.Duration(3-i)*time.Second || s.Left < locks[i].Remaining() || s.Left > ttl {
				t.Errorf("reader %d: %+v; its token is %d", i, s, locks[i].Token())
			}
		}
		wantErr(t, locks[1].Release(t.Context()))
		time.Sleep(time.Millisecond)
		if l := look(name); len(l.Shares) != 2 || l.Shares[1].Label != "reader/2" {
			t.Errorf("after a release: %+v", l.Shares)
		}
		if l := look("slots"); l.Slots != 5 || len(l.Shares) != 1 || l.Shares[0].Label != "worker" {
			t.Errorf("slots: %+v", l)
		}
		if l := look(fmt.Sprint("slots#", slot.Number())); l.Slots != 0 || len(l.Shares) != 0 || l.Label != "worker" {
			t.Errorf("a slot: %+v", l)
		}
	})
}

// The nodes tell the token also where they had to be told, and where every lease was lost
// and made again.
func TestInspectedTokenIsTheHolders(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.admin()
		token := func() fence.Token {
			t.Helper()
			l, err := a.Inspect(t.Context(), name)
			wantErr(t, err)
			return l.Token
		}
		// Other numbers on each node: it has to confirm.
		for i, f := range c.nodes {
			f.view.Do(t.Context(), node.Request{Op: node.ForceRelease, Name: name,
				Token: fence.Token(time.Now().UnixMicro()) + fence.Token(1000*(i+1))})
		}
		lock := take(t, c.locker(), name)
		time.Sleep(time.Millisecond)
		if got := token(); got != lock.Token() {
			t.Errorf("the token is %d; want %d", got, lock.Token())
		}
		stop := c.moves()
		time.Sleep(ttl / 2) // a younger lock may have a bare majority, and bears no loss
		for _, f := range c.nodes {
			f.view.Crash()
			f.view.Restart()
			time.Sleep(ttl + drift)
			registers, err := c.nodes[0].view.Registers(t.Context())
			wantErr(t, err)
			f.view.Admit(map[int]fence.Token(registers.Tokens))
			time.Sleep(ttl)
		}
		stop()
		if got := token(); got != lock.Token() {
			t.Errorf("the token is %d; want %d", got, lock.Token())
		}
		wantErr(t, lock.Release(t.Context()))
	})
}

// Nodes that are down, and one that hangs: the others tell what they know, soon.
func TestInspectWithNodesMissing(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		a := c.admin()
		lock := take(t, c.locker(), name)
		time.Sleep(time.Millisecond)
		c.nodes[0].set("look", down)
		c.nodes[1].set("look", fault{hang: true})
		began := time.Now()
		l, err := a.Inspect(t.Context(), name)
		wantErr(t, err)
		if l.State != admin.Held || l.Token != lock.Token() || !errors.Is(l.Votes[0].Err, errDown) || l.Votes[1].Err == nil ||
			l.Votes[1].Holds {
			t.Errorf("%+v", l)
		}
		if spent := time.Since(began); spent != 500*time.Millisecond {
			t.Errorf("a node that hangs was waited for for %v", spent)
		}
		c.nodes[2].set("look", down)
		l, err = a.Inspect(t.Context(), name)
		wantErr(t, err, fenlock.ErrNoQuorum, errDown)
		if l.State != admin.Unclear || !l.Votes[3].Holds || l.Label == "" {
			t.Errorf("%+v", l)
		}
		if text := err.Error(); !strings.Contains(text, `inspect "orders/42": no quorum: 3 of 5 nodes are missing`) ||
			!strings.Contains(text, "b: no answer in time") {
			t.Error(text)
		}
		wantErr(t, lock.Release(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = a.Inspect(ctx, name)
		wantErr(t, err, context.DeadlineExceeded)
		_, err = a.Inspect(t.Context(), "")
		wantErr(t, err, fenlock.ErrInvalid)
	})
}

// Leases of several holders on the nodes, and what they come to.
func TestInspectedState(t *testing.T) {
	for _, c := range []struct {
		nodes string // the holder on each, in capitals if it is out; - for none, o if it is out, x for no answer
		state admin.LockState
		label string
	}{
		{"---", admin.Free, ""}, {"a--", admin.Free, "a"}, {"aa-", admin.Held, "a"}, {"aaa", admin.Held, "a"},
		{"ab-", admin.Free, "a"}, {"abb", admin.Held, "b"}, {"ax-", admin.Unclear, "a"}, {"aax", admin.Held, "a"},
		{"--x", admin.Free, ""},
		{"xx-", admin.Unclear, ""}, {"xxa", admin.Unclear, "a"}, {"xxx", admin.Unclear, ""},
		{"aabb-", admin.Free, "a"}, {"aabbx", admin.Unclear, "a"}, {"a-bbx", admin.Unclear, "b"}, {"abc-x", admin.Free, "a"},
		{"aabbb", admin.Held, "b"},
		// A node that does not vote may have forgotten a lease, but has not made one up.
		{"oo-", admin.Unclear, ""}, {"aoo", admin.Unclear, "a"}, {"o--", admin.Free, ""}, {"aao", admin.Held, "a"},
		{"aA-", admin.Held, "a"},
		{"ao-", admin.Unclear, "a"}, {"A--", admin.Free, "a"}, {"oox", admin.Unclear, ""},
		{"aa--", admin.Free, "a"}, {"aaa-", admin.Held, "a"}, {"a", admin.Held, "a"}, {"x", admin.Unclear, ""},
		{"-", admin.Free, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			var nodes []node.Node
			for i, holder := range c.nodes {
				n := memnode.New(fmt.Sprint(i))
				nodes = append(nodes, n)
				if holder == 'o' || holder == 'A' {
					nodes[i] = forgetful{n}
				}
				switch holder = unicode.ToLower(holder); holder {
				case 'x':
					n.Crash()
				case '-', 'o':
				default:
					id := [node.IDLength]byte([]byte(strings.Repeat(fmt.Sprintf("%x", holder-'a'), node.IDLength)))
					n.Do(t.Context(), node.Request{Op: node.Acquire, Name: name, TTL: time.Minute,
						Holder: node.NewHolder(id, time.Now(), 0, string(holder))})
				}
			}
			a, err := admin.New(nodes)
			wantErr(t, err)
			l, err := a.Inspect(t.Context(), name)
			if 2*strings.Count(c.nodes, "x") >= len(c.nodes) != (err != nil) ||
				err != nil && !errors.Is(err, fenlock.ErrNoQuorum) {
				t.Errorf("%s: %v", c.nodes, err)
			}
			if l.State != c.state || l.Label != c.label || (l.Left > 0) != (c.state == admin.Held) {
				t.Errorf("%s: %+v; want %v, %q", c.nodes, l, c.state, c.label)
			}
			page, _ := a.List(t.Context(), "", "", 0) // the error is the same
			for _, l := range page.Locks {
				if l.State != c.state {
					t.Errorf("%s: it is listed as %v; want %v", c.nodes, l.State, c.state)
				}
			}
		})
	}
}

// forgetful is a node that does not vote.
type forgetful struct{ *memnode.Node }

func (f forgetful) Engine() any { return f }

func (f forgetful) Inspect(ctx context.Context, name string) (node.Lease, error) {
	l, err := f.Node.Inspect(ctx, name)
	l.Out = true
	return l, err
}

// A lease that has no end, of another program, outlives the others.
func TestInspectedValidityIsTheMajoritys(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		holder := node.Holder("another program's")
		for i, lasts := range []time.Duration{3 * time.Second, time.Second, 2 * time.Second} {
			c.nodes[i].view.Do(t.Context(), node.Request{Op: node.Acquire, Name: name, TTL: lasts, Holder: holder})
		}
		l, err := c.admin().Inspect(t.Context(), name)
		wantErr(t, err)
		if l.State != admin.Held || l.Left != 2*time.Second || l.Label != "" || l.Token != 1 {
			t.Errorf("%+v", l)
		}
	})
}

// However the queues of the nodes differ, the first hundred are shown.
func TestInspectedWaitersAreBounded(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		l, err := c.adminOf(func(i int) node.Node {
			var queue []node.Waiter
			for k := range 100 {
				queue = append(queue, node.Waiter{ID: uint64(1 + 1000*i + k), Waited: time.Duration(k) * time.Second})
			}
			return shown{faulty: c.nodes[i], others: queue}
		}).Inspect(t.Context(), name)
		if wantErr(t, err); len(l.Waiters) != 100 || l.Waiting != 300 {
			t.Errorf("%d waiters are shown of %d", len(l.Waiters), l.Waiting)
		}
	})
}

// A clock that is an hour off, whichever way, does not tell how long a client has waited.
func TestInspectedWaitIsTheMajoritys(t *testing.T) {
	for _, off := range []time.Duration{0, time.Hour} {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			waited := []time.Duration{off, 5 * time.Second, 6 * time.Second} // by each node's clock
			l, err := c.adminOf(func(i int) node.Node {
				return shown{faulty: c.nodes[i], others: []node.Waiter{{ID: 1, Label: "w", Waited: waited[i]}}}
			}).Inspect(t.Context(), name)
			if wantErr(t, err); len(l.Waiters) != 1 || l.Waiters[0].Waited < 5*time.Second ||
				l.Waiters[0].Waited > 6*time.Second || l.Waiters[0].Nodes != 3 {
				t.Errorf("%+v", l.Waiters)
			}
		})
	}
}
