package valkeynode

import (
	"strconv"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
	"github.com/valkey-io/valkey-go"
)

// scriptOf returns the script of an operation.
func scriptOf(op node.Op) *script {
	switch op {
	case node.Acquire:
		return acquireScript
	case node.Confirm:
		return confirmScript
	case node.Extend:
		return extendScript
	case node.Release:
		return releaseScript
	}
	return forceScript
}

// check returns why a request must not be sent, or nil.
func (n *Node) check(r *node.Request) (err error) {
	if err = rule.Check(*r); err != nil {
		return err
	}
	if n.mayMeet {
		_, err = n.key(r.Name)
	}
	return err
}

// keys are the text of the keys of a lock. Those of the last request of a lane are
// kept: a release mostly follows its acquire, and a name is often locked again.
type keys struct{ name, line string }

// command makes the command of a request that was checked. With a replication id,
// the caller looks at the server afterwards (afterwards.go), otherwise the script does.
// A command can be sent once: the client library takes its memory back.
func (n *Node) command(r *node.Request, replID string, last *keys) valkey.Completed {
	// The lease's key is a part of the line's, and all text is made in one piece.
	var space [256]byte
	b := space[:0]
	known := last.line != "" && last.name == r.Name
	if !known {
		b = append(append(append(b, linePrefix...), n.prefix...), r.Name...)
	}
	k := len(b)
	if r.Op != node.Release {
		b = strconv.AppendUint(b, uint64(r.Token), 10)
	}
	t := len(b)
	if r.Op != node.Release {
		b = strconv.AppendInt(b, int64(node.Stripe(r.Name)), 10)
	}
	s := len(b)
	if r.Place.Waiter != "" {
		b = strconv.AppendInt(b, r.Place.Stamp, 10)
	}
	text := string(b)
	token, stripe, stamp := text[k:t], text[t:s], text[s:]
	if !known {
		*last = keys{r.Name, text[:k]}
	}
	line, key := last.line, last.line[len(linePrefix):]

	var room [12]string
	args := append(room[:0], scriptOf(r.Op).sha)
	switch r.Op {
	case node.Acquire:
		args = append(args, "3", key, n.registers, line, string(r.Holder), n.milliseconds(r.TTL), stripe, token, replID)
	case node.Confirm:
		args = append(args, "2", key, n.registers, string(r.Holder), stripe, token, replID)
	case node.Extend:
		args = append(args, "2", key, n.registers, string(r.Holder), n.milliseconds(r.TTL), stripe, token, replID)
	case node.Release:
		args = append(args, "2", key, line, string(r.Holder))
	default:
		args = append(args, "3", key, n.registers, line, stripe, token)
	}
	if r.Place.Waiter != "" && (r.Op == node.Acquire || r.Op == node.Release) {
		args = append(args, r.Place.Waiter, stamp)
	}
	// Not the library's Evalsha, whose Key computes the slot that the key would have
	// in a cluster: a good part of what a request costs.
	return n.client.B().Arbitrary("EVALSHA").Args(args...).Build()
}

// millisecondsText is a duration and its text: nearly all are the same.
type millisecondsText struct {
	d    time.Duration
	text string
}

func (n *Node) milliseconds(d time.Duration) string {
	if last := n.lastTTL.Load(); last != nil && last.d == d {
		return last.text
	}
	text := strconv.FormatInt(d.Milliseconds(), 10)
	n.lastTTL.Store(&millisecondsText{d, text})
	return text
}
