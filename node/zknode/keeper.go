package zknode

import (
	"context"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// keeper remembers the leases that this client has taken, or may have, and removes each when its
// TTL has passed. The session lives as long as the process, and would keep the lease.
type keeper struct {
	node   *Node
	mu     sync.Mutex
	leases map[leaseKey]*keptLease
	closed bool
}

type leaseKey struct {
	name   string
	holder node.Holder
}

type keptLease struct {
	session int64
	under   int       // requests under way that may take it
	ends    time.Time // zero: it has not been taken yet
	timer   *time.Timer
}

func (k *keeper) init(n *Node) { k.node, k.leases = n, make(map[leaseKey]*keptLease) }

// sending is one request that is under way.
type sending struct {
	keeper  *keeper
	key     leaseKey
	ttl     time.Duration
	session int64
	takes   bool
}

// sending is told before a request is sent; one of the methods of what it returns
// afterwards.
func (k *keeper) sending(r node.Request, session int64, takes bool) sending {
	s := sending{k, leaseKey{r.Name, r.Holder}, r.TTL.Truncate(time.Millisecond), session, takes}
	if !takes {
		return s
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.leases[s.key]
	if l == nil {
		l = &keptLease{session: session}
		k.leases[s.key] = l
	}
	l.under++
	return s
}

// granted is told that the servers have carried it out.
func (s sending) granted(r node.Request) {
	switch {
	case s.takes:
		s.until(time.Now().Add(s.ttl))
	case r.Op == node.Release:
		s.keeper.forget(s.key)
	}
}

// unknown is told that they may have, or may still.
func (s sending) unknown() {
	if s.takes {
		s.until(time.Now().Add(s.ttl))
	}
}

// undone is told that they have not.
func (s sending) undone() {
	if !s.takes {
		return
	}
	k := s.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.leases[s.key]; l != nil {
		if l.under--; l.under == 0 && l.ends.IsZero() {
			delete(k.leases, s.key)
		}
	}
}

func (s sending) until(ends time.Time) {
	k := s.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.leases[s.key]
	if l == nil || k.closed {
		return
	}
	l.under--
	l.session, l.ends = s.session, ends
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer = time.AfterFunc(time.Until(ends), func() { k.node.life.Spawn(func() { k.remove(s.key) }) })
}

func (k *keeper) forget(key leaseKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.leases[key]; l != nil && l.under == 0 {
		if l.timer != nil {
			l.timer.Stop()
		}
		delete(k.leases, key)
	}
}

// over reports whether a lease that was read is one of this client's whose TTL has passed.
func (k *keeper) over(name string, holder node.Holder, session int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.leases[leaseKey{name, holder}]
	return l != nil && l.session == session && l.under == 0 && !l.ends.IsZero() && !time.Now().Before(l.ends)
}

// close stops the timers. It reports whether the session may be ended: whether no lease is left
// that a client may still count on.
func (k *keeper) close() (finish bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	for _, l := range k.leases {
		if l.timer != nil {
			l.timer.Stop()
		}
	}
	return len(k.leases) == 0
}

// removePause is between two attempts to remove a lease, each of which has a second.
const removePause = 200 * time.Millisecond

// remove removes a lease whose time is over, and goes on trying while the session lives in
// which it is.
func (k *keeper) remove(key leaseKey) {
	for k.node.life.Err() == nil {
		k.mu.Lock()
		l := k.leases[key]
		if l == nil || time.Now().Before(l.ends) {
			k.mu.Unlock()
			return // released, or extended
		}
		session, ends, under := l.session, l.ends, l.under
		k.mu.Unlock()
		if under > 0 { // it may be extended, or not
			engine.Pause(k.node.life, removePause)
			continue
		}
		ctx, cancel := context.WithTimeout(k.node.life, time.Second)
		gone := k.node.removeLease(ctx, key, session)
		cancel()
		if gone {
			k.mu.Lock()
			if now := k.leases[key]; now == l && l.under == 0 && l.ends.Equal(ends) {
				delete(k.leases, key)
			}
			k.mu.Unlock()
			return
		}
		engine.Pause(k.node.life, removePause)
	}
}

// removeLease removes the lease of a holder in a session, and reports whether it is gone
// then for certain.
func (n *Node) removeLease(ctx context.Context, key leaseKey, session int64) (gone bool) {
	leave, err := n.turns.Take(ctx, node.Stripe(key.name))
	if err != nil {
		return false
	}
	defer leave()
	link, err := n.session.Link(ctx)
	if err != nil {
		return false
	}
	if link.ID != session {
		return true // with its session
	}
	memory, why, err := n.admitted(ctx, link)
	if err != nil || why != (node.Absence{}) {
		return false
	}
	// Verified by a write: what was sent in this session before it, and was not answered, was
	// carried out before, or never will be.
	v, err := n.read(ctx, link, key.name, memory, true)
	if err != nil {
		return false
	}
	if !v.leaseThere || v.lease.holder != key.holder || v.leaseStat.EphemeralOwner != session {
		return true
	}
	if !n.kept.over(key.name, key.holder, session) {
		return true // extended meanwhile; another timer is for that
	}
	multi := wire.Multi{wire.Check{Path: n.paths.mark(memory), Version: wire.Any}}
	multi = append(multi, setRegister(n.paths.register(node.Stripe(key.name)), &v, registerText(v.register), n.acl)...)
	multi = append(multi, wire.Delete{Path: n.paths.lease(key.name), Version: wire.Any})
	n.memories.wrong(key.name)
	replies, err := link.Do(ctx, multi)
	return err == nil && replies[0].Err == wire.OK
}
