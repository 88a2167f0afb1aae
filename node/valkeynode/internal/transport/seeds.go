package transport

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/node/respnode/resp"
)

// seedTimeout is for how long the seeds of a cluster are asked.
const seedTimeout = time.Second

// AskSeeds asks each seed of a cluster, except the server that the newest connection leads to. It
// returns the replies by address; a seed that does not answer is left out.
func (c *Conn) AskSeeds(ctx context.Context, command resp.Command) map[string]resp.Reply {
	if c.route == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, seedTimeout)
	defer cancel()
	defer context.AfterFunc(c.Life(), cancel)()
	type answer struct {
		address string
		reply   resp.Reply
		err     error
	}
	seeds := c.route.others()
	answers := make(chan answer, len(seeds))
	for _, address := range seeds {
		go func() {
			reply, err := c.server.askOnce(ctx, address, c.secrets, command)
			answers <- answer{address, reply, err}
		}()
	}
	replies := make(map[string]resp.Reply)
	for range seeds {
		if a := <-answers; a.err == nil {
			replies[a.address] = a.reply
		}
	}
	return replies
}

// Leave says that the connection of this number leads to no server of the node.
func (c *Conn) Leave(dial uint64) {
	if c.route != nil && dial == c.Dial() {
		c.route.abandon()
	}
}
