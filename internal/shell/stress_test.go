package shell

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// bubbleEnv is the world in a synctest bubble.
type bubbleEnv struct {
	start time.Time
	epoch time.Duration
}

func (e *bubbleEnv) Now() time.Duration { return time.Since(e.start) + e.epoch }
func (e *bubbleEnv) WallMicros() int64  { return time.Now().UnixMicro() }
func (e *bubbleEnv) Go(f func())        { go f() }
func (e *bubbleEnv) Random() float64    { return rand.Float64() }
func (e *bubbleEnv) AfterFunc(d time.Duration, f func()) Timer {
	return time.AfterFunc(d, f)
}

func (e *bubbleEnv) ID() (id [node.IDLength]byte) {
	var bits [node.IDLength / 2]byte
	for i := range bits {
		bits[i] = byte(rand.Uint32())
	}
	hex.Encode(id[:], bits[:])
	return id
}

// faultyPeer is a node that answers before Start returns, soon, late or not at all, and
// may not be able to notify.
type faultyPeer struct {
	node    *memnode.Node
	sync    bool // always at once, and so in order
	queues  bool
	listens func() (time.Duration, error)
	healed  *atomic.Bool
}

func (p *faultyPeer) InOrder() bool { return p.sync }
func (p *faultyPeer) Queues() bool  { return p.queues }

func (p *faultyPeer) Start(_ context.Context, r node.Request, timeout time.Duration, call node.Call) {
	chance := rand.Float64()
	if p.healed.Load() {
		chance = 1
	}
	do := func() (node.Answer, error) { return p.node.Do(context.Background(), r) }
	switch {
	case p.sync:
		call.Done(do())
	case chance < 0.03: // never
	case chance < 0.06: // executed, not answered
		go do()
	case chance < 0.15:
		time.AfterFunc(rand.N(3*timeout), func() { call.Done(do()) })
	case chance < 0.2:
		a, err := do()
		time.AfterFunc(rand.N(3*timeout), func() { call.Done(a, err) })
	default:
		go func() {
			time.Sleep(rand.N(timeout / 4))
			call.Done(do())
		}()
	}
}

func (p *faultyPeer) Listen(client string, timeout time.Duration, notify func(string), done func(error)) {
	after, err := p.listens()
	listen := func() {
		if err == nil {
			err = p.node.Listen(context.Background(), client, func(w string) {
				if p.sync || p.healed.Load() {
					notify(w)
				} else if rand.Float64() < 0.9 {
					time.AfterFunc(rand.N(timeout), func() { notify(w) })
				}
				if rand.Float64() < 0.02 {
					go notify("")
				}
			})
		}
		done(err)
	}
	if after == 0 {
		listen()
	} else {
		time.AfterFunc(after, listen)
	}
}

// onceOwner is an Owner that notices what comes twice or not in order.
type onceOwner struct {
	t                        *testing.T
	held, done, ended, freed atomic.Int32
	over                     chan Failure
	free                     chan Failure
	lost                     chan struct{}
}

func newOnceOwner(t *testing.T) *onceOwner {
	return &onceOwner{t: t, over: make(chan Failure, 1), free: make(chan Failure, 1), lost: make(chan struct{})}
}

func once(t *testing.T, what string, n *atomic.Int32) {
	if n.Add(1) > 1 {
		t.Errorf("%s twice", what)
	}
}

func (s *onceOwner) Waiting(why *Failure) {
	if !why.Failed() {
		s.t.Error("waits for no reason")
	}
}
func (s *onceOwner) Held(token fence.Token, _ bool) {
	once(s.t, "held", &s.held)
	if !token.Valid() {
		s.t.Errorf("held with the token %d", token)
	}
}
func (s *onceOwner) Extended(left time.Duration, f Failure) {
	if left == 0 && !f.Failed() {
		s.t.Error("extended, and not held")
	}
}
func (s *onceOwner) Done(f Failure) {
	once(s.t, "done", &s.done)
	if f.Failed() == (s.held.Load() == 1) {
		s.t.Errorf("held %d times, and came to %+v", s.held.Load(), f)
	}
	s.over <- f
}
func (s *onceOwner) Ended(Failure, time.Duration) {
	once(s.t, "ended", &s.ended)
	if s.held.Load() != 1 {
		s.t.Error("ended, and was not held")
	}
	close(s.lost)
}
func (s *onceOwner) Freed(f Failure) {
	once(s.t, "freed", &s.freed)
	s.free <- f
}

type extendedOnce struct {
	t    *testing.T
	n    atomic.Int32
	done chan Failure
}

func (x *extendedOnce) Extended(f Failure) {
	once(x.t, "extended", &x.n)
	x.done <- f
}

// Callers come, give up, extend and release from many goroutines at once, on nodes that do what
// they like, and a goroutine closes the Client. Every caller is told what came of it, once, none
// holds beside another, and nothing is left.
func TestEverythingAtOnce(t *testing.T) {
	for round := range 12 {
		synctest.Test(t, func(t *testing.T) { everythingAtOnce(t, round) })
	}
}

