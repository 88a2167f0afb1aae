package bucketnode

import (
	"time"

	"github.com/fenlock/fenlock/node/cas"
)

// Store returns what package cas asks of the bucket.
func (n *Node) Store() cas.Store { return n.store }

// Age has so much time pass on this machine's clock since the process has read the object.
func Age(n *Node, d time.Duration) {
	n.store.mu.Lock()
	defer n.store.mu.Unlock()
	n.store.last.got -= d
}
