package sqlnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// serve carries out a request in one transaction. Whoever is notified is told after it.
func (n *Node) serve(ctx context.Context, a access, r node.Request) (node.Answer, error) {
	return apart(ctx, func() (said node.Answer, err error) {
		var q *queue
		var notified []string
		defer func() { q.close() }()
		err = n.transact(ctx, a, func(s *step) {
			before, stored := s.load(r.Name)
			if s.err != nil {
				return
			}
			// Read under the write lock, so that times in the file never go back.
			clock := n.clock()
			now := inFile(clock)
			q.close() // of an earlier try
			e := before
			q = &queue{step: s, name: []byte(r.Name), now: now}
			r.Next = 0 // waiters here look for reservations
			said, notified = rule.ServeShared(&e, q, now, r)
			if said.Status == node.Held {
				said.Clock = clock
			}
			if e.Register != before.Register && a != synced {
				s.err = errors.New("a register may not change in a transaction that is not synced")
			}
			q.end()
			s.store(r.Name, before, e, stored, now)
		})
		if err != nil {
			return node.Answer{}, err
		}
		for _, waiter := range notified {
			q.pipes[waiter].tell()
		}
		return said, nil
	})
}

// load reads the entry of a name. A lease of another boot is none, but its row
// is stored.
func (s *step) load(name string) (e rule.Entry, stored bool) {
	var holder []byte
	var expires, origin, token int64
	var boot string
	stored = s.row(&s.node.stmt.lease, []any{[]byte(name)}, &holder, &expires, &boot, &origin, &token)
	if stored && boot == s.node.boot {
		e.Holder, e.Expires = node.Holder(holder), time.Duration(expires)*time.Millisecond
		e.Origin = s.number("the origin of a lease", origin)
		e.Token = s.number("the token of a lease", token)
	}
	e.Register = s.register(name)
	return e, stored
}

// register reads the register of the name's stripe: 0 if it was never used.
func (s *step) register(name string) fence.Token {
	var token int64
	s.row(&s.node.stmt.register, []any{node.Stripe(name)}, &token)
	return s.number("a register", token)
}

// number checks what was read: another program may have written to the file.
func (s *step) number(what string, n int64) fence.Token {
	if (n < 0 || n > int64(fence.MaxToken)) && s.err == nil {
		s.err = fmt.Errorf("%s in the file is %d, which is none: it was changed by hand", what, n)
	}
	return fence.Token(n)
}

// purgeSize is how many expired leases a new one takes with it. More than one,
// so that rows of names that are never used again become fewer, not just
// not more.
const purgeSize = 4

// store writes what an operation changed.
func (s *step) store(name string, before, after rule.Entry, stored bool, now time.Duration) {
	n := s.node
	if after.Register != before.Register {
		s.exec(&n.stmt.setRegister, node.Stripe(name), int64(after.Register))
	}
	switch {
	case !after.Leased(now) && stored:
		s.exec(&n.stmt.dropLease, []byte(name))
	case after.Leased(now) && (after.Holder != before.Holder || after.Expires != before.Expires || after.Token != before.Token):
		s.exec(&n.stmt.setLease, []byte(name), []byte(after.Holder), after.Expires.Milliseconds(), n.boot, int64(after.Origin), int64(after.Token))
		s.exec(&n.stmt.purge, now.Milliseconds(), purgeSize)
	}
}

// now is the time in the precision of the file.
func (n *Node) now() time.Duration { return inFile(n.clock()) }

// inFile is a time in the precision that the file keeps, so that a lease ends
// at the same moment whether it has been written or not.
func inFile(clock time.Duration) time.Duration { return clock.Truncate(time.Millisecond) }
