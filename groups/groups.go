// Package groups spreads names over several quorum groups, for programs that need more locks than
// one group can do.
package groups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/inside"
)

// Config is what Groups are made with.
type Config struct {
	// Groups are those on which names are locked, in any order, the same ones for all processes. At
	// least one; no two have an id or a node in common.
	Groups []Group

	// Old is the list before a change, while groups are added or removed: docs/groups.md has the
	// steps. Two processes may hold a name if one is left out. A group that is in both lists has
	// the same Locker in both. Mostly nil.
	Old []Group
}

// Groups spread names over several quorum groups, for programs that need more locks than one group
// can do. Each name is on one of them, by a hash of the name. Make one per process, with New, and
// share it: it is safe for concurrent use.
//
// What is between the first { and the next } of a name is hashed alone, as in a Redis Cluster.
// Names that have that in common are on one group, and AcquireAll can take them together.
type Groups struct {
	locking     locking
	groups, old rendezvous // old is empty where nothing changes
}

// locking takes locks of names on one Locker, or on two (package fenlock).
type locking interface {
	Acquire(ctx context.Context, name string, opts ...fenlock.Option) (*fenlock.Lock, error)
	TryAcquire(ctx context.Context, name string, opts ...fenlock.Option) (*fenlock.Lock, error)
	Do(ctx context.Context, name string, work func(ctx context.Context, token fence.Token) error,
		opts ...fenlock.Option) error
	Lock(ctx context.Context, name string, opts ...fenlock.Option) (held context.Context, release func(), err error)
	AcquireAny(ctx context.Context, names []string, opts ...fenlock.Option) (*fenlock.Lock, error)
	AcquireAll(ctx context.Context, names []string, opts ...fenlock.Option) (*fenlock.Locks, error)
	Exported(text string) (name string, err error)
	RaiseTokens(ctx context.Context, from, to *fenlock.Locker) error
}

// New makes Groups of Lockers, and owns them from then on. If the Lockers have a Clock of their
// own, it is the same for all. It sends nothing. The error matches ErrInvalid, and the
// Lockers are as they were then.
func New(c Config) (*Groups, error) {
	if len(c.Groups) == 0 {
		return nil, invalidf("groups.Config.Groups is empty: a name needs at least one group")
	}
	var all rendezvous
	nodes := map[string]string{} // to the id of their group
	for i, list := range [][]Group{c.Groups, c.Old} {
		in := "groups.Config." + [...]string{"Groups", "Old"}[i]
		ids := map[string]bool{}
		for j, g := range list {
			if err := checkGroup(fmt.Sprintf("%s[%d]", in, j), g); err != nil {
				return nil, err
			}
			if ids[g.ID] {
				return nil, invalidf("two groups of %s have the id %q", in, g.ID)
			}
			ids[g.ID] = true
			if same, found := all.with(g.ID); found {
				if same.Locker != g.Locker {
					return nil, invalidf("the group %q of groups.Config.Old has another Locker than that of Groups", g.ID)
				}
				continue
			}
			all = append(all, g)
			for _, n := range g.Locker.Nodes() {
				if other, found := nodes[n.String()]; found {
					return nil, invalidf("the groups %q and %q both have the node %s", other, g.ID, n)
				}
				nodes[n.String()] = g.ID
			}
		}
	}
	g := &Groups{groups: slices.Clone(rendezvous(c.Groups)), old: slices.Clone(rendezvous(c.Old))}
	g.locking = inside.Spread(func(name string) (on, leaving *fenlock.Locker) {
		group, old := g.Of(name)
		return group.Locker, old.Locker
	}, g.groups[0].Locker).(locking)
	return g, nil
}

func checkGroup(what string, g Group) error {
	switch {
	case g.ID == "":
		return invalidf("the id of %s is empty", what)
	case g.Locker == nil:
		return invalidf("the Locker of %s, %q, is nil", what, g.ID)
	}
	if len(g.ID) > MaxIDLength || !utf8.ValidString(g.ID) || strings.ContainsFunc(g.ID, unicode.IsControl) {
		return invalidf("the id of %s has %d bytes; it may have %d at most, of UTF-8 without control characters: %.40q", what,
			len(g.ID), MaxIDLength, g.ID)
	}
	return nil
}

// invalidf returns an error that matches fenlock.ErrInvalid.
func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", fenlock.ErrInvalid, fmt.Sprintf(format, args...))
}

// Of returns the group on which a name is locked; during a change, old is the one on which it is
// locked too, if that is another one. Use it to look at a lock (admin.Of). A lock that is taken of
// its Locker does not exclude processes that know another list of groups.
func (g *Groups) Of(name string) (group, old Group) {
	group = g.groups.of(name)
	if len(g.old) > 0 {
		if old = g.old.of(name); old.ID == group.ID {
			old = Group{}
		}
	}
	return group, old
}

// Acquire is Locker.Acquire on the group of the name. While a change moves the name it is locked on
// both groups, which takes three round trips more; Options count for each of the two, and their
// Observers are told of one lock each.
func (g *Groups) Acquire(ctx context.Context, name string, opts ...fenlock.Option) (*fenlock.Lock, error) {
	return g.locking.Acquire(ctx, name, opts...)
}

