package core_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// The model: a quorum group of three nodes that follow package rule, and attempts that are
// core.Attempt. Every message between them is in flight until it is delivered, in any order, or
// never. Nothing of the algorithm is written down a second time here.
//
// Time stands still at zero under a TTL of an hour, so that no lease expires by the clock; instead
// any lease may vanish at any moment. That covers expiry under clocks of any rate, pauses of any
// length, releases and whatever else removes a lease. So none of these are moves of their own. A
// client that gives up, crashes or is cut off is one to which nothing is delivered any more.

const (
	nNodes     = 3
	quorum     = 2
	maxPending = 4 // confirms of one attempt on their way to one node; more panics
	maxRounds  = 3 // extensions of one attempt
	ttl        = time.Hour
	now        = time.Duration(0)
)

// model is what is explored: how large, and which variant of the rules.
type model struct {
	attempts  int
	proposals []uint8         // an attempt proposes any of these
	registers [][nNodes]uint8 // any of these to begin with
	epoch     uint8           // what was promised to one who shared the name, and has gone
	bumps     int             // how often another name of the stripe moves a register
	bumpBy    []uint8         // by how much; nil is by one
	timeouts  bool            // a confirm may time out, whatever becomes of it
	silences  bool            // a node may be silent to an acquire of a caller that waits, and answer later
	losses    int             // how often a node loses its memory, one at a time
	rounds    int             // extensions per attempt
	first     bool            // only the first attempt extends
	wants     []uint8         // an extension wants the mark to be its token and any of these; nil is none
	force     bool            // an operator may force the release, once
	jumps     int             // how often it may ask any node for one more than the largest answer
	together  bool            // a node may lose its memory while another one is out
	strays    bool            // a node that is out may make leases: see stray
	repeats   bool            // a network may have a node carry out an acquire or a confirm once more
	reserves  bool            // a free name may be reserved for a waiter, see kept
	givesUp   bool            // a raise may be given up, as time does
	inTurn    bool            // an attempt begins only after those before have held
	shares    bool            // an attempt may want to share the name
	downgrade bool            // one that has it alone may let others share it, when it extends
	exports   bool            // a process may export its lock, and another adopt it: see handoverMoves
	late      bool            // answers to earlier extensions are heard: see model_late_test.go
	goesOn    bool            // extensions that some nodes have refused go on
	gives     int             // an attempt may wait, and each node gives it the name so often at most: see giveMoves
	broken    broken
	tied      bool // each move is steps of a model that is proved
	tie       *tie // of one worker
}

// state is one state of the model. It is a plain value without pointers.
type state struct {
	nodes    [nNodes]modelNode
	attempts [maxAttempts]attempt
	bumps    uint8 // left
	losses   uint8 // left
	rebuilt  uint8 // largest register read for the node that is out
	floor    uint8 // largest register that the operator saw before, see onePass
	jumps    uint8 // left
}

// node is a rule.Entry in few bytes, and what is going on around it.
type modelNode struct {
	lease     int8               // the attempt that has it alone, or vacant
	shared    uint8              // the attempts that share it, a bit for each
	origins   [maxAttempts]uint8 // of their leases
	epoch     uint8              // what is promised to its readers
	register  uint8
	out       bool
	read      bool  // its register was read for the node that is out
	inspected bool  // its register was read by the operator
	forced    uint8 // what it answered to the operator's force release, 0: it has not
}

const vacant = -1

type attempt struct {
	core     core.Attempt
	begun    bool
	shared   uint8 // the first extension that shares the name; 0 if the attempt wanted to; never: maxRounds + 1
	alone    bool  // it extends as if it did not: see unshares
	proposal uint8
	acquires [nNodes]message
	confirms [nNodes][maxPending]message // in the order sent, which is that of the numbers
	extends  [nNodes]extends

	after   uint8 // the attempts that had finished when this one began
	old     bool  // began before a node lost its memory, and is still acquiring
	overdue bool  // its validity is over, and it has not heard that
	stale   bool  // the raise that is under way did
	tainted bool  // the current extension began when it was too late: it must not be carried
	taints  uint8 // the extensions that did, a bit for each
	ordered bool  // held before the operator looked at the registers
	handover
	gifts
}

// message is a request, or the reply to it, on its way.
type message struct {
	stage    stage
	asked    uint8 // the number of a confirm
	status   core.Status
	register uint8
}

type stage uint8

