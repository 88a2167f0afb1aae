package ui

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// How often the group is looked at.
const (
	every = time.Second
	// Looking takes at most one part in so many of the time. With thousands of locks, or
	// millions of other keys, a look costs the servers something.
	share = 5
	rest  = 30 * time.Second // at most
	// linger is how long it goes on when no page is open any more. A page may be reloaded, or
	// reload itself because it has no script.
	linger = 15 * time.Second
	// For the history alone, the group is looked at less often, and for a smaller part of the time.
	seldom      = 5 * time.Second
	seldomShare = 20
)

// poller takes pictures for all who look together: as long as one does or, if it keeps a
// history, always. It is safe for concurrent use.
type poller struct {
	source  Source
	prefix  string
	trail   *trail
	history *history // nil if none is kept; the loop's
	ctx     context.Context
	ended   *sync.WaitGroup

	mu      sync.Mutex
	names   map[string]int // how many look at a lock by itself
	viewers int
	touched time.Time // the last request for a single picture
	running bool
	idle    bool          // it is looked for the history alone
	picture *picture      // nil if there is none yet, or the loop has ended
	changed chan struct{} // closed when there is another picture
	hurry   chan struct{}
}

// newPoller returns one that ends with ctx, and is waited for with ended. It keeps a history of
// the last while; with 0 it keeps none, and looks only while a page is open.
func newPoller(ctx context.Context, ended *sync.WaitGroup, source Source, prefix string, t *trail,
	lasting time.Duration) *poller {
	p := &poller{
		source: source, prefix: prefix, trail: t, ctx: ctx, ended: ended,
		names: map[string]int{}, changed: make(chan struct{}), hurry: make(chan struct{}, 1),
	}
	if lasting > 0 {
		p.history = &history{lasting: lasting}
		p.run()
	}
	return p
}

// watch tells that a page is open until leave is called: that of a lock or, if name is empty,
// that of all.
func (p *poller) watch(name string) (leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.viewers++
	if name != "" {
		p.names[name]++
	}
	p.run()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.viewers--
		p.touched = time.Now()
		if p.names[name]--; p.names[name] <= 0 {
			delete(p.names, name)
		}
	}
}

// now returns the newest picture. It waits for the first one.
func (p *poller) now(ctx context.Context) (*picture, error) {
	for {
		p.mu.Lock()
		p.touched = time.Now()
		p.run()
		picture, changed := p.picture, p.changed
		p.mu.Unlock()
		if picture != nil {
			return picture, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.ctx.Done():
			return nil, p.ctx.Err()
		}
	}
}

// current returns the newest picture, nil if there is none, and what is closed when there
// is another.
func (p *poller) current() (*picture, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.picture, p.changed
}

// soon has the next picture taken now.
func (p *poller) soon() {
	select {
	case p.hurry <- struct{}{}:
	default:
	}
}

// run starts the loop if it does not run, or has the next look now if there is much time until
// then. The caller has the mutex, or the poller for itself.
func (p *poller) run() {
	if p.idle {
		p.idle = false
		p.soon()
	}
	if p.running || p.ctx.Err() != nil {
		return
	}
	p.running = true
	p.ended.Go(p.loop)
}

func (p *poller) loop() {
	_, before := p.trail.about(0, "")
	var prev *picture
	for p.stays() {
		next := look(p.ctx, p.source, p.prefix, p.watched(), prev)
		if p.ctx.Err() != nil {
			break
		}
		switch {
		case prev != nil:
			p.trail.add(changes(prev, next)...)
		case before == 0:
			p.trail.add(event{kind: noticed, at: next.at, text: "What changes from now on is told here."})
		default:
			p.trail.add(event{kind: noticed, at: next.at,
				text: "No page was open until now: what happened meanwhile is not known."})
		}
		p.record(prev, next)
		p.publish(next)
		prev = next
		select {
		case <-time.After(p.pause(next)):
		case <-p.hurry:
		case <-p.ctx.Done():
		}
	}
}

// rest returns the time from this picture to the next look.
func (p *picture) rest() time.Duration { return min(max(every, (share-1)*p.took), rest) }

// record has the history in a picture, for all who show it.
func (p *poller) record(prev, next *picture) {
	if p.history == nil {
		return
	}
	moved := 0
	if prev != nil {
		moved = moves(prev, next)
	}
	p.history.record(next.at, next.state, next.waiting(), moved)
	next.chart = chartOf(p.history, next.at)
	for _, spans := range p.history.nodes {
		next.earlier = append(next.earlier, earlier(spans, p.history.lasting, next.at))
	}
}

// pause returns the time from a picture to the next look, with a history or without.
func (p *poller) pause(after *picture) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idle = !p.looked(); p.idle {
		return min(max(seldom, (seldomShare-1)*after.took), rest)
	}
	return after.rest()
}

// looked reports whether a page is open, or was a moment ago. The caller has the mutex.
func (p *poller) looked() bool { return p.viewers > 0 || time.Since(p.touched) < linger }

// stays reports whether the loop goes on. If not, it has ended by that.
func (p *poller) stays() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() == nil && (p.looked() || p.history != nil) {
		return true
	}
	p.running, p.picture = false, nil
	return false
}

func (p *poller) watched() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.names))
}

func (p *poller) publish(next *picture) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.picture = next
	close(p.changed)
	p.changed = make(chan struct{})
}
