package zknode

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// state is what was read, and what Note and Mark compare.
type state struct {
	link    *session.Link // over which it was read
	record  groupRecord
	version int32 // of the record
	found   bool
	marks   []string // paths of marks of admission, of any memory
	note    string   // path of the note that the memory is out; empty: there is none
	lost    bool     // this client knows of something that is not there any more
}

// Facts implements admit.Store.
func (s store) Facts(ctx context.Context) (admit.Facts, error) { return s.facts(ctx, true, true) }

// facts reads what the servers have recorded. With count it asks for the leader's clock too, by a
// write that changes nothing. With compare the servers may vote after that.
// Over a new connection they are compared with what this client knows, by such a write too.
func (n *ensemble) facts(ctx context.Context, count, compare bool) (f admit.Facts, err error) {
	link, err := n.session.Link(ctx)
	if err != nil {
		return f, err
	}
	s, err := n.readState(ctx, link)
	if err != nil {
		return f, err
	}
	g := s.record
	f = admit.Facts{Server: g.server, Memory: g.memory, Terms: g.terms, Empty: g.empty, Untouched: !g.admitted,
		Votes: g.admitted, Marked: len(s.marks) > 0, Recorded: len(s.marks) > 0 || g.admitted || g.terms != admit.Terms{}}
	var since time.Time
	if !s.found {
		f.Memory = "new " + n.member // until the note gives it a name
	} else if since, s.lost = n.known.seen(g.memory, g.admitted, link); compare && g.admitted && !s.lost {
		if v := n.vote.Load(); v == nil || v.link != link {
			s.lost, err = n.forgotten(ctx, link, g.memory)
		}
		if err != nil {
			return f, err
		}
	}
	if g.admitted && !s.lost {
		f.Marked = slices.Contains(s.marks, n.paths.mark(g.memory))
		if f.Marked && compare && n.admission.Check(f.Terms) == nil {
			n.votes(vote{link, g.memory, g.server, g.terms, true})
		}
		f.State = s
		return f, nil
	}
	f.Votes = false
	requests := []wire.Request{wire.Children{Path: n.paths.stripes()}, wire.Get{Path: cmp.Or(s.note, n.paths.group())}}
	if count {
		requests = append(requests, wire.Set{Path: n.paths.clock(), Version: wire.Any})
	}
	replies, err := link.Do(ctx, requests...)
	if err = cmp.Or(err, n.unread(replies)); err != nil {
		return f, err
	}
	f.Recorded = f.Recorded || len(replies[0].Children) > 0
	if f.Cause = node.Unused; f.Recorded {
		f.Cause = node.SetBack
	}
	f.Recorded = f.Recorded || n.known.knowsUse() // even if a client says that it is new
	note, last := replies[1], replies[len(replies)-1]
	if written := lifeOf(link, note, last.Zxid); s.note != "" && !s.lost && note.Err == wire.OK && written != earlierLife {
		f.Counted, f.Out = true, time.Since(since)
		link.Believe() // whatever was lost: if the memory is admitted, then after that
		// In one life of the servers their clock counts, for clients that do not live for so long.
		if count && written == thisLife && last.Err == wire.OK {
			f.Out = max(f.Out, time.Duration(last.Stat.Mtime-note.Stat.Mtime-1)*time.Millisecond)
		}
	}
	f.State = s
	return f, nil
}

// readState reads the record, and which marks and notes there are: all at one moment.
func (n *ensemble) readState(ctx context.Context, link *session.Link) (s state, err error) {
	for range mostReads {
		record := wire.Get{Path: n.paths.group()}
		replies, err := link.Do(ctx, wire.Sync{Path: n.root}, record, wire.Children{Path: n.root}, record)
		if err != nil {
			return s, err
		}
		s.link = link
		before, children, after := replies[1], replies[2], replies[3]
		if err := n.unread(replies[1:]); err != nil {
			return s, err
		}
		if before.Err != after.Err || before.Stat.Mzxid != after.Stat.Mzxid {
			continue // the others are written in one step with it
		}
		if s.found = after.Err == wire.OK; s.found {
			s.version = after.Stat.Version
			if s.record, err = parseGroup(after.Data); err != nil {
				return s, err
			}
		}
		for _, part := range children.Children {
			path := n.root + "/" + part
			if strings.HasPrefix(path, n.paths.mark("")) {
				s.marks = append(s.marks, path)
			}
			if s.found && path == n.paths.out(s.record.memory) {
				s.note = path
			}
		}
		return s, nil
	}
	return s, errors.New("the record of the group changes all the time")
}

