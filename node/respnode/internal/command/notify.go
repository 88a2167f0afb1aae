package command

import (
	"strings"

	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// NotifyPrefix and a client's identity are the channel on which its waiters are
// notified. scripts/queue.lua has it too.
const NotifyPrefix = "fenlock-wake:"

// DescribeSubscribe says what the user lacks who must not subscribe.
func DescribeSubscribe(err error) error {
	reply, ok := resp.IsError(err)
	if ok && strings.HasPrefix(reply.Error(), "NOPERM") {
		return engine.Misconfiguredf(
			"the server's ACL does not let this user be notified when a lock is free: it needs +subscribe and &%s* (%s)",
			NotifyPrefix, reply)
	}
	return err
}
