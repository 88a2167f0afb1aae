package admit_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
)

const maxTTL = 10 * time.Second

var group = admit.Terms{MaxTTL: maxTTL, Members: "a b c"}

// out is a store c of three that was out for as long as is needed, and was told so.
func out(change ...func(f *admit.Facts)) admit.Facts {
	f := admit.Facts{Server: "c", Memory: "c2", Terms: group, Recorded: true, Counted: true, Out: admit.Quarantine(maxTTL),
		Cause: node.Replaced, Untouched: true}
	for _, change := range change {
		change(&f)
	}
	return f
}

// unused is a store that has nothing recorded, and was noted just now.
func unused(f *admit.Facts) {
	f.Terms, f.Recorded, f.Out, f.Cause = admit.Terms{}, false, 0, node.Unused
}

// voting is the answer of an admitted node with a register.
func voting(server string, token fence.Token) *node.Registers {
	return &node.Registers{Server: server, Memory: server + "1", Admitted: true, MaxTTL: maxTTL, Members: group.Members,
		Tokens: map[int]fence.Token{7: token}}
}

// blank is the answer of a node that has nothing recorded.
func blank(server string, change ...func(r *node.Registers)) *node.Registers {
	r := &node.Registers{Server: server, Memory: server + "1"}
	for _, change := range change {
		change(r)
	}
	return r
}

// Each rule has a row in which it holds, and beside it a row for each condition of it that does
// not.
func TestDecide(t *testing.T) {
	short := admit.Quarantine(maxTTL) - 1
	both := []*node.Registers{voting("a", 33), voting("b", 34)}
	newGroup := []*node.Registers{blank("a"), blank("b")}
	foundWith := func(memories ...string) *node.Registers {
		r := voting("a", 0)
		r.Empty, r.Tokens = memories, nil
		return r
	}
	for name, c := range map[string]struct {
		facts    admit.Facts
		new      bool
		others   []*node.Registers // nil: they were not asked
		terms    admit.Terms       // of the client; zero: the group's
		do       admit.Do
		wait     time.Duration
		cause    node.Cause
		register fence.Token
		weak     bool
		isNew    bool
	}{
		"the mark is of now": {facts: out(func(f *admit.Facts) { f.Votes, f.Marked = true, true }),
			do: admit.Vote},
		"the mark is of before": {facts: out(func(f *admit.Facts) { f.Marked = true }), do: admit.Note},
		"the mark is of before, and nothing lost": {facts: out(func(f *admit.Facts) { f.Marked, f.Kept = true, true }),
			do: admit.Admit},
		"nothing is noted": {facts: out(func(f *admit.Facts) { f.Counted = false }), do: admit.Note},
		"noted just now": {facts: out(func(f *admit.Facts) { f.Out = 0 }), do: admit.Wait,
			wait: admit.Quarantine(maxTTL), cause: node.Replaced},
		"noted in the future": {facts: out(func(f *admit.Facts) { f.Out = -time.Hour }), do: admit.Wait,
			wait: admit.Quarantine(maxTTL) + time.Hour, cause: node.Replaced},
		"a nanosecond is left": {facts: out(func(f *admit.Facts) { f.Out = short }), do: admit.Wait,
			wait: 1, cause: node.Replaced},
		"a nanosecond is left, and all answer": {facts: out(func(f *admit.Facts) { f.Out = short }), others: both,
			do: admit.Wait, wait: 1, cause: node.Replaced},
		"the quarantine is over": {facts: out(), do: admit.Ask},
		"both others vote":       {facts: out(), others: both, do: admit.Admit, register: 34},
		"one does not answer": {facts: out(), others: []*node.Registers{both[0], nil}, do: admit.Wait,
			cause: node.NeedsRegisters},
		"none answers": {facts: out(), others: []*node.Registers{nil, nil}, do: admit.Wait,
			cause: node.NeedsRegisters},
		"a majority has lost its memory": {facts: out(), others: []*node.Registers{both[0], blank("b")},
			do: admit.Admit, register: 33, weak: true},
		"another MaxTTL is recorded": {facts: out(),
			terms: admit.Terms{MaxTTL: maxTTL / 2, Members: group.Members}, do: admit.Refuse},
		"other members are recorded": {facts: out(), terms: admit.Terms{MaxTTL: maxTTL, Members: "b c d"},
			do: admit.Refuse},
		"another MaxTTL, where it votes": {facts: out(func(f *admit.Facts) { f.Votes, f.Marked = true, true }),
			terms: admit.Terms{MaxTTL: 1, Members: group.Members}, do: admit.Refuse},
		"another node has another MaxTTL": {facts: out(unused), new: true,
			others: []*node.Registers{blank("a", func(r *node.Registers) { r.MaxTTL = 1 }), blank("b")}, do: admit.Refuse},
		"another node has other members": {facts: out(),
			others: []*node.Registers{voting("a", 1), blank("b", func(r *node.Registers) { r.Members = "x y" })},
			do:     admit.Refuse},
		"new, before others are asked": {facts: out(unused), new: true, do: admit.Ask},
		"not new, before others are asked": {facts: out(unused), do: admit.Wait, wait: admit.Quarantine(maxTTL),
			cause: node.Unused},
		"new, but not noted": {facts: out(unused, func(f *admit.Facts) { f.Counted = false }), new: true,
			do: admit.Note},
		"all are new": {facts: out(unused), new: true, others: newGroup, do: admit.Admit,
			weak: true, isNew: true},
		"all are new, and no client says so": {facts: out(unused), others: newGroup, do: admit.Wait,
			wait: admit.Quarantine(maxTTL), cause: node.Unused},
		"new, and something is recorded": {facts: out(unused, func(f *admit.Facts) { f.Recorded = true }), new: true,
			others: newGroup, do: admit.Wait, wait: admit.Quarantine(maxTTL), cause: node.Unused},
		"new, and one does not answer": {facts: out(unused), new: true,
			others: []*node.Registers{newGroup[0], nil}, do: admit.Wait, wait: admit.Quarantine(maxTTL), cause: node.Unused},
		"new, and one has a MaxTTL": {facts: out(unused), new: true,
			others: []*node.Registers{newGroup[0], blank("b", func(r *node.Registers) { r.MaxTTL = maxTTL })}, do: admit.Wait,
			wait: admit.Quarantine(maxTTL), cause: node.Unused},
		"new, and one has members": {facts: out(unused), new: true,
			others: []*node.Registers{newGroup[0], blank("b", func(r *node.Registers) { r.Members = group.Members })},
			do:     admit.Wait, wait: admit.Quarantine(maxTTL), cause: node.Unused},
		"new, and one has a register": {facts: out(unused), new: true,
			others: []*node.Registers{newGroup[0], blank("b", func(r *node.Registers) { r.Tokens = map[int]fence.Token{7: 1} })},
			do:     admit.Wait, wait: admit.Quarantine(maxTTL), cause: node.Unused},
		"new, and one was admitted with this one": {facts: out(unused), new: true,
			others: []*node.Registers{foundWith("b1", "c2", "a1"), newGroup[1]}, do: admit.Admit, isNew: true},
		"new, and one was admitted without it": {facts: out(unused), new: true,
			others: []*node.Registers{foundWith("b1", "c1", "a1"), newGroup[1]}, do: admit.Wait, wait: admit.Quarantine(maxTTL),
			cause: node.Unused},
		"new, and two others were used": {facts: out(unused), new: true, others: both, do: admit.Wait,
			wait: admit.Quarantine(maxTTL), cause: node.Unused},
		"marked, and nothing recorded": {facts: admit.Facts{Marked: true, Memory: "c"}, do: admit.Refuse},
		"votes, and not marked":        {facts: admit.Facts{Votes: true, Memory: "c"}, do: admit.Refuse},
		"kept, and not marked":         {facts: admit.Facts{Kept: true, Memory: "c"}, do: admit.Refuse},
		"votes and kept": {facts: admit.Facts{Votes: true, Kept: true, Marked: true, Recorded: true,
			Memory: "c"}, do: admit.Refuse},
		"marked, without a memory":    {facts: admit.Facts{Marked: true, Recorded: true}, do: admit.Refuse},
		"terms, and nothing recorded": {facts: admit.Facts{Terms: group}, do: admit.Refuse},
		"a MaxTTL below zero": {facts: admit.Facts{Terms: admit.Terms{MaxTTL: -1}, Recorded: true},
			do: admit.Refuse},
	} {
		t.Run(name, func(t *testing.T) {
			terms := c.terms
			if terms == (admit.Terms{}) {
				terms = group
			}
			v := admit.Decide(c.facts, admit.Client{Terms: terms, Nodes: 3, New: c.new}, c.others, c.others != nil)
			if v.Do != c.do || v.Absence.Wait != c.wait || v.Absence.Cause != c.cause || v.Tokens[7] != c.register ||
				v.Weak != c.weak || v.New != c.isNew {
				t.Errorf("%+v; want %+v", v, c)
			}
			if refused := errors.Is(v.Err, node.ErrMisconfigured); refused != (c.do == admit.Refuse) {
				t.Errorf("the error is %v", v.Err)
			}
		})
	}
}