// TryAcquire is Locker.TryAcquire on the group of the name.
func (g *Groups) TryAcquire(ctx context.Context, name string, opts ...fenlock.Option) (*fenlock.Lock, error) {
	return g.locking.TryAcquire(ctx, name, opts...)
}

// Do is Locker.Do on the group of the name.
func (g *Groups) Do(ctx context.Context, name string, work func(ctx context.Context, token fence.Token) error,
	opts ...fenlock.Option) error {
	return g.locking.Do(ctx, name, work, opts...)
}

// Lock is Locker.Lock on the group of the name.
func (g *Groups) Lock(ctx context.Context, name string, opts ...fenlock.Option) (held context.Context, release func(),
	err error) {
	return g.locking.Lock(ctx, name, opts...)
}

// AcquireAny is Locker.AcquireAny. The names may be on several groups.
func (g *Groups) AcquireAny(ctx context.Context, names []string, opts ...fenlock.Option) (*fenlock.Lock, error) {
	return g.locking.AcquireAny(ctx, names, opts...)
}

// AcquireAll is Locker.AcquireAll, if all names are on one group. Otherwise the error matches
// ErrInvalid, and says which is where: names that are to be locked together need a {tag} in common.
func (g *Groups) AcquireAll(ctx context.Context, names []string, opts ...fenlock.Option) (*fenlock.Locks, error) {
	if err := g.together(names); err != nil {
		return nil, err
	}
	return g.locking.AcquireAll(ctx, names, opts...)
}

// Adopt is Locker.Adopt on the group of the lock's name. A name that moves cannot be adopted: the
// error matches fenlock.ErrInvalid.
func (g *Groups) Adopt(ctx context.Context, text string) (*fenlock.Lock, error) {
	if g == nil || g.locking == nil {
		return nil, invalidf("the Groups are not from New")
	}
	name, err := g.locking.Exported(text)
	if err != nil {
		return nil, err
	}
	group, old := g.Of(name)
	if old.ID != "" {
		return nil, invalidf("%q goes from the group %q to %q, and cannot be adopted meanwhile", name, old.ID, group.ID)
	}
	return group.Locker.Adopt(ctx, text)
}

// Check is Locker.Check on the group of the name and, while that moves, on the one that it leaves.
func (g *Groups) Check(name string, opts ...fenlock.Option) error {
	if g == nil {
		return invalidf("the Groups are nil")
	}
	group, old := g.Of(name)
	if old.ID != "" {
		if err := old.Locker.Check(name, opts...); err != nil {
			return err
		}
	}
	return group.Locker.Check(name, opts...)
}

// together refuses names that are on several groups.
func (g *Groups) together(names []string) error {
	if len(names) == 0 {
		return nil // AcquireAll has the error
	}
	where := func(name string) string {
		group, old := g.Of(name)
		if old.ID == "" {
			return fmt.Sprintf("%q", group.ID)
		}
		return fmt.Sprintf("%q and %q", old.ID, group.ID)
	}
	first := where(names[0])
	if !slices.ContainsFunc(names, func(name string) bool { return where(name) != first }) {
		return nil
	}
	var all []string
	for i, name := range names {
		if i == fenlock.MaxNames {
			all = append(all, "...")
			break
		}
		all = append(all, fmt.Sprintf("%q on %s", name, where(name)))
	}
	return invalidf("names on different groups cannot be had together, but those with the same {tag} are on one: %s",
		strings.Join(all, ", "))
}

// RaiseTokens is a step of a change (docs/groups.md), when all processes have both lists, and none
// has the old one only. Afterwards each new token, on either group of a name, is larger than each
// that was given before. That includes names that were not locked meanwhile. It takes a lock of
// each of the 4096 registers on each two groups that exchange names, a few seconds for two. Call it
// in one process, once; more often does no harm.
//
// With an error, ErrNoQuorum for example, it has to be called again. Without Old it does nothing.
func (g *Groups) RaiseTokens(ctx context.Context) error {
	for _, from := range g.old {
		for _, to := range g.groups {
			if !g.moves(from, to) {
				continue
			}
			if err := g.locking.RaiseTokens(ctx, from.Locker, to.Locker); err != nil {
				return fmt.Errorf("fenlock: raise the tokens of the groups %q and %q: %w", from.ID, to.ID, err)
			}
		}
	}
	return nil
}

// moves reports whether there are names that go from one group to another. Where both groups are in
// both lists, the one with the larger weight for a name comes before the other in both.
func (g *Groups) moves(from, to Group) bool {
	_, stays := g.groups.with(from.ID)
	_, was := g.old.with(to.ID)
	return from.ID != to.ID && !(stays && was)
}

// Close closes the Lockers of all groups: see Locker.Close.
func (g *Groups) Close() error {
	all := map[*fenlock.Locker]bool{}
	for _, group := range slices.Concat(g.groups, g.old) {
		all[group.Locker] = true
	}
	errs := make(chan error, len(all))
	for l := range all {
		go func() { errs <- l.Close() }()
	}
	var failed []error
	for range all {
		failed = append(failed, <-errs)
	}
	return errors.Join(failed...)
}
