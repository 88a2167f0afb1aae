package zknode

import (
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
	n := s.ensemble
	f, err := n.admission.Noted(ctx)
	if err != nil {
		return r, err
	}
	link, err := n.session.Link(ctx)
	if err != nil {
		return r, err
	}
	if f.Votes && f.Marked {
		// Another node must not be rebuilt from what this client knows to be set back.
		if err := n.checkMemory(ctx, link, f.Memory); err != nil {
			return r, err
		}
		if f, err = n.admission.Noted(ctx); err != nil {
			return r, err
		}
	}
	r = node.Registers{Server: f.Server, Memory: f.Memory, Admitted: f.Votes && f.Marked, Empty: f.Empty,
		MaxTTL: f.Terms.MaxTTL, Members: f.Terms.Members, Tokens: make(map[int]fence.Token)}
	if r.Server == "" {
		r.Server = f.Memory // nothing is recorded, and this client is in no group
	}
	err = n.stripes(ctx, link, func(stripe int, z znode) bool { r.Tokens[stripe] = z.Register; return true })
	if err != nil || !r.Admitted {
		return r, err
	}
	// The registers are worth what the mark says: they may have been lost while they were read.
	replies, err := link.Do(ctx, wire.Get{Path: n.paths.mark(r.Memory)})
	if err == nil && replies[0].Err != wire.OK {
		err = errNotAdmitted
	}
	return r, err
}

// errNotAdmitted is the error for an ensemble whose mark of admission has gone: look again. It is
// taken for a lost connection.
var errNotAdmitted error = &session.LostError{Cause: errors.New("the node is not admitted any more")}

// raiseAtOnce is how many registers are raised at once, if their znodes have maxRecord bytes at
// most together. A request is a megabyte at most, and a znode has leases and queues too.
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
		if len(tokens) == 0 {
			return nil
		}
		own := make(map[int]znode)
		if err := n.stripes(ctx, link, func(stripe int, z znode) bool { own[stripe] = z; return true }); err != nil {
			return err
		}
		larger := slices.DeleteFunc(slices.Sorted(maps.Keys(tokens)),
			func(stripe int) bool { return tokens[stripe] <= own[stripe].Register })
		alone := true // no other client was at it
		for len(larger) > 0 {
			multi, size := wire.Multi{wire.Check{Path: guard, Version: wire.Any}}, 0
			for len(larger) > 0 && len(multi) <= raiseAtOnce {
				stripe := larger[0]
				z, there := own[stripe]
				if !there {
					z, _ = n.read(wire.Reply{Err: wire.NoNode})
				}
				text := z.Raised(tokens[stripe]).Text()
				if size += len(text); size > maxRecord && len(multi) > 1 {
					break
				}
				larger, multi = larger[1:], append(multi, set(n.paths.stripe(stripe), own[stripe], text, n.acl)...)
			}
			replies, err := link.Do(ctx, multi)
			if err != nil {
				return err
			}
			reply := replies[0]
			_, creates := multi[reply.Failed].(wire.Create)
			switch {
			case reply.Err == wire.NoNode && reply.Failed == 0:
				return nil // not what it was: the next step says so
			case reply.Err == wire.NoNode && creates:
				return n.removed(n.paths.stripes())
			case reply.Err == wire.BadVersion || reply.Err == wire.NodeExists || reply.Err == wire.NoNode:
				alone = false
			case reply.Err != wire.OK:
				return n.describe(reply.Err)
			}
		}
		if alone {
			return nil
		}
	}
	return errors.New("others were first, again and again, to raise the registers")
}
