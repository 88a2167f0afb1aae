package zknode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// errNotAdmitted is of an ensemble whose mark of admission has gone: look again. It is taken
// for a lost connection.
var errNotAdmitted error = &session.LostError{Cause: errors.New("the node is not admitted any more")}

// admissionTimeout bounds one try to admit the node, and retryAdmission is how long
// after one that failed there is none.
const (
	admissionTimeout = 5 * time.Second
	retryAdmission   = 200 * time.Millisecond
)

// membership is a group that was joined.
type membership struct {
	node.Group
	members string
}

// admission knows whether the ensemble may vote: whether it has kept its memory since it
// was admitted. The record of the group says so, and a mark whose path has the memory's random
// name in it: each operation checks in its transaction that the mark is there, so that an
// ensemble that was wiped, or set up anew, carries nothing out.
type admission struct {
	node       *Node
	joined     atomic.Pointer[membership]
	admittedAs atomic.Pointer[string] // the memory that is known to be admitted; nil: look

	checked  atomic.Pointer[session.Link] // the connection over which nothing was found to be forgotten
	checking stripes                      // a single one

	mu      sync.Mutex
	trying  chan struct{}        // closed when the try under way has ended
	detail  string               // why it is out, as the last try has found
	err     error                // what is wrong with it
	until   time.Time            // detail and err are believed
	noticed map[string]time.Time // memories that are not admitted, since when this client knows
	memory  string               // that highest is about
	highest map[int]fence.Token  // the registers that this client has seen, by stripe
}

// admitted returns the memory that the ensemble votes with, or why it does not.
func (a *admission) admitted(ctx context.Context, link *session.Link) (memory, detail string, err error) {
	for {
		if m := a.admittedAs.Load(); m != nil {
			if a.checked.Load() == link {
				return *m, "", nil
			}
			if err := a.checkOnce(ctx, link, *m); err != nil {
				return "", "", err
			}
			continue
		}
		a.mu.Lock()
		if time.Now().Before(a.until) {
			detail, err := a.detail, a.err
			a.mu.Unlock()
			return "", detail, err
		}
		if a.trying == nil {
			ended := make(chan struct{})
			err := a.node.spawn(func() {
				ctx, cancel := context.WithTimeout(a.node.life, admissionTimeout)
				defer cancel()
				detail, until, err := a.try(ctx)
				if a.node.life.Err() != nil {
					err = session.ErrClosed
				}
				a.mu.Lock()
				a.detail, a.until, a.err, a.trying = detail, until, err, nil
				a.mu.Unlock()
				close(ended)
			})
			if err != nil {
				a.mu.Unlock()
				return "", "", err
			}
			a.trying = ended
		}
		trying := a.trying
		a.mu.Unlock()
		select {
		case <-trying:
			a.mu.Lock()
			detail, err := a.detail, a.err
			a.mu.Unlock()
			if detail != "" || err != nil {
				return "", detail, err
			}
		case <-ctx.Done():
			return "", "", fmt.Errorf("whether it may vote is not known yet: %w", ctx.Err())
		}
	}
}

// forget has the ensemble looked at again.
func (a *admission) forget(memory string) {
	if m := a.admittedAs.Load(); m != nil && *m == memory {
		a.admittedAs.CompareAndSwap(m, nil)
	}
}

// checkOnce has one of all operations compare, and the others wait for it: each would ask for
// all registers.
func (a *admission) checkOnce(ctx context.Context, link *session.Link, memory string) error {
	leave, err := a.checking.enter(ctx, 0)
	if err != nil {
		return err
	}
	defer leave()
	if a.checked.Load() == link {
		return nil
	}
	return a.checkMemory(ctx, link, memory)
}

// checkMemory compares what the servers have, over a new connection, with what this client knows
// that they had: a number in a register, or of a transaction, that went back shows that they have
// lost what they had acknowledged.
func (a *admission) checkMemory(ctx context.Context, link *session.Link, memory string) error {
	seen, lost := a.promised(memory), false
	if before := link.Behind(); before > 0 {
		// The servers have refused this client for what it has seen. A write has a larger
		// number than every write before it.
		replies, err := link.Do(ctx, wire.Set{Path: a.node.paths.clock(), Version: wire.Any})
		if err != nil {
			return err
		}
		lost = replies[0].Zxid <= before
	}
	for some := range slices.Chunk(slices.Collect(maps.Keys(seen)), registersAtOnce) {
		requests := []wire.Request{wire.Sync{Path: a.node.root}}
		for _, stripe := range some {
			requests = append(requests, wire.Get{Path: a.node.paths.register(stripe)})
		}
		replies, err := link.Do(ctx, requests...)
		if err != nil {
			return err
		}
		for i, stripe := range some {
			reply, register := replies[1+i], fence.Token(0)
			if reply.Err == wire.OK {
				if register, err = parseRegister(reply.Data); err != nil {
					return err
				}
			} else if reply.Err != wire.NoNode {
				return a.node.describe(reply.Err)
			}
			lost = lost || register < seen[stripe]
		}
	}
	if lost {
		if err := a.lostMemory(ctx, link, memory, seen); err != nil {
			return err
		}
	}
	link.Believe()
	a.checked.Store(link)
	return nil
}

// promised returns the registers that this client knows, by stripe.
func (a *admission) promised(memory string) map[int]fence.Token {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.memory != memory {
		return nil
	}
	return maps.Clone(a.highest)
}

// saw remembers a register that the servers have promised with a memory.
func (a *admission) saw(memory string, stripe int, register fence.Token) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.memory != memory {
		a.memory, a.highest = memory, make(map[int]fence.Token)
	}
	a.highest[stripe] = max(a.highest[stripe], register)
}

