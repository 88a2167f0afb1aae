package command

import (
	"strconv"
	"time"

	"github.com/fenlock/fenlock/node"
)

// Last is the text of the keys of the lock that the last request was about. A sender of many keeps
// it: a release mostly follows its acquire, and a name is often locked again.
type Last struct{ name, queue string }

// Operation appends the command of a request that was checked to others'. With a
// replication id, the caller looks at the server afterwards (package admission), otherwise
// the script does.
func (k *Keys) Operation(args []string, r *node.Request, mark string, last *Last) []string {
	queue, token, stripe, own := k.texts(r, last)
	key, stamp := queue[len(queuePrefix):], own

	switch r.Op {
	case node.Acquire:
		script := acquireScript
		if r.Shared {
			script = acquireSharedScript
		}
		args = append(args, "EVALSHA", script.SHA(), "3", key, k.registers, queue,
			string(r.Holder), k.milliseconds(r.TTL), stripe, token, mark)
	case node.Confirm:
		args = append(args, "EVALSHA", confirmScript.SHA(), "2", key, k.registers, string(r.Holder), stripe, token, mark)
	case node.Extend:
		if r.Shared {
			args = append(args, "EVALSHA", extendSharedScript.SHA(), "3", key, k.registers, queue)
		} else {
			args = append(args, "EVALSHA", extendScript.SHA(), "2", key, k.registers)
		}
		args = append(args, string(r.Holder), k.milliseconds(r.TTL), stripe, token, mark, own)
	case node.Release:
		if token != "" {
			return append(args, "EVALSHA", releaseScript.SHA(), "3", key, k.registers, queue, string(r.Holder), r.Place.Waiter,
				stamp, token, stripe)
		}
		args = append(args, "EVALSHA", releaseScript.SHA(), "2", key, queue, string(r.Holder))
	default:
		args = append(args, "EVALSHA", forceScript.SHA(), "3", key, k.registers, queue, stripe, token, mark)
	}
	if r.Place.Waiter != "" && (r.Op == node.Acquire || r.Op == node.Release) {
		args = append(args, r.Place.Waiter, stamp)
	}
	return args
}

// texts returns the texts of a request. They are the key of the queue, of which that of the lease
// is a part, and what is made of numbers. The token of a release is the number for the next;
// without one, that and the stripe are empty. The last text is the own token of an extend, else the
// waiter's stamp.
//
// A cluster's node gives no name at a release. A member that was replaced, and does not know that
// yet, is heard through the others, since PUBLISH reaches all. To notify promises nothing.
func (k *Keys) texts(r *node.Request, last *Last) (queue, token, stripe, own string) {
	// The lease's key is a part of the queue's, and all text is made in one piece.
	var space [256]byte
	b := space[:0]
	known := last.queue != "" && last.name == r.Name
	if !known {
		b = append(append(append(b, queuePrefix...), k.prefix...), r.Name...)
	}
	q := len(b)
	gives := r.Op == node.Release && r.Next != 0 && !k.clustered
	switch {
	case r.Op != node.Release:
		b = strconv.AppendUint(b, uint64(r.Token), 10)
	case gives:
		b = strconv.AppendUint(b, uint64(r.Next), 10)
	}
	t := len(b)
	if r.Op != node.Release || gives {
		b = strconv.AppendInt(b, int64(node.Stripe(r.Name)), 10)
	}
	s := len(b)
	switch {
	case r.Op == node.Extend:
		b = strconv.AppendUint(b, uint64(r.OwnToken), 10)
	case r.Place.Waiter != "":
		b = strconv.AppendInt(b, r.Place.Stamp, 10)
	}
	text := string(b)
	if !known {
		*last = Last{r.Name, text[:q]}
	}
	return last.queue, text[q:t], text[t:s], text[s:]
}

func (k *Keys) milliseconds(d time.Duration) string {
	if last := k.lastTTL.Load(); last != nil && last.d == d {
		return last.text
	}
	text := strconv.FormatInt(d.Milliseconds(), 10)
	k.lastTTL.Store(&ttlText{d, text})
	return text
}
