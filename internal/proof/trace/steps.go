package trace

import (
	"fmt"
	"slices"
)

// This file is the abstraction: which action of the model each step of the code is, with which
// arguments.
//
//	seen                                               action
//	a node, just before an operation:
//	  a lease that the model has is not there          vanish n
//	  the register is larger than the model's          move n R: another name of the stripe, or a rebuild
//	  those who shared the name are gone               forget n
//	an operation that a node carries out, and its answer counts:
//	  acquire granted with r                           acquire n H r; of a reader: first n H r, or join n H r
//	                                                   where the register did not move
//	  confirm of t granted                             confirm n H t
//	  extend with floor s granted, origin x            renew n k x s if the lease was there, otherwise create n k x s.
//	                                                   s is x without a floor. k: the latest extension of each
//	                                                   process that has the lock, whichever was asked for: it
//	                                                   counts for the earlier ones too. If it lets
//	                                                   others share the name, and k does not: start k' with that first
//	  forced release answered with r                   force n O r, O is the operator
//	  a lease is gone after a release                  vanish n
//	  the name is given with r                         begin G, if it is the first node; give n H G r, or acquire n G r
//	                                                   where a reservation was given back and not a lease
//	  anything else, a refusal first of all            nothing: the node is as it was. Its caller need not tell of
//	                                                   a refusal that left what is stored as it was
//	an operation on a node that is out, whose answer counts for nothing:
//	  a lease is new                                   stray n H R x; of a name that is shared stray-first n H R x t, for
//	                                                   all leases anew where those who share it are promised another t
//	  the register is larger                           move n R
//	an attempt, before and after it is told something:
//	  it is new                                        begin H
//	  it begins to hold with t                         finish H _ t
//	  an extension begins                              start k
//	  an extension is carried, the validity is longer  carry k _, by its latest extension or, late, by an earlier one
//	  its mark is larger                               raise H _ s, or export H _ r s if r was offered for a text
//	  it holds what was exported with r                adopt k _ r s, with a text that has r
//	a forced release is done with r                    finish O _ r
//	a store that has voted gets another memory         lose n R, and stray n H R x for each lease in that
//	its quarantine is over                             wait n: when a client goes on to ask the other nodes
//	it is admitted                                     rebuild n w for each node that said that it votes, with what
//	                                                   its register was then; move n R; admit n _
//
// "_" is a set of nodes that the checker finds: those that have promised, accepted, agreed, or were
// read. What the model says of the node is compared with what the code has left after each step.
// That is the register, the leases, their origins, and what holders that share the name are
// promised.

// Lease is a lease of a holder.
type Lease struct{ Holder, Origin uint64 }

// Node is what a node has of a name.
type Node struct {
	Register uint64
	Leases   []Lease
	Sharing  bool   // those who have leases share the name, or one of them keeps its epoch with a reservation
	Epoch    uint64 // what was promised to them; 0: nothing was
}

// Op is an operation of a node.
type Op uint8

// The operations.
const (
	Other Op = iota
	Acquire
	Confirm
	Extend
	Release
	Force
)

// Served is an operation that a node has carried out.
type Served struct {
	Node          int
	Op            Op
	Holder        uint64
	Token         uint64 // in the request: of a confirm, or the floor of an extend
	Reads         bool   // the request lets others share the name
	Granted       bool
	Counts        bool     // the answer reaches the client as an answer
	Answer        uint64   // the number in it
	Rounds        []uint64 // the latest extension of each process that has the holder's lock
	Before, After *Node
}

// Held is what is seen of an attempt.
type Held struct {
	Holding  bool // it holds, or has held
	Adopting bool
	Token    uint64
	Mark     uint64
	Round    uint64 // the latest extension; 0: none
	Carried  bool   // it was carried
	Until    int64  // the end of the validity
	Sure     uint64 // the extension from whose start that is counted, if an answer that came late carried it; 0: none was
}

