package etcdnode

import (
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
)

// Store is what package admit asks a node.
func (n *Node) Store() admit.Store { return n.voting }

// Recall has the node remember a lease from before its cluster was made anew. The new cluster
// counts its revisions anew: what other holds there now has the same revision, and so has the mark.
func (n *Node) Recall(name string, other *Node, r node.Request) {
	n.voting.votes(other.voting.now())
	is := other.held.byName[name]
	was := record{origin: 1, ttl: r.TTL, written: time.Hour, holder: r.Holder}
	n.held.keep(name, &held{record: was, mod: is.mod, value: was.String()}, true)
}

// End ends a lease of the node's, as its timer does, and returns when that was carried out.
func (n *Node) End(name string) {
	n.held.over(name, n.held.byName[name].until)
	for busy := true; busy; time.Sleep(time.Millisecond) {
		n.held.mu.Lock()
		busy = n.held.removing > 0
		n.held.mu.Unlock()
	}
}
