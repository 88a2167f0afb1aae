package zknode

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// listenTimeout is that of a listener's session, so how long a process that was killed is
// taken for one that listens. Servers grant two of their ticks at least, four seconds by default.
const listenTimeout = 4 * time.Second

// Attend implements cas.Teller by an ephemeral znode, the client's mailbox, in a session of its own
// with a short timeout. The client that notifies a waiter writes into it, in the same multi that
// reserves or gives the name. The listening client has a watch on it: no other client is woken.
func (s store) Attend(ctx context.Context, h *cas.Hearing) error {
	changed := make(chan struct{}, 1)
	l := listener{ensemble: s.ensemble, Hearing: h, changed: changed}
	l.session = session.New(s.config(func() time.Duration { return listenTimeout }, func(string) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}))
	defer l.session.Close(true) // and the mailbox goes with it
	for ctx.Err() == nil {
		if err := l.listen(ctx); err != nil && !lost(err) {
			return err
		}
	}
	return nil
}

// listener is a client that listens.
type listener struct {
	*ensemble
	*cas.Hearing
	session *session.Session
	changed <-chan struct{} // the mailbox may have changed
	owner   int64           // the session in which the mailbox is
	last    uint64          // the number of the last letter
}

// listen listens over one connection, until that is lost.
func (l *listener) listen(ctx context.Context) error {
	link, err := l.session.Link(ctx)
	if err != nil {
		return err
	}
	if err := l.open(ctx, link); err != nil {
		return err
	}
	for {
		replies, err := link.Do(ctx, wire.Get{Path: l.paths.client(l.Client()), Watch: true})
		if err != nil {
			return err
		}
		if replies[0].Err != wire.OK || replies[0].Stat.EphemeralOwner != link.ID {
			l.owner = 0 // it was removed: make it again
			return nil
		}
		news, newest, missed := readMailbox(l.Client(), replies[0]).since(l.last)
		l.last = newest
		for _, letter := range news {
			l.Tell(letter.notice)
		}
		if missed {
			l.Tell("")
		}
		select {
		case <-l.changed:
		case <-link.Done():
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// open makes the mailbox, unless this session has it already. If it is new, no waiter could be told
// before.
func (l *listener) open(ctx context.Context, link *session.Link) error {
	if l.owner == link.ID {
		return nil
	}
	path := l.paths.client(l.Client())
	// What an earlier session of this client has left goes: it has no reader.
	replies, err := link.Do(ctx, wire.Delete{Path: path, Version: wire.Any},
		wire.Create{Path: path, ACL: l.acl, Ephemeral: true})
	switch {
	case err != nil:
		return err
	case replies[1].Err == wire.NoNode:
		return errNothing
	case replies[1].Err != wire.OK:
		return l.describe(replies[1].Err)
	}
	l.owner, l.last = link.ID, 0
	l.Begun(0)
	return nil
}
