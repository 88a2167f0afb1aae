package zknode

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// ensemble is the servers as this client knows them, and its session with them.
type ensemble struct {
	location
	dial      func(ctx context.Context, address string) (net.Conn, error)
	session   *session.Session
	paths     paths
	acl       wire.ACL
	admission *admit.Admission

	seen      *cas.Clock
	mailboxes mailboxes
	vote      atomic.Pointer[vote] // nil: look
	looking   engine.Turns         // a single one
	known     known
	announced atomic.Int64 // the session that has a znode
}

// store is what package cas asks of the ensemble.
type store struct{ *ensemble }

// vote is what an admitted ensemble votes with. The mark of admission has the random name of its
// memory in its path. Each multi that promises something checks that the mark is there.
type vote struct {
	link           *session.Link // over which the servers were found to have forgotten nothing
	memory, server string
	terms          admit.Terms
	votes          bool
}

// forget has the ensemble looked at again.
func (n *ensemble) forget(memory string) {
	if v := n.vote.Load(); v != nil && v.memory == memory {
		n.vote.CompareAndSwap(v, nil)
	}
}

// maxRecord bounds what a znode has, in bytes. Servers refuse a request of more than a megabyte, by
// default (jute.maxbuffer).
const maxRecord = 512 << 10

// mostReads bounds how often the record is read that changes meanwhile.
const mostReads = 10

func (n *ensemble) config(timeout func() time.Duration, event func(path string)) session.Config {
	return session.Config{Servers: n.servers, Dial: n.dial, Digest: n.digest, Timeout: timeout, Event: event}
}

// sessionSlack is by how much the timeout of a session has to exceed the TTLs of the leases in it.
// A session ends when its timeout has passed since the leader has heard of its client. The leader
// does not hear of the client by a multi that another server passes on. It hears by what that
// server tells it each half a tick (a second, by default). That is a sign of life that may have
// been sent session.Silence before. A server may be cut off from the leader right after the multi.
const sessionSlack = session.Silence + 2*time.Second

// sessionTimeout is what a session asks for: enough for the longest lease of the group.
func (n *ensemble) sessionTimeout() time.Duration {
	longest := time.Minute
	if own := n.admission.Terms(); own.MaxTTL > 0 {
		longest = own.MaxTTL
	}
	return longest + sessionSlack
}

// sync has what this client reads be as new as what the leader has. A failure shows in the read
// that follows.
func (n *ensemble) sync(ctx context.Context) {
	if link, err := n.session.Link(ctx); err == nil {
		link.Do(ctx, wire.Sync{Path: n.root})
	}
}

// read reads the znode of a stripe.
func (n *ensemble) read(reply wire.Reply) (z znode, err error) {
	switch reply.Err {
	case wire.OK:
		z.version = reply.Stat.Version
		z.Timed, err = cas.ParseTimed(reply.Data)
	case wire.NoNode:
		z.Timed = cas.NewTimed(time.Now())
	default:
		err = n.describe(reply.Err)
	}
	return z, err
}

// stripes reads the znodes of all stripes, as znodes does.
func (n *ensemble) stripes(ctx context.Context, link *session.Link, also wire.Request,
	yield func(stripe int, z znode, also wire.Reply) bool) error {
	replies, err := link.Do(ctx, wire.Sync{Path: n.root}, wire.Children{Path: n.paths.stripes()})
	if err = cmp.Or(err, n.unread(replies)); err != nil {
		return err
	}
	return n.znodes(ctx, link, slices.Sorted(slices.Values(replies[1].Children)), also, yield)
}

// atOnce is how many stripes are read at once.
const atOnce = 256

// znodes reads the znodes of some stripes, a part at a time, but for those that are not there. They
// are as new as what the leader has. What is asked for also, unless nil, is read after each part.
func (n *ensemble) znodes(ctx context.Context, link *session.Link, keys []string, also wire.Request,
	yield func(stripe int, z znode, also wire.Reply) bool) error {
	for some := range slices.Chunk(keys, atOnce) {
		requests := []wire.Request{wire.Sync{Path: n.root}}
		for _, key := range some {
			requests = append(requests, wire.Get{Path: n.paths.stripes() + "/" + key})
		}
		if also != nil {
			requests = append(requests, also)
		}
		replies, err := link.Do(ctx, requests...)
		if err = cmp.Or(err, n.unread(replies)); err != nil {
			return err
		}
		for i, key := range some {
			if replies[1+i].Err == wire.NoNode {
				continue
			}
			z, err := n.read(replies[1+i])
			stripe, is := cas.ParseStripe(key)
			if err == nil && !is {
				err = engine.Misconfiguredf("its name is not that of a stripe")
			}
			if err != nil {
				return fmt.Errorf("%s/%.40s: %w", n.paths.stripes(), key, err)
			}
			if !yield(stripe, z, replies[len(replies)-1]) {
				return nil
			}
		}
	}
	return nil
}
