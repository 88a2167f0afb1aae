package admit_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
)

// driven is a try on a store, step by step.
type driven struct {
	*admit.Try
	store  *memory
	now    time.Duration
	terms  admit.Terms
	others []*node.Registers
}

func drive(nodes int, isNew bool) *driven {
	d := &driven{terms: group, others: []*node.Registers{voting("a", 33), voting("b", 34)}[:nodes-1]}
	d.store = &memory{identity: 1, clock: func() time.Duration { return d.now }}
	d.begin(nodes, isNew)
	return d
}

func (d *driven) begin(nodes int, isNew bool) {
	d.Try = admit.Begin(admit.Client{Terms: d.terms, Nodes: nodes, New: isNew})
}

// step carries out one step, false at the end.
func (d *driven) step() bool {
	ctx := context.Background()
	var err error
	var done bool
	switch d.Step {
	case admit.StepLook:
		var f admit.Facts
		if f, err = d.store.Facts(ctx); err == nil {
			d.Looked(f)
		}
	case admit.StepNote:
		if done, err = d.store.Note(ctx, d.Facts); err == nil {
			d.Noted(done)
		}
	case admit.StepAsk:
		d.store.calls = append(d.store.calls, "ask")
		d.Asked(d.others)
	case admit.StepRaise:
		if err = d.store.Raise(ctx, d.Facts, d.Tokens); err == nil {
			d.Raised()
		}
	case admit.StepMark:
		if done, err = d.store.Mark(ctx, d.Facts, d.terms, d.Empty); err == nil {
			d.Marked(done)
		}
	case admit.StepEnd:
		return false
	}
	if err != nil {
		d.Failed(err)
	}
	return true
}

// until carries out the steps before one.
func (d *driven) until(step admit.Step) {
	for d.Step != step && d.step() {
	}
}

func (d *driven) ends(t *testing.T, cause node.Cause, calls ...string) {
	t.Helper()
	d.until(admit.StepEnd)
	if d.Err != nil || d.Absence.Cause != cause {
		t.Errorf("it ends with %v, %+v; want %v", d.Err, d.Absence, cause)
	}
	if made := d.store.made(); !alike(made, calls...) {
		t.Errorf("the steps are %q; want %q", made, calls)
	}
}

// A store that is replaced by one with the mark of before. The mark goes, the quarantine begins,
// the registers are raised, and only then it votes.
func TestTryStepByStep(t *testing.T) {
	d := drive(3, false)
	d.store.become(1, group)
	d.ends(t, node.Replaced, "facts", "note", "facts")
	if d.store.mark != 0 || d.Absence.Wait != admit.Quarantine(maxTTL) {
		t.Fatalf("the mark is %d, and %v are left", d.store.mark, d.Absence.Wait)
	}
	d.now = admit.Quarantine(maxTTL) - time.Nanosecond
	d.begin(3, false)
	d.ends(t, node.Replaced, "facts")
	d.now += time.Nanosecond
	d.begin(3, false)
	d.ends(t, node.Present, "facts", "ask", "raise", "mark")
	if !d.store.votes() || d.store.tokens[7] != 34 || d.Warning != "" {
		t.Errorf("it votes: %t, with the registers %v, warning %q", d.store.votes(), d.store.tokens, d.Warning)
	}
	d.begin(3, false)
	d.ends(t, node.Present, "facts")
}

// The store is lost once more, or admitted by another client, while a client is paused between two
// steps. What the client does then has no effect.
func TestTryIsPausedAnywhere(t *testing.T) {
	for _, step := range []admit.Step{admit.StepNote, admit.StepAsk, admit.StepRaise, admit.StepMark} {
		for name, happens := range map[string]func(d *driven){
			"lost once more":      func(d *driven) { d.store.become(0, admit.Terms{}) },
			"replaced once more":  func(d *driven) { d.store.become(d.store.mark, group) },
			"admitted meanwhile":  func(d *driven) { d.store.mark, d.store.terms = d.store.identity, group },
			"lost after that too": func(d *driven) { d.store.mark = d.store.identity; d.store.become(d.store.identity, group) },
		} {
			d := drive(3, false)
			d.store.become(1, group)
			if step != admit.StepNote {
				d.until(admit.StepEnd)
				d.now += admit.Quarantine(maxTTL)
				d.begin(3, false)
			}
			d.until(step)
			if d.Step != step {
				t.Fatalf("there is no step %d", step)
			}
			happens(d)
			votes, lost := d.store.votes(), d.now
			d.until(admit.StepEnd)
			if d.store.votes() != votes || d.Err != nil {
				t.Errorf("%s before step %d: it votes: %t, error %v", name, step, d.store.votes(), d.Err)
			}
			if votes {
				continue
			}
			if f, _ := d.store.Facts(context.Background()); f.Marked || !f.Counted || f.Out != d.now-lost {
				t.Errorf("%s before step %d: the new loss is not noted: %+v", name, step, f)
			}
		}
	}
}

// A store that changes before each note is given up.
func TestTryOfAStoreThatAlwaysChanges(t *testing.T) {
	d := drive(3, false)
	d.store.before = func(_ context.Context, call string) error {
		if call == "note" {
			d.store.become(1, group)
		}
		return nil
	}
	d.store.become(1, group)
	d.until(admit.StepEnd)
	if made := strings.Count(strings.Join(d.store.made(), " "), "note"); d.Absence.Cause != node.Changed || made != 5 {
		t.Errorf("%+v after %d tries", d.Absence, made)
	}
}

