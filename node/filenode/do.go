//go:build linux || darwin || freebsd

package filenode

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// Do implements node.Node.
func (n *Node) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	if err := rule.CheckShared(r); err != nil {
		return node.Answer{}, n.errorf(r.Op.String(), err)
	}
	o, err := in(ctx, n, roomOf(r.Name), r.Op == node.Release, func() (outcome, error) { return n.serve(r) })
	a := o.Answer
	if lost := (gone{}); r.Op == node.Extend && errors.As(err, &lost) {
		// The lease is in no file that others find: another client may have the name.
		return node.Answer{Status: node.Lost, Detail: lost.Error()}, nil
	}
	switch waiter := r.Place.Waiter; {
	case waiter == "":
	case a.Status == node.Held:
		n.checkPipe(waiter, a.Watching)
		if a.Ahead == 0 && !a.Watching {
			n.ends.watch(o.bound, waiter, n.awaitEnd, n.heard)
		}
	case a.Status == node.Granted && r.Op == node.Acquire, r.Op == node.Release && r.Place.Stamp == 0:
		n.ends.forget(waiter)
	}
	return a, n.errorf(r.Op.String(), err)
}

// firstAlive returns the pipe of the first in a queue, nil if there is none, or it is the asker,
// which looks itself. Those before whose processes have ended leave the queue: they would not hear
// of the holder's end. One in a chain hears by that.
func (n *Node) firstAlive(o *rule.Operation, asker string) *pipe {
	for first := o.Head(); first != "" && first != asker; first = o.Head() {
		if n.bound.chained(first) {
			return nil
		}
		if p := n.reach(first); p != nil {
			return p
		}
		o.Remove(first)
	}
	return nil
}

// outcome is what has come of a request.
type outcome struct {
	node.Answer
	bound []node.Holder // to whose processes the name is bound now
}

// serve carries out a request under the lock of its room, and tells those that are notified: its
// caller may have gone.
func (n *Node) serve(r node.Request) (done outcome, err error) {
	if r.Op == node.Release {
		// At the end: what is written says first that it was released. And also if that fails, as
		// its holder has let go.
		defer func() {
			n.bound.drop(r.Holder)
			if r.Place.Stamp == 0 {
				n.bound.leave(r.Place.Waiter)
			}
		}()
	}
	room, err := readRoom(n, &n.header, roomOf(r.Name))
	if err != nil {
		return done, err
	}
	// Read under the lock, so that times in the file never go back.
	now := n.clock()
	pipes := map[string]*pipe{}
	defer func() {
		for _, p := range pipes {
			p.close()
		}
	}()
	lets := false // the holder lets go of the name, which the first in a chain hears by that
	o := room.Begin(r.Name, now, func(waiter string) bool {
		if lets && n.bound.chained(waiter) {
			return true
		}
		if pipes[waiter] == nil {
			if p := n.reach(waiter); p != nil {
				pipes[waiter] = p
			}
		}
		return pipes[waiter] != nil
	})
	before, first := o.BoundTo(now), o.Head()
	o.Ended(now, n.bound.lives)
	lets = r.Op == node.Release && o.Holder == r.Holder && n.bound.keeps(r.Holder)
	r.Next = 0 // waiters here look for reservations
	answer, notified := rule.ServeShared(&o.Entry, renewing{o, now}, now, r)
	if granted := answer.Status == node.Granted; granted && n.Binds() && (r.Op == node.Acquire || r.Op == node.Extend) {
		if err := n.bound.keep(r.Holder, r.Place.Waiter); err != nil {
			return done, node.NotSent(err)
		}
		o.Bind(r.Holder, now)
	}
	if _, in := o.Ahead(r.Place.Waiter); in && answer.Status == node.Held && n.Binds() {
		answer.Watching = n.link(o, &answer, r)
	}
	done = outcome{answer, o.BoundTo(now)}
	var p *pipe
	if len(done.bound) > 0 && (o.Head() != first || !slices.Equal(before, done.bound)) {
		p = n.firstAlive(o, r.Place.Waiter)
	}
	defer p.close()
	register := o.Register
	o.Commit()
	if r.Op == node.Acquire && answer.Status == node.Granted {
		n.bury(room, now)
	}
	if err = n.raise(register); err == nil {
		err = room.write(n, &n.header, now)
	}
	if err != nil {
		return outcome{}, err
	}
	p.tell() // it is to watch whom it waits for
	for _, waiter := range notified {
		pipes[waiter].tell()
	}
	return done, nil
}

// renewing is the queue of a name. Its end is written once a second, and not for each question of
// its waiters.
type renewing struct {
	*rule.Operation
	now time.Duration
}

// Renew implements rule.Queue.
func (q renewing) Renew() {
	if q.QueueExpires-q.now < rule.QueueExpiry-time.Second {
		q.Operation.Renew()
	}
}
