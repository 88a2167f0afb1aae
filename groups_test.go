package fenlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/groups"
	"github.com/fenlock/fenlock/leader"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// several are clusters that are the groups of names: what processes have in common.
type several map[string]*cluster

// severally runs a test in a bubble, with groups of three nodes each. A goroutine that the library
// leaves behind fails it.
func severally(t *testing.T, ids string, f func(*testing.T, several)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := several{}
		for _, id := range strings.Fields(ids) {
			s[id] = newCluster(t, 3, func(i int) string { return fmt.Sprint(id, i) })
		}
		f(t, s)
		for _, c := range s {
			c.calm()
		}
	})
}

// lasting is a node that goes on for the other processes when one closes it.
type lasting struct{ queuerNode }

func (lasting) Close() error { return nil }

func (f *faulty) lasting() node.Node { return lasting{queuerNode{f}} }

// list returns groups, as another process has them.
func (s several) list(ids string, change ...func(*fenlock.Config)) (list []groups.Group) {
	for _, id := range strings.Fields(ids) {
		list = append(list, groups.Group{ID: id, Locker: s[id].lockerOn((*faulty).lasting, change...)})
	}
	return list
}

// process returns a process's Groups. With old ids it is in a change.
func (s several) process(t *testing.T, ids, old string, change ...func(*fenlock.Config)) *groups.Groups {
	t.Helper()
	c := groups.Config{Groups: s.list(ids, change...)}
	for _, id := range strings.Fields(old) {
		found := false
		for _, g := range c.Groups {
			if g.ID == id {
				c.Old, found = append(c.Old, g), true
			}
		}
		if !found {
			c.Old = append(c.Old, s.list(id, change...)...)
		}
	}
	g, err := groups.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wantErr(t, g.Close()) })
	return g
}

// on returns a name that is on a group of a list.
func on(t *testing.T, g *groups.Groups, id string, not ...string) string {
	t.Helper()
	for i := range 1000 {
		name := fmt.Sprint("name ", i)
		if used := fmt.Sprint(not); idOf(g, name) == id && !strings.Contains(used, name) {
			return name
		}
	}
	t.Fatalf("no name is on %q", id)
	return ""
}

func TestGroupsOfABadConfig(t *testing.T) {
	locker := func(nodes ...string) *fenlock.Locker {
		var c fenlock.Config
		for _, n := range nodes {
			c.Nodes = append(c.Nodes, memnode.New(n))
		}
		return newLocker(t, c)
	}
	group := func(id string, l *fenlock.Locker) groups.Group { return groups.Group{ID: id, Locker: l} }
	a, b := group("a", locker("1", "2", "3")), group("b", locker("4", "5", "6"))
	for what, test := range map[string]struct {
		groups, old []groups.Group
		want        string
	}{
		"no groups": {nil, []groups.Group{a}, "groups.Config.Groups is empty"},
		"no id": {[]groups.Group{a, group("", b.Locker)}, nil,
			"the id of groups.Config.Groups[1] is empty"},
		"no Locker": {[]groups.Group{a, group("b", nil)}, nil,
			`the Locker of groups.Config.Groups[1], "b", is nil`},
		"a long id": {[]groups.Group{group(strings.Repeat("x", 129), a.Locker)}, nil, "has 129 bytes"},
		"a control character": {[]groups.Group{a}, []groups.Group{group("\x00", b.Locker)},
			"groups.Config.Old[0] has 1 bytes"},
		"an id twice": {[]groups.Group{a, b, group("a", locker("7"))}, nil,
			`two groups of groups.Config.Groups have the id "a"`},
		"a group twice": {[]groups.Group{a, b, a}, nil, `two groups of groups.Config.Groups have the id "a"`},
		"an old id twice": {[]groups.Group{a}, []groups.Group{b, b},
			`two groups of groups.Config.Old have the id "b"`},
		"a Locker with two ids": {[]groups.Group{a, group("c", a.Locker)}, nil,
			`the groups "a" and "c" both have the node 1`},
		"a node in two groups": {[]groups.Group{a, group("c", locker("7", "3"))}, nil,
			`the groups "a" and "c" both have the node 3`},
		"a node in an old one": {[]groups.Group{a}, []groups.Group{group("c", locker("7", "3"))},
			`the groups "a" and "c" both have the node 3`},
		"a group with two Locker": {[]groups.Group{a, b}, []groups.Group{group("b", locker("4", "5", "6"))},
			`the group "b" of groups.Config.Old has another Locker`},
	} {
		_, err := groups.New(groups.Config{Groups: test.groups, Old: test.old})
		wantErr(t, err, fenlock.ErrInvalid)
		if !strings.Contains(fmt.Sprint(err), test.want) {
			t.Errorf("%s: %v, want %q", what, err, test.want)
		}
	}
	if _, err := groups.New(groups.Config{Groups: []groups.Group{a, b}, Old: []groups.Group{b, a}}); err != nil {
		t.Error(err) // nothing moves
	}
}

