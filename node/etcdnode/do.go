package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Do implements node.Node.
func (n *Node) Do(ctx context.Context, r node.Request) (a node.Answer, err error) {
	if err := rule.Check(r); err != nil {
		return a, n.errorf(r.Op.String(), err)
	}
	err = n.run(ctx, r.Op.String(), func(ctx context.Context) error {
		a, err = n.do(ctx, r)
		return err
	})
	return a, err
}

func (n *Node) do(ctx context.Context, r node.Request) (_ node.Answer, err error) {
	r.TTL = r.TTL.Truncate(time.Millisecond)
	for {
		var s *standing
		if r.Op != node.Release { // which promises nothing: any store may carry it out
			var why node.Absence
			if s, why, err = n.voting.stand(ctx); err != nil {
				return node.Answer{}, describe(ctx, err)
			}
			if s == nil {
				return node.Answer{Status: node.Rejoining, Absence: why}, nil
			}
			if err := n.voting.admission.Serves(s.server); err != nil { // another node may lead there by now
				return node.Answer{}, node.NotSent(err)
			}
		}
		o := &operation{Node: n, r: r, standing: s, asker: n.places.known(r.Name, r.Place), heads: headsAtOnce}
		a, err := o.run(ctx)
		if !errors.Is(err, errNotAdmitted) {
			return a, err
		}
	}
}

// errNotAdmitted is of an operation that found another mark of admission than it knew. It
// was not carried out.
var errNotAdmitted = errors.New("the admission of the store has changed")

// operation is one request, on its way from belief to belief until a transaction finds
// what was believed.
type operation struct {
	*Node
	r        node.Request
	standing *standing    // nil: it promises nothing
	asker    node.Place   // where r.Place's waiter is, or will be, in the queue
	lease    *sharedLease // of an acquire or an extend
	spare    *sharedLease // of a waiter whose client does not listen here
	heads    int
	wakes    []string
	tried    map[string]bool // what transactions of this operation would have written
}

func (o *operation) question() question {
	return question{keys: o.keys, name: o.r.Name, asker: o.asker, heads: o.heads, wakes: o.wakes}
}

// run tries what is believed, and reads what is there if that was wrong. A transaction
// whose comparisons fail was not carried out, so this repeats nothing.
func (o *operation) run(ctx context.Context) (node.Answer, error) {
	if err := o.attach(ctx); err != nil {
		return node.Answer{}, node.NotSent(describe(ctx, err))
	}
	b, guessed := o.guess()
	for ; ; guessed = false {
		if !guessed {
			var err error
			if b, err = o.look(ctx); err != nil {
				return node.Answer{}, err
			}
		}
		// A copy of its own transaction, repeated somewhere on the way, would look like this.
		if o.r.Op == node.Acquire && b.leased && b.lease.holder == o.r.Holder && o.tried[b.lease.String()] {
			return node.Answer{}, errors.New("the lease is there, and it is not known since when")
		}
		if err := ctx.Err(); err != nil {
			return node.Answer{}, node.NotSent(err)
		}
		s, err := o.serve(ctx, b)
		if err != nil {
			return node.Answer{}, err
		}
		if s.queue.short {
			o.heads *= 4
			continue
		}
		if b.read && len(s.ops) == 0 {
			return s.answer, o.counts(ctx, s)
		}
		a, err := o.try(ctx, s)
		done := err == nil && a.Succeeded
		if done {
			err = o.counts(ctx, s)
		}
		switch {
		case errors.Is(err, errNoLease):
			if err := o.detach(ctx); err != nil {
				return node.Answer{}, err
			}
		case err != nil:
			o.afterwards(s, outcome{}, err)
			return node.Answer{}, err
		case done:
			o.afterwards(s, a, nil)
			if err := o.covered(s); err != nil {
				return node.Answer{}, err
			}
			return s.answer, nil
		}
	}
}

// counts makes sure that the answer may be given, if it promises something.
func (o *operation) counts(ctx context.Context, s *served) error {
	if o.standing == nil || s.answer.Status != node.Granted {
		return nil
	}
	return describe(ctx, o.voting.stands(ctx, o.standing))
}

// attach gets the etcd lease that the key of a lock is attached to.
func (o *operation) attach(ctx context.Context) (err error) {
	if o.r.Op == node.Acquire || o.r.Op == node.Extend {
		o.lease, err = o.leases.get(ctx, o.r.TTL)
	}
	return err
}

// detach gets another one, when etcd knows one of those that were named no more.
func (o *operation) detach(ctx context.Context) error {
	for _, l := range []*sharedLease{o.lease, o.spare} {
		if l != nil {
			l.dead.Store(true)
		}
	}
	o.listeners.doubt()
	return o.attach(ctx)
}

