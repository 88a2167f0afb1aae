package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/fenlock/fenlock/internal/check"
	"github.com/fenlock/fenlock/internal/core"
)

// Script is a run without chance: the clients do what is written. It is played
// here and by package fenlock's own shell, whose tests compare what the nodes saw:
// the simulator's copy of the shell (shell.go, wait.go) must not drift away.
type Script struct {
	Name                      string
	Nodes, Clients            int
	TTL, NodeTimeout, MaxHold time.Duration
	Starters                  bool // the nodes are
	Steps                     []Step
	End                       time.Duration
}

// Step is one thing that a client does.
type Step struct {
	At     time.Duration
	Client int
	Do     Deed
	Lock   string // what the deed is done to: a name for what an acquisition comes to
	Name   int    // of a script's three names, for an acquisition
	Node   int    // for cuts
}

// Deed is what a client can do in a script.
type Deed uint8

// Acquisitions, what is done to them, and a client's links to a node. What is
// sent over a link that is cut is lost.
const (
	Acquire Deed = iota
	TryAcquire
	Cancel
	Extend
	Release
	CutRequests
	CutReplies
	Heal
)

// Said is a line of what happened at a time: sorted within the millisecond,
// because goroutines of one moment have no order.
type Said struct {
	At   time.Duration
	What string
}

// Tell puts lines into the order in which they are compared, one string each.
func Tell(said []Said) (lines []string) {
	for _, s := range said {
		lines = append(lines, fmt.Sprintf("%6d ms  %s", s.At.Milliseconds(), s.What))
	}
	slices.Sort(lines)
	return lines
}

// Request and Outcome are the two sorts of lines.
func Request(client, node int, op core.Op, name int, place bool, status core.Status) string {
	return fmt.Sprintf("client %d, node %d: %v of name %d, place %t: %v", client, node, op, name, place, status)
}

// Outcome tells what became of an acquisition.
func Outcome(lock, what string) string { return lock + " " + what }

// ever is longer than any script.
const ever = 1000 * time.Hour

// Play plays a script in the simulator.
func Play(s Script) []string {
	w := &world{engine: newEngine(0), rules: shipped(), maxTTL: s.TTL, quietAt: ever}
	w.profile.starters = s.Starters
	w.newNames(3)
	for i := range s.Nodes {
		n := newNode(w, i)
		n.clock.offset = time.Hour
		w.nodes = append(w.nodes, n)
	}
	var said []Said
	tell := func(what string) { said = append(said, Said{w.now, what}) }
	w.served = func(client, node int, r request, a answer) {
		tell(Request(client, node, r.op, r.name, r.place.Stamp != 0, a.status))
	}
	for i := range s.Clients {
		c := &client{w: w, id: i, ttl: s.TTL, nodeTimeout: s.NodeTimeout, maxHold: s.MaxHold, wall: ever}
		c.clock.offset = time.Hour
		c.links = make([]link, s.Nodes)
		c.begin(0)
		w.clients = append(w.clients, c)
	}
	w.validity, w.tokens = check.NewValidity(len(w.names)), check.NewTokens(len(w.names))
	w.progress = check.NewProgress(0, ever, ever)
	acquisitions, locks := make(map[string]*acquisition), make(map[string]*lock)
	for _, step := range s.Steps {
		c := w.clients[step.Client]
		w.atOf(c, step.At, func() {
			switch step.Do {
			case Acquire, TryAcquire:
				acquisitions[step.Lock] = c.acquire(step.Name, step.Do == Acquire, func(l *lock) {
					if l == nil {
						tell(Outcome(step.Lock, "failed"))
						return
					}
					tell(Outcome(step.Lock, "acquired"))
					locks[step.Lock] = l
					l.onEnd = func() { tell(Outcome(step.Lock, "ended")) }
				})
			case Cancel:
				acquisitions[step.Lock].cancel()
			case Extend:
				locks[step.Lock].extendNow()
			case Release:
				locks[step.Lock].release(func() { tell(Outcome(step.Lock, "released")) })
			case CutRequests:
				c.links[step.Node].blocked[toNode] = ever
			case CutReplies:
				c.links[step.Node].blocked[toClient] = ever
			case Heal:
				c.links[step.Node].blocked = [2]time.Duration{}
			}
		})
	}
	for len(w.agenda.heap) > 0 && w.agenda.heap[0].at <= s.End {
		w.step()
	}
	return Tell(said)
}
