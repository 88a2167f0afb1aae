//go:build linux || darwin || freebsd

package filenode

import (
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// Waiters of nodes that bind their leases are a chain. Each has a byte of its own, as holders have.
// It has the byte from when it enters the queue until it lets go of the name, or its process ends.
// It waits in the kernel for the byte of the waiter before it, and the first for that of the
// holder. So each hears at once when the one before it has released, has left or has died, whatever
// happens to the others. It need not ask whether that one lives.
//
// A waiter has its byte only while it waits for another one. So a holder that releases need not
// tell the first in the queue, see serve. The first waits for one of the holder's bytes, or is
// about to ask because what it waited for has ended. A waiter that has come between two others
// changes nothing about that: its turn comes after the end of what was before both. That wakes
// both, and the later one then waits for the one that has come. One case is left: what was before
// both is stopped, and has been passed over. Then the later one hears of nothing, and asks in time
// (core.WatchedBackstop).
//
// Waiters of other nodes and waiters that want to share the name are no part of a chain. Nor are
// all behind these or behind a lease by time. They are told by their pipes. Waiters in a chain are
// told by their pipes too, except by the holder that they wait for. They ask now and then, as those
// before them may be gone.

// link has a waiter of this node that was refused wait for the one before it, and reports whether
// it does. Those before that have died leave the queue.
func (n *Node) link(o *rule.Operation, a *node.Answer, r node.Request) bool {
	waiter := r.Place.Waiter
	i, in := o.Ahead(waiter)
	in = in && !r.Shared
	for in && i > 0 {
		before := o.Waiters[i-1].Waiter
		if n.bound.chained(before) {
			return n.linkTo(waiter, holderOf(before))
		}
		if p := n.reach(before); p != nil {
			p.close()
			break
		}
		o.Remove(before)
		i, a.Ahead = i-1, a.Ahead-1
	}
	if in && i == 0 && !o.Holder.Shared() && n.bound.lives(o.Holder) {
		return n.linkTo(waiter, o.Holder)
	}
	n.bound.leave(waiter)
	return false
}

// linkTo has a waiter told when a byte is unlocked.
func (n *Node) linkTo(waiter string, h node.Holder) bool {
	linked := n.ends.watch([]node.Holder{h}, waiter, n.awaitEnd, n.heard) && n.bound.join(waiter)
	if !linked {
		n.bound.leave(waiter)
	}
	return linked
}

// heard tells a waiter that the processes that it waited for have ended, or what they had of the
// name. After an error it is not known, and a waiter that is not told otherwise is to ask.
func (n *Node) heard(waiter string, err error) {
	if err == nil || n.bound.loosen(waiter) {
		n.event(waiter)
	}
}

// awaitEnd returns when the byte of a holder, or of a waiter, is not locked.
func (n *Node) awaitEnd(h node.Holder) error { return n.locks.awaitDrop(n.real, holderByte(h)) }
