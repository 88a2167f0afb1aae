package respnode

import (
	"context"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/rule"
)

// Listen implements node.Queuer by a subscription. An error of the first attempt to
// subscribe is returned at once, whatever ctx allows.
func (n *Node) Listen(ctx context.Context, client string, notify func(waiter string)) error {
	known := "" // the reason of a failure is told once
	return n.errors.Fail(engine.Listen(ctx, n.link, client, notify, func(ctx context.Context, l *engine.Listener) error {
		if n.keys.Clustered() { // a waiter is reachable where the slot is, and nowhere else
			if _, err := n.voting.Look(ctx); err != nil {
				return err
			}
		}
		err := n.link.Subscribe(ctx, command.NotifyPrefix+client, l.Begun, func(message string) {
			said := client + ":" + message
			of, ok := node.ParseNotice(said)
			if ok && rule.CheckPlace(node.Place{Waiter: of.Waiter}) == nil && node.WaiterLabel(of.Waiter) == "" {
				l.Tell(said)
			}
		})
		if l.Begins() {
			known = ""
		}
		if err == nil {
			return nil
		}
		described := command.DescribeSubscribe(err)
		denied := described != err // what is wrong with the connection, requests are told
		err = n.errors.Describe(described)
		if l.Answered() && denied && err.Error() != known && ctx.Err() == nil {
			n.voting.Warn(err.Error())
		}
		known = err.Error()
		return err
	}))
}