// The error of a step ends the try: for now, or for good.
func TestTryFails(t *testing.T) {
	for _, call := range []string{"facts", "note", "raise", "mark"} {
		for _, fails := range []error{errors.New("broken"), node.ErrMisconfigured} {
			d := drive(3, false)
			d.store.become(1, group)
			if call == "raise" || call == "mark" {
				d.until(admit.StepEnd)
				d.now += admit.Quarantine(maxTTL)
				d.begin(3, false)
			}
			d.store.before = func(_ context.Context, at string) error {
				if at == call {
					return fails
				}
				return nil
			}
			d.until(admit.StepEnd)
			permanent := errors.Is(fails, node.ErrMisconfigured)
			if d.store.votes() || permanent != errors.Is(d.Err, node.ErrMisconfigured) ||
				!permanent && (d.Absence.Cause != node.Failed || d.Absence.Detail != "broken") {
				t.Errorf("%s fails with %v: %v, %+v", call, fails, d.Err, d.Absence)
			}
		}
	}
}

// A client with other terms is refused, and writes nothing, whatever the store is.
func TestTryOfAnotherGroup(t *testing.T) {
	for name, mark := range map[string]int{"votes": 2, "has the mark of before": 1, "is out": 0} {
		d := drive(3, true)
		d.store.become(mark, group)
		d.terms = admit.Terms{MaxTTL: maxTTL, Members: "a b d"}
		d.begin(3, true)
		d.until(admit.StepEnd)
		var terms *admit.TermsError
		if made := d.store.made(); !errors.As(d.Err, &terms) || !alike(made, "facts") {
			t.Errorf("a store that %s: %v after %q", name, d.Err, made)
		}
	}
}

// What a person is warned of.
func TestTryWarns(t *testing.T) {
	for name, c := range map[string]struct {
		nodes  int
		isNew  bool
		logged bool
		others []*node.Registers
		want   string
	}{
		"new": {3, true, false, []*node.Registers{blank("a"), blank("b")}, "the servers are new"},
		"a majority lost its memory": {3, false, false, []*node.Registers{blank("a"), voting("b", 3)},
			"without the registers of a majority"},
		"one of three":       {3, false, false, []*node.Registers{voting("a", 2), voting("b", 3)}, ""},
		"one alone":          {1, false, false, nil, "without the registers of a majority"},
		"one alone, on disk": {1, false, true, nil, ""},
	} {
		tr := admit.Begin(admit.Client{Terms: group, Nodes: c.nodes, New: c.isNew})
		f := out(func(f *admit.Facts) { f.Logged = c.logged })
		if c.isNew {
			unused(&f)
		}
		tr.Looked(f)
		for tr.Step == admit.StepAsk {
			tr.Asked(c.others)
		}
		if len(tr.Tokens) > 0 {
			tr.Raised()
		}
		if tr.Marked(true); tr.Step != admit.StepEnd || c.want == "" && tr.Warning != "" ||
			!strings.Contains(tr.Warning, c.want) {
			t.Errorf("%s: step %d, warning %q; want %q", name, tr.Step, tr.Warning, c.want)
		}
	}
}

// A majority without memory, and a group that is new, have to be so at one moment. Answers that
// were given one after the other do not show it: one node was admitted after its answer, or was
// lost before.
func TestAsksTwice(t *testing.T) {
	another := func(r *node.Registers) { r.Memory = "another" }
	none := func(r *node.Registers) { r.Memory = "" }
	for name, c := range map[string]struct {
		second []*node.Registers
		// What is lacking where a majority seems to have lost its memory, and where all seem to be new.
		lost, isNew node.Cause
	}{
		"they stay so": {[]*node.Registers{blank("a"), blank("b")}, node.Present, node.Present},
		// with b it is a majority
		"one was admitted meanwhile": {[]*node.Registers{voting("a", 7), blank("b")}, node.Present, node.Unused},
		"one of these was lost": {[]*node.Registers{voting("a", 7), blank("b", another)}, node.NeedsRegisters,
			node.Unused},
		"both were lost": {[]*node.Registers{blank("a", another), blank("b", another)}, node.NeedsRegisters,
			node.Unused},
		"both have no name": {[]*node.Registers{blank("a", none), blank("b", none)}, node.NeedsRegisters,
			node.Unused},
		"none answers": {[]*node.Registers{nil, nil}, node.NeedsRegisters, node.Unused},
	} {
		for isNew, cause := range map[bool]node.Cause{false: c.lost, true: c.isNew} {
			f := out(func(*admit.Facts) {})
			if isNew {
				unused(&f)
			}
			tr := admit.Begin(admit.Client{Terms: group, Nodes: 3, New: isNew})
			tr.Looked(f)
			tr.Asked([]*node.Registers{blank("a"), blank("b")})
			if tr.Step != admit.StepAsk {
				t.Fatalf("%s, new %t: step %d after the first answers", name, isNew, tr.Step)
			}
			tr.Asked(c.second)
			if tr.Absence.Cause != cause || (tr.Step == admit.StepEnd) == (cause == node.Present) {
				t.Errorf("%s, new %t: step %d, %+v; want %v", name, isNew, tr.Step, tr.Absence, cause)
			}
		}
	}
}
