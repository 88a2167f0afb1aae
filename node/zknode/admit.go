package zknode

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rebuild"
	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

func random() string { return rand.Text() }

// Join implements node.Rejoiner.
func (n *Node) Join(g node.Group) error {
	var members []string
	passed := false
	for _, m := range g.Nodes {
		other, ok := m.Engine().(*Node)
		switch {
		case !ok:
			if named, ok := m.Engine().(interface{ Member() string }); ok {
				members = append(members, named.Member())
			} else {
				members = append(members, m.String())
			}
			continue
		case other == n:
			passed = true
		case !passed && other.member == n.member:
			return n.errorf("join", errors.New("it is in the group twice: an ensemble has one vote"))
		}
		members = append(members, other.member)
	}
	slices.Sort(members) // in one order, whoever names them
	to := &membership{g, strings.Join(members, " ")}
	if n.admission.joined.CompareAndSwap(nil, to) {
		return nil
	}
	if old := n.admission.joined.Load(); old.MaxTTL != g.MaxTTL || old.members != to.members {
		return n.errorf("join", errors.New("it belongs to another group already, with other nodes or another MaxTTL"))
	}
	n.admission.joined.Store(to)
	return nil
}

// Registers implements node.Rejoiner.
func (n *Node) Registers(ctx context.Context) (node.Registers, error) {
	r, err := n.readRegisters(ctx)
	return r, n.errorf("registers", err)
}

// registersAtOnce is how many registers are read with one write.
const registersAtOnce = 256

func (n *Node) readRegisters(ctx context.Context) (r node.Registers, err error) {
	link, err := n.session.Link(ctx)
	if err != nil {
		return r, err
	}
	g, _, found, err := n.admission.look(ctx, link)
	if err != nil {
		return r, err
	}
	if !found {
		// Nothing was ever recorded: this is what is left.
		return node.Registers{Server: "new " + n.member, Memory: "new " + n.member}, nil
	}
	all, err := n.registersOf(ctx, link)
	if err != nil {
		return r, err
	}
	r = node.Registers{Server: g.server, Memory: g.memory, Admitted: g.admitted, Empty: g.empty,
		MaxTTL: g.maxTTL, Members: g.members, Tokens: make(map[int]fence.Token)}
	for stripe, one := range all {
		r.Tokens[stripe] = one.token
	}
	return r, nil
}

// found is a register that was read.
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
			if err != nil || stripe < 0 || stripe >= node.Stripes {
				return nil, fmt.Errorf("%s/%.40s is no register of fenlock's: %w", n.paths.registers(), some[i], err)
			}
			all[stripe] = foundRegister{token, reply.Stat.Version}
		}
	}
	return all, nil
}

