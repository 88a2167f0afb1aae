package transport

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/resp"
	"github.com/valkey-io/valkey-go"
)

// Conn is the one connection to a server, which is made anew when it is lost. Safe
// for concurrent use.
type Conn struct {
	client valkey.Client
	// Places in the client library's ring: a full ring ignores contexts.
	slots chan struct{}

	// A new connection may lead to another server, so that connections are counted.
	dials  atomic.Uint64
	newest atomic.Pointer[watched] // or nil

	sentinels bool    // they are asked where the server is
	route     *route  // to a member of a cluster; else nil
	server    *Server // of Open
	secrets   *resp.Secrets

	*engine.Lifetime
}

var _ resp.Link = (*Conn)(nil)

// Open returns a connection, which is made when it is first used. The passwords of all
// that it makes are added to secrets.
func Open(s *Server, secrets *resp.Secrets) (*Conn, error) {
	c := &Conn{slots: make(chan struct{}, maxInFlight), Lifetime: engine.NewLifetime(), sentinels: s.sentinels != nil,
		server: s, secrets: secrets}
	if s.Tag != "" {
		c.route = &route{seeds: s.Option.InitAddress}
	}
	var err error
	c.client, err = newClient(s, secrets, c.Life(), c.route, c.watch)
	return c, err
}

// watched is a connection that tells whether it was closed. While there is none, requests wait for
// a new connection in admission's look at the server, where they can be given up. The client
// library lets all of them wait for the request that connects, as long as that may take.
type watched struct {
	*framed
	closed  atomic.Bool
	made    time.Time
	primary atomic.Bool // the server was one when it was asked
}

func (w *watched) Close() error {
	w.closed.Store(true)
	return w.framed.Close()
}

// watch counts a new connection, and keeps an eye on it. One that was made during Close is closed:
// by this, or by Close, whichever comes later.
func (c *Conn) watch(conn *framed) net.Conn {
	w := &watched{framed: conn, made: time.Now()}
	c.newest.Store(w)
	c.dials.Add(1)
	if c.Life().Err() != nil {
		w.Close()
	}
	return w
}

// staleAfter is how long a connection is used that leads to a replica, or to a primary that seems
// to have been replaced.
const staleAfter = 5 * time.Second

// learn closes a connection whose server is a replica. If the server was a primary before, that is
// at once, since the address may lead to the new primary by now. Otherwise it is after a while,
// since it may soon.
func (w *watched) learn(info resp.Reply) {
	said, err := info.ToString()
	switch {
	case err != nil:
	case strings.Contains(said, "\nrole:master\r\n"):
		w.primary.Store(true)
	case strings.Contains(said, "\nrole:slave\r\n") && (w.primary.Load() || time.Since(w.made) > staleAfter):
		w.Close()
	}
}

// lost returns the newest connection if it was closed, else nil.
func (c *Conn) lost() *watched {
	if w := c.newest.Load(); w != nil && w.closed.Load() {
		return w
	}
	return nil
}

// Dial implements resp.Link.
func (c *Conn) Dial() uint64 { return c.dials.Load() }

// Up implements resp.Link.
func (c *Conn) Up(dial uint64) bool {
	return dial == c.dials.Load() && c.lost() == nil && c.route.leads()
}

// Renew implements resp.Link.
func (c *Conn) Renew(dial uint64) {
	if w := c.newest.Load(); w != nil && c.Up(dial) && time.Since(w.made) > staleAfter {
		w.Close()
	}
}

// Pooled implements resp.Link: there is one connection.
func (c *Conn) Pooled() bool { return false }

// Identify implements resp.Link.
func (c *Conn) Identify(ctx context.Context, and resp.Command,
	accept func(info string, other resp.Reply, dial uint64) error) error {
	if err := c.route.rests(time.Now()); err != nil {
		return err
	}
	var said error   // by the servers of this look, which is more than that they were left
	noticed := false // that a connection was cut: the library says so once
	for again := mostRedirects; ; {
		if !c.route.leads() {
			c.cut()
		}
		lost := c.lost()
		before, rounds := c.dials.Load(), c.route.fruitless()
		replies, err := c.DoMulti(ctx, resp.Command{"INFO"}, and)
		if err != nil {
			return c.route.inVain(said, err, time.Now())
		}
		info, err := replies[0].ToString()
		if err == nil && c.route != nil {
			if _, refused := resp.IsError(replies[1].Err()); refused {
				err = replies[1].Err()
			}
		}
		said = graver(said, err)
		if err != nil && again > 0 && c.redirected(ctx, err, rounds) {
			_, refused := resp.IsError(err)
			if noticed = !refused && !noticed && c.dials.Load() == before; !noticed {
				again--
			}
			continue
		}
		if err != nil {
			return c.route.inVain(said, err, time.Now())
		}
		if c.sentinels && strings.Contains(info, "\nrole:slave\r\n") {
			c.cut() // the next connection may lead to the new primary
			return errFailover
		}
		after := c.dials.Load()
		// A connection that was made meanwhile may lead elsewhere; the first
		// one ever cannot.
		if after != before && after != 1 {
			continue
		}
		err = accept(info, replies[1], after)
		if err == nil {
			c.route.settle()
		}
		if err == nil && lost != nil {
			c.newest.CompareAndSwap(lost, nil) // it was not the one that answers
		}
		return err
	}
}

// mostRedirects bounds for how many members one look at a server tries to find the owner.
const mostRedirects = 6