const (
	nothing  stage = iota
	request        // on its way to the node
	orphan         // the same, but the reply is not waited for any more
	answered       // the reply is on its way to the client
)

func (m message) reply() core.Reply {
	return core.Reply{Status: m.status, Register: fence.Token(m.register)}
}

// extends are an attempt's extensions at one node. The requests of different
// rounds ask for the same thing, and only the reply to the latest matters.
type extends struct {
	requests uint8 // a bit for each round
	reply    message
	raises   [maxRounds + 1]uint8   // the floor of the request that raises the mark, for each round
	agreed   message                // the reply to one of these
	agreedIn uint8                  // its round
	lates    [maxRounds + 1]message // replies of the rounds before
}

// move is one step: something happens at one place.
type move struct {
	kind    moveKind
	who     uint8 // attempt << 4 | node
	arg     uint8
	prelude uint8 // what happens at the node just before, see before
	vanish  uint8 // whose leases vanish there just before, a bit for each attempt
}

type moveKind uint8

const (
	begin moveKind = iota
	runAcquire
	runConfirm
	runExtend
	runRaise
	hearAcquire
	hearConfirm
	hearExtend
	hearRaise
	giveUpRaise
	hearLate
	goOn
	timeoutConfirm
	silence
	hearOther
	hurry
	startExtend
	exportLock
	adoptLock
	exporterExtends
	give
	hearNotice
	loseMemory
	readRegister
	admit
	inspect
	forceRelease
	runStray
)

func (mv move) attempt() int { return int(mv.who >> 4) }
func (mv move) node() int    { return int(mv.who & 15) }

func at(kind moveKind, attempt, node, arg int) move {
	return move{kind: kind, who: uint8(attempt<<4 | node), arg: uint8(arg)}
}

// before adds what happened at the node since its last operation. A lease that vanishes and a
// register that another name moves are not noticed before the next operation at that node. So to
// look at them just before it loses no behaviour and spares the states in between.
func (mv move) before(vanish bool, bump uint8) move {
	mv.prelude = bump << 2
	if vanish {
		mv.vanish = everybody
	}
	return mv
}

const everybody = 1<<maxAttempts - 1

// whileOpen says that the operation finds one more who shares the name.
func (mv move) whileOpen() move {
	mv.prelude |= 1
	return mv
}

// whileKept says that the operation finds the name reserved for a waiter.
func (mv move) whileKept() move {
	mv.prelude |= 2
	return mv
}

func (mv move) open() bool  { return mv.prelude&1 != 0 }
func (mv move) kept() bool  { return mv.prelude&2 != 0 }
func (mv move) bump() uint8 { return mv.prelude >> 2 }

func (m *model) initialStates() []state {
	registers := m.registers
	if registers == nil {
		registers = [][nNodes]uint8{{}}
	}
	states := make([]state, len(registers))
	for i, of := range registers {
		s := &states[i]
		s.bumps, s.losses, s.jumps = uint8(m.bumps), uint8(m.losses), uint8(m.jumps)
		for n := range s.nodes {
			s.nodes[n] = modelNode{lease: vacant, register: of[n], epoch: m.epoch}
		}
	}
	return states
}

// moves appends every step that may come next.
func (m *model) moves(s *state, moves []move) []move {
	if !m.undecided(s) {
		return moves
	}
	begun := true
	for i := range m.attempts {
		a := &s.attempts[i]
		if !a.begun {
			if begun && (!m.inTurn || i == 0 || s.attempts[i-1].wasHeld()) {
				// The attempts are interchangeable: they begin in order.
				for _, p := range m.proposals {
					moves = append(moves, at(begin, i, 0, int(p)))
					if m.shares {
						moves = append(moves, at(begin, i, 1, int(p)))
					}
				}
				if m.gives > 0 {
					moves = append(moves, at(begin, i, 2, 0))
				}
			}
			begun = false
			continue
		}
		for n := range nNodes {
			moves = m.messageMoves(s, i, n, moves)
		}
		if round, _ := a.core.Extension(); a.core.Phase() == core.Holding && int(round) < m.roundsOf(i) &&
			(!m.exports || a.adopted) {
			moves = append(moves, at(startExtend, i, 0, 0))
			if m.downgrade && a.shared > maxRounds {
				for _, w := range append([]uint8{0}, m.wants...) {
					moves = append(moves, at(startExtend, i, 1, int(w)))
				}
			}
			if m.broken.unshares && a.shares() {
				moves = append(moves, at(startExtend, i, 1, 0))
			}
			for _, w := range m.wants {
				moves = append(moves, at(startExtend, i, 0, int(w)))
			}
		}
		if _, raising := a.core.Raising(); m.givesUp && raising && m.alive(s, i) {
			moves = append(moves, at(giveUpRaise, i, 0, 0))
		}
		if m.silences && a.core.MayHurry() {
			moves = append(moves, at(hurry, i, 0, 0))
		}
		moves = m.lateMoves(a, i, moves)
		moves = m.handoverMoves(s, i, moves)
		moves = m.giveMoves(s, i, moves)
	}
	return m.nodeMoves(s, moves)
}

