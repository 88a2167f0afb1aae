package nodetest_test

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/nodetest"
)

// startClient is an Ordered on a sound node, and starts as change says.
type startClient struct {
	*client
	start func(c *startClient, r node.Request, call node.Call)
	held  func() // what it starts late
}

func (c *startClient) Start(r node.Request, _ time.Duration, call node.Call) {
	c.start(c, r, call)
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

var startMutants = []struct {
	name, caught string
	start        func(c *startClient, r node.Request, call node.Call)
}{
	{"none that is started", "", startSoundly},
	{"what nobody wants is sent", "StartedUnwantedIsNotSent", func(c *startClient, r node.Request, call node.Call) {
		call.Done(c.Do(context.Background(), r))
	}},
	{"anything is started", "StartedForceReleaseIsRefused", func(c *startClient, r node.Request, call node.Call) {
		call.Done(c.Do(context.Background(), r))
	}},
	{"done twice", "StartedReleaseFreesAtOnce", func(c *startClient, r node.Request, call node.Call) {
		startSoundly(c, r, call)
		startSoundly(c, r, call)
	}},
	{"never done", "StartedExtendSetsTheNewTTL", func(c *startClient, r node.Request, call node.Call) {
		if r.Op != node.Extend {
			startSoundly(c, r, call)
		}
	}},
	{"a confirm that is an extend", "StartedConfirmDoesNotProlong", func(c *startClient, r node.Request, call node.Call) {
		if r.Op == node.Confirm {
			r.Op = node.Extend
		}
		startSoundly(c, r, call)
	}},
	{"a release overtakes its acquire", "StartedStaysInOrder", func(c *startClient, r node.Request, call node.Call) {
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
	}},
	{"a closed node starts", "StartedCloseEndsOnlyThisClient", func(c *startClient, r node.Request, call node.Call) {
		other := &startClient{client: &client{broken: c.broken}}
		startSoundly(other, r, call)
	}},
}

func startHarness(start func(c *startClient, r node.Request, call node.Call)) nodetest.Harness {
	n := newBroken()
	return nodetest.Harness{Node: &startClient{client: &client{broken: n}, start: start}, Other: &startClient{client: &client{broken: n}, start: start},
		Wait: func(d time.Duration) { n.now.Add(int64(d)) }, Fast: true, Patience: time.Second / 5}
}