// Every method goes to the group of its name, and no other one hears of it.
func TestNamesAreLockedOnTheirGroup(t *testing.T) {
	severally(t, "a b", func(t *testing.T, s several) {
		g := s.process(t, "a b", "")
		ctx := t.Context()
		for _, id := range []string{"a", "b"} {
			name, more := on(t, g, id), on(t, g, id, on(t, g, id))
			wantOn := func(what, name string) {
				t.Helper()
				synctest.Wait()
				for other, c := range s {
					if n := c.leases(name); other == id && n < 2 || other != id && n != 0 {
						t.Errorf("%s of %q, on %q: %d nodes of %q have it", what, name, id, n, other)
					}
				}
			}
			lock, err := g.Acquire(ctx, name)
			wantErr(t, err)
			wantOn("Acquire", name)
			_, err = g.TryAcquire(ctx, name)
			wantErr(t, err, fenlock.ErrHeld)
			either, err := g.AcquireAny(ctx, []string{name, more})
			wantErr(t, err)
			wantOn("AcquireAny", more)
			wantErr(t, either.Release(ctx))
			wantErr(t, lock.Release(ctx))
			lock, err = g.TryAcquire(ctx, name)
			wantErr(t, err)
			wantOn("TryAcquire", name)
			wantErr(t, lock.Release(ctx))
			locks, err := g.AcquireAll(ctx, []string{name, more, name})
			wantErr(t, err)
			wantOn("AcquireAll", name)
			wantOn("AcquireAll", more)
			wantErr(t, locks.Release(ctx))
			held, release, err := g.Lock(ctx, name)
			wantErr(t, err)
			wantOn("Lock", name)
			_, err = g.Acquire(held, name)
			wantErr(t, err, fenlock.ErrNested)
			release()
			wantErr(t, g.Do(ctx, name, func(ctx context.Context, _ fence.Token) error {
				wantOn("Do", name)
				_, err := g.AcquireAny(ctx, []string{name})
				wantErr(t, err, fenlock.ErrNested)
				_, err = g.AcquireAll(ctx, []string{name})
				wantErr(t, err, fenlock.ErrNested)
				return nil
			}))
			wantErr(t, leader.Lead(ctx, g, name, func(context.Context, fence.Token) error {
				wantOn("Lead", name)
				return nil
			}))
		}
	})
}

