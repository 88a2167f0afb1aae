package shell

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
)

// strays are leases that may turn up on a node without a holder. They are of locks that are over,
// whose release the node has not answered. A server that was stopped, or cut off, executes what
// lies in its sockets when it goes on, an acquire of a waiter for example; that lease would keep
// the lock's holder from its own at this node, for a TTL. So the release is repeated: one of them
// while the node does not answer, and all of them, a few times, when it does. The same for waiters
// that have gone, in the queue of a node that has not heard of that.
type strays struct {
	env   Env
	ttl   time.Duration
	bound bool // leases do not end by time: nothing is given up
	// send sends a release, and says whether it was answered, and freed a lease.
	send func(peer int, r node.Request, done func(heard, freed bool))

	mu    sync.Mutex // guards the rest
	peers []strayPeer
	timer Timer // nil while there are none
	over  bool
}

// strayPeer is what is kept of a peer.
type strayPeer struct {
	all    []*stray      // the oldest first
	under  int           // how many are under way
	silent atomic.Bool   // it has not answered one of them: answers to others need no mutex otherwise
	next   time.Duration // when it is asked again, if it does not answer
	gap    time.Duration // and the time after that, ever longer
	slow   time.Duration // twice what its late answers take, if it gives any
}

// stray is what may be left on one node.
type stray struct {
	request node.Request
	settled bool // one answer to the release is enough
	silent  bool // an answer may come: a server that is behind is not asked soon again
	since   time.Duration
	heard   time.Duration // when the node answered again
	asked   time.Duration // when it was asked last
	next    time.Duration // when it is asked again
	due     bool          // it is to be asked as soon as there is room
	until   time.Duration // when the lease has ended, if it ever was there; 0: the node does not answer
}

// of reports whether it is of the same release.
func (t *stray) of(r *node.Request) bool {
	waiter := t.request.Place.Waiter
	return t.request.Holder == r.Holder && (waiter == "" || waiter == r.Place.Waiter)
}

const (
	fewStrays = 4    // under way to a node
	maxStrays = 1024 // of a node: what can be under way to it when it stops, and more
	// longestStray is for how many TTLs the end of an outage is waited for.
	longestStray = 30
)

// lost tells that the answer of a release does not come any more.
func (s *strays) lost(peer int, r *node.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.peers[peer].all {
		if t.of(r) {
			t.silent = false
		}
	}
}

// add takes a release that was not answered. It is of a lock or, without a holder, of a waiter that
// has gone and may be in the node's queue. Settled: no lease can turn up any more that is not there
// already. Its answer may still come unless heard says that it has, or cannot.
func (s *strays) add(peer int, r node.Request, settled bool, heard *atomic.Bool) {
	now := s.env.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.peers[peer]
	if s.over || slices.ContainsFunc(p.all, func(t *stray) bool { return t.of(&r) }) {
		return
	}
	if len(p.all) == maxStrays {
		p.all = slices.Delete(p.all, 0, 1)
	}
	if !p.silent.Load() {
		p.next, p.gap = now+max(s.ttl/6, p.slow), max(s.ttl/3, p.slow)
	}
	p.silent.Store(true)
	p.all = append(p.all, &stray{request: r, settled: settled, silent: !heard.Load(), since: now, asked: now})
	s.rest()
}

// rest sets the timer.
func (s *strays) rest() {
	if s.timer == nil {
		s.timer = s.env.AfterFunc(s.ttl/6, s.wake)
	}
}

