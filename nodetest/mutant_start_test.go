package nodetest_test

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/node"
)

// startClient is an Ordered on a sound node, and starts as change says.
type startClient struct {
	*client
	held func() // what it starts late
}

func (c *startClient) Start(r node.Request, _ time.Duration, call node.Call) {
	c.broken.start(c, r, call)
}

func (c *startClient) InOrder() bool { return true }

func (c *startClient) Engine() any { return c }

func startSoundly(c *startClient, r node.Request, call node.Call) {
	if r.Op > node.Release {
		call.Done(node.Answer{}, c.wrap(node.ErrInvalid, r))
	} else if call.Wanted() {
		call.Done(c.Do(context.Background(), r))
	}
}

// starting has operations started in another way.
func starting(f func(c *startClient, r node.Request, call node.Call)) func(*broken) {
	return func(n *broken) { n.start = f }
}

// startMutants are an Ordered.
var startMutants = []mutant{
	{"none that is started", "", starting(startSoundly)},
	{"what nobody wants is sent", "StartedUnwantedIsNotSent",
		starting(func(c *startClient, r node.Request, call node.Call) {
			call.Done(c.Do(context.Background(), r))
		})},
	{"anything is started", "StartedForceReleaseIsRefused", starting(func(c *startClient, r node.Request, call node.Call) {
		call.Done(c.Do(context.Background(), r))
	})},
	{"done twice", "StartedReleaseFreesAtOnce", starting(func(c *startClient, r node.Request, call node.Call) {
		startSoundly(c, r, call)
		startSoundly(c, r, call)
	})},
	{"never done", "StartedExtendSetsTheNewTTL", starting(func(c *startClient, r node.Request, call node.Call) {
		if r.Op != node.Extend {
			startSoundly(c, r, call)
		}
	})},
	{"a confirm that is an extend", "StartedConfirmDoesNotProlong",
		starting(func(c *startClient, r node.Request, call node.Call) {
			if r.Op == node.Confirm {
				r.Op = node.Extend
			}
			startSoundly(c, r, call)
		})},
	{"a release overtakes its acquire", "StartedStaysInOrder",
		starting(func(c *startClient, r node.Request, call node.Call) {
			if c.held != nil && r.Op == node.Release {
				startSoundly(c, r, call)
				c.held()
				c.held = nil
				return
			}
			if c.held != nil {
				c.held()
			}
			if c.held = func() { startSoundly(c, r, call) }; r.Op != node.Acquire || r.Name != "name 7" {
				c.held()
				c.held = nil
			}
		})},
	{"a closed node starts", "StartedCloseEndsOnlyThisClient",
		starting(func(c *startClient, r node.Request, call node.Call) {
			other := &startClient{client: &client{broken: c.broken}}
			startSoundly(other, r, call)
		})},
}
