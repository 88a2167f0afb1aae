package fenlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
)

// Admin shows an operator the locks of a quorum group, and breaks one. It looks at all
// nodes at once; what it says holds for a moment only. To look changes nothing, and
// needs neither the group's MaxTTL nor an admission: no node is let in by it. It is safe
// for concurrent use.
type Admin struct {
	nodes []Node
	names []string
}

// NewAdmin returns the Admin of the nodes of a group: all of them, and no others, since
// majorities are counted among them. They remain the caller's, who closes them in the
// end. The error matches ErrInvalid.
func NewAdmin(nodes []Node) (*Admin, error) {
	if err := checkNodes(nodes); err != nil {
		return nil, err
	}
	return newAdmin(nodes), nil
}

func newAdmin(nodes []Node) *Admin {
	a := &Admin{nodes: slices.Clone(nodes)}
	for _, n := range nodes {
		a.names = append(a.names, n.String())
	}
	return a
}

// Admin returns the Admin of the Locker's nodes. It can be used until Close.
func (l *Locker) Admin() *Admin { return newAdmin(l.config.Nodes) }

// How long a node is waited for: at most patience; and, once a majority has answered, only
// grace more, or a little where what it has said is enough. A node that hangs keeps nobody from what
// the others say.
const (
	patience = 2 * time.Second
	grace    = 500 * time.Millisecond
	little   = 150 * time.Millisecond
)

// errPatience is the error of a node that was not waited for.
var errPatience = errors.New("no answer in time")

// Inspect shows one name: who has the lock, since when, with which token, what each node
// says of it, and who waits, at most the first 100. A name that was never locked is free.
//
// The error matches ErrInvalid or ctx's own; or ErrNoQuorum if too few nodes answered, and
// then what they said is returned with it.
func (a *Admin) Inspect(ctx context.Context, name string) (LockInfo, error) {
	if err := CheckName(name); err != nil {
		return LockInfo{}, err
	}
	said, err := a.look(ctx, "inspect", name)
	return judge(name, a.names, said), err
}

// look asks all nodes about a name, for an operation.
func (a *Admin) look(ctx context.Context, op, name string) ([]seen, error) {
	return a.see(ctx, op, name, nil, func(ctx context.Context, admin node.Admin, s *seen) (err error) {
		s.waiters, s.waiting, err = admin.Waiting(ctx, name, most)
		return err
	})
}

// leases asks all nodes about a name, but not who waits for it. What is enough ends it soon.
func (a *Admin) leases(ctx context.Context, name string, enough func([]seen) bool) ([]seen, error) {
	return a.see(ctx, "inspect", name, enough, func(context.Context, node.Admin, *seen) error { return nil })
}

// see asks all nodes about a lease, and for more.
func (a *Admin) see(ctx context.Context, op, name string, enough func([]seen) bool, more func(context.Context, node.Admin, *seen) error) ([]seen, error) {
	flat := func(all []said[seen]) (flat []seen) {
		for _, s := range all {
			s.value.err = s.err
			flat = append(flat, s.value)
		}
		return flat
	}
	all := ask(ctx, a, a.all(), func(all []said[seen]) bool { return enough != nil && enough(flat(all)) }, func(ctx context.Context, i int) (s seen, err error) {
		admin, err := a.admin(i)
		if err != nil {
			return s, err
		}
		if s.lease, err = admin.Inspect(ctx, name); err != nil {
			return s, err
		}
		return s, more(ctx, admin, &s)
	})
	return flat(all), a.missing(ctx, op, name, failures(all))
}

func (a *Admin) admin(i int) (node.Admin, error) {
	admin, ok := a.nodes[i].Engine().(node.Admin)
	if !ok {
		return nil, fmt.Errorf("%s: %w: it cannot show its leases", a.names[i], errors.ErrUnsupported)
	}
	return admin, nil
}

// Page is a part of a list of locks.
type Page struct {
	Locks []LockInfo // in the order of the names' bytes; without Waiters
	// After is what to call List with for the next page, "" if this is the last one.
	After string
	// Errors are of the nodes that did not tell all. What they have may be missing.
	Errors []NodeError
}

