package zknode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
)

// The leader does not hear of a session by what a follower passes on in it, but by what the
// follower reports now and then. A follower may be cut off right after a lease was granted, with a
// client that had nothing else to say. Even so, the session must not end before the lease.
func TestCutOffAfterTheGrant(t *testing.T) {
	t.Parallel()
	e := startEnsemble(t, "tickTime=1000")
	e.settled()
	leader := e.number(e.Leader(t))
	far := leader%3 + 1
	const ttl = 17 * time.Second // with a session so long, that a sign of life was sent each five seconds
	at := func(server int) Option {
		return WithDial(func(ctx context.Context, _ string) (net.Conn, error) {
			return dialTCP(ctx, e.ZooKeepers[server-1].Addr())
		})
	}
	url := e.url(1, "cut-off")
	n, other := openFor(t, ttl, true, url, at(far)), openFor(t, ttl, true, url, at(leader))
	ready(t, other)
	name, asked := "", time.Time{}
	a, err := node.Answer{}, errors.New("not asked")
	for try := 0; err != nil && try < 5; try++ { // an answer is lost if the machine is busy
		began := time.Now()
		ready(t, n)
		time.Sleep(time.Until(began.Add(9600 * time.Millisecond)))
		name, asked = fmt.Sprint("a", try), time.Now()
		a, err = n.Do(t.Context(), as(node.Acquire, lasting(request(name, "me", 0), ttl)))
	}
	want(t, node.Granted)(a, err)
	defer e.isolate(far)()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		l, err := other.look(ctx, name)
		cancel()
		lived := time.Since(asked)
		if lived > ttl {
			return
		}
		if err == nil && !l.there {
			t.Fatalf("a lease of %v has lived for %v", ttl, lived)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Another ensemble knows none of the sessions, and none of them is over by that.
func TestSessionsElsewhere(t *testing.T) {
	t.Parallel()
	n := voting(t, freshURL())
	memory, session := n.vote.Load().memory, idOf(linkOf(t, n).ID)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "me", 0))))
	for _, ask := range []struct {
		memory, session string
		ended           bool
		err             error
	}{
		{memory, session, false, nil}, {memory, "1", true, nil}, {"elsewhere", "1", false, cas.ErrConflict},
	} {
		ended, err := n.ended(t.Context(), ask.memory, []string{ask.session})
		if !errors.Is(err, ask.err) || err == nil && ended[0] != ask.ended {
			t.Errorf("%+v: %v, %v", ask, ended, err)
		}
	}
}
