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

// StartTogether starts operations as one batch, all in one lane, that is large enough
// to look at the server once, after it, whatever else goes on.
func (n *Node) StartTogether(timeout time.Duration, all ...Starting) {
	var batch []started
	for _, s := range all {
		if n.check(&s.Request) != nil || s.Request.Op > node.Release {
			n.Start(s.Request, timeout, s.Call) // refuses it
			return
		}
		batch = append(batch, started{s.Request, timeout, s.Call})
	}
	var fillers filler
	for range worthLooking {
		// Changes nothing: nobody holds it.
		r := node.Request{Op: node.Confirm, Name: "filler", Holder: "00000000000000000000000000000001:", Token: 1}
		fillers.Add(1)
		batch = append(batch, started{r, timeout, &fillers})
	}
	n.exchange(&n.lanes[node.Stripe(all[0].Request.Name)%laneCount], batch, nil, new(keys))
	fillers.Wait()
}

type filler struct{ sync.WaitGroup }

func (f *filler) Wanted() bool            { return true }
func (f *filler) Done(node.Answer, error) { f.WaitGroup.Done() }