func (m *model) messageMoves(s *state, i, n int, moves []move) []move {
	a, node := &s.attempts[i], &s.nodes[n]
	own, leased := node.has(i), node.leased() != 0
	switch a.acquires[n].stage {
	case request:
		// What happens to the register of a lease that stays matters later.
		moves = m.with(s, n, at(runAcquire, i, n, 0), true, !leased || a.shared == 0, moves)
		moves = m.open(s, n, at(runAcquire, i, n, 0), a.shared == 0, moves)
		moves = m.kept(s, i, n, at(runAcquire, i, n, 0), moves)
		if m.mayStray(s, n) {
			moves = append(moves, at(runStray, i, n, 0))
		}
	case answered:
		moves = append(moves, at(hearAcquire, i, n, 0))
	}
	if stage := a.acquires[n].stage; m.silences && (stage == request || stage == answered) &&
		a.core.Phase() == core.Acquiring && !a.core.IsSilent(n) {
		moves = append(moves, at(silence, i, n, 0))
	}
	moves = m.otherMoves(s, i, n, moves)
	for slot, msg := range a.confirms[n] {
		switch msg.stage {
		case request, orphan:
			moves = m.with(s, n, at(runConfirm, i, n, slot), own, own || m.broken.confirmAnyway, moves)
			if m.broken.takesKept() {
				moves = m.kept(s, i, n, at(runConfirm, i, n, slot), moves)
			}
		case answered:
			moves = append(moves, at(hearConfirm, i, n, slot))
		}
		if m.timeouts && a.core.Phase() == core.Confirming && (msg.stage == request || msg.stage == answered) {
			moves = append(moves, at(timeoutConfirm, i, n, slot))
		}
	}
	for round := 0; round <= m.rounds; round++ { // 0: one that is not waited for
		if a.extends[n].requests&(1<<round) != 0 {
			moves = m.extendMoves(s, i, n, at(runExtend, i, n, round),
				!leased || own && a.extendFloor(uint8(round)) > 0 || round >= int(a.shared) && !own, moves)
			moves = m.open(s, n, at(runExtend, i, n, round), round >= int(a.shared), moves)
		}
		if a.extends[n].raises[round] != 0 {
			moves = m.extendMoves(s, i, n, at(runRaise, i, n, round), own || !leased || round >= int(a.shared), moves)
			moves = m.open(s, n, at(runRaise, i, n, round), round >= int(a.shared), moves)
		}
	}
	if a.extends[n].reply.stage == answered {
		moves = append(moves, at(hearExtend, i, n, 0))
	}
	if a.extends[n].agreed.stage == answered {
		moves = append(moves, at(hearRaise, i, n, 0))
	}
	return moves
}

func (m *model) extendMoves(s *state, i, n int, mv move, registerMatters bool, moves []move) []move {
	moves = m.with(s, n, mv, true, registerMatters, moves)
	if m.broken.extendsReserved {
		moves = m.kept(s, i, n, mv, moves)
	}
	return moves
}