// Group is one name on a group of nodes, as the model sees it.
type Group struct {
	*Machine
	S     State
	Nodes int

	leased, register, origin, out, ready, begun, mark *symbol
	sharing, epoch, promise, text, textAt             *symbol // nil: the model has none

	recent [keep]taken
	steps  int
	Silent bool // no steps are remembered
	leases []uint64
}

const keep = 64

type taken struct {
	a    *Action
	args [5]uint64
}

// NewGroup returns a group of so many nodes, in a state in which nothing has happened yet.
func (mc *Machine) NewGroup(s State, nodes int) *Group {
	g := &Group{Machine: mc, S: s, Nodes: nodes}
	for name, to := range map[string]**symbol{"leased": &g.leased, "reached": &g.register, "oreached": &g.origin,
		"out": &g.out, "ready": &g.ready,
		"begun": &g.begun, "mark": &g.mark, "sharing": &g.sharing, "epoch": &g.epoch, "ereached": &g.promise, "text": &g.text,
		"text-at": &g.textAt} {
		*to = mc.symbol(name)
	}
	return g
}

// Steps returns how many steps were taken.
func (g *Group) Steps() int { return g.steps }

// Do takes a step.
func (g *Group) Do(action string, args ...uint64) error {
	a := g.Action(action)
	if a == nil {
		r := g.refuse("("+action+")", "the model has no such action")
		r.Missing = true
		return r
	}
	if why := a.Step(g.S, g.Nodes, args...); why != "" {
		return g.refuse(a.text(args), why)
	}
	if g.steps++; !g.Silent {
		t := &g.recent[g.steps%keep]
		t.a = a
		copy(t.args[:], args)
	}
	return nil
}

func (g *Group) refuse(step, why string) *Refusal {
	r := &Refusal{Step: step, Why: why}
	for i := max(1, g.steps-keep+1); i <= g.steps && !g.Silent; i++ {
		t := &g.recent[i%keep]
		r.Steps = append(r.Steps, t.a.text(t.args[:]))
	}
	return r
}

func (g *Group) get(s *symbol, args ...uint64) uint64 {
	if s == nil {
		return 0
	}
	var k key
	copy(k[:], args)
	return g.S.get(s, k)
}

func (g *Group) put(s *symbol, v uint64, args ...uint64) {
	var k key
	copy(k[:], args)
	g.S.set(s, k, v)
}

// Fix sets what never changes of an element, such as whose extension a round is.
func (g *Group) Fix(symbol string, v uint64, args ...uint64) {
	if s := g.symbol(symbol); s != nil {
		g.put(s, v, args...)
	}
}

// NewRound makes an extension of a holder.
func (g *Group) NewRound(k, holder uint64, shares bool) {
	g.Fix("owner", holder, k)
	g.Fix("shares", b2i(shares), k)
}

// DropRound forgets an extension on which nothing is decided any more.
func (g *Group) DropRound(k uint64) {
	if o, is := g.S.(*Open); is {
		o.Drop(g.Machine, g.symbol("owner").Args[0], k)
	}
}

// Out reports whether a node is out, to the model.
func (g *Group) Out(n int) bool { return g.get(g.out, uint64(n)) != 0 }

// originOf is the origin of a lease: of the node's only one, or of the holder's.
func (g *Group) originOf(n, holder uint64) uint64 {
	if g.origin.keys == 1 {
		return g.get(g.origin, n)
	}
	return g.get(g.origin, n, holder)
}

// SetOrigin changes the origin of a lease, where what it was matters to nothing any more.
func (g *Group) SetOrigin(n, holder, origin uint64) {
	switch {
	case g.get(g.leased, n, holder) == 0:
	case g.origin.keys == 1:
		g.put(g.origin, origin, n)
	default:
		g.put(g.origin, origin, n, holder)
	}
}

// holders returns whose leases a node has in the model. It is valid until the next call.
func (g *Group) holders(n uint64) []uint64 {
	g.leases = g.leases[:0]
	g.S.each(g.leased, func(k key, _ uint64) bool {
		if k[0] == n {
			g.leases = append(g.leases, k[1])
		}
		return true
	})
	return g.leases
}

