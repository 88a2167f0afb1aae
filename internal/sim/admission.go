package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
)

// admission is what a process does to have the store of one node admitted. It drives an admit.Try
// over the network, one at a time, as admit.Admission does for an engine.
type admission struct {
	running bool
	waiting []func(votes bool)
	until   time.Duration // on the client's clock: for so long the last finding is believed
	// released are the holders that a release was sent for: what they asked for before is not sent
	// after it. An engine keeps such requests in order, or does not send them any more.
	released  map[node.Holder]bool
	sentAgain map[node.Holder]time.Duration // when what was sent again after an admission arrives
}

// For how long a client waits for the answer to a step of a try, and believes what the try found.
// This is short enough for leases of a second.
const (
	stepTimeout = 500 * time.Millisecond
	askTimeout  = 250 * time.Millisecond
	leastPause  = 200 * time.Millisecond
	mostPause   = time.Second
)

// admit has a node admitted that has just refused to promise something. Then is told whether
// the node votes now, as far as this client knows.
func (c *client) admit(i int, then func(votes bool)) {
	a := &c.admissions[i]
	switch {
	case a.running:
		a.waiting = append(a.waiting, then)
		return
	case c.now() < a.until:
		then(false)
		return
	}
	a.running, a.waiting = true, append(a.waiting, then)
	c.try(i, func(t *try) {
		if t.Err != nil {
			c.w.violate("admission", fmt.Sprintf("client %d cannot use node %d: %v", c.id, i, t.Err))
		}
		votes := t.Err == nil && t.Absence == node.Absence{}
		a.running, a.until = false, 0
		if !votes {
			a.until = c.now() + min(max(t.Absence.Wait, leastPause), mostPause)
		}
		waiting := a.waiting
		a.waiting = nil
		for _, then := range waiting {
			then(votes)
		}
	})
}

// try is an admit.Try of a client's, about a node.
type try struct {
	*admit.Try
	c    *client
	node int
	// founded: when the others were asked, a majority had been admitted before.
	founded  bool
	reads    []reading // what the nodes have said, by node
	recorded bool      // the store had terms recorded when it was looked at
	asked    int       // how often the others were asked since then
	between  between
	end      func(*try)
}

// try begins one. End is told when it is over, unless the process is killed.
func (c *client) try(i int, end func(*try)) {
	t := &try{Try: admit.Begin(admit.Client{Terms: c.terms, Nodes: len(strings.Fields(c.terms.Members)), New: c.says}),
		c: c, node: i, end: end}
	t.goOn()
}

// goOn carries out one step, and then the rest. The process may be paused or killed between any
// two.
func (t *try) goOn() {
	c, w := t.c, t.c.w
	facts := t.Facts
	t.strange()
	switch t.Step {
	case admit.StepLook:
		exchange(c, t.node, stepTimeout, (*server).facts, func(f admit.Facts, err error) {
			t.told(err, func() {
				t.asked = 0
				t.recorded = f.Terms != (admit.Terms{})
				t.Looked(w.rules.facts(t, f))
			})
		})
	case admit.StepNote:
		exchange(c, t.node, stepTimeout, func(n *server) bool { return w.rules.note(n, facts) }, func(done bool, err error) {
			t.told(err, func() { t.Noted(done) })
		})
	case admit.StepAsk:
		t.founded = w.founded
		w.steps.asks(t)
		t.asked++
		t.reads = make([]reading, len(w.nodes))
		c.ask(t.node, t.reads, func(others []*node.Registers) {
			t.told(nil, func() { t.Asked(w.rules.others(t, others)) })
		})
	case admit.StepRaise:
		w.rules.raise(t, func(err error) { t.told(err, t.Raised) })
	case admit.StepMark:
		t.mark(func(done bool, err error) { t.told(err, func() { t.Marked(done) }) })
	case admit.StepEnd:
		if t.Warning != "" && t.founded && w.rests(registersSurvive) {
			w.violate(
				"admission", fmt.Sprintf("node %d was admitted without the registers of a majority, which had not lost its memory",
					t.node))
		}
		w.note("client %[1]d has tried to have node %[2]d admitted: %[3]d", c.id, t.node, uint64(t.Absence.Cause), 0)
		t.end(t)
	}
}

// raise raises the registers.
func (t *try) raise(done func(error)) {
	tokens := t.Tokens
	exchange(t.c, t.node, stepTimeout, func(n *server) bool { n.store.Raise(tokens); return true },
		func(_ bool, err error) { done(err) })
}

// mark sets the mark.
func (t *try) mark(done func(bool, error)) {
	c, facts, empty := t.c, t.Facts, t.Empty
	exchange(c, t.node, stepTimeout, func(n *server) bool {
		done := c.w.rules.mark(n, facts, c.terms, empty)
		if done {
			c.w.steps.admitted(n, t)
		}
		return done
	}, done)
}

// told tells the try the outcome of a step.
func (t *try) told(err error, outcome func()) {
	if err != nil {
		t.Failed(err)
	} else {
		outcome()
	}
	t.goOn()
}

// ask asks the other nodes for their registers, all at once. Done is told what was answered in
// time, nil for each that did not.
func (c *client) ask(self int, reads []reading, done func([]*node.Registers)) {
	var others []*node.Registers
	missing := 0
	for i := range len(strings.Fields(c.terms.Members)) {
		if i == self {
			continue
		}
		at := len(others)
		others = append(others, nil)
		if i >= len(c.w.nodes) {
			continue // it is in no other client's group, and does not answer
		}
		missing++
		exchange(c, i, askTimeout, (*server).read, func(r reading, err error) {
			others[at], reads[i] = r.Registers, r
			if missing--; missing == 0 {
				done(others)
			}
		})
	}
	if missing == 0 {
		c.spawn(func() { done(others) })
	}
}

// exchange sends a node something else than an operation. Done is told what the node answers, or
// the error once it has not done so for the limit. What was sent may be carried out later, and
// twice.
func exchange[T any](c *client, i int, limit time.Duration, serve func(*server) T, done func(T, error)) {
	w, n, l := c.w, c.w.nodes[i], &c.links[i]
	over := false
	tell := func(answer T, err error) {
		if !over {
			over = true
			done(answer, err)
		}
	}
	var none T
	c.after(limit, func() { tell(none, errNoAnswer) })
	at, ok := w.arrival(l, toNode)
	if !ok {
		return
	}
	if !w.quiet && w.chance(w.profile.twice) {
		if again := at + w.wide(3*w.maxTTL); again < w.quietAt {
			w.at(again, func() {
				if !n.down {
					serve(n)
				}
			})
		}
	}
	epoch := c.epoch
	w.at(at, func() {
		if n.down {
			return
		}
		answer := serve(n)
		if at, ok := w.arrival(l, toClient); ok && c.epoch == epoch {
			w.atOf(c, at, func() { tell(answer, nil) })
		}
	})
}
