package core_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// TestLateAnswersAgainstAnOracle runs holders of one name on nodes that follow package rule, with a
// clock. Messages take any time, up to more than a TTL, or are lost. Answers are given up after the
// node timeout and may come all the same. The oracle has no rules. It sees what each node has, and
// notes each acceptance that a holder was told, with the start of the round that asked for it:
//   - no holder believes to have the name beside another, or without the leases of a quorum;
//   - a validity is counted from the latest start such that a quorum has accepted that round or a
//     later one, not later and not earlier.
func TestLateAnswersAgainstAnOracle(t *testing.T) {
	const runs = 3000
	var sum oracleSum
	for seed := range runs {
		if why := runOracle(uint64(seed), oracleBroken{}, &sum); why != "" {
			t.Fatalf("seed %d: %s", seed, why)
		}
	}
	t.Logf("%+v", sum)
	if sum.Held < runs/2 || sum.Late < runs/10 || sum.Earlier < runs/40 || sum.Released < runs/10 {
		t.Errorf("it happens too little: %+v", sum)
	}
	for name, broken := range map[string]oracleBroken{
		"a late answer counts from the start of the latest round": {asLatest: true},
		"an answer counts from when it comes":                     {fromNow: true},
		"a late answer counts after the release":                  {afterRelease: true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range runs {
				if why := runOracle(uint64(seed), broken, new(oracleSum)); why != "" {
					t.Logf("refuted by seed %d: %s", seed, why)
					return
				}
			}
			t.Errorf("not refuted in %d runs", runs)
		})
	}
}

type oracleBroken struct{ asLatest, fromNow, afterRelease bool }

// oracleSum counts what has happened.
type oracleSum struct{ Held, Late, Earlier, Released int }

const (
	oracleTTL     = time.Second
	oracleTimeout = oracleTTL / 20
)

type oracleEvent struct {
	at time.Duration
	do func()
}

type oracle struct {
	rng    *rand.Rand
	broken oracleBroken
	sum    *oracleSum
	now    time.Duration
	events []oracleEvent // in order
	nodes  []rule.Entry
	dark   [2]time.Duration // between these, no message comes through
	all    []*oracleHolder
	why    string
}

type oracleHolder struct {
	o       *oracle
	name    string
	holder  node.Holder
	core    core.Attempt
	starts  []time.Duration // of rounds; the first is the acquisition's
	best    []time.Duration // by node: the latest start that it was told to have accepted; -1: none
	wasHeld bool
}

func runOracle(seed uint64, broken oracleBroken, sum *oracleSum) (why string) {
	o := &oracle{rng: rand.New(rand.NewPCG(seed, 1)), broken: broken, sum: sum, now: time.Hour}
	o.nodes = make([]rule.Entry, []int{1, 3, 5}[o.rng.IntN(3)])
	for i := range 2 + o.rng.IntN(3) {
		o.after(o.upTo(3*oracleTTL), func() { o.begin(i) })
	}
	o.dark[0] = o.now + o.upTo(8*oracleTTL)
	o.dark[1] = o.dark[0] + o.upTo(3*oracleTTL)
	end := o.now + 12*oracleTTL
	for len(o.events) > 0 && o.why == "" {
		e := o.events[0]
		o.events = o.events[1:]
		if o.now = e.at; o.now > end {
			break
		}
		e.do()
		o.look()
	}
	return o.why
}

func (o *oracle) upTo(d time.Duration) time.Duration {
	return time.Duration(o.rng.Int64N(int64(d) + 1))
}

func (o *oracle) after(d time.Duration, do func()) {
	at := sort.Search(len(o.events), func(i int) bool { return o.events[i].at > o.now+d })
	o.events = slices.Insert(o.events, at, oracleEvent{o.now + d, do})
}

// delay is how long a message takes: mostly little, sometimes about the node timeout or longer than
// a TTL; -1: it is lost.
func (o *oracle) delay() time.Duration {
	switch c := o.rng.IntN(100); {
	case o.now >= o.dark[0] && o.now < o.dark[1], c < 4:
		return -1
	case c < 8:
		return o.upTo(3 * oracleTTL / 2)
	case c < 40:
		return o.upTo(oracleTTL / 3)
	}
	return o.upTo(oracleTimeout / 4)
}

func (o *oracle) begin(i int) {
	h := &oracleHolder{o: o, name: name(i % 3), holder: node.Holder(fmt.Sprint(i)), starts: []time.Duration{o.now}}
	for range o.nodes {
		h.best = append(h.best, -1)
	}
	o.all = append(o.all, h)
	var action core.Action
	h.core, action = core.NewAttempt(core.Params{Nodes: len(o.nodes), TTL: oracleTTL, Start: o.now, Proposal: 1})
	h.send(action)
	var step func()
	step = func() {
		h.core.Tick(o.now)
		due, is := h.core.ExtendDue()
		switch {
		case h.core.Phase() == core.Holding && o.rng.IntN(60) == 0:
			h.release()
			return
		case h.core.Phase() == core.Holding && o.rng.IntN(25) == 0:
			h.extend(h.core.StartExtend)
		case is && due <= o.now:
			h.extend(h.core.Renew)
		}
		o.after(oracleTTL/50, step)
	}
	step()
}

