package etcdnode

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rebuild"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// lookAndAdmit looks at the store, and admits it if that is safe. Without an admission it
// says why the store is out.
func (v *voting) lookAndAdmit(ctx context.Context) (*admission, string, error) {
	for {
		f, err := v.facts(ctx)
		if err != nil {
			return nil, "", err
		}
		to, lost := v.group()
		is := f.judge(lost)
		if to == nil {
			if is == admitted {
				return &admission{f.metaMod, *f.meta}, "", nil
			}
			return nil, "it is not admitted, and only who takes locks admits it (fenlock.New, fenlock run): " + f.because(), nil
		}
		if err := f.check(*to); err != nil {
			return nil, "", err
		}
		switch is {
		case admitted:
			v.look(f)
			return &admission{f.metaMod, *f.meta}, "", nil
		case unnoticed:
			err = v.begin(ctx, f, to)
		case quarantined, unbuilt:
			var detail string
			if detail, err = v.admit(ctx, f, to, is); detail != "" && err == nil {
				return nil, detail, nil
			}
		}
		if err != nil {
			return nil, "", fmt.Errorf("admitting the cluster: %w", err)
		}
	}
}

// begin writes down that the memory was lost, from now on nobody votes, and begins to
// count the quarantine.
func (v *voting) begin(ctx context.Context, f facts, to *group) error {
	n := v.node
	lost := notice{Format: format, Cluster: f.cluster, Memory: rand.Text(), Fresh: f.meta == nil && f.notice == nil && !v.used()}
	lost.MaxTTL, lost.Members = f.terms()
	m, err := n.pool.ready(ctx)
	if err != nil {
		return err
	}
	c, err := m.open(ctx)
	if err != nil {
		return err
	}
	wait := quarantine(f.longest(to.MaxTTL))
	lease, err := grant(ctx, c, int64((wait+time.Second-1)/time.Second))
	if err != nil {
		return describe(ctx, err)
	}
	_, err = n.commit(ctx, txn{
		If: []clientv3.Cmp{
			clientv3.Compare(clientv3.ModRevision(n.keys.meta()), "=", f.metaMod),
			clientv3.Compare(clientv3.ModRevision(n.keys.notice()), "=", f.noticeMod),
		},
		Then: []clientv3.Op{
			clientv3.OpDelete(n.keys.meta()), clientv3.OpDelete(n.keys.seen()),
			clientv3.OpPut(n.keys.notice(), encode(lost)),
			clientv3.OpPut(n.keys.quarantine(), "", clientv3.WithLease(lease)),
		},
		Else: []clientv3.Op{clientv3.OpGet(n.keys.notice(), clientv3.WithKeysOnly())},
	})
	return err
}

// admit rebuilds the registers and lets the store vote again, or says what it waits for.
func (v *voting) admit(ctx context.Context, f facts, to *group, is standing) (detail string, err error) {
	n := v.node
	founds := is == quarantined && to.New && f.notice.Fresh && !v.used()
	if is == quarantined && !founds {
		return v.waiting(ctx, f), nil
	}
	ask, cancel := context.WithTimeout(ctx, lookTimeout/2)
	others := rebuild.Ask(ask, to.Group, n)
	cancel()
	isNew := allNew(f.notice.Memory, others)
	if founds && !isNew {
		return v.waiting(ctx, f), nil
	}
	merged, err := rebuild.Merge(len(to.Nodes), rebuild.Self{Server: f.cluster, Memory: f.notice.Memory, Untouched: true}, others)
	if err != nil {
		return err.Error(), nil
	}
	if err := v.raise(ctx, f, merged.Tokens); err != nil {
		return "", err
	}
	mark := meta{Format: format, Cluster: f.cluster, Memory: f.notice.Memory, Index: f.index, Term: f.term,
		MaxTTL: to.MaxTTL.String(), Members: to.members, Empty: merged.Empty}
	a, err := n.commit(ctx, txn{
		If: []clientv3.Cmp{
			clientv3.Compare(clientv3.CreateRevision(n.keys.meta()), "=", 0),
			clientv3.Compare(clientv3.ModRevision(n.keys.notice()), "=", f.noticeMod),
		},
		Then: []clientv3.Op{
			clientv3.OpPut(n.keys.meta(), encode(mark)), clientv3.OpDelete(n.keys.notice()), clientv3.OpDelete(n.keys.quarantine()),
		},
		Else: []clientv3.Op{clientv3.OpGet(n.keys.notice(), clientv3.WithKeysOnly())},
	})
	if err != nil || !a.Succeeded {
		return "", err
	}
	switch {
	case merged.Weak && isNew:
		v.warn(to, "the prefix is new, or all nodes have lost their memory at once: tokens begin at the clients' clocks")
	case merged.Weak:
		v.warn(to, "node admitted without the registers of a majority: this is a new group, or a majority lost its memory at once; new tokens are larger than old ones only as far as the clients' clocks agree")
	}
	return "", nil
}

func (v *voting) warn(to *group, message string) {
	if to.Warn != nil {
		to.Warn(v.node, message)
	}
}

// allNew reports whether all others of a group are as new as a store with this memory.
func allNew(memory string, others []*node.Registers) bool {
	return !slices.ContainsFunc(others, func(r *node.Registers) bool {
		return r == nil || r.Admitted && !slices.Contains(r.Empty, memory) || !r.Admitted && (r.MaxTTL != 0 || r.Members != "" || len(r.Tokens) > 0)
	})
}

