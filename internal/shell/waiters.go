package shell

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// waiters are those of a Client in the queues of its nodes. It begins to listen for notifications
// when a caller has to wait for the first time.
type waiters struct {
	group  *group
	client string
	queues core.Set // the nodes that keep queues

	mu        sync.Mutex // guards the rest
	byNumber  map[uint64]*waiter
	last      uint64   // number of the newest waiter
	reachable core.Set // the nodes that can notify, as far as is known
	state     listening
	then      []func() // once it listens
}

type listening uint8

const (
	notListening listening = iota
	beginning
	listens // every node has been tried
)

// maxStamp is the largest stamp that a node takes.
const maxStamp = 1 << 53

func newWaiters(g *group) *waiters {
	id := g.Env.ID()
	s := &waiters{group: g, client: string(id[:]), byNumber: make(map[uint64]*waiter)}
	for i, p := range g.Peers {
		if p.Queues() {
			s.queues = s.queues.With(i)
		}
	}
	return s
}

// listen makes the Client's waiters reachable, and calls then when every node has
// confirmed that, could not, or has had the time to. Nodes that come later say so by
// a notification.
func (s *waiters) listen(then func()) {
	s.mu.Lock()
	before := s.state
	if before != listens {
		s.state = beginning
		s.then = append(s.then, then)
	}
	s.mu.Unlock()
	switch before {
	case listens:
		then()
	case notListening:
		s.listenAll()
	}
}

func (s *waiters) listenAll() {
	g := s.group
	var left atomic.Int32
	left.Store(int32(s.queues.Len()))
	for i, p := range g.Peers {
		if !s.queues.Has(i) {
			continue
		}
		g.inflight.add(1)
		p.Listen(s.client, g.NodeTimeout, func(waiter string) { s.notified(i, waiter) }, func(err error) {
			switch {
			case err == nil:
				s.mu.Lock()
				s.reachable = s.reachable.With(i)
				s.mu.Unlock()
			case errors.Is(err, node.ErrMisconfigured) && g.CannotNotify != nil && !g.health.ails(i):
				g.CannotNotify(i, err)
			}
			if left.Add(-1) == 0 {
				s.listened()
			}
			g.inflight.add(-1)
		})
	}
	g.Env.AfterFunc(g.NodeTimeout, s.listened)
}

func (s *waiters) listened() {
	s.mu.Lock()
	then := s.then
	s.state, s.then = listens, nil
	s.mu.Unlock()
	for _, f := range then {
		f()
	}
}

// ready reports whether waiters are reachable, so that they can enter the queues with
// their first attempt.
func (s *waiters) ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == listens
}

// notifiable reports whether enough nodes can notify for a waiter to rely on it. A node that could
// once counts for ever: engines tell that they listen again, and not that they have ceased to. A
// waiter whose notifications are lost asks after core.Backstop all the same.
func (s *waiters) notifiable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reachable.Len() >= core.Quorum(len(s.group.Peers))
}

// notified takes what a node says: a node.Notice, or nothing.
func (s *waiters) notified(i int, said string) {
	now := s.group.Env.Now()
	if said == "" {
		s.mu.Lock()
		s.reachable = s.reachable.With(i)
		// In the order in which they came.
		all := slices.SortedFunc(maps.Values(s.byNumber), func(a, b *waiter) int { return cmp.Compare(a.number, b.number) })
		s.mu.Unlock()
		for _, w := range all {
			w.missed(now)
		}
		return
	}
	n, ok := node.ParseNotice(said)
	text, ours := strings.CutPrefix(n.Waiter, s.client+":")
	text, _, _ = strings.Cut(text, ":") // its label
	number, err := strconv.ParseUint(text, 10, 64)
	if !ok || !ours || err != nil {
		return
	}
	s.mu.Lock()
	w := s.byNumber[number]
	s.mu.Unlock()
	// Otherwise it has the lock already, and gives up with it what is reserved for it
	// on a node that was not needed.
	switch {
	case w == nil || w.notified(i, n, now):
	case n.Number == 0:
		s.leave(i, w) // it had gone, and the node has not heard of that
	case !w.holds(n.Number):
		s.giveBack(i, w, n.Number)
	}
}

func (s *waiters) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byNumber)
}

// enter gives a waiter its place, if it has none, and reports whether it has
// one. It has not before the nodes' time is known.
func (s *waiters) enter(w *waiter) bool {
	if w.inQueue() {
		return true
	}
	stamp, known := s.group.nodeTime(w.arrived)
	if !known {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.byNumber[s.last] = w
	w.number = s.last
	w.mu.Lock()
	defer w.mu.Unlock()
	var id [node.IDLength + 22 + node.MaxWaiterLabel]byte
	waiter := append(append(id[:0], s.client...), ':')
	if w.shared {
		waiter = append(waiter, '0') // as node.Place has it
	}
	waiter = strconv.AppendUint(waiter, w.number, 10)
	if w.label != "" {
		waiter = append(append(waiter, ':'), w.label...)
	}
	w.at = node.Place{Waiter: string(waiter), Stamp: min(max(stamp.Microseconds(), 1), maxStamp)}
	return true
}

// forget ends what a waiter is told.
func (s *waiters) forget(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byNumber, w.number)
}

// leaveAll takes a waiter that gave up out of the queues, and forgets it when all
// nodes have answered. One that has not may notify it until its queue is forgotten.
func (s *waiters) leaveAll(w *waiter) {
	s.send(w, s.queues, func(heard bool) {
		if heard {
			s.forget(w)
			return
		}
		s.group.Env.AfterFunc(rule.QueueExpiry, func() { s.forget(w) })
	})
}

// leave takes a waiter out of the queue on one node, and gives up what is reserved for it there. A
// node that does not hear of it notifies the waiter when its turn comes, see notified, or finds no
// waiter to notify.
func (s *waiters) leave(i int, w *waiter) {
	if s.queues.Has(i) {
		s.send(w, core.Set(0).With(i), func(bool) {})
	}
}

// giveBack releases what a node has given to a waiter and is not wanted: not with others of the
// same number.
func (s *waiters) giveBack(i int, w *waiter, number fence.Token) {
	r := w.returning(number)
	leave(s.group, core.Set(0).With(i), r, func(*leaving, core.Set, bool) {
		if r.Place.Stamp != 0 && !w.isWaiting() {
			s.leave(i, w) // it was put into the queue again
		}
	}, func(i int) { w.returned(i, number, s.group.Env.Now()) })
}

// giveBackAll releases all that was given to a waiter, but its lock.
func (s *waiters) giveBackAll(w *waiter) {
	for i := range s.group.Peers {
		if number := w.back(i); number != 0 {
			s.giveBack(i, w, number)
		}
	}
}

// send tells nodes that a waiter has gone. A node that does not hear of it is told when it answers
// again. An exclusive waiter that is first in the queue keeps others from sharing the name.
func (s *waiters) send(w *waiter, to core.Set, done func(heard bool)) {
	r := w.parting()
	leave(s.group, to, r, func(l *leaving, unheard core.Set, _ bool) {
		for i := range s.group.Peers {
			if unheard.Has(i) && r.Place.Waiter != "" && r.Place.Stamp == 0 {
				s.group.strays.add(i, r, true, &l.fanout.calls.of(i).heard)
			}
		}
		done(unheard == 0)
	}, nil)
}