// extend begins a round, or goes on with one.
func (h *oracleHolder) extend(begin func(time.Duration) core.Action) {
	before, _ := h.core.Extension()
	action := begin(h.o.now)
	if round, _ := h.core.Extension(); round != before {
		h.starts = append(h.starts, h.o.now)
	}
	h.send(action)
}

func (h *oracleHolder) release() {
	h.o.sum.Released++
	before := h.core
	h.send(h.core.StartRelease(h.o.now))
	if h.o.broken.afterRelease {
		h.core = before
	}
}

func (h *oracleHolder) send(action core.Action) {
	o := h.o
	for n := range o.nodes {
		if !action.To.Has(n) {
			continue
		}
		begun := h.starts[len(h.starts)-1]
		told := false
		hear := func(r core.Reply, late bool) {
			switch {
			case !late || action.Op == core.Extend:
				h.hear(action, n, begun, r, late)
			case action.Op == core.Acquire:
				h.send(h.core.OnLateAcquire(n, r, 0))
			}
		}
		o.after(oracleTimeout, func() {
			if !told {
				told = true
				hear(core.Reply{Silent: true}, false)
			}
		})
		there := o.delay()
		if there < 0 {
			continue
		}
		o.after(there, func() {
			request := node.Request{Op: action.Op, Holder: h.holder, TTL: oracleTTL, Token: max(action.Token, action.Floor)}
			a, _ := rule.ServeShared(&o.nodes[n], nil, o.now, request)
			back := o.delay()
			if back < 0 {
				return
			}
			o.after(back, func() {
				late := told
				told = true
				hear(core.Reply{Status: a.Status, Register: a.Register}, late)
			})
		})
	}
}

func (h *oracleHolder) hear(action core.Action, n int, begun time.Duration, r core.Reply, late bool) {
	o := h.o
	h.core.Tick(o.now)
	holds := h.core.Phase() == core.Holding
	switch action.Op {
	case core.Acquire:
		h.send(h.core.OnAcquire(n, r, o.now))
	case core.Confirm:
		h.send(h.core.OnConfirm(n, action.Token, r, o.now))
	case core.Release:
		h.core.OnRelease(n, r)
	case core.Extend:
		mark, _ := h.core.Mark()
		round, latest := action.Round, uint32(len(h.starts)-1)
		h.breaks(&round, late)
		if accepted := holds && action.Token == 0 && r.Status == core.Granted && r.Register <= mark &&
			begun > h.best[n]; accepted {
			h.best[n] = begun
			if late {
				o.sum.Late++
			}
			if action.Round != latest {
				o.sum.Earlier++
			}
		}
		h.send(h.core.OnExtend(n, round, action.Token, r, o.now))
	}
	if !h.wasHeld && h.core.Phase() == core.Holding {
		h.wasHeld = true
		o.sum.Held++
	}
}

// breaks changes what an attempt is told.
func (h *oracleHolder) breaks(round *uint32, late bool) {
	if h.o.broken.asLatest && late {
		*round, _ = h.core.Extension()
	}
	if h.o.broken.fromNow {
		h.core.StartNow(*round, h.o.now)
	}
}

// until is the validity that a holder may believe in.
func (h *oracleHolder) until() time.Duration {
	until := h.starts[0]
	for _, start := range h.starts {
		if count := 0; start > until {
			for _, best := range h.best {
				if best >= start {
					count++
				}
			}
			if count >= core.Quorum(len(h.best)) {
				until = start
			}
		}
	}
	return core.Validity(until, oracleTTL)
}

// look compares what holders believe with what the nodes have.
func (o *oracle) look() {
	believes := ""
	for _, h := range o.all {
		if h.core.Phase() != core.Holding || o.now >= h.core.Until() {
			continue
		}
		leases := 0
		for _, e := range o.nodes {
			if e.Holder == h.holder && o.now < e.Expires {
				leases++
			}
		}
		switch {
		case believes != "":
			o.why = fmt.Sprintf("%s and %s believe to have the name", believes, h.name)
		case leases < core.Quorum(len(o.nodes)):
			o.why = fmt.Sprintf("%s believes in the leases of %d of %d nodes", h.name, leases, len(o.nodes))
		case h.core.Until() > h.until(), h.core.Until() < h.until() && o.broken == oracleBroken{}:
			o.why = fmt.Sprintf("%s believes until %v, and the nodes' answers say %v", h.name, h.core.Until()-h.starts[0],
				h.until()-h.starts[0])
		}
		believes = h.name
	}
}
