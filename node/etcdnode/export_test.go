package etcdnode

import "github.com/fenlock/fenlock/node/admit"

// Store is what package admit asks a node.
func (n *Node) Store() admit.Store { return n.store }

// Recall has the node believe that its mark is of another memory, with the same revision. What it
// remembers is under that mark.
func (n *Node) Recall(memory string) { n.voting.now().memory = memory }

// Window is by how much a session is longer than what it is for.
const Window = window

// Together returns how many transactions wait to travel together.
func (n *Node) Together() int { return n.store.batcher.lanes.Waiting() }
