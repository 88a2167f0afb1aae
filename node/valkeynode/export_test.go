package valkeynode

import (
	"sync"
	"time"

	"github.com/fenlock/fenlock"
)

// Starting is an operation that is to be started.
type Starting struct {
	Op      fenlock.Operation
	Request fenlock.Request
	Call    fenlock.Call
}

// StartTogether starts operations as one batch, all in one lane, that is large enough
// to look at the server once, after it, whatever else goes on.
func (n *Node) StartTogether(timeout time.Duration, all ...Starting) {
	var batch []started
	for _, s := range all {
		if n.check(s.Op, &s.Request) != nil || s.Op < fenlock.OpAcquire || s.Op > fenlock.OpRelease {
			n.Start(s.Op, s.Request, timeout, s.Call) // refuses it
			return
		}
		batch = append(batch, started{s.Op, s.Request, timeout, s.Call})
	}
	var fillers filler
	for range worthLooking {
		// Changes nothing: nobody holds it.
		r := fenlock.Request{Name: "filler", Holder: "00000000000000000000000000000001:", Token: 1}
		fillers.Add(1)
		batch = append(batch, started{fenlock.OpConfirm, r, timeout, &fillers})
	}
	n.exchange(&n.lanes[fenlock.Stripe(all[0].Request.Name)%laneCount], batch, nil, new(keys))
	fillers.Wait()
}

type filler struct{ sync.WaitGroup }

func (f *filler) Wanted() bool               { return true }
func (f *filler) Done(fenlock.Answer, error) { f.WaitGroup.Done() }
