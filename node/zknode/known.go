package zknode

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// memories remember, for each stripe, what this client's last operation has left there. As long as
// the register has the version that it had then, nothing has changed. So the next operation about
// the same name need not read. If another client was there, the multi is refused like that of a
// client that has read too early. That holds over one connection: an ensemble that was set back
// counts its versions again.
type memories struct {
	mu  sync.Mutex
	all [node.Stripes]*remembered
}

type remembered struct {
	view
	known bool
	told  bool // by the client that has notified this client, just now
	// avoid is for how many operations it is not relied on, after it was found wrong: others
	// are at work there.
	avoid int
}

// distrust is how often what was remembered is not relied on after it was wrong.
const distrust = 8

// recall returns what is known about a name, over this connection.
func (m *memories) recall(name, memory string, link *session.Link) (view, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.all[node.Stripe(name)]
	if r == nil {
		return view{}, false
	}
	if r.avoid > 0 && !r.told {
		r.avoid--
		return view{}, false
	}
	r.told = false
	return r.view, r.known && r.name == name && r.memory == memory && r.link == link
}

// wrong is told that another client was there.
func (m *memories) wrong(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all[node.Stripe(name)] = &remembered{avoid: distrust}
}

// remember takes what a step has left, after it was carried out. Whether the version is known
// depends on the operation that has set the register.
func (m *memories) remember(s *step, after rule.Entry, reply wire.Reply) {
	left := view{link: s.link, name: s.name, memory: s.memory, clock: s.clock, register: after.Register,
		registerThere: true}
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
		m.all[stripe] = &remembered{view: left, known: ok, avoid: avoid}
	}
}

// left is, as text, what a step leaves that notifies the last in a queue: nothing but a
// reservation.
func (s *step) left(after rule.Entry, record queueRecord) string {
	version := s.version + 1
	switch s.multi[1].(type) {
	case wire.Create:
		version = 0
	case wire.Delete:
		return ""
	}
	return fmt.Sprintf("%s %d %d %d %d %s %s", s.memory, version, uint64(after.Register), record.renewed.Milliseconds(),
		record.until.Milliseconds(),
		strconv.Quote(record.reserved), strconv.Quote(record.name))
}

// told takes what a letter says of a name, that came while operations went by this connection.
func (m *memories) told(left string, link *session.Link) {
	v := view{link: link}
	var version int32
	var register uint64
	var renewed, until int64
	n, err := fmt.Sscanf(left, "%s %d %d %d %d %q %q", &v.memory, &version, &register, &renewed, &until,
		&v.record.reserved, &v.name)
	if n != 7 || err != nil || register > uint64(fence.MaxToken) || renewed < 0 || until < 0 || renewed > maxMillis ||
		until > maxMillis {
		return
	}
	v.version, v.register, v.registerThere, v.queueThere = version, fence.Token(register), true, true
	v.record.name, v.record.renewed, v.record.until = v.name, time.Duration(renewed)*time.Millisecond,
		time.Duration(until)*time.Millisecond
	m.mu.Lock()
	defer m.mu.Unlock()
	stripe, avoid := node.Stripe(v.name), 0
	if old := m.all[stripe]; old != nil {
		avoid = old.avoid
	}
	m.all[stripe] = &remembered{view: v, known: true, told: true, avoid: avoid}
}