// MaxPage is the largest number of locks on a page.
const MaxPage = 10_000

// List shows the names with a prefix that any node has a lease of, in pages: at most limit
// names that come after a name in the order of their bytes. 0 is 100, more than MaxPage is
// MaxPage. Every page looks through all keys of the nodes, a few at a time, so that a
// server with millions of others is busy for moments only.
//
// A node that fails in the middle is named in Errors. If fewer than a quorum are left, the
// error matches ErrNoQuorum, and the page has what they told. Other errors are ctx's.
func (a *Admin) List(ctx context.Context, prefix, after string, limit int) (Page, error) {
	return a.ListMatching(ctx, prefix, nil, after, limit)
}

// ListMatching is List of the names for which match returns true. One look through the
// nodes fills a page, however few of the names match. Match is not called concurrently; nil
// matches all.
func (a *Admin) ListMatching(ctx context.Context, prefix string, match func(name string) bool, after string, limit int) (Page, error) {
	limit = min(cmp.Or(max(limit, 0), 100), MaxPage)
	c := collection{after: after, match: match, limit: limit, nodes: len(a.nodes), byName: map[string][]seen{}, out: make([]bool, len(a.nodes))}
	failed := a.collect(ctx, prefix, &c)
	names, more := c.names()
	a.count(ctx, names, c.byName)
	page := Page{Errors: a.errors(failed)}
	for _, name := range names {
		said := c.byName[name]
		for i := range said {
			said[i].err = cmp.Or(failed[i], said[i].err)
			said[i].lease.Out = c.out[i]
		}
		page.Locks = append(page.Locks, judge(name, a.names, said))
	}
	if more {
		page.After = names[len(names)-1]
	}
	return page, a.missing(ctx, "list", prefix, failed)
}

// collect has all nodes list what they have, and returns their errors.
func (a *Admin) collect(ctx context.Context, prefix string, c *collection) []error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make([]error, len(a.nodes))
	listed := make(chan int, len(a.nodes))
	for i := range a.nodes {
		go func() {
			admin, err := a.admin(i)
			if err == nil {
				var voting node.Lease
				var unseen error
				var asking sync.WaitGroup
				asking.Go(func() { voting, unseen = admin.Inspect(inner, anyName) })
				err = admin.List(inner, prefix, func(l node.Lease) bool {
					c.add(i, l)
					return inner.Err() == nil
				})
				asking.Wait()
				err, c.out[i] = cmp.Or(err, unseen), voting.Out
			}
			if err = cmp.Or(err, inner.Err()); inner.Err() != nil && ctx.Err() == nil {
				err = fmt.Errorf("%s: %w", a.names[i], errPatience)
			}
			failed[i] = a.late(ctx, i, err)
			listed <- i
		}()
	}
	// Who has more to tell takes longer. But a majority waits for nobody else for longer
	// than it took itself, and patience: one that never ends keeps nobody from what they say.
	began, left := time.Now(), node.Quorum(len(a.nodes))
	for range a.nodes {
		if failed[<-listed] != nil {
			continue
		}
		if left--; left == 0 {
			rest := time.AfterFunc(time.Since(began)+patience, cancel)
			defer rest.Stop()
		}
	}
	return failed
}

// anyName is a name to ask about where the answer is about the node.
const anyName = "fenlock"

// countAtOnce is how many names a node is asked about at once: where nodes are far, each
// costs a way there and back.
const countAtOnce = 32

// count asks how many wait for some names. A node that does not tell has none.
func (a *Admin) count(ctx context.Context, names []string, of map[string][]seen) {
	var running sync.WaitGroup
	for i := range a.nodes {
		admin, err := a.admin(i)
		if err != nil {
			continue
		}
		running.Go(func() {
			for some := range slices.Chunk(names, countAtOnce) {
				var failed atomic.Bool
				var asking sync.WaitGroup
				for _, name := range some {
					asking.Go(func() {
						_, waiting, err := admin.Waiting(ctx, name, 0)
						of[name][i].waiting = waiting
						if err != nil {
							failed.Store(true)
						}
					})
				}
				if asking.Wait(); failed.Load() || ctx.Err() != nil {
					return
				}
			}
		})
	}
	running.Wait()
}