// over returns what facts rest on, and the connection over which it was read, or nil if there is
// another connection by now. The servers may have been set back in between, to what looks the same.
func (s store) over(ctx context.Context, f admit.Facts) (was state, _ *session.Link, _ error) {
	was = f.State.(state)
	link, err := s.session.Link(ctx)
	if err != nil || link != was.link {
		return was, nil, err
	}
	return was, link, nil
}

// Note implements admit.Store: the memory gets another name, and a note that it is out, whose time
// counts. All marks go. The registers that this client knows are raised before.
func (s store) Note(ctx context.Context, f admit.Facts) (bool, error) {
	was, link, err := s.over(ctx, f)
	if link == nil || err != nil {
		return false, err
	}
	g := was.record
	g.memory, g.admitted, g.empty = rand.Text(), false, nil
	record := wire.Request(wire.Set{Path: s.paths.group(), Data: g.text(), Version: was.version})
	if !was.found {
		if err := s.found(ctx, link); err == wire.NoNode {
			return false, nil // it is being removed
		} else if err != nil {
			return false, err
		}
		g.server = rand.Text()
		record = wire.Create{Path: s.paths.group(), Data: g.text(), ACL: s.acl}
	}
	multi := wire.Multi{record, wire.Create{Path: s.paths.out(g.memory), Data: noteText(link), ACL: s.acl}}
	for _, path := range append(was.marks, was.note) {
		if path == "" {
			continue
		}
		multi = append(multi, wire.Delete{Path: path, Version: wire.Any})
		if err := s.raise(ctx, link, path, s.known.promised()); err != nil {
			return false, err
		}
	}
	done, err := s.carry(ctx, link, multi)
	if done {
		link.Believe()
		s.vote.Store(nil)
		if was.lost {
			s.admission.Warn("the servers have lost what they had acknowledged (a restored backup, or a crash without fsync): the node is out until all leases have ended")
		}
	}
	return done, err
}

// carry sends a multi, and reports whether it was carried out. It was not if the servers have
// something else by now than what it is about.
func (n *ensemble) carry(ctx context.Context, link *session.Link, multi wire.Multi) (done bool, err error) {
	replies, err := link.Do(ctx, multi)
	if err != nil {
		return false, err
	}
	code := replies[0].Err
	if code != wire.OK && !raced(code) {
		return false, n.describe(code)
	}
	return code == wire.OK, nil
}

// found makes what there has to be, but the record. Several clients may do so at once.
func (n *ensemble) found(ctx context.Context, link *session.Link) error {
	var all []string
	for i := 1; i <= len(n.root); i++ {
		if i == len(n.root) || n.root[i] == '/' {
			all = append(all, n.root[:i])
		}
	}
	var denied error
	for i, path := range append(all, n.paths.clock(), n.paths.stripes(), n.paths.sessions(), n.paths.clients()) {
		create := wire.Create{Path: path, ACL: n.acl}
		if i < len(all)-1 { // above the root
			create.ACL = wire.ACL{{Perms: wire.All, Scheme: "world", ID: "anyone"}}
		}
		replies, err := link.Do(ctx, create)
		if err != nil {
			return err
		}
		code := replies[0].Err
		if code == wire.NoAuth && i < len(all) {
			denied = n.describe(code)
			continue // it may be there: servers look at the permission first
		}
		if code == wire.NoNode && denied != nil {
			return denied
		}
		if code != wire.OK && code != wire.NodeExists {
			return n.describe(code)
		}
	}
	return nil
}

// Raise implements admit.Store. It does nothing to a memory that is not out any more.
func (s store) Raise(ctx context.Context, f admit.Facts, tokens map[int]fence.Token) error {
	was, link, err := s.over(ctx, f)
	if link == nil || err != nil {
		return err
	}
	return s.raise(ctx, link, was.note, tokens)
}

// Mark implements admit.Store. Leases of before are of another memory, and do not count.
func (s store) Mark(ctx context.Context, f admit.Facts, own admit.Terms, empty []string) (bool, error) {
	was, link, err := s.over(ctx, f)
	if link == nil || err != nil {
		return false, err
	}
	g := was.record
	g.admitted, g.empty = true, empty
	g.terms = admit.Terms{MaxTTL: cmp.Or(g.terms.MaxTTL, own.MaxTTL), Members: cmp.Or(g.terms.Members, own.Members)}
	done, err := s.carry(ctx, link, wire.Multi{
		wire.Delete{Path: was.note, Version: wire.Any},
		wire.Set{Path: s.paths.group(), Data: g.text(), Version: was.version},
		wire.Create{Path: s.paths.mark(g.memory), ACL: s.acl},
	})
	if done {
		s.known.seen(g.memory, true, link)
	}
	return done, err
}