func (m *model) nodeMoves(s *state, moves []move) []move {
	out, unread := -1, 0
	for n := range s.nodes {
		if s.nodes[n].out && out < 0 {
			out = n
		} else if !s.nodes[n].read {
			unread++
		}
	}
	for n := range s.nodes {
		switch {
		case (out < 0 || m.together && !s.nodes[n].out) && s.losses > 0 &&
			(!m.exports || s.others(-1, func(a *attempt) bool { return a.exported })):
			moves = append(moves, at(loseMemory, 0, n, 0))
		case n == out && unread <= m.broken.unread:
			moves = append(moves, at(admit, 0, n, 0))
		case out >= 0 && n != out && !s.nodes[n].read && (!s.nodes[n].out || m.broken.readsOut) && m.mayRebuild(s):
			moves = m.with(s, n, at(readRegister, 0, n, 0), false, true, moves)
		}
	}
	if !m.force {
		return moves
	}
	inspected := s.count(func(n modelNode) bool { return n.inspected })
	again := s.forceNext()
	for n := range s.nodes {
		forced := s.nodes[n].forced != 0
		switch {
		case m.broken.onePass && inspected < quorum:
			if !s.nodes[n].inspected {
				moves = m.with(s, n, at(inspect, 0, n, 0), false, true, moves)
			}
		case m.broken.onePass || m.broken.noFloor:
			if !forced {
				moves = m.with(s, n, at(forceRelease, 0, n, 0), false, true, moves)
			}
		default:
			if again.Has(n) {
				moves = m.with(s, n, at(forceRelease, 0, n, 0), false, true, moves)
			}
			if again != 0 && s.jumps > 0 {
				moves = m.with(s, n, at(forceRelease, 0, n, 1), false, true, moves)
			}
		}
	}
	return moves
}

// forceNext returns whom the operator asks next.
func (s *state) forceNext() core.Set {
	to, _ := s.force()
	return to
}

func (s *state) force() (to core.Set, floor fence.Token) {
	var answers [nNodes]fence.Token
	for n := range s.nodes {
		answers[n] = fence.Token(s.nodes[n].forced)
	}
	return core.ForceNext(answers[:])
}

// released reports whether the operator's force release is done.
func (m *model) released(s *state) bool {
	if m.broken.onePass || m.broken.noFloor {
		return s.count(func(n modelNode) bool { return n.forced != 0 }) >= quorum
	}
	return m.force && s.forceNext() == 0
}

// mayRebuild is the quarantine: every attempt from before the loss has either
// finished or run out of validity. That it ran out needs no move: it will
// never hold, see undecided. Where nodes are silent, it may hear of grants
// after that: see overdue.
func (m *model) mayRebuild(s *state) bool {
	if m.broken.rebuiltEarly || m.silences {
		return true
	}
	for i := range m.attempts {
		if s.attempts[i].old {
			return false
		}
	}
	return true
}

// with appends a move at a node, with everything that may have happened there since. That is a
// lease that vanished (if there is one, and it matters), and a register that another name moved (if
// it matters).
func (m *model) with(s *state, n int, mv move, leaseMatters, registerMatters bool, moves []move) []move {
	if s.nodes[n].out {
		return append(moves, mv)
	}
	leased := s.nodes[n].leased()
	for mask := range leased + 1 {
		if mask&^leased != 0 || mask != 0 && !leaseMatters {
			continue
		}
		vanish, mv := mask != 0, mv
		if mv.vanish = mask; mask == leased && vanish {
			mv.vanish = everybody
		}
		moves = append(moves, mv)
		if (registerMatters || vanish) && s.bumps > 0 {
			if m.bumpBy == nil {
				mv.prelude |= 1 << 2
				moves = append(moves, mv)
				mv.prelude &^= 1 << 2
			}
			for _, by := range m.bumpBy {
				mv := mv
				mv.prelude |= by << 2
				moves = append(moves, mv)
			}
		}
	}
	return moves
}

// kept appends a move at a node that keeps the name for a waiter when the operation gets there.
// That is all that queues of waiters, of any length and in any order, add to a node. It is a lease
// of another kind of holder. It appears whenever the name is free, refuses all requests, and moves
// no register. The lease is gone whenever that suits (it expires, its waiter claims it or gives it
// up). Since it may come and go at any moment, it is there for one operation and in no state.
//
// It is left out where it changes nothing, under the shipped rules:
//   - at a node that is out, which refuses before it looks at the lease;
//   - before an operation that is not waited for: refused, it is as if it had never arrived, which
//     it may do without a queue;
//   - while the lease is another attempt's: the refusal is the same, and that
//     lease may vanish later just as well. The attempt's own lease refuses an
//     acquire too, but not an extend: there it may vanish first;
//   - before a confirm, to which a lease that is another's and one that is gone
//     are the same;
//   - before an extend, to which a reservation is no holder's lease, and one that vanishes;
//   - together with a register that another name moves: the operation is refused without a look at
//     it. So it may be moved before the next one.
func (m *model) kept(s *state, i, n int, mv move, moves []move) []move {
	node := &s.nodes[n]
	if !m.reserves || node.out || !m.alive(s, i) {
		return moves
	}
	switch {
	case node.leased() == 0, s.attempts[i].shared == 0 && node.shared != 0:
		// A client that wants to share a name is refused too while others share it, if another
		// waiter is first in the queue.
		moves = append(moves, mv.whileKept())
	case m.broken.takesKept():
		moves = append(moves, mv.before(true, 0).whileKept())
	}
	return moves
}

