package nodetest_test

import (
	"context"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/nodetest"
)

// startClient is a Starter on a sound node, and starts as change says.
type startClient struct {
	*client
	start func(c *startClient, op fenlock.Operation, r fenlock.Request, call fenlock.Call)
	held  func() // what it starts late
}

func (c *startClient) Start(op fenlock.Operation, r fenlock.Request, _ time.Duration, call fenlock.Call) {
	c.start(c, op, r, call)
}

func (c *startClient) operate(op fenlock.Operation, r fenlock.Request) (fenlock.Answer, error) {
	switch op {
	case fenlock.OpAcquire:
		return c.Acquire(context.Background(), r)
	case fenlock.OpConfirm:
		return c.Confirm(context.Background(), r)
	case fenlock.OpExtend:
		return c.Extend(context.Background(), r)
	}
	return c.Release(context.Background(), r)
}

func startSoundly(c *startClient, op fenlock.Operation, r fenlock.Request, call fenlock.Call) {
	if call.Wanted() {
		call.Done(c.operate(op, r))
	}
}

var startMutants = []struct {
	name, caught string
	start        func(c *startClient, op fenlock.Operation, r fenlock.Request, call fenlock.Call)
}{
	{"none that is started", "", startSoundly},
	{"what nobody wants is sent", "StartedUnwantedIsNotSent", func(c *startClient, op fenlock.Operation, r fenlock.Request, call fenlock.Call) {
		call.Done(c.operate(op, r))
	}},
	{"done twice", "StartedReleaseFreesAtOnce", func(c *startClient, op fenlock.Operation, r fenlock.Request, call fenlock.Call) {
		startSoundly(c, op, r, call)
		startSoundly(c, op, r, call)
	}},
	{"never done", "StartedExtendSetsTheNewTTL", func(c *startClient, op fenlock.Operation, r fenlock.Request, call fenlock.Call) {
		if op != fenlock.OpExtend {
			startSoundly(c, op, r, call)
		}
	}},
	{"a confirm that is an extend", "StartedConfirmDoesNotProlong", func(c *startClient, op fenlock.Operation, r fenlock.Request, call fenlock.Call) {
		if op == fenlock.OpConfirm {
			op = fenlock.OpExtend
		}
		startSoundly(c, op, r, call)
	}},
	{"a release overtakes its acquire", "StartedStaysInOrder", func(c *startClient, op fenlock.Operation, r fenlock.Request, call fenlock.Call) {
		if c.held != nil && op == fenlock.OpRelease {
			startSoundly(c, op, r, call)
			c.held()
			c.held = nil
			return
		}
		if c.held != nil {
			c.held()
		}
		if c.held = func() { startSoundly(c, op, r, call) }; op != fenlock.OpAcquire || r.Name != "name 7" {
			c.held()
			c.held = nil
		}
	}},
	{"a closed node starts", "StartedCloseEndsOnlyThisClient", func(c *startClient, op fenlock.Operation, r fenlock.Request, call fenlock.Call) {
		other := &startClient{client: &client{broken: c.broken}}
		startSoundly(other, op, r, call)
	}},
}

func startHarness(start func(c *startClient, op fenlock.Operation, r fenlock.Request, call fenlock.Call)) nodetest.Harness {
	n := newBroken()
	return nodetest.Harness{Node: &startClient{client: &client{broken: n}, start: start}, Other: &startClient{client: &client{broken: n}, start: start},
		Wait: func(d time.Duration) { n.now.Add(int64(d)) }, Fast: true, Patience: time.Second / 5}
}
