package zknode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// Join implements node.Rejoiner.
func (n *Node) Join(g node.Group) error { return n.errorf("join", n.admission.Join(g)) }

// Admission returns what has the ensemble admitted, for the other nodes of its group.
func (n *Node) Admission() *admit.Admission { return n.admission }

// Registers implements node.Rejoiner.
func (n *Node) Registers(ctx context.Context) (node.Registers, error) {
	r, err := n.readRegisters(ctx)
	return r, n.errorf("registers", err)
}

func (n *Node) readRegisters(ctx context.Context) (r node.Registers, err error) {
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
	all, err := n.registersOf(ctx, link)
	if err != nil {
		return r, err
	}
	for stripe, one := range all {
		r.Tokens[stripe] = one.token
	}
	if !r.Admitted {
		return r, nil
	}
	// The registers are worth what the mark says: they may have been lost while they were read.
	replies, err := link.Do(ctx, wire.Get{Path: n.paths.mark(r.Memory)})
	if err == nil && replies[0].Err != wire.OK {
		err = errNotAdmitted
	}
	return r, err
}

// registersAtOnce is how many registers are read or written at once.
const registersAtOnce = 256

// foundRegister is a register that was read.
type foundRegister struct {
	token   fence.Token
	version int32
}

// registersOf reads all registers.
func (n *Node) registersOf(ctx context.Context, link *session.Link) (map[int]foundRegister, error) {
	replies, err := link.Do(ctx, wire.Children{Path: n.paths.registers()})
	if err != nil {
		return nil, err
	}
	if replies[0].Err != wire.OK && replies[0].Err != wire.NoNode {
		return nil, n.describe(replies[0].Err)
	}
	all := make(map[int]foundRegister)
	for some := range slices.Chunk(replies[0].Children, registersAtOnce) {
		var requests []wire.Request
		for _, part := range some {
			requests = append(requests, wire.Get{Path: n.paths.registers() + "/" + part})
		}
		replies, err := link.Do(ctx, requests...)
		if err != nil {
			return nil, err
		}
		for i, reply := range replies {
			stripe := stripeOf(some[i])
			if reply.Err == wire.NoNode {
				continue // was replaced just now, by a larger one
			}
			if reply.Err != wire.OK {
				return nil, n.describe(reply.Err)
			}
			token, err := parseRegister(reply.Data)
			if stripe < 0 || stripe >= node.Stripes {
				err = errors.New("its name is not that of a stripe")
			}
			if err != nil {
				return nil, fmt.Errorf("%s/%.40s is no register of fenlock's: %w", n.paths.registers(), some[i], err)
			}
			all[stripe] = foundRegister{token, reply.Stat.Version}
		}
	}
	return all, nil
}

// raise makes the registers at least those of tokens, as long as the znode guard is there. The
// guard's path has the name of the memory: versions of another memory may be the same.
func (n *Node) raise(ctx context.Context, link *session.Link, guard string, tokens map[int]fence.Token) error {
	for range mostReads {
		if len(tokens) == 0 {
			return nil
		}
		own, err := n.registersOf(ctx, link)
		if err != nil {
			return err
		}
		larger := slices.DeleteFunc(slices.Sorted(maps.Keys(tokens)),
			func(stripe int) bool { return tokens[stripe] <= own[stripe].token })
		alone := true // no other client was at it
		for some := range slices.Chunk(larger, registersAtOnce) {
			multi := wire.Multi{wire.Check{Path: guard, Version: wire.Any}}
			for _, stripe := range some {
				have, there := own[stripe]
				v := view{registerThere: there, version: have.version}
				multi = append(multi, setRegister(n.paths.register(stripe), &v, registerText(tokens[stripe]), n.acl)...)
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
				return n.removed(n.paths.registers())
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
