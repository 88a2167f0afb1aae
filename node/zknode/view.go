package zknode

import (
	"context"
	"fmt"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// view is what was read of a name: first the register, then, from the same server, what a change of
// the register's version tells about.
type view struct {
	link     *session.Link
	name     string
	memory   string
	verified bool          // it is at least as new as when reading began, on all servers
	written  time.Duration // if verified: when reading began, on the leader's clock
	clock    *storeClock

	register      fence.Token
	version       int32
	registerThere bool

	lease      lease
	leaseStat  wire.Stat
	leaseThere bool
	over       bool          // the lease's TTL has passed, or it is of before an admission, and it was not removed
	left       time.Duration // until that is certain by this client's clock alone

	record     queueRecord
	queueThere bool
}

// read reads what there is about a name. If it is verified, a write goes ahead: then the server has
// what all others had when it began. The error of a node that is not admitted any more is
// errNotAdmitted.
func (n *Node) read(ctx context.Context, link *session.Link, name, memory string, verified bool) (view, error) {
	p := n.paths
	// What is promised meanwhile is none of what is read: operators look while others are at work.
	promised := n.known.least(memory, node.Stripe(name))
	requests := []wire.Request{wire.Get{Path: p.mark(memory)}, wire.Get{Path: p.register(node.Stripe(name))},
		wire.Get{Path: p.lease(name)}, wire.Get{Path: p.queue(name)}}
	if verified {
		requests = append([]wire.Request{wire.Set{Path: p.clock(), Version: wire.Any}}, requests...)
	}
	replies, err := link.Do(ctx, requests...)
	if err != nil {
		return view{}, err
	}
	v := view{link: link, name: name, memory: memory, verified: verified, clock: &n.clock}
	for _, reply := range replies {
		if reply.Err != wire.OK && reply.Err != wire.NoNode {
			return v, n.describe(reply.Err)
		}
	}
	if verified {
		if replies[0].Err == wire.OK {
			v.written = time.Duration(replies[0].Stat.Mtime) * time.Millisecond
			n.clock.saw(v.written, replies[0].Zxid)
		} else if replies[1].Err == wire.OK { // or all is gone
			return v, n.removed(p.clock())
		}
		replies = replies[1:]
	}
	if v.registerThere = replies[1].Err == wire.OK; v.registerThere {
		v.version = replies[1].Stat.Version
		if v.register, err = parseRegister(replies[1].Data); err != nil {
			return v, err
		}
	}
	if v.leaseThere = replies[2].Err == wire.OK; v.leaseThere {
		v.leaseStat = replies[2].Stat
		if v.lease, err = parseLease(replies[2].Data); err != nil {
			return v, err
		}
		if v.lease.name != name {
			return v, fmt.Errorf("the znode of a lease is of another name: another program has changed it")
		}
		v.left = n.seen.left(name, v.lease, v.leaseStat)
		v.over = v.leaseStat.Mzxid < countsFrom(replies[0]) || v.left <= 0 ||
			n.kept.over(name, v.lease.holder, v.leaseStat.EphemeralOwner)
	}
	if v.queueThere = replies[3].Err == wire.OK; v.queueThere {
		if v.record, err = parseQueue(replies[3].Data); err != nil {
			return v, err
		}
	}
	if replies[0].Err != wire.OK {
		n.forget(memory)
		return v, errNotAdmitted
	}
	if v.register < promised {
		n.lose(memory)
		return v, errNotAdmitted
	}
	return v, nil
}

// leased reports whether a client has the name.
func (v *view) leased() bool { return v.leaseThere && !v.over }

// now is what the leader's clock shows at least, as far as that is known.
func (v *view) now() (now time.Duration, known bool) {
	if v.verified {
		return v.written, true
	}
	if now, known = v.clock.now(v.link); known {
		return now, true
	}
	return time.Duration(time.Now().UnixMilli()) * time.Millisecond, false
}

// entry is what the rules decide on. A lease is there as long as its znode is, whatever
// the time.
func (v *view) entry(now time.Duration) rule.Entry {
	e := rule.Entry{Register: v.register}
	switch {
	case v.leased():
		e.Holder, e.Origin, e.Token = v.lease.holder, v.lease.origin, v.lease.token
		e.Expires = now + v.remaining(now)
	case v.record.reserved != "" && now < v.record.until:
		e.Holder, e.Expires = node.Reserved(v.record.reserved), min(v.record.until, now+rule.ReservationTTL)
	}
	return e
}

// remaining is how long a lease is likely to last. If a lease's time is over, a client will remove
// it soon.
func (v *view) remaining(now time.Duration) time.Duration {
	ends := time.Duration(v.leaseStat.Mtime)*time.Millisecond + v.lease.ttl
	if ends <= now {
		ends = now + min(lingering, v.left)
	}
	return max(min(ends-now, v.lease.ttl), time.Millisecond)
}

// lingering is what is shown to remain of a lease that should be over, at most. A waiter asks
// again after it.
const lingering = 500 * time.Millisecond
