package core_test

import (
	"cmp"
	"slices"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
)

// The extensions of a run: see player. An extend with a floor is two requests here. An attempt asks
// nodes to raise their registers once an extension is carried, so the nodes carry out extends
// without a floor first.

// owner is the holder of the extensions.
func (p *player) owner() string { return cmp.Or(p.of.owner, "A") }

// attempt is that of the extensions.
func (p *player) attempt() *attempt { return &p.s.attempts[p.attempts[p.owner()]] }

func (p *player) start(extension string) {
	i := p.attempts[p.owner()]
	a := &p.s.attempts[i]
	switch {
	case p.of.early > 0: // it has
		p.rounds[extension] = 1
		return
	case a.exported:
		p.adopts(i, extension)
		return
	}
	token := int(a.core.Token())
	want, kind := 0, p.of.kinds[extension]
	for _, step := range p.run.Steps {
		switch step.Action.Name {
		case "renew", "create", "refuse":
			floor := numeral(step.Args[len(step.Args)-1])
			if step.Args[1] == extension && floor > token && want == 0 {
				want = floor - token
			}
		case "export":
			kind = 2
		}
	}
	if kind == 2 {
		want = 0
	}
	p.startRound(i, extension, kind, want)
}

// startRound starts an extension. One that is to raise the mark is carried out by the nodes that
// have the lease.
func (p *player) startRound(i int, extension string, kind, want int) {
	p.do(at(startExtend, i, kind, want))
	round, _ := p.s.attempts[i].core.Extension()
	p.rounds[extension] = int(round)
	for n := range nNodes {
		if (want > 0 || kind == 2) && p.s.nodes[n].has(i) && p.vanished[n] == 0 {
			p.operate(runExtend, i, n, int(round))
		}
	}
}

// adopts has another process begin to adopt what was exported.
func (p *player) adopts(i int, extension string) {
	gone := 1
	for n := range nNodes {
		if p.s.nodes[n].has(i) && p.vanished[n]&(1<<i) == 0 {
			gone = 0
		}
	}
	if gone == 1 { // at once
		for n := range p.vanished {
			p.vanished[n] &^= 1 << i
		}
	}
	p.rounds[extension] = adopterFrom
	p.do(at(adoptLock, i, 0, gone))
}

// extend has a node carry out an extend, if it has not yet: see startRound.
func (p *player) extend(n int, extension, origin, floor, name string) {
	i := p.attempts[p.owner()]
	a := &p.s.attempts[i]
	leased := p.s.nodes[n].has(i) && p.vanished[n]&(1<<i) == 0 && !p.made[n]
	p.made[n] = false
	if name != "" && leased != (name == "renew") {
		p.fail("the lease is there: %t", leased)
		return
	}
	if mark, _ := a.core.Mark(); numeral(floor) > int(mark) || p.of.early > 0 && numeral(floor) > 0 {
		p.raises(n, extension, core.Granted, origin)
		return
	}
	if round := p.rounds[extension]; a.extends[n].requests&(1<<round) != 0 {
		p.operate(runExtend, i, n, round)
	}
	p.accepts(a, a.extends[n].reply, origin)
}

// accepts compares the answer to an extend with one of the run, which has an origin.
func (p *player) accepts(a *attempt, m message, origin string) {
	mark, _ := a.core.Mark()
	counts := fence.Token(m.register) <= mark
	switch {
	case p.violation != "":
	case m.stage != answered || m.status != core.Granted:
		p.fail("the answer is %s", words(m.reply()))
	case origin != "_" && counts != (numeral(origin) <= int(mark)):
		p.fail("the answer is %s, and the mark is %d", words(m.reply()), mark)
	}
}

// agree returns the nodes that are to raise their registers.
func (p *player) agree(extension string) (nodes []int) {
	for _, step := range p.run.Steps {
		switch step.Action.Name {
		case "renew", "create", "refuse":
			if step.Args[1] == extension && numeral(step.Args[len(step.Args)-1]) > 0 {
				nodes = append(nodes, numeral(step.Args[0])-1)
			}
		}
	}
	return nodes
}

// raises has a node carry out an extend that raises its register. The attempt asks for it when it
// has heard of a quorum: of the nodes that are to raise theirs first, since it asks those.
func (p *player) raises(n int, extension string, want core.Status, origin string) {
	i := p.attempts[p.owner()]
	a := &p.s.attempts[i]
	round := p.rounds[extension]
	agree := p.agree(extension)
	for _, k := range append(agree, members("_")...) {
		if a.extends[n].raises[round] != 0 {
			break
		}
		if slices.Contains(agree, k) && a.extends[k].requests&(1<<round) != 0 {
			p.made[k] = !p.s.nodes[k].has(i)
			p.operate(runExtend, i, k, round)
		}
		if a.extends[k].reply.stage == answered {
			p.do(at(hearExtend, i, k, 0))
		}
	}
	if a.extends[n].raises[round] == 0 {
		p.fail("%s does not ask for it", name(i))
		return
	}
	p.operate(runRaise, i, n, round)
	if want == core.Granted {
		p.accepts(a, a.extends[n].agreed, origin)
		return
	}
	if got := a.extends[n].agreed.status; got != want {
		p.fail("the answer is %s", got)
	}
}

// carry has the attempt hear of the answers of some nodes.
func (p *player) carry(by []int) {
	i := p.attempts[p.owner()]
	a := &p.s.attempts[i]
	for _, n := range by {
		if a.extends[n].reply.stage == answered && p.violation == "" {
			p.do(at(hearExtend, i, n, 0))
		}
	}
	if _, state := a.core.Extension(); state != core.Carried && p.violation == "" {
		p.fail("it is not carried")
	}
}

// raise has the attempt hear of answers until it raises its mark. Where the run leaves open who was
// asked to, its requests are carried out.
func (p *player) raise(i int) {
	a := &p.s.attempts[i]
	before, _ := a.core.Mark()
	open := true
	for _, step := range p.run.Steps {
		if name := step.Action.Name; name == "renew" || name == "create" || name == "refuse" {
			open = open && numeral(step.Args[len(step.Args)-1]) == 0
		}
	}
	for range 4 * nNodes {
		mark, _ := a.core.Mark()
		mv, found := p.toRaise(i, open)
		switch {
		case mark > before || p.violation != "":
			return
		case !found:
			p.fail("the mark is not raised")
			return
		}
		p.do(mv)
	}
	p.fail("the mark is not raised by then")
}

// toRaise returns what comes next for that.
func (p *player) toRaise(i int, open bool) (mv move, found bool) {
	x := &p.s.attempts[i].extends
	for n := range nNodes {
		if x[n].agreed.stage == answered {
			return at(hearRaise, i, n, 0), true
		}
	}
	for n := range nNodes {
		if x[n].reply.stage == answered {
			return at(hearExtend, i, n, 0), true
		}
	}
	for n := range nNodes {
		for round, floor := range x[n].raises {
			if open && floor != 0 {
				return at(runRaise, i, n, round), true
			}
		}
	}
	return move{}, false
}

func (p *player) export(i int) {
	if a := &p.s.attempts[i]; a.offered == 0 {
		p.startRound(i, "", 2, 0)
	} else {
		p.raise(i)
	}
	p.do(at(exportLock, i, 0, 0))
}
