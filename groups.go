package fenlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// GroupsConfig is what Groups are made with.
type GroupsConfig struct {
	// Groups are those on which names are locked, in any order, the same ones for all processes. At
	// least one; no two have an id or a node in common.
	Groups []Group

	// Old is the list before a change, while groups are added or removed: docs/groups.md has the
	// steps, and two processes hold a name if one is left out. A group that is in both lists
	// has the same Locker in both. Mostly nil.
	Old []Group
}

// Groups spread names over several quorum groups, for who needs more locks than one group can do:
// each name is on one of them, by a hash of the name. Make one per process, with NewGroups,
// and share it: it is safe for concurrent use.
//
// What is between the first { and the next } of a name is hashed alone, as in a Redis Cluster: names that
// have that in common are on one group, and can be had together by AcquireAll.
type Groups struct {
	groups, old rendezvous // old is empty where nothing changes
}

// NewGroups makes Groups of Lockers, and owns them from then on. If the Lockers have a Clock of their
// own, it is the same for all. It sends nothing. The error matches ErrInvalid, and the
// Lockers are as they were then.
func NewGroups(c GroupsConfig) (*Groups, error) {
	if len(c.Groups) == 0 {
		return nil, invalidf("GroupsConfig.Groups is empty: a name needs at least one group")
	}
	var all rendezvous
	nodes := map[string]string{} // to the id of their group
	for i, list := range [][]Group{c.Groups, c.Old} {
		in := "GroupsConfig." + [...]string{"Groups", "Old"}[i]
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
					return nil, invalidf("the group %q of GroupsConfig.Old has another Locker than that of Groups", g.ID)
				}
				continue
			}
			all = append(all, g)
			for _, n := range g.Locker.config.Nodes {
				if other, found := nodes[n.String()]; found {
					return nil, invalidf("the groups %q and %q both have the node %s", other, g.ID, n)
				}
				nodes[n.String()] = g.ID
			}
		}
	}
	return &Groups{groups: slices.Clone(rendezvous(c.Groups)), old: slices.Clone(rendezvous(c.Old))}, nil
}

func checkGroup(what string, g Group) error {
	switch {
	case g.ID == "":
		return invalidf("the id of %s is empty", what)
	case g.Locker == nil:
		return invalidf("the Locker of %s, %q, is nil", what, g.ID)
	}
	return checkText("the id of "+what, g.ID, MaxLabelLength)
}

// Of returns the group on which a name is locked; during a change, old is the one on which it is
// locked too, if that is another one. It is for who looks at a lock (Locker.Admin). A lock that is
// taken of its Locker keeps out nobody who knows another list of groups.
func (g *Groups) Of(name string) (group, old Group) {
	group = g.groups.of(name)
	if len(g.old) > 0 {
		if old = g.old.of(name); old.ID == group.ID {
			old = Group{}
		}
	}
	return group, old
}

// pairOf returns what takes a name on both groups, nil if it is on one.
func (g *Groups) pairOf(name string, opts []Option) (*Locker, *pair, error) {
	group, old := g.Of(name)
	if old.ID == "" {
		return group.Locker, nil, nil
	}
	p, err := newPair(old.Locker, group.Locker, opts)
	return group.Locker, p, err
}

// Acquire is Locker.Acquire on the group of the name. While a change moves the name it is locked on both
// groups, which takes three round trips more; Options count for each of the two, and their Observers are
// told of one lock each.
func (g *Groups) Acquire(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	l, p, err := g.pairOf(name, opts)
	switch {
	case err != nil:
		return nil, err
	case p == nil:
		return l.Acquire(ctx, name, opts...)
	}
	return p.one(ctx, name, true)
}

// TryAcquire is Locker.TryAcquire on the group of the name.
func (g *Groups) TryAcquire(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	l, p, err := g.pairOf(name, opts)
	switch {
	case err != nil:
		return nil, err
	case p == nil:
		return l.TryAcquire(ctx, name, opts...)
	}
	return p.one(ctx, name, false)
}

// Do is Locker.Do on the group of the name.
func (g *Groups) Do(ctx context.Context, name string, work func(ctx context.Context, token fence.Token) error, opts ...Option) error {
	return do(ctx, g.Acquire, name, work, opts)
}

// Lock is Locker.Lock on the group of the name.
func (g *Groups) Lock(ctx context.Context, name string, opts ...Option) (held context.Context, release func(), err error) {
	return lockFor(ctx, g.Acquire, name, opts)
}

// Lead is Locker.Lead on the group of the name. Of tells whose Admin can Follow: during a change a leader
// that knows the old groups only is seen on the old one only.
func (g *Groups) Lead(ctx context.Context, name string, work func(ctx context.Context, term fence.Token) error, opts ...Option) error {
	return lead(ctx, g.Acquire, name, work, opts)
}