// look reads what is there: the mark of admission, and what question asks for.
func (o *operation) look(ctx context.Context) (belief, error) {
	q := o.question()
	a, err := o.read(ctx, append([]clientv3.Op{clientv3.OpGet(o.keys.meta(), clientv3.WithKeysOnly())}, q.ops()...)...)
	if err != nil {
		return belief{}, err
	}
	all := responses(a)
	if o.standing != nil && (len(all[0].Kvs) == 0 || all[0].Kvs[0].ModRevision != o.standing.mod) {
		o.voting.forget(o.standing)
		return belief{}, errNotAdmitted
	}
	return q.believe(&o.clock, all[1:])
}

// guess returns what is probably there, so that one round trip is enough.
func (o *operation) guess() (b belief, ok bool) {
	switch o.r.Op {
	case node.Acquire:
		b.below = o.r.Token
		if mod := o.places.wasTold(o.r.Place.Waiter); mod != 0 {
			b.leased, b.leaseMod = true, mod
			b.lease = record{ttl: rule.ReservationTTL, written: o.clock.now(), holder: node.Reserved(o.r.Place.Waiter)}
		}
		return b, b.below > 0
	case node.Confirm:
		b.below = o.r.Token + 1
	case node.Extend:
		b.below = o.r.Token + 1
	case node.Release:
	default:
		return b, false
	}
	h := o.held.of(o.r.Name, o.r.Holder)
	if h == nil {
		return b, false
	}
	b.leased, b.leaseMod, b.lease, b.value = true, h.mod, h.record, h.value
	if o.r.Op == node.Release {
		b.queue.first, b.queue.more = h.first, h.more
		if len(h.first) == 0 && o.held.isContended(o.r.Name) {
			return b, false
		}
	}
	return b, true
}

// served is what the rules have made of a belief.
type served struct {
	queue   *queue
	answer  node.Answer
	record  record // of the lease, if it is written
	value   string
	ops     []clientv3.Op
	guards  []clientv3.Cmp
	waiter  string // the waiter that is notified
	curious bool   // it is read who waits
}

// serve has the rules decide.
func (o *operation) serve(ctx context.Context, b belief) (*served, error) {
	now := o.clock.now()
	s := &served{queue: &queue{keys: o.keys, name: o.r.Name, asker: o.asker, b: b.queue}}
	before := b.entry(now, o.held.seenFor)
	after := before
	s.answer, s.waiter = rule.Serve(&after, s.queue, now, o.r)
	s.answer.Remaining = s.answer.Remaining.Truncate(time.Millisecond)
	key := o.keys.lease(o.r.Name)
	granted := s.answer.Status == node.Granted
	changed := after.Holder != before.Holder || after.Token != before.Token || granted && o.lease != nil
	register := after.Register != before.Register
	if b.below > 0 && granted && (o.r.Op != node.Extend || o.r.Token > 0) && o.r.Op != node.Release {
		register = true // it may have been less than was guessed
	}
	switch {
	case after.Leased(now) && changed:
		s.record = record{after.Origin, after.Token, after.Expires - now, now, after.Holder}
		if s.waiter == "" {
			// A confirm keeps the time that the lease has, and what it is attached to.
			attached := clientv3.WithIgnoreLease()
			if o.lease != nil {
				attached = clientv3.WithLease(o.lease.id)
			} else {
				s.record.ttl, s.record.written = b.lease.ttl, b.lease.written
			}
			s.value = s.record.String()
			s.ops = append(s.ops, clientv3.OpPut(key, s.value, attached))
			// A lease that is created moves its register's revision, so that no earlier
			// transaction finds the name free and the register as it was.
			register = register || !before.Leased(now) || before.Holder != after.Holder
		} else {
			s.value = s.record.String()
			s.ops = append(s.ops, o.notify(s, key)...)
		}
	case !after.Leased(now) && b.leased:
		s.ops = append(s.ops, clientv3.OpDelete(key))
	}
	if register {
		s.ops = append(s.ops, clientv3.OpPut(o.keys.register(node.Stripe(o.r.Name)), formatRegister(after.Register)))
	}
	if err := o.enqueue(ctx, s); err != nil {
		return nil, err
	}
	o.guard(s, b, register, len(s.ops) > 0 && s.answer.Status == node.Held && s.waiter == "")
	return s, nil
}

// notify reserves the name for a waiter, and wakes it. The reservation goes with the
// waiter's process.
func (o *operation) notify(s *served, key string) []clientv3.Op {
	var attached []clientv3.OpOption
	for _, w := range s.queue.looked {
		if w.Waiter == s.waiter {
			attached = append(attached, clientv3.WithLease(w.lease))
		}
	}
	return []clientv3.Op{
		clientv3.OpPut(key, s.value, attached...),
		clientv3.OpPut(o.keys.wake(engine.ClientOf(s.waiter)), s.waiter, clientv3.WithIgnoreLease()),
	}
}