// A weak admission lists the memories that were found empty, its own too. So those that come after
// need not wait for one that never does.
func TestWeakAdmissionListsTheEmpty(t *testing.T) {
	c := admit.Client{Terms: group, Nodes: 3}
	v := admit.Decide(out(unused, func(f *admit.Facts) { f.Out = admit.Quarantine(maxTTL) }), c,
		[]*node.Registers{blank("a"), blank("b")}, true)
	if want := []string{"a1", "b1", "c2"}; v.Do != admit.Admit || !v.Weak ||
		!slices.Equal(slices.Sorted(slices.Values(v.Empty)), want) {
		t.Fatalf("%+v; want the memories %v", v, want)
	}
	first := voting("c", 9)
	first.Empty = v.Empty
	second := out(func(f *admit.Facts) { f.Server, f.Memory = "a", "a1" })
	if v := admit.Decide(second, c, []*node.Registers{nil, first}, true); v.Do != admit.Admit || v.Weak ||
		!maps.Equal(v.Tokens, first.Tokens) {
		t.Errorf("the second one is decided as %+v", v)
	}
	second.Untouched = false
	if v := admit.Decide(second, c, []*node.Registers{nil, first}, true); v.Do != admit.Wait {
		t.Errorf("one that may have been admitted since is decided as %+v", v)
	}
}

// The quarantine is longer than any lease by the slowest clock that is allowed.
func TestQuarantine(t *testing.T) {
	for _, ttl := range []time.Duration{time.Millisecond, time.Second, time.Hour} {
		if q := admit.Quarantine(ttl); q <= ttl+ttl/101 || q > ttl+ttl/50+time.Second {
			t.Errorf("%v for leases of %v", q, ttl)
		}
	}
}
