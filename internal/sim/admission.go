package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/internal/check"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/sim/proofsteps"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
)

// process is a process without its shell: what asks the nodes, and has their stores admitted.
type process struct {
	endpoint
	rules      *processRules
	terms      admit.Terms
	says       bool          // that all servers are new
	wall       time.Duration // what its wall clock is ahead of true time
	newest     uint64        // of its waiters in a queue
	admissions []admission
}

// processRules are what a test can break of a process. That is what its shell is given, its
// requests, what a try is told, and how the try raises registers.
type processRules struct {
	identity func(c *process, n int) int
	timers   func(c *process, d time.Duration) bool // whether one goes off
	request  func(c *process, to int, r node.Request, done func(node.Answer))
	facts    func(t *try, f admit.Facts) admit.Facts
	others   func(t *try, answers []*node.Registers) []*node.Registers
	raise    func(t *try, done func(error))
}

// newProcess returns one whose links to the nodes pass everything.
func newProcess(w *run, rules *processRules, nodes []*server, id int, clock clock) process {
	c := process{endpoint: endpoint{w: w, nodes: nodes, id: id, clock: clock, links: make([]link, len(nodes))},
		rules: rules, terms: w.terms}
	c.start(0)
	return c
}

// start starts a life of the process, which knows nothing of the one before.
func (c *process) start(epoch int) {
	n := len(c.nodes)
	c.life, c.newest = life{epoch: epoch}, 0
	c.healing = check.NewHealing(n, core.Quorum(n), c.ttl)
	c.notify, c.conns, c.admissions = make([]func(string), n), make([]conn, n), make([]admission, n)
	for i := range c.conns {
		c.conns[i].released, c.conns[i].sentAgain = map[node.Holder]bool{}, map[node.Holder]time.Duration{}
	}
}

// request sends a request to a node. Done is told the answer unless it, or the
// request, is lost. If the node does not vote, the process has it admitted, and then sends the
// request once more if there is time for that.
func (c *process) request(i int, r node.Request, done func(node.Answer)) {
	sent, released := c.now(), c.conns[i].released
	if r.Op == node.Release {
		released[r.Holder] = true
	}
	c.send(i, r, false, func(a node.Answer) {
		if a.Status != node.Rejoining {
			done(a)
			return
		}
		c.admit(i, func(votes bool) {
			if votes && c.now()-sent < c.nodeTimeout && !released[r.Holder] {
				c.send(i, r, true, done)
			} else {
				done(a)
			}
		})
	})
}

// admission is what a process does to have the store of one node admitted. It drives an admit.Try
// over the network, one at a time, as admit.Admission does for an engine.
type admission struct {
	running bool
	waiting []func(votes bool)
	until   time.Duration // on the process's clock: for so long the last finding is believed
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
func (c *process) admit(i int, then func(votes bool)) {
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
	c    *process
	node int
	// founded: when the others were asked, a majority had been admitted before.
	founded  bool
	reads    []proofsteps.Reading // what the nodes have said, by node
	recorded bool                 // the store had terms recorded when it was looked at
	asked    int                  // how often the others were asked since then
	seen     *proofsteps.Asked
	end      func(*try)
}

// try begins one. End is told when it is over, unless the process is killed.
func (c *process) try(i int, end func(*try)) {
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
				t.Looked(c.rules.facts(t, f))
			})
		})
	case admit.StepNote:
		note := func(n *server) bool { return n.rules.note(n, facts) }
		exchange(c, t.node, stepTimeout, note, func(done bool, err error) { t.told(err, func() { t.Noted(done) }) })
	case admit.StepAsk:
		t.founded = w.founded
		t.seen = t.asks()
		t.asked++
		t.reads = make([]proofsteps.Reading, len(c.nodes))
		c.ask(t.node, t.reads, func(others []*node.Registers) {
			t.told(nil, func() { t.Asked(c.rules.others(t, others)) })
		})
	case admit.StepRaise:
		c.rules.raise(t, func(err error) { t.told(err, t.Raised) })
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

