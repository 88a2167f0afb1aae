package core_test

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	proved "github.com/fenlock/fenlock/internal/proof/model"
)

// player replays the steps of a run as moves of the searches' model. A step is the move at the same
// place, after those that it needs: an attempt hears of answers just before it decides by them.
// What the run says of the answer is compared: whether it is a grant, its number, and of an
// extension whether it counts.
type player struct {
	of        *replay
	run       *proved.Run
	m         *model
	s         state
	said      trace
	violation string
	err       error // the first: no move comes after it

	attempts map[string]int     // by holder
	rounds   map[string]int     // by extension of the run
	vanished [nNodes]uint8      // leases that vanish before the next operation at the node, a bit for each attempt
	moved    [nNodes]uint8      // how far another name moves its register before that
	made     [nNodes]bool       // a lease that a step of the run is going to make: see raises
	granted  [maxAttempts][]int // the nodes that have carried out an acquire, in order
}

func newPlayer(r *replay, run *proved.Run, broken broken) *player {
	m := r.model
	m.broken, m.rounds, m.attempts, m.givesUp = broken, maxRounds, 0, true
	m.bumpBy, m.wants = []uint8{1, 2, 3}, []uint8{1, 2, 3}
	for n := range uint8(9) {
		m.proposals = append(m.proposals, n+1)
	}
	m.registers = [][nNodes]uint8{r.registers}
	p := &player{of: r, run: run, m: &m, attempts: map[string]int{}, rounds: map[string]int{}}
	for _, step := range run.Steps {
		switch step.Action.Name {
		case "begin":
			if p.begins(step.Args[0]) {
				m.attempts++
			}
		case "move":
			m.bumps++
		case "lose":
			m.losses++
		case "force":
			m.force = true
		case "export":
			m.exports = true
		case "give":
			m.gives = 1
		case "first", "join":
			m.shares = true
		}
	}
	m.downgrade = r.kinds != nil
	p.s = m.initialStates()[0]
	return p
}

// has reports whether the run has such a step.
func (p *player) has(action string, is func(args []string) bool) bool {
	return slices.ContainsFunc(p.run.Steps, func(s proved.Step) bool { return s.Action.Name == action && is(s.Args) })
}

// begins reports whether a holder is an attempt: an operator is none.
func (p *player) begins(holder string) bool {
	return holder != p.of.past && !p.has("force", func(args []string) bool { return args[1] == holder })
}

func (p *player) play() error {
	steps := slices.Clone(p.run.Steps)
	if p.of.later != nil {
		is := func(s proved.Step) bool { return slices.Contains(p.of.later, text(s)) }
		put := slices.DeleteFunc(slices.Clone(steps), func(s proved.Step) bool { return !is(s) })
		steps = slices.DeleteFunc(steps, is)
		lost := slices.IndexFunc(steps, func(s proved.Step) bool { return s.Action.Name == "lose" })
		steps = slices.Insert(steps, lost+1, put...)
	}
	for i, step := range steps {
		if p.violation != "" {
			return fmt.Errorf("a promise is broken before step %d, %s", i+1, text(step))
		}
		for _, mv := range p.of.before[text(step)] {
			p.do(mv)
		}
		if p.step(step.Action, step.Args); p.err != nil {
			return fmt.Errorf("step %d, %s: %w", i+1, text(step), p.err)
		}
	}
	return nil
}

func (p *player) fail(format string, args ...any) {
	p.err = cmp.Or(p.err, fmt.Errorf(format, args...))
}

func text(s proved.Step) string { return s.Action.Name + " " + strings.Join(s.Args, " ") }

// numeral reads an element of a sort: a number, or a node. Zero is any.
func numeral(element string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(element, "n"))
	return n
}

