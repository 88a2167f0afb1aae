package command

import (
	"fmt"
	"strconv"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// MaxGroup is how many requests one command carries out at most: the reply to it is short then,
// whatever it says of each.
const MaxGroup = 12

// Groups reports whether a request may be one of a group: some acquires, or some releases, of one
// name each, that are sent as one command.
func Groups(r *node.Request) bool {
	return r.Place.Waiter == "" && (r.Op == node.Acquire && !r.Shared || r.Op == node.Release)
}

// Group appends the command of several requests to others', of which Groups is true and whose Op is the
// same. The caller looks at the server afterwards, unless they are releases.
func (k *Keys) Group(args []string, all []*node.Request, replID string, last *Last) []string {
	acquires := all[0].Op == node.Acquire
	script := releasesScript
	if acquires {
		script = acquiresScript
	}
	args = append(args, "EVALSHA", script.SHA(), strconv.Itoa(1+2*len(all)), k.registers)
	var space [4 * MaxGroup]string
	rest := space[:0]
	for _, r := range all {
		queue, token, stripe, _ := k.texts(r, last)
		args, rest = append(args, queue[len(queuePrefix):], queue), append(rest, string(r.Holder))
		if acquires {
			rest = append(rest, k.milliseconds(r.TTL))
		}
		rest = append(rest, stripe, token)
	}
	if acquires {
		args = append(args, replID)
	}
	return append(args, rest...)
}

// AppendGroup appends the replies to the requests of a group to others: what there is instead of a list of them
// is one to each.
func AppendGroup(replies []resp.Reply, reply resp.Reply, requests int) []resp.Reply {
	if reply.IsNumber() || reply.IsList() {
		values, err := reply.ToList()
		if err == nil && len(values) == requests {
			return append(replies, values...)
		}
		reply = resp.Failure(fmt.Errorf("unexpected reply to %d requests", requests))
	}
	for range requests {
		replies = append(replies, reply)
	}
	return replies
}