// undecided reports whether an invariant can still be violated. For that, two
// attempts must hold, or have held, or be able to get there; a state in which
// all but one have failed is visited, but there is nothing to look for behind it.
func (m *model) undecided(s *state) bool {
	matter, live := 0, false
	for i := range m.attempts {
		alive := m.alive(s, i)
		live = live || alive
		if alive || s.attempts[i].wasHeld() {
			matter++
		}
	}
	return live && (matter >= 2 || m.alone() && matter >= 1)
}

// alive reports whether an attempt can still take a step that violates an
// invariant: become a holder, or have a tainted extension carried. What is
// delivered to an attempt that is not makes no difference any more.
func (m *model) alive(s *state, i int) bool {
	a := &s.attempts[i]
	switch a.core.Phase() {
	case core.Acquiring, core.Confirming:
		return true
	case core.Over:
		if !a.onItsWay() {
			return false
		}
	}
	round, state := a.core.Extension()
	if a.core.Phase() == core.Holding && m.exports && s.others(i, func(b *attempt) bool { return b.offered != 0 }) {
		return false
	}
	if a.core.Phase() == core.Holding && int(round) == m.roundsOf(i) {
		return a.tainted && state != core.Carried || m.late && a.mayTaint()
	}
	for j := range m.attempts {
		b := &s.attempts[j]
		acquiring := b.core.Phase() == core.Acquiring || b.core.Phase() == core.Confirming
		if j != i && (acquiring || b.wasHeld() && b.core.Token() > a.core.Token()) {
			return true
		}
	}
	return m.alone()
}

// alone reports whether there is something to be violated by one attempt.
func (m *model) alone() bool { return m.force || m.exports && m.attempts == 1 }

func (s *state) count(is func(modelNode) bool) int {
	count := 0
	for _, n := range s.nodes {
		if is(n) {
			count++
		}
	}
	return count
}

// serve has a node carry out an operation on a name without waiters.
func serve(e *rule.Entry, op node.Op, holder node.Holder, token fence.Token, shared bool) core.Reply {
	a, _ := rule.ServeShared(e, nil, now, node.Request{Op: op, Holder: holder, TTL: ttl, Token: token, Shared: shared})
	return core.Reply{Status: a.Status, Register: a.Register}
}

// trace is a path in words. A nil one takes none.
type trace []string

func (t *trace) say(format string, args ...any) {
	if t != nil {
		*t = append(*t, fmt.Sprintf(format, args...))
	}
}

// until returns the trace as numbered lines, and what it led to.
func (t trace) until(violation string) string {
	var b strings.Builder
	for i, line := range t {
		fmt.Fprintf(&b, "  %2d. %s\n", i+1, line)
	}
	return b.String() + "  violated: " + violation
}

func name(attempt int) string { return "ABC"[attempt : attempt+1] }

func holder(attempt int) node.Holder { return node.Holder(name(attempt)) }

func (s *state) entry(n int) rule.Entry {
	at := &s.nodes[n]
	e := rule.Entry{Register: fence.Token(at.register), Out: at.out}
	switch {
	case at.lease != vacant:
		i := int(at.lease)
		e.Holder, e.Expires, e.Origin = s.attempts[i].leaseHolder(i, at.origins[i]), now+ttl, fence.Token(at.origins[i])
	case at.shared != 0:
		e.Holder, e.Expires = sharedHolder(at, false), now+ttl
	}
	return e
}

func (s *state) setEntry(n int, e rule.Entry) {
	at := &s.nodes[n]
	at.drop(everybody)
	switch {
	case !e.Leased(now) || e.Holder.Reserves():
	case e.Holder.Shared():
		at.epoch = 0
		at.readHolder(e.Holder)
	default:
		at.lease, at.epoch = int8(e.Holder[0]-'A'), 0
		at.origins[at.lease] = small(e.Origin)
	}
	at.register, at.out = small(e.Register), e.Out
}

func small(t fence.Token) uint8 {
	if t > 255 {
		panic("the model is too large for a byte")
	}
	return uint8(t)
}
