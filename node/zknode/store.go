package zknode

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"
	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// under is what a Save compares: the znode of a stripe as it was read or written over a link.
type under struct {
	znode
	link   *session.Link
	memory string // that votes
}

// session is that in which all is written over a link.
func (u under) session(cas.Written) string { return idOf(u.link.ID) }

// Load implements cas.Store. What fails is begun again, unless a person has to mend it.
func (s store) Load(ctx context.Context, stripe int) (cas.Loaded, error) {
	l, err := s.load(ctx, stripe)
	if lost(err) {
		err = cas.Again(err)
	}
	return l, err
}

func (s store) load(ctx context.Context, stripe int) (cas.Loaded, error) {
	v, err := s.voting(ctx)
	if err != nil {
		return cas.Loaded{}, err
	}
	// What is promised meanwhile is none of what is read: operators look while others are at work.
	promised := s.known.least(v.memory, stripe)
	replies, err := v.link.Do(ctx, wire.Get{Path: s.paths.mark(v.memory)}, wire.Get{Path: s.paths.stripe(stripe)})
	if err != nil {
		return cas.Loaded{}, err
	}
	z, err := s.read(replies[1])
	if err != nil {
		return cas.Loaded{}, err
	}
	switch mark := replies[0].Err; {
	case !v.votes || z.Memory != v.memory:
		z.Timed = z.Without(v.memory) // no lease outlives an admission
	case mark == wire.NoNode:
		s.forget(v.memory)
		return cas.Loaded{}, cas.ErrConflict
	case mark != wire.OK:
		return cas.Loaded{}, s.describe(mark)
	}
	if v.votes && z.Register < promised {
		s.lose(v.memory)
		return cas.Loaded{}, cas.ErrConflict
	}
	l := cas.Loaded{Record: z.Record, Server: v.server, Terms: v.terms, Votes: v.votes}
	l.State = under{znode: z, link: v.link, memory: v.memory}
	return l, s.seen.Load(&l, stripe, z.Timed)
}

// ended asks which sessions have ended: the leases that were written in them are over. One that has
// never comes back, and its znode was there when the lease was written. Another ensemble knows none
// of them: it has to be the one with that memory.
func (n *ensemble) ended(ctx context.Context, memory string, sessions []string) (ended []bool, err error) {
	link, err := n.session.Link(ctx)
	if err != nil {
		return nil, err
	}
	requests := []wire.Request{wire.Get{Path: n.paths.mark(memory)}}
	for _, id := range sessions {
		requests = append(requests, wire.Get{Path: n.paths.session(id)})
	}
	replies, err := link.Do(ctx, requests...)
	if lost(err) {
		return nil, cas.Again(err)
	} else if err != nil {
		return nil, err
	}
	if replies[0].Err == wire.NoNode {
		return nil, cas.ErrConflict
	}
	for _, reply := range replies[1:] {
		ended = append(ended, reply.Err == wire.NoNode)
	}
	return ended, n.unread(replies)
}

// Save implements cas.Store: one multi, which is sent once. It writes nothing for an ensemble that
// does not vote, whose leases and waiters do not count.
func (s store) Save(ctx context.Context, stripe int, r cas.Record, over cas.Loaded) (cas.Loaded, error) {
	u := over.State.(under)
	if !over.Votes {
		return over, nil
	}
	link, err := s.session.Link(ctx)
	if v := s.vote.Load(); err != nil || link != u.link || v == nil || v.link != link || v.memory != u.memory {
		return over, cmp.Or(node.NotSent(err), cas.ErrConflict) // it has to be looked at again
	}
	next, changed, err := u.Next(r, u.memory, over.Clock, u.session)
	if err != nil {
		return over, node.NotSent(err)
	}
	for _, c := range changed {
		if need := (c.Ends - next.At).Truncate(time.Millisecond) + sessionSlack; need > u.link.Timeout {
			return over, node.NotSent(engine.Misconfiguredf(tooLong, need-sessionSlack, need, u.link.Timeout,
				need.Milliseconds()))
		}
	}
	multi := wire.Multi{wire.Check{Path: s.paths.mark(u.memory), Version: wire.Any}}
	multi = append(multi, set(s.paths.stripe(stripe), u.znode, next.Text(), s.acl)...)
	var told []*mailbox
	for _, notice := range r.Fresh {
		m := s.mailboxes.take(engine.ClientOf(notice))
		if m == nil {
			return over, cas.ErrConflict // another operation has written into it just now
		}
		multi, told = append(multi, m.tell(s.paths, notice)), append(told, m)
		s.mailboxes.put(m) // the next notice may be for the same client
	}
	multi = append(multi, wire.Check{Path: s.paths.session(idOf(u.link.ID)), Version: wire.Any})
	announce := s.announcement(u.link)
	saved, err := s.save(ctx, stripe, u, next, append(announce, multi)...)
	if err != nil {
		for _, m := range told {
			s.mailboxes.take(m.client)
		}
	}
	if err == nil || !isUndone(err) {
		s.seen.Saved(stripe, next, u.Timed, changed, err == nil)
	}
	if err != nil {
		return over, err
	}
	if announce != nil {
		s.announced.Store(u.link.ID)
	}
	s.known.saw(u.memory, stripe, r.Register)
	over.Record, over.Clock, over.State, over.Closer = r, next.At, saved, nil
	return over, nil
}