// redirected reports whether a failure to identify the server is for want of another member of its
// cluster, which is to be tried at once. It is not if a whole round of addresses has failed.
func (c *Conn) redirected(ctx context.Context, err error, rounds uint64) bool {
	if c.route == nil || ctx.Err() != nil || c.route.fruitless() != rounds {
		return false
	}
	if _, refused := resp.IsError(err); refused {
		return !c.route.leads()
	}
	// The library may notice late that a connection was closed.
	w := c.newest.Load()
	if w != nil && !w.closed.Load() {
		return false
	}
	engine.Pause(ctx, redirectPause)
	return true
}

// redirectPause lets the library notice that a connection was closed.
const redirectPause = 10 * time.Millisecond

// completed returns a command as the library sends it, once: the library takes the memory back. The
// methods that its builder has for each command would compute the slot that the key would have in a
// cluster. That is a good part of what a request costs.
func (c *Conn) completed(command resp.Command) valkey.Completed {
	return c.client.B().Arbitrary(command...).Build()
}

// Do implements resp.Link.
func (c *Conn) Do(ctx context.Context, command resp.Command) (resp.Reply, error) {
	if err := c.enter(ctx); err != nil {
		return resp.Reply{}, err
	}
	reply := replyOf(c.client.Do(ctx, c.completed(command)))
	c.giveBack(ctx)
	c.route.heed(command, &reply)
	return reply, reply.Err()
}

// DoMulti implements resp.Link.
func (c *Conn) DoMulti(ctx context.Context, commands ...resp.Command) ([]resp.Reply, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer c.giveBack(ctx)
	return c.send(ctx, commands, nil), nil
}

// Exchange implements resp.Link: the library closes a connection that answers nothing.
// Pipelines are few, so that they need no slots.
func (c *Conn) Exchange(commands []resp.Command, replies []resp.Reply) []resp.Reply {
	if len(commands) == 1 {
		reply := replyOf(c.client.Do(context.Background(), c.completed(commands[0])))
		c.route.heed(commands[0], &reply)
		return append(replies, reply)
	}
	return c.send(context.Background(), commands, replies)
}

func (c *Conn) send(ctx context.Context, commands []resp.Command, replies []resp.Reply) []resp.Reply {
	all := make([]valkey.Completed, len(commands))
	for i, command := range commands {
		all[i] = c.completed(command)
	}
	for i, result := range c.client.DoMulti(ctx, all...) {
		reply := replyOf(result)
		if newest := c.newest.Load(); commands[i][0] == "INFO" && newest != nil && c.route == nil {
			newest.learn(reply)
		}
		c.route.heed(commands[i], &reply)
		replies = append(replies, reply)
	}
	return replies
}

// Subscribe implements resp.Link. The
// connection serves requests meanwhile: in RESP3, which all servers speak that can be a
// node, messages are told from replies.
func (c *Conn) Subscribe(ctx context.Context, channel string, confirmed func(), message func(string)) error {
	// Until it is confirmed, the request is in the library's ring.
	if err := c.enter(ctx); err != nil {
		return err
	}
	giveBack := sync.OnceFunc(func() { c.giveBack(context.Background()) })
	defer giveBack()
	hook := func(s valkey.PubSubSubscription) {
		if s.Kind == "subscribe" {
			giveBack()
			confirmed()
		}
	}
	command := c.client.B().Subscribe().Channel(channel).Build()
	return said(c.client.Receive(valkey.WithOnSubscriptionHook(ctx, hook), command,
		func(m valkey.PubSubMessage) { message(m.Message) }))
}

// enter takes a slot, or says why nothing can be sent.
func (c *Conn) enter(ctx context.Context) error {
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := ctx.Err() // the library may notice late that the context is done
	if c.Life().Err() != nil {
		err = engine.ErrClosed
	}
	if err != nil {
		c.giveBack(ctx)
	}
	return err
}

// Close closes the connection, and waits for all goroutines. Requests under way fail,
// with an unknown outcome. A second Close does nothing.
func (c *Conn) Close() {
	if !c.End() {
		return
	}
	// First of all: the library waits a second for a server that hangs.
	c.cut()
	c.client.Close()
	c.Wait()
	c.client.Close()
	c.cut() // the library does not close what a caller's goroutine is making meanwhile
}

// cut closes the newest connection.
func (c *Conn) cut() {
	if w := c.newest.Load(); w != nil {
		w.Close()
	}
}

// giveBack frees a slot. A request that was given up is still in the ring, until
// its answer comes or the connection is closed. By when it is looked at here it was written, if
// not answered.
func (c *Conn) giveBack(ctx context.Context) {
	if ctx.Err() == nil {
		<-c.slots
		return
	}
	time.AfterFunc(silence+time.Second, func() {
		w := c.newest.Load()
		if w == nil {
			<-c.slots
			return
		}
		sent, _ := w.asked.count()
		c.giveBackAfter(w, sent)
	})
}

// giveBackAfter frees a slot once so many commands are answered, or the connection is closed. A
// server may be slow without being silent, and not every connection that a caller makes has
// deadlines.
func (c *Conn) giveBackAfter(w *watched, sent uint64) {
	if _, answered := w.asked.count(); answered >= sent || w.closed.Load() {
		<-c.slots
		return
	}
	time.AfterFunc(silence/30, func() { c.giveBackAfter(w, sent) })
}