// enqueue writes what has become of the queue.
func (o *operation) enqueue(ctx context.Context, s *served) error {
	for _, key := range s.queue.removed {
		s.ops = append(s.ops, clientv3.OpDelete(key))
	}
	if !s.queue.insert {
		return nil
	}
	lease := o.listeners.lease(engine.ClientOf(s.queue.asker.Waiter))
	if lease == clientv3.NoLease {
		var err error
		if o.spare, err = o.leases.get(ctx, rule.QueueExpiry); err != nil {
			return node.NotSent(describe(ctx, err))
		}
		lease = o.spare.id
	}
	s.ops = append(s.ops, clientv3.OpPut(o.keys.waiter(o.r.Name, s.queue.asker), "", clientv3.WithLease(lease)))
	return nil
}

// guard compares all that the decision rests on.
func (o *operation) guard(s *served, b belief, register, onlyQueued bool) {
	if o.standing != nil {
		s.guards = append(s.guards, clientv3.Compare(clientv3.ModRevision(o.keys.meta()), "=", o.standing.mod))
	}
	key := o.keys.lease(o.r.Name)
	switch {
	case onlyQueued:
		// That the name is leased is enough.
		s.guards = append(s.guards, clientv3.Compare(clientv3.CreateRevision(key), ">", 0))
	case b.leased && b.value != "":
		s.guards = append(s.guards, clientv3.Compare(clientv3.Value(key), "=", b.value))
	case b.leased:
		s.guards = append(s.guards, clientv3.Compare(clientv3.ModRevision(key), "=", b.leaseMod))
	default:
		s.guards = append(s.guards, clientv3.Compare(clientv3.CreateRevision(key), "=", 0))
	}
	r := o.keys.register(node.Stripe(o.r.Name))
	switch floor := o.r.Op == node.Extend && o.r.Token > 0; {
	case !register && o.r.Op != node.Confirm && !floor:
		// It was not looked at.
	case b.below > 0:
		s.guards = append(s.guards, clientv3.Compare(clientv3.Value(r), "<", formatRegister(b.below)))
	default:
		s.guards = append(s.guards, clientv3.Compare(clientv3.ModRevision(r), "=", b.registerMod))
	}
	s.guards = append(s.guards, s.queue.guards()...)
}

// try sends the transaction. Where a client may wait, the holder learns which one: its release
// need not read the queue then.
func (o *operation) try(ctx context.Context, s *served) (outcome, error) {
	o.wakes = s.queue.asked
	t := txn{If: s.guards, Then: s.ops}
	s.curious = o.held.isContended(o.r.Name) || o.asker.Waiter != ""
	if o.keeps(s) {
		if s.curious {
			t.Then = append(t.Then, o.question().headsOp())
		}
		if o.tried == nil {
			o.tried = map[string]bool{}
		}
		o.tried[s.value] = true
	}
	if !s.curious && s.waiter == "" {
		return o.batcher.commit(ctx, o.r.Name, t)
	}
	return o.commit(ctx, t)
}

// keeps reports whether the operation leaves the holder with a lease whose end was set.
func (o *operation) keeps(s *served) bool {
	return o.lease != nil && s.answer.Status == node.Granted
}

// covered makes sure that etcd keeps what was granted for its TTL, or says that this is not known.
// In that case the grant exists all the same, for a time.
func (o *operation) covered(s *served) error {
	if !o.keeps(s) {
		return nil
	}
	if o.lease.covers(o.r.TTL) {
		return nil
	}
	return fmt.Errorf("it was granted, and etcd took more than %v to say so, so that it may end too early", slack)
}

// afterwards remembers what the operation has left: in etcd, or perhaps there.
func (o *operation) afterwards(s *served, a outcome, err error) {
	q := s.queue
	switch {
	case q.insert:
		o.places.keep(o.r.Name, q.asker)
	case q.renewed:
		o.places.keep(o.r.Name, o.asker)
	case len(q.removed) > 0 && err == nil && !q.b.in:
		o.places.drop(o.r.Name, o.asker)
	}
	if err != nil {
		if o.keeps(s) && !errors.Is(err, node.ErrNotSent) {
			o.held.doubt(o.r.Name, s.value, o.r.TTL)
		}
		return
	}
	switch {
	case s.waiter != "":
		o.held.doubt(o.r.Name, s.value, rule.ReservationTTL)
	case s.value != "":
		h := &held{record: s.record, mod: a.Header.Revision, value: s.value}
		if o.keeps(s) && s.curious {
			heads := a.Responses[len(s.ops)].GetResponseRange()
			h.first, h.more = o.question().waiters(heads.Kvs), heads.More
		}
		o.held.keep(o.r.Name, h, o.lease != nil)
	case s.answer.Status == node.Granted:
		o.held.drop(o.r.Name, o.r.Holder)
	}
	if o.r.Op == node.Release && (s.waiter != "" || len(q.looked) > 0) {
		o.held.contend(o.r.Name)
	}
}
