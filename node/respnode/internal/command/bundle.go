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

// Groups reports whether a request may be one of a group. A group is some acquires, some releases,
// or some extends, of one name each, that are sent as one command.
func Groups(r *node.Request) bool {
	switch r.Op {
	case node.Acquire:
		return r.Place.Waiter == "" && !r.Shared
	case node.Extend:
		return !r.Shared
	}
	return r.Op == node.Release && r.Place.Waiter == ""
}

// Group appends the command of several requests to others', of which Groups is true and whose Op is
// the same. The caller looks at the server afterwards, unless they are releases.
func (k *Keys) Group(args []string, all []*node.Request, mark string, last *Last) []string {
	op, script, keys := all[0].Op, releasesScript, 1+2*len(all)
	switch op {
	case node.Acquire:
		script = acquiresScript
	case node.Extend:
		script, keys = extendsScript, 1+len(all)
	}
	args = append(args, "EVALSHA", script.SHA(), strconv.Itoa(keys), k.registers)
	var space [5 * MaxGroup]string
	rest := space[:0]
	for _, r := range all {
		queue, token, stripe, own := k.texts(r, last)
		args, rest = append(args, queue[len(queuePrefix):]), append(rest, string(r.Holder))
		if op == node.Extend {
			rest = append(rest, k.milliseconds(r.TTL), stripe, token, own)
			continue
		}
		args = append(args, queue)
		if op == node.Acquire {
			rest = append(rest, k.milliseconds(r.TTL))
		}
		rest = append(rest, stripe, token)
	}
	if op != node.Release {
		args = append(args, mark)
	}
	return append(args, rest...)
}

// AppendGroup appends the replies to the requests of a group to others: what there is instead of a
// list of them is one to each.
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