// AcquireAny is Locker.AcquireAny. The names may be on several groups.
func (g *Groups) AcquireAny(ctx context.Context, names []string, opts ...Option) (*Lock, error) {
	_, o, err := g.groups[0].Locker.several(names, opts)
	if err != nil {
		return nil, err
	}
	inTime, cancel := o.within(ctx)
	defer cancel()
	k, err := acquireAny(inTime, names, func(name string) error {
		group, _ := g.Of(name)
		return checkNested(ctx, group.Locker, name)
	}, func(inTime context.Context, name string, waits bool) (*Lock, error) {
		l, p, err := g.pairOf(name, opts)
		switch {
		case err != nil:
			return nil, err
		case p != nil:
			return p.until(inTime, ctx, name, waits)
		}
		o, err := l.config.optionsOf(opts)
		if err != nil {
			return nil, err
		}
		return l.acquireUntil(inTime, ctx, name, o.terms, l.begin(waits))
	})
	if err != nil {
		return nil, err
	}
	if err := lengthen(inTime, k.acquisition.Terms(), k); err != nil {
		return nil, err
	}
	return k, nil
}

// AcquireAll is Locker.AcquireAll, if all names are on one group. Otherwise the error matches ErrInvalid, and says which
// is where: names that are to be locked together need a {tag} in common.
func (g *Groups) AcquireAll(ctx context.Context, names []string, opts ...Option) (*Locks, error) {
	if len(names) == 0 {
		return g.groups[0].Locker.AcquireAll(ctx, names, opts...) // which has the error
	}
	if err := g.together(names); err != nil {
		return nil, err
	}
	l, p, err := g.pairOf(names[0], opts)
	switch {
	case err != nil:
		return nil, err
	case p == nil:
		return l.AcquireAll(ctx, names, opts...)
	}
	return p.all(ctx, names, opts)
}

// together refuses names that are on several groups.
func (g *Groups) together(names []string) error {
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
		if i == MaxNames {
			all = append(all, "...")
			break
		}
		all = append(all, fmt.Sprintf("%q on %s", name, where(name)))
	}
	return invalidf("names on different groups cannot be had together, but those with the same {tag} are on one: %s", strings.Join(all, ", "))
}

// RaiseTokens is a step of a change (docs/groups.md), when all processes have both lists, and none
// has the old one only: it makes each later token on each of the two groups of a name larger than each
// that was given before, also for names that were not locked meanwhile. It takes a lock of each of the 4096 registers on each
// two groups that exchange names, a few seconds for two, and is to be called by one process, once;
// more often does no harm.
//
// With an error, ErrNoQuorum for example, it has to be called again. Without Old it does nothing.
func (g *Groups) RaiseTokens(ctx context.Context) error {
	for _, from := range g.old {
		for _, to := range g.groups {
			if !g.moves(from, to) {
				continue
			}
			p, err := newPair(from.Locker, to.Locker, nil)
			if err != nil {
				return err
			}
			if err := p.everyRegister(ctx); err != nil {
				return fmt.Errorf("fenlock: raise the tokens of the groups %q and %q: %w", from.ID, to.ID, err)
			}
		}
	}
	return nil
}

// moves reports whether there are names that go from one group to another. Where both groups are in both
// lists, one has the larger weight of the two for a name, so that it would be in no list on the other.
func (g *Groups) moves(from, to Group) bool {
	_, stays := g.groups.with(from.ID)
	_, was := g.old.with(to.ID)
	return from.ID != to.ID && !(stays && was)
}

// raisers is how many registers are raised at the same time.
const raisers = 64

// everyRegister takes and releases a lock of each register.
func (p *pair) everyRegister(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	names := make(chan string)
	var all sync.WaitGroup
	for range raisers {
		all.Go(func() {
			for name := range names {
				k, err := p.one(ctx, name, true)
				if err != nil {
					stop(err)
					return
				}
				k.Release(ctx) // the registers are what they are to be, whatever comes of that
			}
		})
	}
	for _, name := range oneOfEachRegister() {
		select {
		case names <- name:
		case <-ctx.Done():
		}
	}
	close(names)
	all.Wait()
	return context.Cause(ctx)
}

// oneOfEachRegister returns a name for each stripe.
func oneOfEachRegister() []string {
	names := make([]string, node.Stripes)
	for i, left := 0, len(names); left > 0; i++ {
		name := fmt.Sprint("fenlock:raise-tokens:", i)
		if stripe := node.Stripe(name); names[stripe] == "" {
			names[stripe] = name
			left--
		}
	}
	return names
}

// Close closes the Lockers of all groups: see Locker.Close.
func (g *Groups) Close() error {
	all := map[*Locker]bool{}
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
