package bucketnode

import "github.com/fenlock/fenlock/node/cas"

// Store returns what package cas asks of the bucket.
func (n *Node) Store() cas.Store { return n.store }
