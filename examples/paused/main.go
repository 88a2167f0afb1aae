// Command paused plays the scenario with which critics refute distributed locks. A client takes a
// lock, is paused for longer than its lease, and goes on to write as if nothing had happened. No
// lock can prevent that. The fencing token and a guard at the resource do: the late write is
// refused.
//
//	go run ./examples/paused
//
// See Martin Kleppmann, "How to do distributed locking", 2016.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/memnode"
)

func main() {
	for _, guarded := range []bool{false, true} {
		if err := play(os.Stdout, guarded); err != nil {
			log.Fatal(err)
		}
	}
}

const ttl = 30 * time.Second

// account is the resource. Withdrawing is reading the balance, and writing what
// is left: a write on top of one that it has not seen loses that one.
type account struct {
	guard   *fence.Guard // nil: the last writer wins
	balance int
}

func (a *account) write(ctx context.Context, token fence.Token, balance int) error {
	set := func() error { a.balance = balance; return nil }
	if a.guard == nil {
		return set()
	}
	return a.guard.Do(ctx, "account", token, set)
}

// play tells one run to out. What the guard refuses is part of the story; an
// error means that the story went another way.
func play(out io.Writer, guarded bool) error {
	ctx := context.Background()
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	account := account{balance: 100}
	if guarded {
		account.guard = new(fence.Guard)
		say("\nWith fence.Guard in front of the account:")
	} else {
		say("Without a guard:")
	}

	// The nodes' time is set by hand, and only theirs. To them the pause lasts. For client 1 no
	// time goes by, as for a process that is stopped.
	var nodeTime atomic.Int64
	nodes := make([]*memnode.Node, 5)
	for i := range nodes {
		nodes[i] = memnode.New(fmt.Sprintf("node%d", i+1), memnode.WithClock(func() time.Duration {
			return time.Duration(nodeTime.Load())
		}))
	}
	client1, err := newClient(nodes)
	if err != nil {
		return err
	}
	defer client1.Close()
	client2, err := newClient(nodes)
	if err != nil {
		return err
	}
	defer client2.Close()

	lock1, err := client1.TryAcquire(ctx, "account")
	if err != nil {
		return err
	}
	seen1 := account.balance
	say("  client 1 takes the lock for %v and reads the balance, %d", ttl, seen1)
	if _, err := client2.TryAcquire(ctx, "account"); !errors.Is(err, fenlock.ErrHeld) {
		return fmt.Errorf("client 2, while client 1 holds the lock: %w", err)
	}
	say("  client 2 tries, and is told that the lock is held")

	say("  client 1 asks its lock if it still holds: %t", lock1.Context().Err() == nil && lock1.Remaining() > 0)
	nodeTime.Add(int64(time.Minute))
	say("  client 1 is paused for a minute, before it writes; its lease runs out")

	lock2, err := client2.TryAcquire(ctx, "account")
	if err != nil {
		return err
	}
	seen2 := account.balance
	say("  client 2 takes the lock and reads the balance, %d; its token is larger: %t", seen2,
		lock2.Token() > lock1.Token())
	if err := account.write(ctx, lock2.Token(), seen2-50); err != nil {
		return err
	}
	say("  client 2 withdraws 50 and writes the balance, %d", account.balance)

	say("  client 1 wakes up")
	err = account.write(ctx, lock1.Token(), seen1-30)
	switch {
	case err == nil:
		say("  client 1 withdraws 30 and writes the balance, %d", account.balance)
		say("  both have withdrawn, 80 in all, and the balance is %d: client 2's write is lost", account.balance)
	case errors.Is(err, fence.ErrStale):
		say("  client 1 withdraws 30 and writes the balance, %d: refused, its token is stale", seen1-30)
		say("  client 2's write stands, the balance is %d: nothing is lost", account.balance)
	default:
		return err
	}

	if err := lock2.Release(ctx); err != nil {
		return err // it was not taken from client 2
	}
	// Client 1's lease is gone already, so whatever its release reports is no news.
	lock1.Release(ctx)
	return nil
}

// newClient makes a Locker with nodes of its own, as another process would have.
func newClient(nodes []*memnode.Node) (*fenlock.Locker, error) {
	config := fenlock.Config{TTL: ttl}
	for _, node := range nodes {
		config.Nodes = append(config.Nodes, node.Share())
	}
	return fenlock.New(config)
}
