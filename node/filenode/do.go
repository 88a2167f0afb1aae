//go:build linux || darwin || freebsd

package filenode

import (
	"context"
	"errors"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// Do implements node.Node.
func (n *Node) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	if err := rule.CheckShared(r); err != nil {
		return node.Answer{}, n.errorf(r.Op.String(), err)
	}
	a, err := in(ctx, n, roomOf(r.Name), r.Op == node.Release, func() (node.Answer, error) { return n.serve(r) })
	if lost := (gone{}); r.Op == node.Extend && errors.As(err, &lost) {
		// The lease is in no file that others find: somebody else may have the name.
		return node.Answer{Status: node.Lost, Detail: lost.Error()}, nil
	}
	if a.Status == node.Held {
		n.checkPipe(r.Place.Waiter)
	}
	return a, n.errorf(r.Op.String(), err)
}

// serve carries out a request under the lock of its room, and tells those that are notified: its caller may
// have gone.
func (n *Node) serve(r node.Request) (node.Answer, error) {
	room, err := readRoom(n, &n.header, roomOf(r.Name))
	if err != nil {
		return node.Answer{}, err
	}
	// Read under the lock, so that times in the file never go back.
	now := n.clock()
	pipes := map[string]*pipe{}
	defer func() {
		for _, p := range pipes {
			p.close()
		}
	}()
	o := room.Begin(r.Name, now, func(waiter string) bool {
		if pipes[waiter] == nil {
			if p := n.reach(waiter); p != nil {
				pipes[waiter] = p
			}
		}
		return pipes[waiter] != nil
	})
	r.Next = 0 // waiters here look for reservations
	answer, notified := rule.ServeShared(&o.Entry, renewing{o, now}, now, r)
	register := o.Register
	o.Commit()
	if err = n.raise(register); err == nil {
		err = room.write(n, &n.header, now)
	}
	if err != nil {
		return node.Answer{}, err
	}
	for _, waiter := range notified {
		pipes[waiter].tell()
	}
	return answer, nil
}

// renewing is the queue of a name. Its end is written once a second, and not for each question of its
// waiters.
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
