package zknode

import (
	"context"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// looked is what an operator sees of a name: it is read without a write, after what the
// leader had committed.
type looked struct {
	view
	group groupRecord
	now   time.Duration
}

// look reads what there is about a name. To look admits nothing.
func (n *Node) look(ctx context.Context, name string) (l looked, err error) {
	link, err := n.session.Link(ctx)
	if err != nil {
		return l, err
	}
	s, err := n.readState(ctx, link)
	if err == nil {
		err = n.admission.Check(s.record.terms)
	}
	if err != nil {
		return l, err
	}
	group := s.record
	l.view, err = n.read(ctx, link, name, group.memory, false)
	if err == errNotAdmitted {
		group.admitted, err = false, nil
	}
	if err != nil {
		return l, err // there may be no view
	}
	l.group = group
	l.now, _ = l.view.now()
	return l, nil
}

// Inspect implements node.Admin.
func (n *Node) Inspect(ctx context.Context, name string) (node.Lease, error) {
	l, err := n.look(ctx, name)
	if err != nil {
		return node.Lease{}, n.errorf("inspect", err)
	}
	e := l.entry(l.now)
	lease := e.Lease(name, l.now)
	lease.Out = !l.group.admitted
	if lease.Leased {
		lease.Members = l.group.terms.Members
	}
	return lease, nil
}

// Waiting implements node.Admin.
func (n *Node) Waiting(ctx context.Context, name string, limit int) (first []node.Waiter, all int, err error) {
	l, err := n.look(ctx, name)
	if err != nil {
		return nil, 0, n.errorf("waiting", err)
	}
	if !l.queueThere || l.now >= l.record.renewed+rule.QueueExpiry {
		return nil, 0, nil
	}
	for _, at := range l.record.waiters[:max(0, min(limit, len(l.record.waiters)))] {
		first = append(first, node.WaiterOf(at, l.now))
	}
	return first, len(l.record.waiters), nil
}

// listAtOnce is how many leases List reads with one write.
const listAtOnce = 100

// List implements node.Admin. Names of leases are read at once, up to the four megabytes that
// an answer may have (some 30,000), and the leases by and by.
func (n *Node) List(ctx context.Context, prefix string, yield func(node.Lease) bool) error {
	return n.errorf("list", n.list(ctx, prefix, yield))
}

func (n *Node) list(ctx context.Context, prefix string, yield func(node.Lease) bool) error {
	link, err := n.session.Link(ctx)
	if err != nil {
		return err
	}
	s, err := n.readState(ctx, link)
	if err != nil {
		return err
	}
	replies, err := link.Do(ctx, wire.Get{Path: n.paths.mark(s.record.memory)}, wire.Children{Path: n.paths.leases()},
		wire.Children{Path: n.paths.queues()})
	if err != nil {
		return err
	}
	since := countsFrom(replies[0])
	names := make(map[string]bool)
	for i, reply := range replies[1:] {
		if reply.Err != wire.OK && reply.Err != wire.NoNode {
			return n.describe(reply.Err)
		}
		for _, part := range reply.Children {
			if i == 1 && names[part] {
				continue
			}
			names[part] = true
		}
	}
	all := make([]string, 0, len(names))
	for part := range names {
		if mayBegin(part, prefix) {
			all = append(all, part)
		}
	}
	for len(all) > 0 {
		some := all[:min(listAtOnce, len(all))]
		all = all[len(some):]
		if more, err := n.listSome(ctx, link, some, prefix, since, yield); err != nil || !more {
			return err
		}
	}
	return nil
}

// mayBegin reports whether a part of a path can be of a name with a prefix.
func mayBegin(part, prefix string) bool {
	begin := encode(prefix)
	return prefix == "" || strings.Contains(part, ".") || strings.Contains(begin, ".") || strings.HasPrefix(part, begin)
}

func (n *Node) listSome(ctx context.Context, link *session.Link, parts []string, prefix string, since int64,
	yield func(node.Lease) bool) (more bool, err error) {
	var requests []wire.Request
	for _, part := range parts {
		requests = append(requests, wire.Get{Path: n.paths.leases() + "/" + part},
			wire.Get{Path: n.paths.queues() + "/" + part})
	}
	replies, err := link.Do(ctx, requests...)
	if err != nil {
		return false, err
	}
	var leases []node.Lease
	var registers []wire.Request
	for i := range parts {
		v := view{link: link, clock: &n.clock}
		if reply := replies[2*i]; reply.Err == wire.OK {
			if v.lease, err = parseLease(reply.Data); err != nil {
				return false, err
			}
			v.name, v.leaseThere, v.leaseStat = v.lease.name, true, reply.Stat
			v.left = v.lease.ttl
			v.over = v.leaseStat.Mzxid < since || n.kept.over(v.name, v.lease.holder, v.leaseStat.EphemeralOwner)
		}
		if reply := replies[2*i+1]; reply.Err == wire.OK {
			if v.record, err = parseQueue(reply.Data); err != nil {
				return false, err
			}
			v.name, v.queueThere = v.record.name, true
		}
		now, _ := v.now()
		e := v.entry(now)
		if l := e.Lease(v.name, now); l.Leased && strings.HasPrefix(v.name, prefix) {
			leases = append(leases, l)
			registers = append(registers, wire.Get{Path: n.paths.register(node.Stripe(v.name))})
		}
	}
	if len(leases) == 0 {
		return true, nil
	}
	if replies, err = link.Do(ctx, registers...); err != nil {
		return false, err
	}
	for i, l := range leases {
		if replies[i].Err == wire.OK {
			var token fence.Token
			if token, err = parseRegister(replies[i].Data); err != nil {
				return false, err
			}
			l.Register = token
		}
		if !yield(l) {
			return false, nil
		}
	}
	return true, nil
}