// foreignTerms are those of a process of another group that tries to use the same stores. It has
// another MaxTTL, or other members, of which each store but one is a node. It is refused each time,
// and writes nothing to a store that has terms recorded.
func (w *run) foreignTerms() admit.Terms {
	other := w.terms
	members := strings.Fields(other.Members)
	kind := w.rng.IntN(4)
	if len(members) < 3 {
		kind = w.rng.IntN(3) // a group of one is known by any name
	}
	switch kind {
	case 0:
		other.MaxTTL *= 2
	case 1:
		other.MaxTTL /= 4
	case 2:
		members = append(members, "elsewhere")
	case 3:
		members = slices.Delete(members, len(members)-1, len(members))
	}
	other.Members = strings.Join(members, " ")
	return other
}

// tries has such a process try, again and again until the quiet begins.
func (c *process) tries() {
	w := c.w
	w.after(w.wide(2*time.Second), func() {
		if !w.quiet {
			nodes := min(len(strings.Fields(c.terms.Members)), len(c.nodes))
			c.try(w.rng.IntN(nodes), func(*try) { c.tries() })
		}
	})
}

// strange looks for a try of a process of another group that goes on with a store that it must not
// use.
func (t *try) strange() {
	step := t.Step
	w := t.c.w
	if t.c.terms == w.terms || step == admit.StepLook {
		return
	}
	switch {
	case step == admit.StepMark, step == admit.StepEnd && t.Err == nil && t.Absence.Cause == 0:
		w.violate("admission", fmt.Sprintf("a client with the terms %v has node %d admitted, or uses it", t.c.terms, t.node))
	case step != admit.StepEnd && t.recorded:
		w.violate("admission", fmt.Sprintf("a client with the terms %v goes on with node %d, which has %v recorded",
			t.c.terms, t.node, w.terms))
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
		done := n.rules.mark(n, facts, c.terms, empty)
		if done {
			t.admitted(n)
		}
		return done
	}, done)
}

// admitted is told that it has.
func (t *try) admitted(n *server) {
	w, voting := t.c.w, 0
	for _, other := range t.c.nodes {
		if other.votes() {
			voting++
		}
	}
	w.founded = w.founded || voting >= node.Quorum(len(t.c.nodes))
	if w.steps == nil {
		return
	}
	after := *t.Try // what it warns of says what kind of admission it is
	after.Marked(true)
	w.steps.Admitted(proofsteps.Admission{Of: n.seen(), Weak: after.Warning != "",
		New: strings.Contains(after.Warning, "servers are new"), Empty: t.Empty, Asked: t.seen, Reads: t.reads,
		Memories: t.c.memories()})
}

// asks tells the steps of the models that the others are asked.
func (t *try) asks() *proofsteps.Asked {
	c, n := t.c, t.c.nodes[t.node]
	if c.w.steps == nil {
		return nil
	}
	return c.w.steps.Asks(proofsteps.Question{Of: n.seen(), Unused: c.says && !t.Facts.Recorded,
		Stale: t.Facts.State != n.state() || c.terms != c.w.terms, Again: t.asked > 0, Memories: c.memories()})
}

// memories are the names of what the nodes have for memories now.
func (c *process) memories() (names []string) {
	for _, n := range c.nodes {
		names = append(names, n.memoryName())
	}
	return names
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
func (c *process) ask(self int, reads []proofsteps.Reading, done func([]*node.Registers)) {
	var others []*node.Registers
	missing := 0
	for i := range len(strings.Fields(c.terms.Members)) {
		if i == self {
			continue
		}
		at := len(others)
		others = append(others, nil)
		if i >= len(c.nodes) {
			continue // it is in no other client's group, and does not answer
		}
		missing++
		read := func(n *server) proofsteps.Reading { return c.w.steps.Read(n.id, n.say()) }
		exchange(c, i, askTimeout, read, func(r proofsteps.Reading, err error) {
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
func exchange[T any](c *process, i int, limit time.Duration, serve func(*server) T, done func(T, error)) {
	w, n, l := c.w, c.nodes[i], &c.links[i]
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
	n.comesAgain(at, func() { serve(n) })
	epoch := c.epoch
	w.at(at, func() {
		if n.down {
			return
		}
		answer := serve(n)
		if at, ok := w.arrival(l, toClient); ok && c.epoch == epoch {
			c.at(at, func() { tell(answer, nil) })
		}
	})
}