// wake is the timer's. A node that does not answer is asked for one thing only. If the answer may
// still come, it may be behind, and is asked less and less often. So is one that does answer: what
// comes late comes soon, as a rule.
func (s *strays) wake() {
	now := s.env.Now()
	s.mu.Lock()
	s.timer = nil
	for peer := range s.peers {
		p := &s.peers[peer]
		p.all = slices.DeleteFunc(p.all, func(t *stray) bool {
			return !s.bound && (t.until != 0 && now >= t.until || now-t.since >= longestStray*s.ttl)
		})
		p.note()
		asked := false
		for _, t := range p.all {
			switch {
			case t.until == 0 && !asked && (!t.silent || now >= p.next):
				asked, t.asked, t.due = true, now, true
				p.next, p.gap = now+p.gap, min(2*p.gap, s.ttl)
			case t.until != 0 && now >= t.next:
				t.next, t.due = now+2*(now-t.heard)+s.ttl/6, true
			}
		}
		if len(p.all) > 0 {
			s.rest()
		}
	}
	s.mu.Unlock()
	for peer := range s.peers {
		s.repeat(peer)
	}
}

// note notes whether there is one that the node has not answered.
func (p *strayPeer) note() {
	p.silent.Store(slices.ContainsFunc(p.all, func(t *stray) bool { return t.until == 0 }))
}

// works tells that a node has answered a request in time. If it has not answered a release that was
// sent before, that is lost.
func (s *strays) works(peer int, sent time.Duration) {
	p := &s.peers[peer]
	if !p.silent.Load() {
		return
	}
	now := s.env.Now()
	s.mu.Lock()
	if p.under == 0 {
		i := slices.IndexFunc(p.all, func(t *stray) bool { return t.until == 0 && !t.due && t.asked < sent })
		if i >= 0 {
			p.all[i].asked, p.all[i].due = now, true
		}
	}
	s.mu.Unlock()
	s.repeat(peer)
}

// repeat sends what is due to a node, a few at a time.
func (s *strays) repeat(peer int) {
	p := &s.peers[peer]
	for {
		s.mu.Lock()
		i := -1
		if p.under < fewStrays && !s.over {
			i = slices.IndexFunc(p.all, func(t *stray) bool { return t.due })
		}
		if i < 0 {
			s.mu.Unlock()
			return
		}
		t := p.all[i]
		t.due = false
		p.under++
		s.mu.Unlock()
		s.send(peer, t.request, func(heard, freed bool) {
			s.mu.Lock()
			p.under--
			if heard {
				p.slow = 0
				s.heard(p, t, freed, false)
			}
			s.mu.Unlock()
			s.repeat(peer)
		})
	}
}

// heard is told, with the mutex held, that a node answers, and so that what may turn up there has a
// TTL from now on. What was there, and is freed, does not come again. A node that answers late may
// answer the others, too.
func (s *strays) heard(p *strayPeer, which *stray, freed, late bool) {
	now := s.env.Now()
	if s.over {
		return
	}
	for _, t := range p.all {
		if t.until == 0 && (t == which || !late || !t.silent) {
			t.heard, t.next, t.until = now, now+s.ttl/6, now+cmp.Or(t.request.TTL, s.ttl) // a waiter has none
			t.due = t != which
		}
	}
	if freed || which.settled {
		p.all = slices.DeleteFunc(p.all, func(t *stray) bool { return t == which })
	}
	p.note()
}

// answered tells that a release was answered after its time was up.
func (s *strays) answered(peer int, r *node.Request, freed bool) {
	p, now := &s.peers[peer], s.env.Now()
	s.mu.Lock()
	i := slices.IndexFunc(p.all, func(t *stray) bool { return t.of(r) })
	if i >= 0 {
		p.slow = min(2*(now-p.all[i].asked), s.ttl)
		p.next = max(p.next, now+p.slow)
		s.heard(p, p.all[i], freed, true)
	}
	s.mu.Unlock()
	s.repeat(peer)
}

// end forgets all of them.
func (s *strays) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for i := range s.peers {
		s.peers[i].all = nil
		s.peers[i].note()
	}
	if s.timer != nil {
		s.timer.Stop()
	}
}

// len returns how many there are.
func (s *strays) len() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.peers {
		n += len(s.peers[i].all)
	}
	return n
}
