package ui

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fenlock/fenlock/admin"
)

// What a look at the group is bounded by.
const (
	// MaxLocks is how many locks are looked at: the first ones, by name.
	MaxLocks = 2000
	// maxQueues is how many of them are asked for their waiters, one by one, beside those that
	// a page shows.
	maxQueues = 50
	atOnce    = 8 // of these questions

	lookLimit = 10 * time.Second
)

// picture is the group as it was seen at one moment. It is not changed any more.
type picture struct {
	at    time.Time
	took  time.Duration // without the time for nodes that do not answer
	nodes []Node
	asked time.Time // when they had said how they do
	state []span    // since when each node does as it does, as far as was seen
	// locks are those of the source's list, in the order of their names. There were more
	// after them if bound is not empty: then it is the last one's name.
	locks   []lock
	entries []entry // of the list
	bound   string
	err     error // why the list is not whole
	// single are the locks whose own page is open, free or not.
	single map[string]lock
	// held has the holders, as far as they are known: while too few nodes answer, it has what
	// was known before.
	held map[string]holding
	// chart and earlier are of a history, nil if none is kept.
	chart   *chart
	earlier []string // of each node
}

// look takes a picture of the locks with a prefix, and of those with some names. Prev is the
// picture before, nil if there is none. A time that differs from prev only by what a question
// takes is kept as it was.
func look(ctx context.Context, source Source, prefix string, names []string, prev *picture) *picture {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	p := &picture{nodes: source.Nodes(ctx), asked: time.Now(), single: map[string]lock{}}
	page, err := source.Locks(ctx, prefix, MaxLocks)
	p.at, p.err, p.bound = time.Now(), err, page.After
	var ask []string
	for _, l := range page.Locks {
		p.locks = append(p.locks, lock{LockInfo: l, at: p.at})
		if (l.Waiting > 0 || l.MoreShares) && len(ask) < maxQueues {
			ask = append(ask, l.Name)
		}
	}
	for _, name := range names {
		if !slices.Contains(ask, name) {
			ask = append(ask, name)
		}
	}
	p.put(inspect(ctx, source, ask), names)
	p.took = time.Since(p.asked)
	if prev == nil {
		prev = &picture{}
	}
	p.steady(prev)
	return p
}

// inspect asks for some locks one by one.
func inspect(ctx context.Context, source Source, names []string) map[string]lock {
	var mu sync.Mutex
	var running sync.WaitGroup
	seen, next := map[string]lock{}, make(chan string)
	for range min(atOnce, len(names)) {
		running.Go(func() {
			for name := range next {
				info, err := source.Inspect(ctx, name)
				info.Name = name // which a refused one lacks
				mu.Lock()
				seen[name] = lock{LockInfo: info, at: time.Now(), queued: err == nil}
				mu.Unlock()
			}
		})
	}
	for _, name := range names {
		next <- name
	}
	close(next)
	running.Wait()
	return seen
}

// put takes what was seen of locks that were asked one by one, which is more than the list
// has. These are a few names to show, and others that are in the list.
func (p *picture) put(seen map[string]lock, names []string) {
	for _, name := range names {
		p.single[name] = seen[name]
	}
	for i, l := range p.locks {
		if s, found := seen[l.Name]; found && s.queued {
			p.locks[i] = s
		}
	}
}

// steady has what follows from the picture before.
func (p *picture) steady(prev *picture) {
	before := prev.byName()
	for i := range p.locks {
		p.locks[i].steady(before)
	}
	for name, l := range p.single {
		l.steady(before)
		p.single[name] = l
	}
	for i, n := range p.nodes {
		var before span
		if i < len(prev.state) {
			before = prev.state[i]
		}
		p.state = append(p.state, before.next(n.State, p.at))
	}
	p.entries = entriesOf(p.locks)
	p.held = p.holdings(prev)
}

func (p *picture) byName() map[string]lock {
	all := map[string]lock{}
	maps.Copy(all, p.single)
	for _, l := range p.locks {
		all[l.Name] = l
	}
	return all
}

// holdings returns the holder of each lock, or the last known one.
func (p *picture) holdings(prev *picture) map[string]holding {
	held := map[string]holding{}
	listed := map[string]bool{}
	for _, l := range p.locks {
		listed[l.Name] = true
		known, found := prev.held[l.Name]
		switch l.State {
		case admin.Held:
			h := l.holder()
			h.seen = p.at
			if found && h.same(known) {
				h.seen, h.token = known.seen, cmp.Or(h.token, known.token)
			}
			held[l.Name] = h
		case admin.Unclear:
			if found {
				held[l.Name] = known
			}
		}
	}
	if p.err != nil { // what is not listed may be there
		for name, h := range prev.held {
			if !listed[name] && len(held) < 2*MaxLocks {
				held[name] = h
			}
		}
	}
	return held
}

// waiting is how many wait, each of them once.
func (p *picture) waiting() (n int) {
	for _, e := range p.entries {
		n += e.queue().Waiting
	}
	return n
}