func TestGroupsRefuseWhatTheyCannotDo(t *testing.T) {
	severally(t, "a b c", func(t *testing.T, s several) {
		ctx := t.Context()
		for old, format := range map[string]string{"": `%q on "a", %q on "b"`, "a c": `%q on "a", %q on "c" and "b"`} {
			g := s.process(t, "a b", old)
			onA, onB := onThat(t, g, "a", ""), onThat(t, g, "b", strings.TrimPrefix(old, "a "))
			_, err := g.AcquireAll(ctx, []string{onA, onB})
			wantErr(t, err, fenlock.ErrInvalid)
			if want := fmt.Sprintf(format, onA, onB); !strings.HasSuffix(fmt.Sprint(err), "are on one: "+want) {
				t.Errorf("%v, want %s", err, want)
			}
			for _, bad := range [][]string{nil, {""}, {onB, "a\n"}} {
				_, err = g.AcquireAll(ctx, bad)
				wantErr(t, err, fenlock.ErrInvalid)
				_, err = g.AcquireAny(ctx, bad)
				wantErr(t, err, fenlock.ErrInvalid)
			}
			for _, name := range []string{onA, onB} {
				_, err = g.Acquire(ctx, name, fenlock.WithTTL(time.Hour))
				wantErr(t, err, fenlock.ErrInvalid)
				_, err = g.TryAcquire(ctx, name, nil)
				wantErr(t, err, fenlock.ErrInvalid)
				_, err = g.AcquireAny(ctx, []string{name}, fenlock.WithLabel(""))
				wantErr(t, err, fenlock.ErrInvalid)
			}
			_, err = g.Acquire(ctx, "")
			wantErr(t, err, fenlock.ErrInvalid)
		}
		for id, c := range s {
			if n := c.requests(allOps); n > 0 {
				t.Errorf("%q was asked %d times", id, n)
			}
		}
	})
}

// onThat returns a name that is on a group, and was on another one, "" if it has not moved.
func onThat(t *testing.T, g *groups.Groups, id, was string, not ...string) string {
	t.Helper()
	for i := range 10000 {
		name := fmt.Sprint("moved ", i)
		group, old := g.Of(name)
		if used := fmt.Sprint(not); group.ID == id && old.ID == was && !strings.Contains(used, name) {
			return name
		}
	}
	t.Fatalf("no name was on %q and is on %q", was, id)
	return ""
}

// AcquireAny waits in the queues of several groups.
func TestAcquireAnyOfSeveralGroups(t *testing.T) {
	severally(t, "a b", func(t *testing.T, s several) {
		g, other := s.process(t, "a b", ""), s.process(t, "a b", "")
		names := []string{on(t, g, "a"), on(t, g, "b")}
		var held []*fenlock.Lock
		for _, name := range names {
			k, err := other.Acquire(t.Context(), name)
			wantErr(t, err)
			held = append(held, k)
		}
		time.AfterFunc(time.Minute, func() { held[1].Release(context.Background()) })
		began := time.Now()
		k, err := g.AcquireAny(t.Context(), names)
		wantErr(t, err)
		if took := time.Since(began); k.Name() != names[1] || took > time.Minute+time.Second {
			t.Errorf("%v after %v", k, took)
		}
		wantErr(t, k.Release(t.Context()))
		wantErr(t, held[0].Release(t.Context()))
		_, err = g.AcquireAny(t.Context(), names, fenlock.WithWait(time.Second))
		wantErr(t, err)
	})
}

func TestGroupsCloseTheirLockers(t *testing.T) {
	severally(t, "a b c", func(t *testing.T, s several) {
		g := s.process(t, "a b", "a c")
		names := map[string]string{"stays": onThat(t, g, "a", ""), "moves": onThat(t, g, "b", "c")}
		wantErr(t, g.Close())
		for what, name := range names {
			_, err := g.Acquire(t.Context(), name)
			wantErr(t, err, fenlock.ErrClosed)
			_, err = g.TryAcquire(t.Context(), name)
			if !errors.Is(err, fenlock.ErrClosed) {
				t.Errorf("%s: %v", what, err)
			}
		}
		wantErr(t, g.RaiseTokens(t.Context()), fenlock.ErrClosed)
		wantErr(t, g.Close())
	})
}

// idOf returns the id of the group of a name.
func idOf(g *groups.Groups, name string) string {
	group, _ := g.Of(name)
	return group.ID
}
