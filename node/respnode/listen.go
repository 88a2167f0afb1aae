package respnode

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/rule"
)

// How long a subscription that failed is not tried again: twice as long after
// each failure, give or take a quarter.
const (
	minRelisten = 50 * time.Millisecond
	maxRelisten = 2 * time.Second
)

// Listen implements node.Queuer by a subscription. An error of the first attempt to
// subscribe is returned at once,
// whatever ctx allows.
func (n *Node) Listen(ctx context.Context, client string, notify func(waiter string)) error {
	if err := rule.CheckClient(client); err != nil {
		return n.errors.Fail(fmt.Errorf("%w: %w", node.ErrInvalid, err))
	}
	l := &listener{node: n, client: client, notify: notify, first: make(chan error, 1)}
	if err := n.link.Spawn(l.run); err != nil {
		return n.errors.Fail(err)
	}
	defer context.AfterFunc(ctx, func() { l.answer(ctx.Err()) })()
	return n.errors.Fail(<-l.first)
}

// listener is the subscription to the notifications of a client's waiters.
type listener struct {
	node   *Node
	client string
	notify func(waiter string)

	answered atomic.Bool // Listen has its answer: from now on there are notifications
	first    chan error  // the answer
}

// run subscribes, again and again, until the node is closed.
func (l *listener) run() {
	ctx := l.node.link.Life()
	wait, known := minRelisten, ""
	for {
		subscribed, err := l.receive(ctx)
		if ctx.Err() != nil {
			l.answer(context.Cause(ctx))
			return
		}
		if subscribed {
			wait, known = minRelisten, ""
		}
		if err == nil {
			err = errors.New("the subscription has ended")
		}
		described := command.DescribeSubscribe(err)
		denied := described != err // what is wrong with the connection, requests are told
		err = l.node.errors.Describe(described)
		// Each reason once.
		if !l.answer(err) && denied && err.Error() != known {
			l.node.voting.Warn(err.Error())
		}
		known = err.Error()
		select {
		case <-time.After(time.Duration((0.75 + rand.Float64()/2) * float64(wait))):
		case <-ctx.Done():
		}
		wait = min(2*wait, maxRelisten)
	}
}

// receive subscribes once, and returns when that has failed or the connection
// is lost.
func (l *listener) receive(ctx context.Context) (subscribed bool, _ error) {
	var confirmed atomic.Bool
	confirm := func() { // between two replies
		confirmed.Store(true)
		if !l.answer(nil) {
			l.notify("")
		}
	}
	err := l.node.link.Subscribe(ctx, command.NotifyPrefix+l.client, confirm, func(message string) {
		said := l.client + ":" + message
		n, ok := node.ParseNotice(said)
		if ok && rule.CheckPlace(node.Place{Waiter: n.Waiter}) == nil && node.WaiterLabel(n.Waiter) == "" {
			l.notify(said)
		}
	})
	return confirmed.Load(), err
}

// answer gives Listen its answer, unless it has one.
func (l *listener) answer(err error) bool {
	first := l.answered.CompareAndSwap(false, true)
	if first {
		l.first <- err
	}
	return first
}