// least returns what a register is at least, if it is read from now on: if it is less, the
// servers have lost what they had acknowledged.
func (a *admission) least(memory string, stripe int) fence.Token {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.memory != memory {
		return 0
	}
	return a.highest[stripe]
}

// look reads the record of the group. There is none if it is found to be false.
func (a *admission) look(ctx context.Context, link *session.Link) (g groupRecord, stat wire.Stat, found bool, err error) {
	replies, err := link.Do(ctx, wire.Sync{Path: a.node.paths.root}, wire.Get{Path: a.node.paths.group()})
	if err != nil {
		return g, stat, false, err
	}
	switch reply := replies[1]; reply.Err {
	case wire.OK:
		g, err = parseGroup(reply.Data)
		return g, reply.Stat, err == nil, err
	case wire.NoNode:
		return g, stat, false, nil
	default:
		return g, stat, false, a.node.describe(reply.Err)
	}
}

// check refuses a client that is in another group than the one that was recorded.
func (g groupRecord) check(to *membership) error {
	switch {
	case to == nil:
		return nil
	case g.maxTTL != to.MaxTTL:
		return fmt.Errorf("%w: the group's MaxTTL is %v, as recorded on the servers, and this client's is %v: all clients of a group have the same", node.ErrMisconfigured, g.maxTTL, to.MaxTTL)
	case g.members != to.members:
		return fmt.Errorf("%w: the servers belong to another group of nodes than this client names: %s are recorded, and not %s", node.ErrMisconfigured, g.members, to.members)
	}
	return nil
}

// try looks at the ensemble, and admits it if that is safe. It returns why it is out, and
// until when that is worth remembering.
func (a *admission) try(ctx context.Context) (detail string, until time.Time, err error) {
	soon := time.Now().Add(retryAdmission)
	link, err := a.node.session.Link(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	g, stat, found, err := a.look(ctx, link)
	if err != nil {
		return "", time.Time{}, err
	}
	to := a.joined.Load()
	if !found {
		if to == nil {
			return notFounded, soon, nil
		}
		if err := a.found(ctx, link, to); err != nil {
			return "", time.Time{}, err
		}
		if g, stat, found, err = a.look(ctx, link); err != nil || !found {
			return "its record is being made", soon, err
		}
	}
	if err := g.check(to); err != nil {
		return "", soon, err
	}
	if g.admitted {
		there, err := a.marked(ctx, link, g)
		if err != nil {
			return "", soon, err
		}
		if there {
			a.admittedAs.Store(&g.memory)
		}
		return "", time.Time{}, nil
	}
	if to == nil {
		return notFounded, soon, nil
	}
	return a.admit(ctx, link, to, g, stat)
}

// marked reports whether the mark of an ensemble that is recorded as admitted is there. If
// it is not, it is not any more, or somebody has removed the mark.
func (a *admission) marked(ctx context.Context, link *session.Link, g groupRecord) (bool, error) {
	path := a.node.paths.mark(g.memory)
	replies, err := link.Do(ctx, wire.Get{Path: path})
	if err != nil || replies[0].Err == wire.OK {
		return err == nil, err
	}
	if replies[0].Err != wire.NoNode {
		return false, a.node.describe(replies[0].Err)
	}
	now, _, found, err := a.look(ctx, link)
	if err == nil && found && now.admitted && now.memory == g.memory {
		err = a.node.removed(path)
	}
	return false, err
}

const notFounded = "it is not admitted, and only who takes locks admits it (fenlock.New, fenlock run)"

// found makes what there has to be, the record last. Several clients may do so at once.
func (a *admission) found(ctx context.Context, link *session.Link, to *membership) error {
	n := a.node
	var all []string
	for i := 1; i <= len(n.root); i++ {
		if i == len(n.root) || n.root[i] == '/' {
			all = append(all, n.root[:i])
		}
	}
	g := groupRecord{server: random(), memory: random(), maxTTL: to.MaxTTL, members: to.members}
	var denied error
	for i, path := range append(all, n.paths.clock(), n.paths.registers(), n.paths.leases(), n.paths.queues(), n.paths.clients(), n.paths.group()) {
		create := wire.Create{Path: path, ACL: n.acl}
		if i < len(all)-1 { // above the root
			create.ACL = wire.ACL{{Perms: wire.All, Scheme: "world", ID: "anyone"}}
		}
		if path == n.paths.group() {
			create.Data = g.text()
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

// quarantined returns for how long an ensemble with this memory has been out, as far as that
// is certain: since this client has noticed, by its own clock, or since the record was made, by
// the clock of a leader that has ruled since.
func (a *admission) quarantined(ctx context.Context, link *session.Link, g groupRecord, stat wire.Stat) (time.Duration, error) {
	a.mu.Lock()
	if a.noticed == nil || len(a.noticed) > 100 {
		a.noticed = make(map[string]time.Time)
	}
	since, ok := a.noticed[g.memory]
	if !ok {
		since = time.Now()
		a.noticed[g.memory] = since
	}
	a.mu.Unlock()
	passed := time.Since(since)
	replies, err := link.Do(ctx, wire.Set{Path: a.node.paths.clock(), Version: wire.Any})
	if err != nil {
		return 0, err
	}
	if now := replies[0]; now.Err == wire.OK && now.Stat.Mzxid>>32 == stat.Mzxid>>32 {
		passed = max(passed, time.Duration(now.Stat.Mtime-stat.Mtime)*time.Millisecond)
	}
	return passed, nil
}

// quarantine is how long an ensemble without memory stays out.
func quarantine(maxTTL time.Duration) time.Duration { return maxTTL + rule.Drift(maxTTL) }

func waits(left time.Duration) string {
	return fmt.Sprintf("this group or root is new to the servers, or they have lost their memory; voting starts in %d s", int(math.Ceil(left.Seconds())))
}