func (x *Node) has(holder uint64) bool {
	return slices.ContainsFunc(x.Leases, func(l Lease) bool { return l.Holder == holder })
}

// gone has the leases vanish that a node does not have.
func (g *Group) gone(n uint64, is *Node) error {
	for _, h := range g.holders(n) {
		if is.has(h) {
			continue
		}
		args := []uint64{n, h}
		if err := g.Do("vanish", args[:len(g.Action("vanish").Params)]...); err != nil {
			return err
		}
	}
	if g.sharing != nil && len(is.Leases) == 0 &&
		(g.get(g.sharing, n) != 0 && !is.Sharing || g.get(g.epoch, n) != 0 && is.Epoch == 0) {
		return g.Do("forget", n)
	}
	return nil
}

// since takes the steps that were not noticed before an operation.
func (g *Group) since(n uint64, before *Node) error {
	if err := g.gone(n, before); err != nil {
		return err
	}
	if before.Register > g.get(g.register, n) {
		if err := g.Do("move", n, before.Register); err != nil {
			return err
		}
	}
	if g.Out(int(n)) && g.get(g.ready, n) == 0 { // what was void is there again, with a larger register
		if err := g.strays(n, before); err != nil {
			return err
		}
	}
	return g.same("before an operation", n, before)
}

// same compares a node with the model.
func (g *Group) same(when string, n uint64, is *Node) error {
	differs := ""
	if r := g.get(g.register, n); r != is.Register {
		differs = fmt.Sprintf("its register is %d, in the model %d", is.Register, r)
	}
	for _, h := range g.holders(n) {
		if !is.has(h) {
			differs = fmt.Sprintf("the lease of A%d is gone", h)
		}
	}
	for _, l := range is.Leases {
		switch {
		case g.get(g.leased, n, l.Holder) == 0:
			differs = fmt.Sprintf("A%d has a lease, and none in the model", l.Holder)
		case g.origin != nil && g.originOf(n, l.Holder) != l.Origin:
			differs = fmt.Sprintf("the origin of A%d's lease is %d, in the model %d", l.Holder, l.Origin,
				g.originOf(n, l.Holder))
		}
	}
	if g.sharing != nil && differs == "" && len(is.Leases) > 0 {
		if had := g.get(g.sharing, n) != 0; had != is.Sharing {
			differs = fmt.Sprintf("that the name is shared is %v, in the model %v", is.Sharing, had)
		}
	}
	if g.epoch != nil && differs == "" {
		if promised := g.promised(n); promised != is.Epoch {
			differs = fmt.Sprintf("those who share the name are promised %d, in the model %d", is.Epoch, promised)
		}
	}
	if differs == "" {
		return nil
	}
	return g.refuse(fmt.Sprintf("n%d, %s", n+1, when), "the effect differs: "+differs)
}

// Begin is a new attempt.
func (g *Group) Begin(holder uint64) error { return g.Do("begin", holder) }

// Begun reports whether a holder has begun.
func (g *Group) Begun(holder uint64) bool { return g.get(g.begun, holder) != 0 }

// Seen is a register that was read: another name can have moved it.
func (g *Group) Seen(n int, register uint64) error {
	if had := g.get(g.register, uint64(n)); register <= had {
		return nil
	}
	return g.Do("move", uint64(n), register)
}

// Serve is an operation that a node has carried out.
func (g *Group) Serve(d *Served) error {
	n := uint64(d.Node)
	before := d.Before
	if g.Out(d.Node) {
		before, d.After = void(before), void(d.After)
	}
	if err := g.since(n, before); err != nil {
		return err
	}
	if g.Out(d.Node) && !d.Counts {
		return g.stray(n, d)
	}
	var err error
	switch {
	case !d.Granted:
	case d.Op == Acquire && !d.Reads:
		err = g.Do("acquire", n, d.Holder, d.Answer)
	case d.Op == Acquire && d.After.Register == before.Register && g.get(g.epoch, n) != 0:
		err = g.Do("join", n, d.Holder, d.Answer)
	case d.Op == Acquire:
		if g.get(g.epoch, n) != 0 && len(before.Leases) == 0 { // kept by a reservation, which was the reader's own
			err = g.Do("forget", n)
		}
		if err == nil {
			err = g.Do("first", n, d.Holder, d.Answer)
		}
	case d.Op == Confirm:
		err = g.Do("confirm", n, d.Holder, d.Token)
	case d.Op == Force:
		err = g.Do("force", n, d.Holder, d.Answer)
	case d.Op == Extend:
		err = g.extend(n, d)
	}
	if err == nil {
		err = g.leftBy(n, d)
	}
	if err == nil {
		err = g.same("after an operation", n, d.After)
	}
	return err
}

