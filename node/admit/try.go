package admit

import (
	"slices"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// Step is what a Try has done next.
type Step uint8

// The steps, in their usual order.
const (
	StepLook  Step = iota // Store.Facts, then Looked
	StepNote              // Store.Note, then Noted
	StepAsk               // the others' Registers, then Asked
	StepRaise             // Store.Raise, then Raised
	StepMark              // Store.Mark, then Marked
	StepEnd               // nothing: see Try.Absence and Try.Err
)

// mostLooks bounds a Try: a store that changes each time is out for now.
const mostLooks = 5

// Try is one try to have a store vote, without I/O: its driver carries out Step, and tells it the
// outcome. It is not safe for concurrent use. Make one with Begin.
//
// A driver may be paused between any two steps, for however long. Note and Mark do nothing to a
// store that is not what Look has found, and Raise does no harm.
type Try struct {
	Step  Step
	Facts Facts // as found by the last Look
	// For Raise and Mark: what the registers have to be at least, and what is recorded with the mark.
	Tokens map[int]fence.Token
	Empty  []string

	// At the End: why the store does not vote, the zero Absence if it does; or Err, for what waiting
	// does not mend.
	Absence node.Absence
	Err     error
	// Warning is what a person should know of the admission, "" if it is as any other.
	Warning string

	client Client
	looks  int
	asked  []*node.Registers // the first answers, if the others are asked again
	weak   bool
	isNew  bool
}

// Begin begins a try of a client.
func Begin(c Client) *Try { return &Try{client: c} }

// Looked takes the facts of the store.
func (t *Try) Looked(f Facts) {
	t.looks++
	t.Facts = f
	t.decided(Decide(f, t.client, nil, false))
}

// Asked takes what the other nodes answered, nil for each that did not.
//
// That a majority has no memory, or that all nodes are new, has to be so at one moment. The answers
// are of several moments: one node may have been admitted after it answered, and another one lost
// before it did. So the others are asked once more, and those count as without memory that are so,
// with the same memory, both times. They were so at the moment between.
func (t *Try) Asked(others []*node.Registers) {
	if t.asked != nil {
		others = stayed(t.asked, others)
	}
	v := Decide(t.Facts, t.client, others, true)
	if v.Do == Admit && (v.Weak || v.New) && t.asked == nil && len(others) > 0 {
		t.asked, t.Step = others, StepAsk
		return
	}
	t.asked = nil
	t.decided(v)
}

// stayed returns the second answers, without those of nodes without memory that had not answered so
// before.
func stayed(first, second []*node.Registers) []*node.Registers {
	all := slices.Clone(second)
	for i, r := range all {
		if was := first[i]; r != nil && !r.Admitted &&
			(was == nil || was.Admitted || was.Memory != r.Memory || r.Memory == "") {
			all[i] = nil
		}
	}
	return all
}

// Noted takes whether the store noted that it is out. If not, it has changed, or another client was
// first.
func (t *Try) Noted(bool) { t.again() }

// Raised takes that the registers are at least Tokens.
func (t *Try) Raised() { t.Step = StepMark }

// Marked takes whether the mark was set. If not, the store has changed, or another client was
// first.
func (t *Try) Marked(done bool) {
	if !done {
		t.again()
		return
	}
	t.Step = StepEnd
	switch {
	case t.weak && t.isNew:
		t.Warning = "the servers are new, or all of them have lost their memory at once: tokens begin at the clients' clocks"
	case t.weak && !(t.Facts.Logged && t.client.Nodes == 1):
		t.Warning = "node admitted without the registers of a majority: this is a new group, or a majority lost its memory at once; new tokens are larger than old ones only as far as the clients' clocks agree"
	}
}

// Failed ends the try with the error of a step. What was begun may be carried out all the same,
// which does no harm.
func (t *Try) Failed(err error) {
	if node.Permanent(err) {
		t.end(node.Absence{}, err)
		return
	}
	t.end(node.Absence{Cause: node.Failed, Detail: err.Error()}, nil)
}

func (t *Try) again() {
	if t.Step = StepLook; t.looks >= mostLooks {
		t.end(node.Absence{Cause: node.Changed}, nil)
	}
}

func (t *Try) end(why node.Absence, err error) { t.Step, t.Absence, t.Err = StepEnd, why, err }

// decided takes a verdict.
func (t *Try) decided(v Verdict) {
	switch v.Do {
	case Refuse:
		t.end(node.Absence{}, v.Err)
	case Vote:
		t.Step = StepEnd
	case Note:
		t.Step = StepNote
	case Wait:
		t.end(v.Absence, nil)
	case Ask:
		t.Step = StepAsk
	case Admit:
		t.Tokens, t.Empty, t.weak, t.isNew = v.Tokens, v.Empty, v.Weak, v.New
		if t.Step = StepRaise; len(v.Tokens) == 0 {
			t.Step = StepMark
		}
	}
}
