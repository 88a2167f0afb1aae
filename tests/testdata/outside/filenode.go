// Package filenode is an engine that was written outside of fenlock's repository, by the guide of
// package nodetest alone. It is a node in one file, for the processes of one machine. It is an
// example, and slow: every operation reads the file and writes it.
package filenode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

var errClosed = errors.New("the node is closed")

// Node is a node.Node, node.Queuer and node.Admin in a file. It is safe for concurrent
// use, by several processes too.
type Node struct {
	path string
	now  func() time.Duration // the same for all processes
	sync bool                 // wait for the disk

	closed    atomic.Bool
	mu        sync.Mutex
	listeners []*listener
}

var (
	_ node.Queuer = (*Node)(nil)
	_ node.Admin  = (*Node)(nil)
)

// Open returns the node in the file at path, which need not be there yet. Its clock is
// the wall clock of the machine.
func Open(path string) *Node {
	return &Node{path: path, now: func() time.Duration { return time.Duration(time.Now().UnixNano()) }, sync: true}
}

// String returns the path.
func (n *Node) String() string { return n.path }

// Engine returns n.
func (n *Node) Engine() any { return n }

// Do implements node.Node.
func (n *Node) Do(ctx context.Context, r node.Request) (a node.Answer, err error) {
	if err := rule.Check(r); err != nil {
		return a, n.errorf(r.Op.String(), err)
	}
	var q queue
	var notify string
	err = n.transact(ctx, func(s *rule.Store) (changed bool) {
		now := n.now()
		o := s.Begin(r.Name, now, func(waiter string) bool { return q.reach(n.socketOf(waiter)) })
		a, notify = rule.Serve(&o.Entry, o, now, r)
		o.Commit()
		return true
	})
	if err != nil {
		q.end("")
		return node.Answer{}, n.errorf(r.Op.String(), err)
	}
	q.end(notify)
	return a, nil
}

// Inspect implements node.Admin.
func (n *Node) Inspect(ctx context.Context, name string) (l node.Lease, err error) {
	err = n.transact(ctx, func(s *rule.Store) bool {
		l = s.Lease(name, n.now())
		return false
	})
	return l, n.errorf("inspect", err)
}

// Waiting implements node.Admin.
func (n *Node) Waiting(ctx context.Context, name string, limit int) (first []node.Waiter, all int, err error) {
	err = n.transact(ctx, func(s *rule.Store) bool {
		first, all = s.Waiting(name, n.now(), limit)
		return false
	})
	return first, all, n.errorf("waiting", err)
}

// List implements node.Admin.
func (n *Node) List(ctx context.Context, prefix string, yield func(node.Lease) bool) error {
	var all []node.Lease
	err := n.transact(ctx, func(s *rule.Store) bool {
		all = s.All(prefix, n.now())
		return false
	})
	for _, l := range all {
		if !yield(l) {
			break
		}
	}
	return n.errorf("list", err)
}

// Close implements node.Node.
func (n *Node) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed.Store(true)
	for _, l := range n.listeners {
		l.close()
	}
	n.listeners = nil
	return nil
}

func (n *Node) errorf(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("filenode %s: %s: %w", n.path, what, err)
}
