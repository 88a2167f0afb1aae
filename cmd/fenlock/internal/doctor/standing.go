package doctor

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rebuild"
)

// State is how a node does, in a word. The words are stable: programs read them.
type State string

// The states of a node.
const (
	Votes         State = "votes"
	Ready         State = "ready" // it votes from the next request on
	Out           State = "out"   // it votes later, if what Standing.Why says comes true
	Down          State = "down"  // no answer, or an error that may pass
	Misconfigured State = "misconfigured"
)

// Standing is a node's, in its group.
type Standing struct {
	State State
	Why   string        // it does not vote; without the node's name
	Wait  time.Duration // Out: for how long still; 0 if that is not a matter of time

	blocked bool     // what it waits for does not come by itself
	empty   []string // as in node.Registers, once it is admitted
	pending bool     // its registers have to be rebuilt from the others', which cannot be yet
	foreign bool     // it waits for a node that belongs to another group
	weak    bool     // it would be admitted without the registers of a majority
	terms   bool     // its record of the group refuses it: the findings about terms say so
}

// Usable reports whether the node answers for a lock that is taken now.
func (s Standing) Usable() bool { return s.State == Votes || s.State == Ready }

// Standings returns how each node does.
func (g Group) Standings() []Standing {
	now, later := g.standings(), g.later().standings()
	for i := range now {
		if now[i].State == Out && later[i].pending {
			now[i].blocked, now[i].foreign = true, later[i].foreign

			if now[i].Wait > 0 {
				now[i].Why += "; and when it has waited, " + later[i].Why
			}
		}
	}
	return now
}

// later is the group when all have waited as long as they have to, and nothing else has
// happened.
func (g Group) later() Group {
	g.Nodes = slices.Clone(g.Nodes)
	for i := range g.Nodes {
		g.Nodes[i].Examination.Wait = 0
	}
	return g
}

func (g Group) standings() []Standing {
	all := make([]Standing, len(g.Nodes))
	for i, info := range g.Nodes {
		all[i] = g.alone(i, info)
	}
	// The node that is admitted next may be what another one waits for.
	for changed := true; changed; {
		changed = false
		for i, s := range all {
			if s.pending {
				all[i] = g.rebuilt(i, all)
				changed = changed || !all[i].pending
			}
		}
	}
	return all
}

// alone is a node's standing as far as it does not depend on the others' being admitted.
func (g Group) alone(i int, info admin.NodeInfo) Standing {
	e := info.Examination
	switch why := g.refused(i, info); {
	case info.Err != nil && errors.Is(info.Err, node.ErrMisconfigured):
		return Standing{State: Misconfigured, Why: reason(info)}
	case info.Err != nil:
		return Standing{State: Down, Why: reason(info)}
	case why != "":
		return Standing{State: Misconfigured, Why: why, terms: true}
	case e.Admitted:
		return Standing{State: Votes, empty: e.Empty}
	case e.Wait > 0:
		return Standing{State: Out, Why: e.Why, Wait: e.Wait}
	case e.Rebuild:
		return Standing{State: Out, Why: e.Why, pending: true}
	}
	return Standing{State: Ready, Why: e.Why, empty: e.Empty}
}

// refused says why a client that names this group would refuse the server, or "".
func (g Group) refused(i int, info admin.NodeInfo) string {
	e := info.Examination
	if first := g.sameServer(i); first >= 0 {
		return "it is the same server as " + g.Nodes[first].Node
	}
	if g.otherMembers(info) {
		return "it belongs to another group: " + strings.Join(e.Members, ", ")
	}
	if e.MaxTTL != 0 && g.MaxTTL != 0 && e.MaxTTL != g.MaxTTL {
		return fmt.Sprintf("its group's MaxTTL is %v", e.MaxTTL)
	}
	return ""
}

// foreign returns a node other than i that answers and belongs to another group, or -1:
// an engine admits no server beside one.
func (g Group) foreign(i int) int {
	for j, info := range g.Nodes {
		if e := info.Examination; j != i && info.Err == nil &&
			(g.otherMembers(info) || e.MaxTTL != 0 && g.MaxTTL != 0 && e.MaxTTL != g.MaxTTL) {
			return j
		}
	}
	return -1
}

// rebuilt decides about a node whose registers have to be rebuilt from the others', as
// far as those are admitted now. It asks the rule that engines ask.
func (g Group) rebuilt(i int, all []Standing) Standing {
	if j := g.foreign(i); j >= 0 {
		return Standing{State: Out, Why: "its registers must be rebuilt from the others', and " + g.Nodes[j].Node +
			" belongs to another group", pending: true, foreign: true}
	}
	var others []*node.Registers
	for j, other := range g.Nodes {
		if j == i {
			continue
		}
		if s := all[j].State; s == Down || s == Misconfigured {
			others = append(others, nil)
			continue
		}
		e := other.Examination
		others = append(others, &node.Registers{Server: e.Server, Memory: e.Memory, Admitted: all[j].Usable(),
			Empty: all[j].empty})
	}
	e := g.Nodes[i].Examination
	merged, err := rebuild.Merge(len(g.Nodes), rebuild.Self{Server: e.Server, Memory: e.Memory, Untouched: e.Untouched},
		others)
	if err != nil {
		return Standing{State: Out, Why: err.Error(), pending: true}
	}
	return Standing{State: Ready, Why: e.Why, empty: merged.Empty, weak: merged.Weak}
}

// findings says of a node that does not vote why not, unless its own findings do.
func (s Standing) findings(info admin.NodeInfo, of report) {
	said := slices.ContainsFunc(info.Examination.Findings, func(f node.Finding) bool { return f.Severity > node.Note })
	sentence := capital(s.Why) + "."
	switch {
	case s.State == Misconfigured && !s.terms && !said:
		of(node.Found("misconfigured", node.Error, "%s", sentence).Do("Change it: waiting does not help."), info.Node)
	case s.State == Down && !said:
		of(node.Found("down", node.Warning, "%s", sentence).Do("Look at the node."), info.Node)
	case s.blocked && s.foreign:
		of(node.Found("rebuild", node.Error, "It does not vote: %s.", s.Why).
			Do("Start no empty server: two clients could hold a lock. First name the same servers at all clients (docs/operations.md, “What all clients agree on”)."), info.Node)
	case s.blocked:
		of(node.Found("rebuild", node.Error, "It does not vote: %s.", s.Why).
			Do("Mend the other servers first. If they are lost for good: docs/operations.md, “A majority is lost for good”."),
			info.Node)
	case s.State == Ready:
		of(node.Found("ready", node.Note, "Its vote counts from the next request on: %s.", s.Why), info.Node)
	}
}

// reason is the error of a node without its name and without what its state says already.
func reason(info admin.NodeInfo) string {
	text := strings.TrimPrefix(info.Err.Error(), info.Node+": ")
	return strings.TrimPrefix(text, node.ErrMisconfigured.Error()+": ")
}

// capital makes a sentence begin with a capital letter.
func capital(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// Seconds writes a time to wait: whole seconds, rounded up.
func Seconds(d time.Duration) string {
	return (time.Duration(math.Ceil(d.Seconds())) * time.Second).String()
}