func (g *Group) extend(n uint64, d *Served) error {
	if len(d.Rounds) == 0 {
		return g.refuse(fmt.Sprintf("n%d, an extend of A%d is granted", n+1, d.Holder),
			"the model has no step: no extension was started")
	}
	for _, k := range d.Rounds {
		action := "create"
		if g.get(g.leased, n, d.Holder) != 0 {
			action = "renew"
		}
		if err := g.Do(action, n, k, d.Answer, d.Token); err != nil {
			return err
		}
	}
	return nil
}

// leftBy takes the steps by which a release leaves a node otherwise than it was.
func (g *Group) leftBy(n uint64, d *Served) error {
	if d.Op != Release && d.Op != Force {
		return nil
	}
	var given *Lease
	for i, l := range d.After.Leases {
		if g.get(g.leased, n, l.Holder) == 0 {
			given = &d.After.Leases[i]
		}
	}
	if given == nil {
		return g.gone(n, d.After)
	}
	if g.get(g.begun, given.Holder) == 0 {
		if err := g.Begin(given.Holder); err != nil {
			return err
		}
	}
	if had := g.holders(n); len(had) == 1 && g.Action("give") != nil {
		return g.Do("give", n, had[0], given.Holder, given.Origin)
	}
	if err := g.gone(n, d.After); err != nil {
		return err
	}
	return g.Do("acquire", n, given.Holder, given.Origin)
}

// void takes out what a store that was set back has beside a smaller register. Where no holder that
// shares the name is left, it takes out what they were promised. The model does not know such
// leases: they end in the quarantine, as the others.
func void(x *Node) *Node {
	y := &Node{Register: x.Register, Sharing: x.Sharing, Epoch: x.Epoch}
	for _, l := range x.Leases {
		if max(l.Origin, x.Epoch) <= x.Register {
			y.Leases = append(y.Leases, l)
		}
	}
	if len(y.Leases) == 0 {
		y.Sharing, y.Epoch = false, 0
	}
	return y
}

// stray is an operation for what a store was before: it is carried out, and its answer counts for
// nothing.
func (g *Group) stray(n uint64, d *Served) error {
	if err := g.gone(n, d.After); err != nil {
		return err
	}
	if err := g.strays(n, d.After); err != nil {
		return err
	}
	if d.After.Register > g.get(g.register, n) {
		if err := g.Do("move", n, d.After.Register); err != nil {
			return err
		}
	}
	return g.same("after an operation that does not count", n, d.After)
}

// strays makes the leases that a node that is out has, and the model has not.
func (g *Group) strays(n uint64, is *Node) error {
	if g.sharing != nil && len(is.Leases) > 0 &&
		(is.Sharing != (g.get(g.sharing, n) != 0) || is.Sharing && is.Epoch != g.promised(n)) {
		if err := g.gone(n, &Node{}); err != nil { // all of them are made anew
			return err
		}
	}
	for _, l := range is.Leases {
		var err error
		switch {
		case g.get(g.leased, n, l.Holder) != 0:
		case is.Sharing:
			err = g.Do("stray-first", n, l.Holder, is.Register, l.Origin, is.Epoch)
		default:
			err = g.Do("stray", n, l.Holder, is.Register, l.Origin)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// promised is what those are promised who share the name, 0 if nothing is.
func (g *Group) promised(n uint64) uint64 {
	if g.get(g.epoch, n) == 0 {
		return 0
	}
	return g.get(g.promise, n)
}
