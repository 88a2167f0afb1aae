package valkeynode_test

import (
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// starting is an operation that is to be started.
type starting struct {
	request node.Request
	call    node.Call
}

// sendTogether starts operations as one batch, all in one pipeline. It is large enough to look at
// the server once, after it, whatever else goes on.
func sendTogether(n *valkeynode.Node, timeout time.Duration, all ...starting) {
	var requests []node.Request
	var calls []node.Call
	for _, s := range all {
		requests, calls = append(requests, s.request), append(calls, s.call)
	}
	var fillers filler
	const worthLooking = 3 // package admission has it
	for range worthLooking {
		// Changes nothing: the name is free.
		requests = append(requests, node.Request{Op: node.Confirm, Name: "filler",
			Holder: "00000000000000000000000000000001:", Token: 1})
		calls = append(calls, &fillers)
		fillers.Add(1)
	}
	if n.Exchange(timeout, requests, calls) {
		fillers.Wait()
	}
}

type filler struct{ sync.WaitGroup }

func (f *filler) Wanted() bool            { return true }
func (f *filler) Done(node.Answer, error) { f.WaitGroup.Done() }