// members reads a set of nodes.
func members(set string) (nodes []int) {
	for n := range nNodes {
		if set == "_" || strings.Contains(set, fmt.Sprintf("n%d", n+1)) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func (p *player) step(action *proved.Action, args []string) {
	if action.Name == p.of.skips || p.of.past != "" && slices.Contains(args, p.of.past) {
		return
	}
	n := numeral(args[0]) - 1 // where it happens, of a node's actions
	extension := len(args) > 1 && action.Params[1].Sort.Name == "round"
	switch name := action.Name; name {
	case "begin":
		p.begin(args[0])
	case "acquire", "first", "join":
		p.acquire(n, args[1], numeral(args[2]))
	case "give":
		p.give(n, args[2], numeral(args[3]))
	case "stale":
		if extension {
			p.extend(n, args[1], args[2], "0", "")
		} else {
			p.acquire(n, args[1], numeral(args[2]))
		}
	case "confirm":
		p.confirm(n, p.attempts[args[1]], numeral(args[2]))
	case "renew", "create":
		p.extend(n, args[1], args[2], args[3], name)
	case "refuse":
		p.raises(n, args[1], core.Lost, "_")
	case "reuse":
		if p.attempt().extends[numeral(args[2])-1].reply.stage != answered {
			p.fail("no answer is on its way")
		}
	case "stray", "stray-first":
		if p.of.model.strays {
			p.do(at(runStray, p.attempts[args[1]], n, 0))
		} else {
			p.acquire(n, args[1], 0)
		}
	case "vanish":
		if len(args) > 1 {
			p.vanished[n] |= 1 << p.attempts[args[1]]
		} else {
			p.vanished[n] = everybody
		}
	case "forget": // no other holder shares the name
	case "move":
		p.moved[n] = uint8(numeral(args[1])) - p.s.nodes[n].register
	case "force":
		p.force(n, numeral(args[2]))
	case "lose":
		p.vanished[n] = 0
		p.do(at(loseMemory, 0, n, 0))
	case "wait": // it is over when the first register may be read
	case "rebuild":
		p.do(at(readRegister, 0, numeral(args[1])-1, 0))
	case "admit":
		p.do(at(admit, 0, n, 0))
	case "finish":
		p.finish(args[0], members(args[1]), numeral(args[2]))
	case "start":
		p.start(args[0])
	case "carry", "adopt":
		p.carry(members(args[1]))
	case "raise":
		p.raise(p.attempts[args[0]])
	case "export":
		p.export(p.attempts[args[0]])
	default:
		p.fail("the searches have no such move")
	}
}

// do carries out a move.
func (p *player) do(mv move) {
	switch {
	case p.violation != "" || p.err != nil:
	case !slices.Contains(p.m.moves(&p.s, nil), mv):
		p.fail("the searches have no such move then: %+v", mv)
	default:
		p.violation = p.m.apply(&p.s, mv, &p.said)
	}
}

// operate has a node carry out a request, after what has happened there since its last operation.
func (p *player) operate(kind moveKind, i, n, arg int) {
	leased := p.s.nodes[n].leased()
	mv := at(kind, i, n, arg)
	if mv.vanish = p.vanished[n] & leased; mv.vanish == leased && leased != 0 {
		mv.vanish = everybody
	}
	mv.prelude |= p.moved[n] << 2
	if at := p.s.nodes[n]; kind == runAcquire && p.s.attempts[i].shared == 0 && at.leased() == 0 && at.epoch != 0 {
		mv = mv.whileOpen() // one more shares the name
	}
	p.vanished[n], p.moved[n] = 0, 0
	p.do(mv)
}

// answer compares an answer with what the run says.
func (p *player) answer(m message, want int) {
	if p.violation == "" && (m.stage != answered || m.status != core.Granted || want != 0 && int(m.register) != want) {
		p.fail("the answer is %s", words(m.reply()))
	}
}

func (p *player) begin(holder string) {
	if !p.begins(holder) {
		return
	}
	i := len(p.attempts)
	p.attempts[holder] = i
	is := func(action string) bool {
		return p.has(action, func(args []string) bool {
			return len(args) > 1 && slices.Contains(args[1:], holder) && (action != "give" || args[2] == holder)
		})
	}
	switch {
	case is("give"):
		p.do(at(begin, i, 2, 0))
	case is("first") || is("join"):
		p.do(at(begin, i, 1, p.proposal(holder)))
	default:
		p.do(at(begin, i, 0, p.proposal(holder)))
	}
}

// proposal is the number that a holder proposes: the least that the run has it granted, or one that
// is past all registers.
func (p *player) proposal(holder string) int {
	if own := p.of.propose[holder]; own != 0 {
		return int(own)
	}
	least := math.MaxInt
	for _, step := range p.run.Steps {
		if name := step.Action.Name; (name == "acquire" || name == "first") && step.Args[1] == holder && step.Args[2] != "_" {
			least = min(least, numeral(step.Args[2]))
		}
	}
	if least < math.MaxInt {
		return least
	}
	largest := 0
	for _, n := range p.s.nodes {
		largest = max(largest, int(n.register))
	}
	return largest + 1
}

func (p *player) acquire(n int, holder string, want int) {
	i := p.attempts[holder]
	if p.s.attempts[i].waits {
		p.give(n, holder, want) // as if a release had freed the name
		return
	}
	a := &p.s.attempts[i]
	p.operate(runAcquire, i, n, 0)
	p.granted[i] = append(p.granted[i], n)
	if a.exported { // it hears of nothing any more
		p.answer(message{answered, 0, core.Granted, p.s.nodes[n].origins[i]}, want)
	} else {
		p.answer(a.acquires[n], want)
	}
}

func (p *player) give(n int, to string, want int) {
	i := p.attempts[to]
	if p.s.nodes[n].leased() != 0 {
		p.vanished[n] = everybody // it is what is released
	}
	p.operate(give, i, n, want)
	if p.s.attempts[i].notices[n] != 1<<want {
		p.fail("another number is given: %b", p.s.attempts[i].notices[n])
	}
}

// confirm has a node carry out a confirm. Before that, the attempt hears of grants until it asks
// for one, and of smaller numbers that are refused.
func (p *player) confirm(n, i, want int) {
	a := &p.s.attempts[i]
	for _, k := range p.granted[i] {
		if a.core.Phase() == core.Acquiring && int(a.acquires[k].register) <= want {
			p.do(at(hearAcquire, i, k, 0))
		}
	}
	for k := range nNodes {
		slot := confirmSlot(a, k, request)
		if a.core.Phase() != core.Confirming || int(a.core.Token()) >= want || slot < 0 ||
			fence.Token(p.s.nodes[k].register) <= a.core.Token() {
			continue
		}
		p.operate(runConfirm, i, k, slot)
		p.hearConfirm(i, k)
	}
	p.confirms(n, i, want)
}

func (p *player) confirms(n, i, want int) {
	a := &p.s.attempts[i]
	if slot := confirmSlot(a, n, orphan); slot >= 0 {
		p.operate(runConfirm, i, n, slot) // once more
		return
	}
	slot := confirmSlot(a, n, request)
	if slot < 0 {
		p.fail("%s does not ask for it", name(i))
		return
	}
	p.operate(runConfirm, i, n, slot)
	if slot = confirmSlot(a, n, answered); slot < 0 {
		p.fail("%s does not ask for this number any more", name(i))
		return
	}
	p.answer(a.confirms[n][slot], want)
}

// confirmSlot returns the place of a confirm of the number that the attempt wants by now, -1 if
// there is none.
func confirmSlot(a *attempt, n int, stage stage) int {
	return slices.IndexFunc(a.confirms[n][:],
		func(m message) bool { return m.stage == stage && fence.Token(m.asked) == a.core.Token() })
}

func (p *player) hearConfirm(i, n int) {
	if slot := confirmSlot(&p.s.attempts[i], n, answered); slot >= 0 {
		p.do(at(hearConfirm, i, n, slot))
	}
}

// finish has an attempt hear of the answers of some nodes, until it holds.
func (p *player) finish(holder string, by []int, want int) {
	if !p.begins(holder) {
		if !p.m.released(&p.s) {
			p.fail("the operator has to go on")
		}
		return
	}
	i := p.attempts[holder]
	a := &p.s.attempts[i]
	for _, n := range by {
		switch {
		case a.wasHeld():
		case a.waits && a.notices[n] != 0:
			p.do(move{kind: hearNotice, who: uint8(i<<4 | n), arg: uint8(bits.TrailingZeros16(a.notices[n]))})
		case a.waits, a.core.Phase() != core.Acquiring:
		default:
			if !slices.Contains(p.granted[i], n) && len(by) == quorum { // its answer is not one of a grant
				p.acquire(n, holder, want)
			}
			if a.acquires[n].stage == answered {
				p.do(at(hearAcquire, i, n, 0))
			}
		}
	}
	for _, n := range by {
		if a.core.Phase() == core.Confirming && confirmSlot(a, n, request) >= 0 && len(by) == quorum {
			p.confirms(n, i, want)
		}
		if a.core.Phase() == core.Confirming {
			p.hearConfirm(i, n)
		}
	}
	if !a.wasHeld() {
		p.fail("%s does not hold", holder)
	}
	if p.of.early > 0 && holder == p.owner() {
		p.startRound(i, "", 0, int(p.of.early))
	}
}

func (p *player) force(n, want int) {
	p.operate(forceRelease, 0, n, 0)
	if got := int(p.s.nodes[n].forced); got != want {
		p.fail("the answer is %d", got)
	}
}
