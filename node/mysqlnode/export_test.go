package mysqlnode

import (
	"time"

	"github.com/fenlock/fenlock/node/admit"
)

// Slack is by how much leases are longer.
const Slack = slack

// BeforeWrite has f called before each row is written, once it was read.
func (n *Node) BeforeWrite(f func()) { n.beforeWrite = f }

// LongestSilence is how long the server may take to answer a listener.
func (n *Node) LongestSilence(d time.Duration) { n.silence = d }

// Rewrite is how often a listener says that it is there.
func (n *Node) Rewrite(d time.Duration) { n.rewrite = d }

// Rests is for how long a listener that is not woken does not look.
func (n *Node) Rests(d time.Duration) { n.rests, n.rewrite = d, d }

// Store is what package admit asks the node for.
func (n *Node) Store() admit.Store { return store{n.pool} }
