package admin

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
)

// Page is a part of a list of locks.
type Page struct {
	Locks []LockInfo // in the order of the names' bytes; without Waiters
	// After is what to call List with for the next page, "" if this is the last one.
	After string
	// Errors are of the nodes that did not tell all. What they have may be missing.
	Errors []fenlock.NodeError
}

// MaxPage is the largest number of locks on a page.
const MaxPage = 10_000

// List shows the names with a prefix that any node has a lease of, in pages. A page has at most
// limit names that come after a name in the order of their bytes. 0 is 100, more than MaxPage is
// MaxPage. Every page looks through all keys of the nodes, a few at a time. So a server with
// millions of other keys is busy for moments only.
//
// A node that fails in the middle is named in Errors. If fewer than a quorum are left, the
// error matches ErrNoQuorum, and the page has what they told. Other errors are ctx's.
func (a *Admin) List(ctx context.Context, prefix, after string, limit int) (Page, error) {
	return a.ListMatching(ctx, prefix, nil, after, limit)
}

// ListMatching is List of the names for which match returns true. One look through the
// nodes fills a page, however few of the names match. Match is not called concurrently; nil
// matches all.
func (a *Admin) ListMatching(ctx context.Context, prefix string, match func(name string) bool, after string,
	limit int) (Page, error) {
	limit = min(cmp.Or(max(limit, 0), 100), MaxPage)
	c := collection{after: after, match: match, limit: limit, nodes: len(a.nodes), byName: map[string][]seen{},
		out: make([]bool, len(a.nodes))}
	failed := a.collect(ctx, prefix, &c)
	names, more := c.names()
	a.count(ctx, names, c.byName, failed)
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
			one, giveUp := context.WithCancel(inner)
			defer giveUp()
			admin, err := a.admin(i)
			if err == nil {
				var voting node.Lease
				var unseen error
				var asking sync.WaitGroup
				asking.Go(func() {
					// A list may take long. A node that does not even answer a question meanwhile is down.
					mute := time.AfterFunc(lookPatience, giveUp)
					defer mute.Stop()
					voting, unseen = admin.Inspect(one, anyName)
				})
				err = admin.List(one, prefix, func(l node.Lease) bool {
					c.add(i, l)
					return one.Err() == nil
				})
				asking.Wait()
				err, c.out[i] = cmp.Or(err, unseen), voting.Out
			}
			if err = cmp.Or(err, one.Err()); one.Err() != nil && ctx.Err() == nil {
				err = a.silence(i)
			}
			failed[i] = a.late(ctx, i, err)
			listed <- i
		}()
	}
	// A node that has more to tell takes longer. Once a majority has told all, the others have as
	// much time again, and patience. A node that never ends does not hold up the page.
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

// count asks how many wait for some names. A node that does not tell has none; one that failed is
// not asked.
func (a *Admin) count(ctx context.Context, names []string, of map[string][]seen, failed []error) {
	var running sync.WaitGroup
	for i := range a.nodes {
		admin, err := a.admin(i)
		if err != nil || failed[i] != nil {
			continue
		}
		running.Go(func() {
			for some := range slices.Chunk(names, countAtOnce) {
				var lost atomic.Bool
				var asking sync.WaitGroup
				for _, name := range some {
					asking.Go(func() {
						_, waiting, err := admin.Waiting(ctx, name, 0)
						of[name][i].waiting = waiting
						if err != nil {
							lost.Store(true)
						}
					})
				}
				if asking.Wait(); lost.Load() || ctx.Err() != nil {
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
