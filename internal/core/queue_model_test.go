package core_test

import (
	"fmt"
	"math"
	"time"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// The model of waiting: three nodes that follow the rules of waiter queues, and clients that each
// want the lock once. These drive core.Attempt and core.Retry as the shell does, hold the lock and
// release it. All of that is the shipped code; what is written down here is how messages travel,
// and what the shell adds: a search needs clients that can be copied. TestQueueClientIsTheShell
// compares them with the shell.
//
// Nothing fails, but for nodes that are down all the time. Messages arrive in every order. But what
// a client and a node send each other arrives in the order sent, unless the model says otherwise.
// They are faster than every timer. The clock moves on only when none is under way, to the moment
// at which the next client tries again. Every client can be told.
//
// The answers to a release are left out. Clients do nothing with them but leave a
// queue once more, where one that has the lock by now had asked to stay.

const (
	maxClients    = 4
	maxQueueNodes = 5
	queueTTL      = 30 * time.Second
)

// queueModel is what is explored.
type queueModel struct {
	nodes   int // 0 is nNodes
	clients int
	// prepared are the clients that are there to begin with: the first one holds
	// the lock, the others wait, in all queues. The rest come at any moment, or
	// all at once.
	prepared int
	atOnce   bool
	maxHold  time.Duration       // timers go off during a hold until it has lasted this long
	random   [maxClients]float64 // what each passes to Retry.Refused
	apart    bool                // notifications may arrive before answers that were sent earlier
	loose    bool                // everything may: a client has many connections to a node
	down     int                 // nodes, the last ones
	broken   brokenQueue
}

// brokenQueue are the switches of the variants that must be refuted.
type brokenQueue struct {
	silent       bool // a lease that ends notifies no waiter
	noTimers     bool // no client tries again by itself
	byArrival    bool // a queue is in the order of arrival
	noRejoin     bool // an attempt that fails leaves the queues where it was granted
	notifiesSelf bool // a release notifies its own sender
	impatient    bool // a waiter tries at every notification
	lingers      bool // a client that has the lock stays in a queue that it hears of then
}

// queueState is one state of the model. It is a plain value without pointers.
type queueState struct {
	now     time.Duration
	nodes   [maxQueueNodes]queueNode
	clients [maxClients]client
	// ordered is set when the holder releases while all others are in all queues:
	// from then on the stamps decide who is served.
	ordered bool
}

// queueNode is a rule.Entry and a queue in few bytes.
type queueNode struct {
	owner    uint8 // client + 1, 0 for none
	attempt  uint8 // of the owner; 0 if the name is reserved for it
	expires  time.Duration
	register uint8
	waiters  [maxClients]node.Place
	length   int
}

type client struct {
	stage         clientStage
	attempt       uint8 // number of the latest one, from 1
	since         time.Duration
	core          core.Attempt
	retry         core.Retry
	said          [maxQueueNodes]core.Refusal // to the attempt under way
	out           [maxQueueNodes]pipe         // to the nodes
	in            [maxQueueNodes]pipe         // from them
	notifications [maxQueueNodes]uint8        // from them, where notifications travel apart
}

type clientStage uint8

const (
	absent clientStage = iota
	trying
	waiting
	holds
	served
)

// pipe is what is under way from one to another, the oldest first.
type pipe struct {
	length uint8
	msgs   [5]queueMsg
}

func (p *pipe) push(msg queueMsg) {
	p.msgs[p.length] = msg // panics if the model is too large
	p.length++
}

func (p *pipe) take(i uint8) queueMsg {
	msg := p.msgs[i]
	p.length--
	copy(p.msgs[i:], p.msgs[i+1:p.length+1])
	p.msgs[p.length] = queueMsg{}
	return msg
}

type queueMsg struct {
	op        queueOp
	attempt   uint8 // whose holder it is about, 0 for none
	number    uint8 // proposal, number to confirm, or register
	asked     uint8 // the number of a confirm, in the answer
	status    core.Status
	ahead     uint8
	stays     bool // the place has a stamp
	remaining time.Duration
}

type queueOp uint8

const (
	opAcquire queueOp = iota + 1
	opConfirm
	opRelease
	opNotify
)

// queueMove is one step.
type queueMove struct {
	kind   queueMoveKind
	client uint8
	node   uint8
	nth    uint8 // of the messages under way there
}

type queueMoveKind uint8

const (
	comes    queueMoveKind = iota // the client wants the lock
	executes                      // the node executes the client's request
	hears                         // the client hears from the node
	hearsNotification
	timer // the client's timer goes off
	letsGo
)

// waiterName is also the identity of the wait; stamps grow with the number.
func waiterName(i int) string { return [maxClients]string{"w1", "w2", "w3", "w4"}[i] }

func waiterIndex(waiter string) int { return int(waiter[1] - '1') }

// holderNames are the holders of all attempts; a client that needs more panics.
var holderNames = func() (names [maxClients][64]node.Holder) {
	for i := range names {
		for attempt := range names[i] {
			names[i][attempt] = node.Holder(fmt.Sprintf("%s#%d", waiterName(i), attempt))
		}
	}
	return names
}()

func holderName(i int, attempt uint8) node.Holder { return holderNames[i][attempt] }

// place is what a request says of the client's place.
func place(i int, stays bool) node.Place {
	p := node.Place{Waiter: waiterName(i)}
	if stays {
		p.Stamp = int64(i + 1)
	}
	return p
}

func (m *queueModel) initial() queueState {
	var s queueState
	for i := range s.clients {
		s.clients[i].retry = core.NewRetry(m.group())
	}
	for i := range m.prepared {
		m.apply(&s, queueMove{kind: comes, client: uint8(i)}, nil)
		for under := true; under; {
			under = false
			for _, mv := range m.moves(&s, nil) {
				if mv.kind == executes || mv.kind == hears || mv.kind == hearsNotification {
					m.apply(&s, mv, nil)
					under = true
					break
				}
			}
		}
	}
	for i := m.prepared; i < m.clients && m.atOnce; i++ {
		m.apply(&s, queueMove{kind: comes, client: uint8(i)}, nil)
	}
	return s
}

func (m *queueModel) group() int {
	if m.nodes == 0 {
		return nNodes
	}
	return m.nodes
}

// deliverable returns how many of the messages may arrive next.
func (m *queueModel) deliverable(p *pipe) uint8 {
	if m.loose {
		return p.length
	}
	return min(p.length, 1)
}

// moves appends every step that may come next.
func (m *queueModel) moves(s *queueState, moves []queueMove) []queueMove {
	quiet, holder, next := true, -1, time.Duration(math.MaxInt64)
	for i := range m.clients {
		c := &s.clients[i]
		for n := range m.group() {
			who, where := uint8(i), uint8(n)
			for nth := range m.deliverable(&c.out[n]) {
				moves, quiet = append(moves, queueMove{executes, who, where, nth}), false
			}
			for nth := range m.deliverable(&c.in[n]) {
				moves, quiet = append(moves, queueMove{hears, who, where, nth}), false
			}
			if c.notifications[n] > 0 {
				moves, quiet = append(moves, queueMove{hearsNotification, who, where, 0}), false
			}
		}
		switch c.stage {
		case absent:
			moves = append(moves, queueMove{kind: comes, client: uint8(i)})
		case holds:
			moves = append(moves, queueMove{kind: letsGo, client: uint8(i)})
			holder = i
		case waiting:
			next = min(next, c.retry.Due())
		}
	}
	if !quiet || next == math.MaxInt64 || m.broken.noTimers || holder >= 0 && next > s.clients[holder].since+m.maxHold {
		return moves
	}
	for i := range m.clients {
		if c := &s.clients[i]; c.stage == waiting && c.retry.Due() == next {
			moves = append(moves, queueMove{kind: timer, client: uint8(i)})
		}
	}
	return moves
}

// apply carries out a move and returns what is wrong then, if anything.
func (m *queueModel) apply(s *queueState, mv queueMove, t *trace) (violation string) {
	i, n := int(mv.client), int(mv.node)
	c := &s.clients[i]
	switch mv.kind {
	case comes:
		t.say("%s comes", waiterName(i))
		m.try(s, i, t)
	case timer:
		s.now = max(s.now, c.retry.Due())
		t.say("it is %v: the timer of %s goes off", s.now, waiterName(i))
		m.try(s, i, t)
	case executes:
		m.execute(s, i, n, mv.nth, t)
	case hearsNotification:
		c.notifications[n]--
		m.hearNotification(s, i, n, t)
	case hears:
		msg := c.in[n].take(mv.nth)
		if msg.op == opNotify {
			m.hearNotification(s, i, n, t)
			break
		}
		return m.hear(s, i, n, msg, t)
	case letsGo:
		t.say("%s releases", waiterName(i))
		if !s.ordered {
			s.ordered = m.allInQueue(s, i)
		}
		c.stage = served
		m.carryOut(s, i, c.attempt, c.core.StartRelease(s.now))
	}
	return ""
}

func (m *queueModel) allInQueue(s *queueState, but int) bool {
	for i := range m.clients {
		if i == but || s.clients[i].stage == served {
			continue
		}
		for n := range m.group() {
			if _, in := s.nodes[n].asQueue().Ahead(waiterName(i)); !in {
				return false
			}
		}
	}
	return true
}