// admit lets an ensemble vote that is out, if it has been so for long enough and its
// registers can be had.
func (a *admission) admit(ctx context.Context, link *session.Link, to *membership, g groupRecord, stat wire.Stat) (detail string, until time.Time, err error) {
	soon := time.Now().Add(retryAdmission)
	passed, err := a.quarantined(ctx, link, g, stat)
	if err != nil {
		return "", time.Time{}, err
	}
	left := quarantine(to.MaxTTL) - passed
	if left > 0 && !to.New {
		return waits(left), time.Now().Add(min(left, time.Second/2)), nil
	}
	self := rebuild.Self{Server: g.server, Memory: g.memory, Untouched: true}
	ask, cancel := context.WithTimeout(ctx, admissionTimeout/2)
	others := rebuild.Ask(ask, to.Group, a.node)
	cancel()
	own, err := a.node.registersOf(ctx, link)
	if err != nil {
		return "", time.Time{}, err
	}
	isNew := to.New && len(own) == 0 && allNew(self, others)
	if left > 0 && !isNew {
		return waits(left), time.Now().Add(min(left, time.Second/2)), nil
	}
	for _, r := range others {
		if r != nil && r.MaxTTL != 0 && r.MaxTTL != to.MaxTTL {
			return "", soon, fmt.Errorf("%w: another node has recorded a MaxTTL of %v, and this client's is %v", node.ErrMisconfigured, r.MaxTTL, to.MaxTTL)
		}
	}
	merged, err := rebuild.Merge(len(to.Nodes), self, others)
	if err != nil {
		return err.Error(), soon, nil
	}
	if err := a.raise(ctx, link, own, merged.Tokens); err != nil {
		return "", time.Time{}, err
	}
	g.admitted, g.empty = true, merged.Empty
	replies, err := link.Do(ctx, wire.Multi{
		wire.Set{Path: a.node.paths.group(), Data: g.text(), Version: stat.Version},
		wire.Create{Path: a.node.paths.mark(g.memory), ACL: a.node.acl},
	})
	switch {
	case err != nil:
		return "", time.Time{}, err
	case replies[0].Err == wire.BadVersion || replies[0].Err == wire.NodeExists || replies[0].Err == wire.NoNode:
		return "", time.Time{}, nil // another client was first: look again
	case replies[0].Err != wire.OK:
		return "", time.Time{}, a.node.describe(replies[0].Err)
	}
	switch {
	case merged.Weak && isNew:
		a.warn("the servers are new, or all of them have lost their memory at once: tokens begin at the clients' clocks")
	case merged.Weak:
		a.warn("node admitted without the registers of a majority: this is a new group, or a majority lost its memory at once; new tokens are larger than old ones only as far as the clients' clocks agree")
	}
	a.admittedAs.Store(&g.memory)
	return "", time.Time{}, nil
}

// allNew reports whether all others of a group are as new as a node with this self.
func allNew(self rebuild.Self, others []*node.Registers) bool {
	return !slices.ContainsFunc(others, func(r *node.Registers) bool {
		return r == nil || r.Admitted && !slices.Contains(r.Empty, self.Memory) || !r.Admitted && len(r.Tokens) > 0
	})
}

// raise makes the registers at least those of tokens.
func (a *admission) raise(ctx context.Context, link *session.Link, own map[int]foundRegister, tokens map[int]fence.Token) error {
	var larger []int
	for _, stripe := range slices.Sorted(maps.Keys(tokens)) {
		if tokens[stripe] > own[stripe].token {
			larger = append(larger, stripe)
		}
	}
	for some := range slices.Chunk(larger, registersAtOnce) {
		var multi wire.Multi
		for _, stripe := range some {
			have, there := own[stripe]
			v := view{registerThere: there, version: have.version}
			multi = append(multi, setRegister(a.node.paths.register(stripe), &v, registerText(tokens[stripe]), a.node.acl)...)
		}
		replies, err := link.Do(ctx, multi)
		if err != nil {
			return err
		}
		if replies[0].Err != wire.OK {
			return a.node.describe(replies[0].Err)
		}
	}
	return nil
}

// lostMemory has the ensemble vote no more, since it was seen to have forgotten something, and
// gives it back the registers that this client knows. An error says that it is not known whether
// that was done.
func (a *admission) lostMemory(ctx context.Context, link *session.Link, memory string, promised map[int]fence.Token) error {
	g, stat, found, err := a.look(ctx, link)
	if err != nil {
		return err
	}
	a.forget(memory)
	if !found || g.memory != memory || !g.admitted {
		return nil // known, or nothing is left
	}
	own, err := a.node.registersOf(ctx, link)
	if err == nil {
		err = a.raise(ctx, link, own, promised)
	}
	if err != nil {
		return err
	}
	g.memory, g.admitted, g.empty = random(), false, nil
	replies, err := link.Do(ctx, wire.Multi{
		wire.Set{Path: a.node.paths.group(), Data: g.text(), Version: stat.Version},
		wire.Delete{Path: a.node.paths.mark(memory), Version: wire.Any},
	})
	if err != nil {
		return err
	}
	if replies[0].Err == wire.OK {
		a.warn("the servers have lost what they had acknowledged (a restored backup, or a crash without fsync): the node is out until all leases have ended")
	}
	return nil
}

// warn tells the group what no answer does.
func (a *admission) warn(message string) {
	if to := a.joined.Load(); to != nil && to.Warn != nil {
		to.Warn(a.node, message)
	}
}
