package shell

import (
	"cmp"
	"slices"
	"sync"
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

	mu    sync.Mutex
	peers [][]*stray // by peer, the oldest first
	under []int      // how many are under way, by peer
	timer Timer      // nil while there are none
	over  bool
}

// stray is what may be left on one node.
type stray struct {
	request node.Request
	settled bool // one answer to the release is enough
	silent  bool // an answer may come: a server that is behind is not asked for more
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

// add takes a release that was not answered. Settled: no lease can turn up any more that is
// not there already.
// Silent: its answer may still come, unless it is said to be lost.
func (s *strays) add(peer int, r node.Request, settled, silent bool) {
	r.Place = node.Place{} // the waiter has gone on since
	s.put(peer, r, settled, silent)
}

// addWaiter takes a release, without a holder, that was not answered: of a waiter that has gone,
// and may be in the node's queue.
func (s *strays) addWaiter(peer int, r node.Request, silent bool) { s.put(peer, r, true, silent) }

// lost tells that the answer of a release does not come any more.
func (s *strays) lost(peer int, r *node.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.peers[peer] {
		if t.of(r) {
			t.silent = false
		}
	}
}

func (s *strays) put(peer int, r node.Request, settled, silent bool) {
	now := s.env.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || slices.ContainsFunc(s.peers[peer], func(t *stray) bool { return t.of(&r) }) {
		return
	}
	if len(s.peers[peer]) == maxStrays {
		s.peers[peer] = slices.Delete(s.peers[peer], 0, 1)
	}
	s.peers[peer] = append(s.peers[peer], &stray{request: r, settled: settled, silent: silent, since: now, asked: now})
	s.rest()
}

// rest sets the timer.
func (s *strays) rest() {
	if s.timer == nil {
		s.timer = s.env.AfterFunc(s.ttl/6, s.wake)
	}
}

// wake is the timer's. A node that does not answer is asked for one thing only. One that
// does is asked less and less often: what comes late comes soon, as a rule.
func (s *strays) wake() {
	now := s.env.Now()
	s.mu.Lock()
	s.timer = nil
	for peer, all := range s.peers {
		all = slices.DeleteFunc(all, func(t *stray) bool {
			return !s.bound && (t.until != 0 && now >= t.until || now-t.since >= longestStray*s.ttl)
		})
		s.peers[peer] = all
		asked := false
		for _, t := range all {
			switch {
			case t.until == 0 && !asked && (!t.silent || now-t.since >= max(s.ttl, 2*(t.asked-t.since))):
				asked, t.asked, t.due = true, now, true
			case t.until != 0 && now >= t.next:
				t.next, t.due = now+2*(now-t.heard)+s.ttl/6, true
			}
		}
		if len(all) > 0 {
			s.rest()
		}
	}
	s.mu.Unlock()
	for peer := range s.under {
		s.repeat(peer)
	}
}

// repeat sends what is due to a node, a few at a time.
func (s *strays) repeat(peer int) {
	for {
		s.mu.Lock()
		i := -1
		if s.under[peer] < fewStrays && !s.over {
			i = slices.IndexFunc(s.peers[peer], func(t *stray) bool { return t.due })
		}
		if i < 0 {
			s.mu.Unlock()
			return
		}
		t := s.peers[peer][i]
		t.due = false
		s.under[peer]++
		s.mu.Unlock()
		s.send(peer, t.request, func(heard, freed bool) {
			s.mu.Lock()
			s.under[peer]--
			if heard {
				s.heard(peer, t, freed)
			}
			s.mu.Unlock()
			s.repeat(peer)
		})
	}
}

// heard is told, with the mutex held, that a node answers, and so that what may turn up there has a
// TTL from now on. What was there, and is freed, does not come again.
func (s *strays) heard(peer int, which *stray, freed bool) {
	now := s.env.Now()
	if s.over {
		return
	}
	if freed || which.settled {
		s.peers[peer] = slices.DeleteFunc(s.peers[peer], func(t *stray) bool { return t == which })
	}
	for _, t := range s.peers[peer] {
		if t.until == 0 {
			t.heard, t.next, t.until = now, now+s.ttl/6, now+cmp.Or(t.request.TTL, s.ttl) // a waiter has none
			t.due = t != which
		}
	}
}

// answered tells that a release was answered after its time was up.
func (s *strays) answered(peer int, r *node.Request, freed bool) {
	s.mu.Lock()
	i := slices.IndexFunc(s.peers[peer], func(t *stray) bool { return t.of(r) })
	if i >= 0 {
		s.heard(peer, s.peers[peer][i], freed)
	}
	s.mu.Unlock()
	s.repeat(peer)
}

// end forgets all of them.
func (s *strays) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over, s.peers = true, make([][]*stray, len(s.peers))
	if s.timer != nil {
		s.timer.Stop()
	}
}

// len returns how many there are.
func (s *strays) len() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, all := range s.peers {
		n += len(all)
	}
	return n
}