func everythingAtOnce(t *testing.T, round int) {
	const ttl, timeout = 2 * time.Second, 100 * time.Millisecond
	var healed atomic.Bool
	var nodes []*memnode.Node
	for i := range 1 + 2*(round%3) {
		nodes = append(nodes, memnode.New(fmt.Sprint("node ", i)))
	}
	var clients []*Client
	for k := range 3 {
		config := Config{Env: &bubbleEnv{time.Now(), []time.Duration{0, -time.Hour, time.Hour}[k]},
			Terms: Terms{TTL: ttl, Label: fmt.Sprint(k)}, NodeTimeout: timeout}
		if round%4 == 0 {
			config.MaxHold = 5 * time.Second
		}
		for _, n := range nodes {
			p := &faultyPeer{node: n.Share(), sync: rand.Float64() < 0.3, queues: rand.Float64() < 0.8, healed: &healed}
			p.listens = func() (time.Duration, error) {
				switch rand.N(4) {
				case 0:
					return 0, nil
				case 1:
					return 0, fmt.Errorf("%w: no permission", node.ErrMisconfigured)
				case 2:
					return rand.N(3 * timeout), errors.New("broken")
				}
				return rand.N(3 * timeout), nil
			}
			config.Peers = append(config.Peers, p)
		}
		clients = append(clients, NewClient(config))
	}
	var all sync.WaitGroup
	var holders [2]holders
	stop := make(chan struct{})
	for _, c := range clients {
		for range 6 {
			all.Go(func() {
				for range 25 {
					select {
					case <-stop:
						return
					default:
					}
					useLock(t, c, holders[:])
				}
			})
		}
	}
	time.Sleep(rand.N(time.Minute))
	if round%2 == 0 {
		closeNow(t, clients[0]) // in the middle of it
	}
	time.Sleep(20 * time.Second)
	close(stop)
	healed.Store(true)
	all.Wait()
	for _, c := range clients {
		closeNow(t, c)
	}
	time.Sleep(time.Minute)
	for k, c := range clients {
		if counts := c.Counts(); counts != (Counts{}) {
			t.Errorf("round %d: client %d has left: %+v", round, k, counts)
		}
		if n := len(c.queues.byName); n > 0 {
			t.Errorf("round %d: client %d has %d local queues left", round, k, n)
		}
		if g := c.group; g.pacing.more() || g.deadlines.len() > 0 || g.unheard.len() > 0 {
			t.Errorf("round %d: client %d: others wait for their turn: %v, %d and %d have deadlines", round, k,
				g.pacing.more(), g.deadlines.len(), g.unheard.len())
		}
	}
}

// holders are those of a name. The nodes forget nothing, and all clocks run alike.
type holders struct {
	mu  sync.Mutex
	all map[*Lock]bool
}

func (h *holders) enter(t *testing.T, l *Lock) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for other := range h.all {
		if l.Remaining() > 0 && other.Remaining() > 0 {
			t.Errorf("two hold at once, with the tokens %v and %v", other.Token(), l.Token())
		}
	}
	if h.all == nil {
		h.all = make(map[*Lock]bool)
	}
	h.all[l] = true
}

func (h *holders) leave(l *Lock) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, l)
}

func closeNow(t *testing.T, c *Client) {
	idle := make(chan struct{})
	c.Close(func() { close(idle) })
	<-idle
}

func useLock(t *testing.T, c *Client, all []holders) {
	a, owner := new(Acquisition), newOnceOwner(t)
	which := rand.N(len(all))
	name := fmt.Sprint("name ", which)
	if rand.Float64() < 0.8 {
		c.Acquire(a, context.Background(), name, c.Terms(), owner)
	} else {
		c.TryAcquire(a, context.Background(), name, c.Terms(), owner)
	}
	if rand.Float64() < 0.3 {
		if rand.Float64() < 0.7 {
			time.Sleep(rand.N(2 * time.Second))
		}
		go a.Cancel()
		a.Cancel()
	}
	if f := <-owner.over; f.Failed() {
		return
	}
	l := a.Lock()
	all[which].enter(t, l)
	if l.Token() == 0 {
		t.Error("a lock without a token")
	}
	select {
	case <-owner.lost:
	case <-time.After(rand.N(3 * time.Second)):
	}
	var both sync.WaitGroup
	for range rand.N(4) {
		both.Go(func() {
			x := &extendedOnce{t: t, done: make(chan Failure, 1)}
			l.Extend(x)
			if rand.Float64() < 0.3 {
				l.Withdraw(x)
				return
			}
			<-x.done
		})
	}
	var first atomic.Int32
	all[which].leave(l)
	for range 2 {
		both.Go(func() {
			if _, before := l.Release(true); !before {
				first.Add(1)
			}
		})
	}
	both.Wait()
	<-owner.free
	if first.Load() != 1 {
		t.Errorf("%d releases were the first", first.Load())
	}
	if owner.ended.Load() != 1 || l.Remaining() != 0 {
		t.Error("released, and not ended")
	}
}
