package valkeynode

import (
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
)

// Starting is an operation that is to be started.
type Starting struct {
	Request node.Request
	Call    node.Call
}

// StartTogether starts operations as one batch, all in one pipeline, that is large
// enough to look at the server once, after it, whatever else goes on.
func (n *Node) StartTogether(timeout time.Duration, all ...Starting) {
	var requests []node.Request
	var calls []node.Call
	for _, s := range all {
		if n.keys.Check(&s.Request) != nil || s.Request.Op > node.Release {
			n.Start(s.Request, timeout, s.Call) // refuses it
			return
		}
		requests, calls = append(requests, s.Request), append(calls, s.Call)
	}
	var fillers filler
	const worthLooking = 3 // package admission has it
	for range worthLooking {
		// Changes nothing: nobody holds it.
		requests = append(requests, node.Request{Op: node.Confirm, Name: "filler", Holder: "00000000000000000000000000000001:", Token: 1})
		calls = append(calls, &fillers)
		fillers.Add(1)
	}
	n.pipelines.Exchange(timeout, requests, calls)
	fillers.Wait()
}

type filler struct{ sync.WaitGroup }

func (f *filler) Wanted() bool            { return true }
func (f *filler) Done(node.Answer, error) { f.WaitGroup.Done() }
