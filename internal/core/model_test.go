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
	exports   bool            // a process may export its lock, and another adopt it: see exportMoves
	late      bool            // answers to earlier extensions are heard: see model_late_test.go
	goesOn    bool            // extensions that some nodes have refused go on
	gives     int             // an attempt may wait, and each node gives it the name so often at most: see giveMoves
	grouped   bool            // see grouped
	deeds     func(deed)      // hears of what attempts do
	sees      func(*state)    // hears of the states that are visited
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
	exporting
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