// waiting says why the store is out, and for how long still.
func (v *voting) waiting(ctx context.Context, f facts) string {
	why := f.because()
	if left, ok := v.left(ctx, f); ok {
		why += fmt.Sprintf("; voting starts in %d s", left)
	}
	return why
}

// left returns how many seconds the quarantine lasts still.
func (v *voting) left(ctx context.Context, f facts) (seconds int64, ok bool) {
	m, err := v.node.pool.ready(ctx)
	if err != nil {
		return 0, false
	}
	c, err := m.open(ctx)
	if err != nil {
		return 0, false
	}
	a, err := c.TimeToLive(ctx, clientv3.LeaseID(f.lease))
	if err != nil {
		return 0, false
	}
	return max(a.TTL, 0), true
}

// raiseAtOnce is how many registers are written in one transaction. etcd allows 128
// operations unless told otherwise.
const raiseAtOnce = 100

// raise makes the registers at least those that were read elsewhere, while the store is
// out for the reason in f.
func (v *voting) raise(ctx context.Context, f facts, tokens map[int]fence.Token) error {
	if len(tokens) == 0 {
		return nil
	}
	n := v.node
	for {
		a, err := n.read(ctx, clientv3.OpGet(n.keys.registers(), clientv3.WithPrefix()))
		if err != nil {
			return err
		}
		own, mods, err := n.registers(responses(a.TxnResponse, 0)[0])
		if err != nil {
			return err
		}
		t := txn{If: []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(n.keys.notice()), "=", f.noticeMod)}}
		for stripe, token := range tokens {
			if token > own[stripe] && len(t.Then) < raiseAtOnce {
				key := n.keys.register(stripe)
				t.If = append(t.If, clientv3.Compare(clientv3.ModRevision(key), "=", mods[stripe]))
				t.Then = append(t.Then, clientv3.OpPut(key, formatRegister(token)))
			}
		}
		if len(t.Then) == 0 {
			return nil
		}
		if _, err := n.commit(ctx, t); err != nil {
			return err
		}
	}
}

// registers reads registers, with the revisions of their keys.
func (n *Node) registers(a *clientv3.GetResponse) (tokens map[int]fence.Token, mods map[int]int64, err error) {
	tokens, mods = map[int]fence.Token{}, map[int]int64{}
	for _, kv := range a.Kvs {
		var stripe int
		text := strings.TrimPrefix(string(kv.Key), n.keys.registers())
		if _, err := fmt.Sscanf(text, "%03x", &stripe); err != nil || len(text) != 3 || stripe >= node.Stripes {
			return nil, nil, fmt.Errorf("%w: %s", errForeign, kv.Key)
		}
		if tokens[stripe], err = parseRegister(kv.Value); err != nil {
			return nil, nil, err
		}
		mods[stripe] = kv.ModRevision
	}
	return tokens, mods, nil
}

// seenEvery is by how many entries of raft's log the record of them may lag behind.
const seenEvery = 1000

// look writes down how far raft is, now and then.
func (v *voting) look(f facts) {
	if f.index < f.seen.Index+seenEvery && f.term <= f.seen.Term {
		return
	}
	n := v.node
	n.spawn(func() {
		ctx, cancel := context.WithTimeout(n.life, lookTimeout)
		defer cancel()
		n.commit(ctx, txn{ // Should it fail, the next one does it.
			If:   []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(n.keys.meta()), "=", f.metaMod)},
			Then: []clientv3.Op{clientv3.OpPut(n.keys.seen(), encode(seen{f.index, f.term}))},
		})
	})
}

// Registers implements node.Rejoiner.
func (n *Node) Registers(ctx context.Context) (node.Registers, error) {
	r, err := n.readRegisters(ctx)
	return r, n.errorf("registers", err)
}

func (n *Node) readRegisters(ctx context.Context) (r node.Registers, err error) {
	ctx, leave, err := n.enter(ctx)
	if err != nil {
		return r, err
	}
	defer leave()
	v := &n.voting
	f, err := v.facts(ctx)
	if err != nil {
		return r, err
	}
	to, lost := v.group()
	if to != nil && f.judge(lost) == unnoticed {
		// A memory has a name from when its loss was written down.
		if err := v.begin(ctx, f, to); err != nil {
			return r, err
		}
		if f, err = v.facts(ctx); err != nil {
			return r, err
		}
	}
	a, err := n.read(ctx, clientv3.OpGet(n.keys.meta(), clientv3.WithKeysOnly()), clientv3.OpGet(n.keys.registers(), clientv3.WithPrefix()))
	if err != nil {
		return r, err
	}
	all := responses(a.TxnResponse, 0)
	if r.Tokens, _, err = n.registers(all[1]); err != nil {
		return r, err
	}
	r.Server = f.cluster
	r.Admitted = f.judge(lost) == admitted && len(all[0].Kvs) > 0 && all[0].Kvs[0].ModRevision == f.metaMod
	maxTTL, members := f.terms()
	r.MaxTTL, _ = time.ParseDuration(maxTTL)
	if to != nil && to.pure {
		r.Members = strings.Join(members, " ")
	}
	switch {
	case r.Admitted:
		r.Memory, r.Empty = f.meta.Memory, f.meta.Empty
	case f.notice != nil:
		r.Memory = f.notice.Memory
	}
	return r, nil
}
