package zknode

import (
	"sync"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// memories remember, for each stripe, what this client's last operation has left there. As
// long as the register has the version that it had then, nothing has changed, so that the
// next operation about the same name need not read: if somebody else was there, its
// multi is refused like that of anybody who has read too early.
type memories struct {
	mu  sync.Mutex
	all [node.Stripes]*remembered
}

type remembered struct {
	view
	known bool
	// avoid is for how many operations it is not relied on, after it was found wrong: others
	// are at work there.
	avoid int
}

// distrust is how often what was remembered is not relied on after it was wrong.
const distrust = 8

// recall returns what is known about a name.
func (m *memories) recall(name, memory string) (view, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.all[node.Stripe(name)]
	if r == nil {
		return view{}, false
	}
	if r.avoid > 0 {
		r.avoid--
		return view{}, false
	}
	return r.view, r.known && r.name == name && r.memory == memory
}

// wrong is told that somebody else was there.
func (m *memories) wrong(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all[node.Stripe(name)] = &remembered{avoid: distrust}
}

// remember takes what a step has left, after it was carried out. Whether the version is known
// depends on the operation that has set the register.
func (m *memories) remember(s *step, after rule.Entry, reply wire.Reply) {
	left := view{name: s.name, memory: s.memory, clock: s.clock, register: after.Register, registerThere: true}
	ok := len(s.multi) > 1
	if ok {
		switch s.multi[1].(type) {
		case wire.Set:
			left.version = reply.Results[1].Stat.Version
		case wire.Create:
		default:
			ok = false
		}
	}
	for _, op := range s.multi[2:] {
		switch op := op.(type) {
		case wire.Create:
			ok = ok && op.Ephemeral
			left.leaseThere, left.leaseStat.EphemeralOwner = true, s.link.ID
		case wire.Set:
			ok = ok && op.Path == s.node.paths.lease(s.name)
			left.leaseThere, left.leaseStat.EphemeralOwner = true, s.leaseStat.EphemeralOwner
		}
	}
	if left.leaseThere {
		left.lease, left.left = s.taken, s.taken.ttl
	}
	// With a queue, or with a lease that was left alone, there is more to know.
	ok = ok && !s.queue.changed && !s.queueThere && (!s.leaseThere || s.leaseTouched)
	m.mu.Lock()
	defer m.mu.Unlock()
	stripe := node.Stripe(s.name)
	avoid := 0
	if old := m.all[stripe]; old != nil {
		avoid = old.avoid
	}
	if ok || avoid > 0 || m.all[stripe] != nil {
		m.all[stripe] = &remembered{left, ok, avoid}
	}
}
