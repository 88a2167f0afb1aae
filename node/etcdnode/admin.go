package etcdnode

import (
	"context"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Join implements node.Rejoiner.
func (n *Node) Join(g node.Group) error { return n.errorf("join", n.voting.admission.Join(g)) }

// Admission returns what has the node admitted, for the other nodes of its group.
func (n *Node) Admission() *admit.Admission { return n.voting.admission }

// Registers implements node.Rejoiner.
func (n *Node) Registers(ctx context.Context) (r node.Registers, err error) {
	err = n.run(ctx, "registers", func(ctx context.Context) error {
		f, err := n.voting.admission.Noted(ctx) // a memory has a name from when its loss was noted
		if err != nil {
			return err
		}
		a, err := n.read(ctx, clientv3.OpGet(n.keys.meta(), clientv3.WithKeysOnly()),
			clientv3.OpGet(n.keys.registers(), clientv3.WithPrefix()))
		if err != nil {
			return err
		}
		all := responses(a)
		if r.Tokens, _, err = n.keys.readRegisters(all[1]); err != nil {
			return err
		}
		r.Server, r.Memory, r.Empty, r.MaxTTL, r.Members = f.Server, f.Memory, f.Empty, f.Terms.MaxTTL, f.Terms.Members
		l := f.State.(*looked)
		r.Admitted = f.Votes && len(all[0].Kvs) > 0 && all[0].Kvs[0].ModRevision == l.meta.mod
		return n.voting.stands(ctx, &standing{mod: l.meta.mod, memory: f.Memory, dials: l.dials, lives: l.lives})
	})
	return r, err
}

// Inspect implements node.Admin. It reads in one transaction.
func (n *Node) Inspect(ctx context.Context, name string) (l node.Lease, err error) {
	err = n.run(ctx, "inspect", func(ctx context.Context) error {
		s := n.voting.now()
		if s == nil {
			if _, err := n.voting.Facts(ctx); err != nil {
				return err
			}
			s = n.voting.now()
		}
		q := question{keys: n.keys, name: name, heads: 1}
		a, err := n.read(ctx, append([]clientv3.Op{clientv3.OpGet(n.keys.meta(), clientv3.WithKeysOnly())}, q.ops()...)...)
		if err != nil {
			return err
		}
		all := responses(a)
		b, err := q.believe(&n.clock, all[1:])
		if err != nil {
			return err
		}
		l = n.shown(name, &b)
		l.Out = s == nil || len(all[0].Kvs) == 0 || all[0].Kvs[0].ModRevision != s.mod
		if s != nil && len(strings.Fields(s.terms.Members)) > 1 { // otherwise it is all of its group
			l.Members = s.terms.Members
		}
		return nil
	})
	return l, err
}

// shown is what an operator sees of a belief that was read.
func (n *Node) shown(name string, b *belief) node.Lease {
	now := n.clock.now()
	e := b.entry(now, n.held.seenFor)
	l := e.Lease(name, now)
	l.Remaining = l.Remaining.Truncate(time.Millisecond)
	return l
}

// Waiting implements node.Admin. It reads in one transaction.
func (n *Node) Waiting(ctx context.Context, name string, limit int) (first []node.Waiter, all int, err error) {
	err = n.run(ctx, "waiting", func(ctx context.Context) error {
		q := question{keys: n.keys, name: name, heads: max(limit, 1)}
		a, err := n.read(ctx, q.ops()...)
		if err != nil {
			return err
		}
		b, err := q.believe(&n.clock, responses(a))
		if err != nil {
			return err
		}
		now := n.clock.now()
		for _, w := range b.queue.first[:min(max(limit, 0), len(b.queue.first))] {
			first = append(first, node.WaiterOf(w.Place, now))
		}
		all = b.queue.all
		return nil
	})
	return first, all, err
}

// pageSize is how many leases List reads at a time.
const pageSize = 256

// List implements node.Admin, in the order of the escaped names. Registers are those of
// when it began.
func (n *Node) List(ctx context.Context, prefix string, yield func(node.Lease) bool) error {
	return n.run(ctx, "list", func(ctx context.Context) error { return n.list(ctx, prefix, yield) })
}

func (n *Node) list(ctx context.Context, prefix string, yield func(node.Lease) bool) error {
	a, err := n.read(ctx, clientv3.OpGet(n.keys.registers(), clientv3.WithPrefix()))
	if err != nil {
		return err
	}
	registers, _, err := n.keys.readRegisters(responses(a)[0])
	if err != nil {
		return err
	}
	return n.pages(ctx, prefix, func(kv *mvccpb.KeyValue) bool {
		name, ok := n.keys.leaseName(string(kv.Key))
		record, err := parseRecord(kv.Value)
		if !ok || err != nil {
			return true // not to hide all others: Inspect of that name returns the error
		}
		b := belief{lease: record, leased: true, leaseMod: kv.ModRevision, register: registers[node.Stripe(name)]}
		l := n.shown(name, &b)
		return !l.Leased || yield(l)
	})
}

// pages reads the keys of the leases of names with a prefix, in order, until yield returns false.
func (n *Node) pages(ctx context.Context, prefix string, yield func(kv *mvccpb.KeyValue) bool) error {
	from := n.keys.lease(prefix)
	end := clientv3.GetPrefixRangeEnd(from)
	for {
		a, err := n.read(ctx, clientv3.OpGet(from, clientv3.WithRange(end), clientv3.WithLimit(pageSize),
			clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend)))
		if err != nil {
			return err
		}
		page := responses(a)[0]
		for _, kv := range page.Kvs {
			if from = string(kv.Key) + "\x00"; !yield(kv) {
				return nil
			}
		}
		if !page.More {
			return nil
		}
	}
}
