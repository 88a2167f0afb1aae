package zknode

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// Registers implements cas.Store. They are of a memory whose loss was noted.
func (s store) Registers(ctx context.Context) (r node.Registers, err error) {
	f, err := s.facts(ctx, false, true)
	if err != nil {
		return r, err
	}
	link := f.State.(state).link
	r = node.Registers{Server: cmp.Or(f.Server, f.Memory), // nothing is recorded, and this client is in no group
		Memory: f.Memory, Admitted: f.Votes && f.Marked, Empty: f.Empty,
		MaxTTL: f.Terms.MaxTTL, Members: f.Terms.Members, Tokens: make(map[int]fence.Token)}
	promised := s.known.promised()
	err = s.stripes(ctx, link, nil, func(stripe int, z znode, _ wire.Reply) bool {
		r.Tokens[stripe] = z.Register
		return true
	})
	if err != nil || !r.Admitted {
		return r, err
	}
	for stripe, token := range promised {
		if r.Tokens[stripe] < token {
			// Another node must not be rebuilt from what this client knows to be set back.
			s.lose(r.Memory)
			return r, errNotAdmitted
		}
	}
	// The registers are worth what the mark says: they may have been lost while they were read.
	replies, err := link.Do(ctx, wire.Get{Path: s.paths.mark(r.Memory)})
	if err == nil && replies[0].Err != wire.OK {
		err = errNotAdmitted
	}
	return r, err
}

// errNotAdmitted is the error for an ensemble whose mark of admission has gone: look again. It is
// taken for a lost connection.
var errNotAdmitted error = &session.LostError{Cause: errors.New("the node is not admitted any more")}

// raiseAtOnce is how many registers are raised at once. Each is a request of its own, which is a
// megabyte at most: a znode has leases and queues too.
const raiseAtOnce = 16

// renewAt is the version from which on a stripe's znode is replaced by another, in the same
// multi. Versions have 32 bits, and one of them, -1, means any.
const renewAt = 1 << 30

// set writes the znode of a stripe over what was read: if it is as it was, or this fails.
func set(path string, over znode, text []byte, acl wire.ACL) []wire.Request {
	create := wire.Create{Path: path, Data: text, ACL: acl}
	switch {
	case !over.There:
		return []wire.Request{create}
	case over.version >= renewAt || over.version < 0:
		return []wire.Request{wire.Delete{Path: path, Version: over.version}, create}
	}
	return []wire.Request{wire.Set{Path: path, Data: text, Version: over.version}}
}

// raise makes the registers at least those of tokens, as long as the znode guard is there. The
// guard's path has the name of the memory: versions of another memory may be the same.
func (n *ensemble) raise(ctx context.Context, link *session.Link, guard string, tokens map[int]fence.Token) error {
	for range mostReads {
		less := make(map[int]znode)
		for stripe := range tokens {
			less[stripe], _ = n.read(wire.Reply{Err: wire.NoNode})
		}
		err := n.stripes(ctx, link, nil, func(stripe int, z znode, _ wire.Reply) bool {
			if less[stripe] = z; z.Register >= tokens[stripe] {
				delete(less, stripe)
			}
			return true
		})
		if err != nil || len(less) == 0 {
			return err
		}
		for some := range slices.Chunk(slices.Collect(maps.Keys(less)), raiseAtOnce) {
			var multis []wire.Request
			for _, stripe := range some {
				text := less[stripe].Raised(tokens[stripe]).Text()
				multis = append(multis, append(wire.Multi{wire.Check{Path: guard, Version: wire.Any}},
					set(n.paths.stripe(stripe), less[stripe], text, n.acl)...))
			}
			replies, err := link.Do(ctx, multis...)
			if err != nil {
				return err
			}
			for i, reply := range replies {
				switch {
				case reply.Err == wire.NoNode && reply.Failed == 0:
					return nil // not what it was: the next step says so
				case reply.Err == wire.NoNode && isCreate(multis[i].(wire.Multi)[reply.Failed]):
					return n.removed(n.paths.stripes())
				case reply.Err != wire.OK && !raced(reply.Err):
					return n.describe(reply.Err)
				}
			}
		}
	}
	return errors.New("others were first, again and again, to raise the registers")
}

// raced reports whether a code means that another client was first.
func raced(c wire.Code) bool { return c == wire.NoNode || c == wire.BadVersion || c == wire.NodeExists }