// collection is the part of a list that comes after a name.
type collection struct {
	after        string
	match        func(name string) bool // nil: all
	limit, nodes int
	out          []bool // of each node: it does not vote, and may have forgotten what it does not list

	mu     sync.Mutex
	byName map[string][]seen // by node
	bound  string            // what comes after it is on a later page; "" while it is not known
}

// add takes what a node lists.
func (c *collection) add(i int, l node.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.Name <= c.after || c.bound != "" && l.Name > c.bound {
		return
	}
	said := c.byName[l.Name]
	if said == nil && c.match != nil && !c.match(l.Name) {
		return
	}
	if said == nil {
		said = make([]seen, c.nodes)
		for i := range said {
			said[i].lease.Name = l.Name
		}
		c.byName[l.Name] = said
	}
	said[i].lease = l
	if len(c.byName) > 2*c.limit+64 {
		c.cut()
	}
}

// cut drops what is not on this page, but for one name that tells that there are more.
func (c *collection) cut() {
	all := c.sorted()
	for _, name := range all[c.limit+1:] {
		delete(c.byName, name)
	}
	c.bound = all[c.limit]
}

func (c *collection) sorted() []string {
	names := make([]string, 0, len(c.byName))
	for name := range c.byName {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// names returns those of the page, and whether there are more.
func (c *collection) names() (page []string, more bool) {
	all := c.sorted()
	return all[:min(len(all), c.limit)], len(all) > c.limit
}

// said is what a node answered.
type said[T any] struct {
	value T
	err   error
}

// all is every node.
func (a *Admin) all() (all []int) {
	for i := range a.nodes {
		all = append(all, i)
	}
	return all
}

// ask asks nodes at once, and returns what they said, by node, when all have answered, or
// when a majority of the group has and the others were waited for: a little with what is enough,
// which may be nil, otherwise for the grace. A node that was not asked has said nothing, without an error.
func ask[T any](ctx context.Context, a *Admin, which []int, enough func([]said[T]) bool, f func(ctx context.Context, i int) (T, error)) []said[T] {
	inner, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all := make([]said[T], len(a.nodes))
	type answer struct {
		i int
		said[T]
	}
	answers := make(chan answer, len(which))
	for _, i := range which {
		all[i].err = fmt.Errorf("%s: %w", a.names[i], errPatience)
		go func() {
			value, err := f(inner, i)
			answers <- answer{i, said[T]{value, a.late(ctx, i, err)}}
		}()
	}
	var early, up <-chan time.Time
	for left, good := len(which), 0; left > 0; {
		select {
		case got := <-answers:
			all[got.i] = got.said
			left--
			if got.err == nil {
				good++
			}
			if good >= node.Quorum(len(a.nodes)) && up == nil {
				early, up = time.After(little), time.After(grace)
			}
		case <-early:
			if enough != nil && enough(all) {
				return all
			}
		case <-up:
			return all
		case <-inner.Done():
			return all
		}
	}
	return all
}

// late is the error of a node, in words where it is only that its time is up.
func (a *Admin) late(ctx context.Context, i int, err error) error {
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", a.names[i], errPatience)
	}
	return err
}

func failures[T any](all []said[T]) (errs []error) {
	for _, s := range all {
		errs = append(errs, s.err)
	}
	return errs
}

func (a *Admin) errors(failed []error) (errs []NodeError) {
	for i, err := range failed {
		if err != nil {
			errs = append(errs, NodeError{Node: a.names[i], Err: err})
		}
	}
	return errs
}

// missing is the error of an operation that so many nodes failed that the others are no
// quorum, or nil.
func (a *Admin) missing(ctx context.Context, op, name string, failed []error) error {
	errs := a.errors(failed)
	if len(a.nodes)-len(errs) >= node.Quorum(len(a.nodes)) {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("fenlock: %s %q: %w", op, name, context.Cause(ctx))
	}
	return &QuorumError{Op: op, Name: name, Nodes: len(a.nodes), Need: node.Quorum(len(a.nodes)), Errors: errs}
}
