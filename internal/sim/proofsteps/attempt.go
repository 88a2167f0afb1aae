package proofsteps

import (
	"slices"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/proof/trace"
	"github.com/fenlock/fenlock/internal/shell"
	"github.com/fenlock/fenlock/node"
)

// Attempt is what is seen of an attempt. A nil one is not looked at.
type Attempt struct {
	s       *Steps
	name    int
	holder  uint64
	tied    bool // its steps are looked at
	open    bool // it has not got its token, for admission.model
	seen    trace.Held
	shares  bool   // the latest extension lets others share the name
	alone   uint64 // the latest that does not
	offered uint64
	round   uint32
	kept    []kept // the latest extensions
}

// kept is an extension on which something may be decided.
type kept struct {
	round uint32
	id    uint64
}

// Remembered is how many extensions something may be decided on.
const Remembered = 8

// attempt is an attempt that is made. For admission.model an adoption is none.
func (s *Steps) attempt(name int, h node.Holder, adopts bool) *Attempt {
	x := &Attempt{s: s, name: name, holder: s.holder(h), tied: !s.over, open: !adopts}
	if x.tied {
		s.open[x.holder] = append(s.open[x.holder], x)
	}
	return x
}

// Begins is an attempt that is made.
func (s *Steps) Begins(name int, h node.Holder, shared bool) *Attempt {
	if s == nil {
		return nil
	}
	x := s.attempt(name, h, false)
	if !s.also.over {
		s.also.took(name, s.also.groups[name].Begin(x.holder))
	}
	if x.tied {
		s.groups[name].Fix("reader", b2i(shared), x.holder)
		s.took(name, s.groups[name].Begin(x.holder))
	}
	return x
}

// Given is an attempt whose holder nodes made. They have begun it.
func (s *Steps) Given(name int, h node.Holder) *Attempt {
	if s == nil {
		return nil
	}
	return s.attempt(name, h, false)
}

// Adopts is an attempt by which a lock is adopted.
func (s *Steps) Adopts(name int, h node.Holder, shared bool, token, mark fence.Token) *Attempt {
	if s == nil {
		return nil
	}
	x := s.attempt(name, h, true)
	if x.tied {
		x.round = 1
		x.seen = trace.Held{Adopting: true, Token: uint64(token), Mark: uint64(mark), Round: x.extends(shared)}
		s.took(name, s.groups[name].Starts(x.seen.Round))
	}
	return x
}

func b2i(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// extends makes an extension.
func (x *Attempt) extends(shared bool) uint64 {
	s, g := x.s, x.s.groups[x.name]
	s.rounds++
	if len(x.kept) == Remembered {
		if old := x.kept[0].id; old != x.alone {
			g.DropRound(old)
		}
		x.kept = slices.Delete(x.kept, 0, 1)
	}
	x.kept = append(x.kept, kept{x.round, s.rounds})
	if x.shares = shared; !x.shares {
		x.alone = s.rounds
	}
	g.NewRound(s.rounds, x.holder, x.shares)
	return s.rounds
}

// Told is an attempt after it was told something. From returns the extensions from whose start a
// validity may be counted.
func (x *Attempt) Told(a shell.Attempt, shared bool, from func(until time.Duration) (rounds []uint32)) {
	if x == nil {
		return
	}
	s, phase := x.s, a.Phase()
	if !s.also.over && x.open && phase == core.Holding {
		x.open = false
		s.also.took(x.name, s.also.groups[x.name].Forced(x.holder, uint64(a.Token())))
	}
	if s.over || !x.tied {
		return
	}
	g, now := s.groups[x.name], x.seen
	now.Adopting = phase == core.Adopting
	now.Holding = x.seen.Holding || phase == core.Holding
	now.Token = uint64(a.Token())
	if now.Holding {
		if now.Mark == 0 {
			now.Mark = now.Token
		}
		now.Mark = MarkOf(a, now.Mark)
	}
	round, state := a.Extension()
	if round != x.round {
		x.round = round
		now.Round = x.extends(shared)
		x.seen.Carried = false
	}
	if phase == core.Holding {
		now.Until = int64(a.Until())
	}
	// It is carried when the validity is longer; where a mark is wanted, the core calls it carried
	// later.
	longer := x.seen.Holding && now.Until > x.seen.Until
	before := x.seen
	var could []uint64
	if longer {
		for _, round := range from(time.Duration(now.Until)) {
			for _, k := range x.kept {
				if k.round == round {
					could = append(could, k.id)
				}
			}
		}
	}
	switch latest := now.Round; {
	case len(could) > 1: // one of them is carried
		var err error
		for _, id := range could {
			if err = g.Do("carry", id, trace.Any); err == nil {
				now.Carried = now.Carried || id == latest
				break
			}
		}
		s.took(x.name, err)
		before.Until, before.Carried = now.Until, now.Carried
		now.Carried = now.Carried || state == core.Carried
	case len(could) == 1 && could[0] != latest:
		now.Sure = could[0]
		now.Carried = now.Carried || state == core.Carried
	default:
		now.Carried = now.Carried || state == core.Carried || longer
	}
	x.seen = now
	if before.Holding != now.Holding {
		before.Until = now.Until
	}
	s.took(x.name, g.Told(x.holder, &before, &now, x.offered))
}

// MarkOf finds the mark of an attempt by what it accepts, from the one that it had.
func MarkOf(a shell.Attempt, had uint64) uint64 {
	accepts := func(origin uint64) bool {
		return a.Accepts(core.Reply{Status: core.Granted, Register: fence.Token(origin)})
	}
	if !accepts(had + 1) {
		return had
	}
	low, step := had+1, uint64(1)
	for accepts(low + step) {
		low, step = low+step, 2*step
	}
	for step > 1 { // it accepts low, and not low + step
		if step /= 2; accepts(low + step) {
			low += step
		}
	}
	return low
}

// Offers is a mark that is to go with a text.
func (x *Attempt) Offers(mark fence.Token) {
	if x != nil {
		x.offered = uint64(mark)
	}
}

// Exported is the end of an attempt whose lock goes to another process.
func (x *Attempt) Exported(mark fence.Token) {
	if x != nil && x.tied && !x.s.over {
		x.s.took(x.name, x.s.groups[x.name].Exported(x.holder, uint64(mark)))
	}
}
