package respnode

import (
	"time"

	"github.com/fenlock/fenlock/node"
)

// Exchange starts operations as one batch, at once, on the goroutine of its caller. They
// use one pipeline, that of the first: tests of engines say by this what travels together.
// If one of them is invalid, that one is refused, and it returns false.
func (n *Node) Exchange(timeout time.Duration, requests []node.Request, calls []node.Call) (sent bool) {
	for i := range requests {
		if n.keys.Check(&requests[i]) != nil || requests[i].Op > node.Release {
			n.Start(requests[i], timeout, calls[i]) // refuses it
			return false
		}
	}
	n.pipelines.Exchange(timeout, requests, calls)
	return true
}
