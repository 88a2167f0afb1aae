package zknode

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// known is what this client knows that the servers had. What is missing shows a restored backup, or
// a crash without fsync.
type known struct {
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

// votes takes that the ensemble votes, unless it was noticed meanwhile that something is missing.
func (n *ensemble) votes(v vote) {
	n.known.mu.Lock()
	defer n.known.mu.Unlock()
	if n.known.lost != v.memory {
		n.vote.Store(&v)
	}
}

// lose has the ensemble vote no more with a memory of which something is missing.
func (n *ensemble) lose(memory string) {
	n.known.mu.Lock()
	n.known.lost = memory
	n.known.mu.Unlock()
	n.forget(memory)
}

// forgotten compares what the servers have, over a new connection, with what this client knows that
// they had. If a number in a register, or of a transaction, went back, the servers have lost what
// they had acknowledged. They vote no more with this memory then.
func (n *ensemble) forgotten(ctx context.Context, link *session.Link, memory string) (lost bool, err error) {
	promised := n.known.promised()
	if before := link.Behind(); before > 0 {
		// The servers have refused this client for what it has seen. A write has a larger
		// number than every write before it.
		replies, err := link.Do(ctx, wire.Set{Path: n.paths.clock(), Version: wire.Any})
		if err != nil {
			return false, err
		}
		lost = replies[0].Zxid <= before
	}
	if !lost {
		var keys []string
		for stripe := range promised {
			keys = append(keys, cas.StripeKey(stripe))
		}
		err = n.znodes(ctx, link, keys, nil, func(stripe int, z znode, _ wire.Reply) bool {
			if z.Register >= promised[stripe] {
				delete(promised, stripe)
			}
			return true
		})
		if err != nil {
			return false, err
		}
		lost = len(promised) > 0
	}
	if lost {
		n.lose(memory)
	} else {
		link.Believe()
	}
	return lost, nil
}
