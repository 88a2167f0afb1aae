package zknode

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// known is what this client knows that the servers had. What is missing shows a restored backup, or
// a crash without fsync.
type known struct {
	checked  atomic.Pointer[session.Link] // the connection over which nothing was found to be forgotten
	checking engine.Turns                 // a single one

	mu      sync.Mutex
	memory  string              // seen last
	link    *session.Link       // over which it was seen last
	since   time.Time           // it was seen first, over that connection
	used    bool                // a memory was admitted that this client has seen
	voted   bool                // with this memory
	past    map[string]bool     // memories that were seen before it
	lost    string              // a memory of which something was missing
	highest map[int]fence.Token // the registers that were promised with the memory, by stripe
}

// seen takes the memory that the record has, and whether it is admitted. It returns since when this
// client knows it over one connection, because the servers may have been set back between two. It
// also returns whether that shows a loss. A memory is lost if another had followed it, if it had
// been admitted and is not, or if something is missing.
func (k *known) seen(memory string, admitted bool, link *session.Link) (since time.Time, lost bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.past[memory] {
		return time.Now(), true
	}
	if memory != k.memory {
		if k.past == nil || len(k.past) > 100 {
			k.past = make(map[string]bool)
		}
		k.past[k.memory] = true
		k.memory, k.since, k.voted, k.highest = memory, time.Time{}, false, make(map[int]fence.Token)
	}
	if k.link != link || k.since.IsZero() {
		k.link, k.since = link, time.Now()
	}
	lost = k.lost == memory || k.voted && !admitted
	k.voted, k.used = k.voted || admitted, k.used || admitted
	return k.since, lost
}

// knowsUse reports whether this client has seen the ensemble vote.
func (k *known) knowsUse() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.used
}

// promised returns the registers that this client knows, by stripe.
func (k *known) promised() map[int]fence.Token {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.highest)
}

// saw remembers a register that the servers have promised with a memory.
func (k *known) saw(memory string, stripe int, register fence.Token) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.memory == memory {
		k.highest[stripe] = max(k.highest[stripe], register)
	}
}

// least returns what a register is at least, if it is read from now on. If it is less, the servers
// have lost what they had acknowledged.
func (k *known) least(memory string, stripe int) fence.Token {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.memory != memory {
		return 0
	}
	return k.highest[stripe]
}

// lose has the ensemble vote no more with a memory of which something is missing.
func (n *ensemble) lose(memory string) {
	n.known.mu.Lock()
	n.known.lost = memory
	n.known.mu.Unlock()
	n.forget(memory)
}

// checkMemory compares what the servers have, over a new connection, with what this client knows
// that they had. If a number in a register, or of a transaction, went back, the servers have lost
// what they had acknowledged.
func (n *ensemble) checkMemory(ctx context.Context, link *session.Link, memory string) error {
	if before := link.Behind(); before > 0 {
		// The servers have refused this client for what it has seen. A write has a larger
		// number than every write before it.
		replies, err := link.Do(ctx, wire.Set{Path: n.paths.clock(), Version: wire.Any})
		if err != nil {
			return err
		}
		if replies[0].Zxid <= before {
			n.lose(memory)
			return nil
		}
	}
	seen := n.known.promised()
	for some := range slices.Chunk(slices.Collect(maps.Keys(seen)), listAtOnce) {
		requests := []wire.Request{wire.Sync{Path: n.root}}
		for _, stripe := range some {
			requests = append(requests, wire.Get{Path: n.paths.stripe(stripe)})
		}
		replies, err := link.Do(ctx, requests...)
		if err != nil {
			return err
		}
		for i, stripe := range some {
			reply, register := replies[1+i], fence.Token(0)
			if reply.Err == wire.OK {
				z, err := n.read(reply)
				if err != nil {
					return err
				}
				register = z.Register
			} else if reply.Err != wire.NoNode {
				return n.describe(reply.Err)
			}
			if register < seen[stripe] {
				n.lose(memory)
				return nil
			}
		}
	}
	link.Believe()
	n.known.checked.Store(link)
	return nil
}