const tooLong = "a lease of %v needs a session of %v, and the servers grant one of %v only: " +
	"a shorter TTL, or maxSessionTimeout=%d in the configuration of all servers"

// announcement is the request that makes the znode of a session, nil if that was made. Each multi
// checks that the znode is there: it may have been removed, or set back, and the session lives.
func (n *ensemble) announcement(link *session.Link) []wire.Request {
	if n.announced.Load() == link.ID {
		return nil
	}
	return []wire.Request{wire.Create{Path: n.paths.session(idOf(link.ID)), ACL: n.acl, Ephemeral: true}}
}

// save sends the requests, of which the last is the multi. What it returns without an error is what
// is there then.
func (s store) save(ctx context.Context, stripe int, u under, next cas.Timed, requests ...wire.Request) (under, error) {
	replies, err := u.link.Do(ctx, requests...)
	if lost(err) {
		return u, err
	} else if err != nil {
		return u, node.NotSent(err)
	}
	multi, reply := requests[len(requests)-1].(wire.Multi), replies[len(replies)-1]
	switch code := reply.Err; {
	case code == wire.OK:
		z := znode{Timed: next}
		if _, ok := multi[1].(wire.Set); ok {
			z.version = reply.Results[1].Stat.Version
		}
		return under{znode: z, link: u.link, memory: u.memory}, nil
	case code == wire.NoNode && isCreate(multi[reply.Failed]):
		return u, node.NotSent(s.removed(s.paths.stripes()))
	case code == wire.NoNode && reply.Failed == len(multi)-1:
		s.announced.CompareAndSwap(u.link.ID, 0)
		switch first := replies[0].Err; {
		case len(requests) == 1, first == wire.OK, first == wire.NodeExists:
			return u, cas.ErrConflict // the next one makes it
		case first == wire.NoNode:
			return u, node.NotSent(s.removed(s.paths.sessions()))
		default:
			return u, node.NotSent(s.describe(first))
		}
	case raced(code):
		if reply.Failed == 0 {
			s.forget(u.memory)
		}
		return u, cas.ErrConflict
	case refused(code):
		return u, node.NotSent(s.describe(code))
	default:
		return u, fmt.Errorf("%w; the operation may have been carried out", code)
	}
}

func isCreate(r wire.Request) bool {
	_, is := r.(wire.Create)
	return is
}

// List implements cas.Store. Which sessions have ended is read after what was written in them, over
// the same connection.
func (s store) List(ctx context.Context, yield func(stripe int, l cas.Loaded) bool) error {
	f, err := s.facts(ctx, false, true)
	if err != nil {
		return err
	}
	var failed error
	err = s.stripes(ctx, f.State.(state).link, wire.Children{Path: s.paths.sessions()},
		func(stripe int, z znode, sessions wire.Reply) bool {
			if !f.Votes || z.Memory != f.Memory {
				z.Record = cas.Record{Register: z.Register}
			}
			l := cas.Loaded{Votes: f.Votes}
			failed = s.seen.Listed(&l, stripe, z.Timed, func(id string) (bool, error) {
				return !slices.Contains(sessions.Children, id), nil
			})
			return failed == nil && yield(stripe, l)
		})
	return cmp.Or(err, failed)
}

// Reachable implements cas.Teller: a client that listens has a znode, which goes with its session.
func (s store) Reachable(ctx context.Context, over cas.Loaded, client string) (bool, error) {
	if rule.CheckClient(client) != nil {
		return false, nil
	}
	if m := s.mailboxes.take(client); m != nil {
		s.mailboxes.put(m)
		return true, nil // or the multi is refused
	}
	replies, err := over.State.(under).link.Do(ctx, wire.Get{Path: s.paths.client(client)})
	switch {
	case err != nil:
		return false, cas.Again(err)
	case replies[0].Err == wire.OK:
		s.mailboxes.put(readMailbox(client, replies[0]))
		return true, nil
	case replies[0].Err == wire.NoNode:
		return false, nil
	}
	return false, s.describe(replies[0].Err)
}

// voting returns what the ensemble votes with, or what it is without voting. One of all operations
// looks, and the others wait for it.
func (n *ensemble) voting(ctx context.Context) (vote, error) {
	link, err := n.session.Link(ctx)
	if err != nil {
		return vote{}, err
	}
	if v := n.vote.Load(); v != nil && v.link == link {
		return *v, nil
	}
	leave, err := n.looking.Take(ctx, 0)
	if err != nil {
		return vote{}, err
	}
	defer leave()
	if v := n.vote.Load(); v != nil && v.link == link {
		return *v, nil
	}
	f, err := n.facts(ctx, false, true)
	if err != nil {
		return vote{}, err
	}
	link = f.State.(state).link
	if v := n.vote.Load(); v != nil && v.link == link {
		return *v, nil
	}
	return vote{link: link, memory: f.Memory, server: f.Server, terms: f.Terms}, nil
}
