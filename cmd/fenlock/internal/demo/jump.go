//go:build linux || darwin || freebsd

package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// jump: clocks jump. One holder is a matter of clocks; tokens are not.
func jump(st *stage) {
	const name, ttl = "demo/account", 30 * time.Second
	st.tell("A lease ends when a server's clock says so. What if clocks jump? A demo may not set a server's, so in this scene, and " +
		"in no other, the nodes, the clients and the account are in one process: five nodes in memory, with clocks that the demo sets. " +
		"The lock is the same code.")
	nodes := newMemoryNodes(5)
	one, two := nodes.locker(st, "client 1", ttl), nodes.locker(st, "client 2", ttl)
	var guard fence.Guard
	balance := 100
	write := func(value int) func() error {
		return func() error { balance = value; return nil }
	}

	first, err := one.TryAcquire(st.ctx, name)
	st.must(err)
	// It is held as soon as a majority has granted; the scene is about all of them.
	st.until("all nodes have the lease", func() bool { return nodes.all(st, name) })
	st.holds("client 1", first, "has the lock for %s, token %d", short(ttl), first.Token())

	nodes.jump(time.Hour, 4)
	st.say("n5", Does, "its clock jumps an hour ahead: client 1's lease ends there")
	_, err = two.TryAcquire(st.ctx, name)
	st.require(errors.Is(err, fenlock.ErrHeld), "client 2 tried to take the lock: %v", err)
	st.say("client 2", Refused, "tries, and is refused: four of five know better")

	nodes.jump(time.Hour, 2, 3, 4)
	// Not TryAcquire: what the attempt before took at n5 may still be on its way back.
	soon, cancel := context.WithTimeout(st.ctx, ttl/6)
	defer cancel()
	second, err := two.Acquire(soon, name)
	st.did([]string{"n3", "n4", "n5"}, "demo", Does, "has the clocks of n3 and n4 jump ahead, too: three of five")
	st.must(err)
	st.holds("client 2", second, "tries, and has the lock, token %d", second.Token())
	left := first.Remaining()
	st.require(left > 0, "client 1 knew already that it has lost the lock")
	st.say("client 1", Harm, "believes it has the lock, for another %s: TWO HOLDERS", short(left))

	st.require(second.Token() > first.Token(), "client 2's token is %d, and client 1's %d", second.Token(), first.Token())
	st.must(guard.Do(st.ctx, name, second.Token(), write(50)))
	st.show(Event{Actor: "account", What: Wrote, Token: second.Token(), Value: 50, Text: "100 -> 50, written by client 2"})
	err = guard.Do(st.ctx, name, first.Token(), write(70))
	st.require(errors.Is(err, fence.ErrStale) && balance == 50, "client 1's write: %v, and the balance is %d", err, balance)
	st.show(Event{Actor: "account", What: Stale, Token: first.Token(), Value: 70, Text: "refuses 70 from client 1: its token is smaller"})
	err = first.Extend(st.ctx)
	st.require(errors.Is(err, fenlock.ErrLost), "client 1 extended: %v", err)
	st.say("client 1", Lost, "extends its lease, and is told that it has lost the lock")
	st.must(second.Release(st.ctx))
	st.note("client 2", Gives)

	ahead := nodes.ahead(st, name, ttl, 365*24*time.Hour)
	st.show(Event{Actor: "client 3", What: Holds, Token: ahead, Text: fmt.Sprintf("has a clock that is a year ahead (its requests are made by hand): takes the lock, token %d, and gives it back", ahead)})
	st.note("client 3", Gives)
	third, err := two.TryAcquire(st.ctx, name)
	st.must(err)
	st.holds("client 2", third, "has the right time, and a larger token all the same: %d", third.Token())
	st.require(second.Token() < ahead && ahead < third.Token(), "the tokens are %d, %d and %d", second.Token(), ahead, third.Token())
	st.must(third.Release(st.ctx))
	st.note("client 2", Gives)
	st.say("demo", Checked, "checked: the clocks of a majority jumped, and there were two holders; the tokens grew, and the guard refused the old one")
}

func (st *stage) holds(actor string, lock *fenlock.Lock, format string, args ...any) {
	st.show(Event{Actor: actor, What: Holds, Token: lock.Token(), Text: fmt.Sprintf(format, args...)})
}

// memoryNodes are nodes in this process whose clocks can be set.
type memoryNodes struct {
	nodes  []*memnode.Node
	offset []atomic.Int64
}

func newMemoryNodes(n int) *memoryNodes {
	m := &memoryNodes{offset: make([]atomic.Int64, n)}
	start := time.Now()
	for i := range n {
		m.nodes = append(m.nodes, memnode.New(fmt.Sprintf("n%d", i+1), memnode.WithClock(func() time.Duration {
			return time.Since(start) + time.Duration(m.offset[i].Load())
		})))
	}
	return m
}

// jump sets the clocks of some nodes ahead.
func (m *memoryNodes) jump(by time.Duration, which ...int) {
	for _, i := range which {
		m.offset[i].Add(int64(by))
	}
}

// all reports whether every node has a lease of the name.
func (m *memoryNodes) all(st *stage, name string) bool {
	for _, n := range m.nodes {
		lease, err := n.Inspect(st.ctx, name)
		st.must(err)
		if lease.Remaining <= 0 {
			return false
		}
	}
	return true
}

// locker is a client, with nodes of its own as another process would have.
func (m *memoryNodes) locker(st *stage, label string, ttl time.Duration) *fenlock.Locker {
	config := fenlock.Config{TTL: ttl, Label: label}
	for _, n := range m.nodes {
		config.Nodes = append(config.Nodes, n.Share())
	}
	l, err := fenlock.New(config)
	st.must(err)
	st.atEnd(func() { l.Close() })
	return l
}

// ahead takes the lock, and gives it back, with the requests that a client makes whose
// clock is ahead by so much: what it proposes as its token is the time. It returns the
// token that all nodes have granted.
func (m *memoryNodes) ahead(st *stage, name string, ttl, by time.Duration) fence.Token {
	id := make([]byte, node.IDLength/2)
	rand.Read(id)
	request := node.Request{Op: node.Acquire, Name: name, Holder: node.Holder(fmt.Sprintf("%x:client 3", id)),
		TTL: ttl, Token: fence.Token(time.Now().Add(by).UnixMicro())}
	for _, n := range m.nodes {
		var a node.Answer
		// The release before may still be under way.
		st.until("the lock is free", func() bool {
			var err error
			a, err = n.Do(st.ctx, request)
			st.must(err)
			return a.Status == node.Granted
		})
		st.require(a.Register == request.Token, "%s granted %d, and %d was proposed", n, a.Register, request.Token)
	}
	token := request.Token
	request.Op, request.Token = node.Release, 0
	for _, n := range m.nodes {
		_, err := n.Do(st.ctx, request)
		st.must(err)
	}
	return token
}
