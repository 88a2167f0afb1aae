package core_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/shell"
	"github.com/fenlock/fenlock/node"
)

// TestQueueClientIsTheShell ties the clients of the model of waiting to those that ship. A search
// copies the former by value, so they are written a second time. On random paths, both have the
// same requests under way after every step. They hold the lock at the same time, and wait until the
// same moment.
func TestQueueClientIsTheShell(t *testing.T) {
	walks := 2_000
	if !campaign {
		walks = 200
	}
	for name, model := range map[string]queueModel{
		"three":                            {clients: 3},
		"four, long holds, apart":          {clients: 4, apart: true, maxHold: 3 * time.Second},
		"three, a node is down":            {clients: 3, down: 1},
		"four, two of five nodes are down": {clients: 4, nodes: 5, down: 2},
		"four, any order":                  {clients: 4, loose: true, apart: true},
		"three, any order, a node is down": {clients: 3, loose: true, down: 1},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(walks) {
				if path, err := walkBoth(&model, seed); err != nil {
					t.Fatalf("seed %d: %v, after\n%v", seed, err, path)
				}
			}
		})
	}
	// And the comparison has to see a client that does something else.
	for name, broken := range map[string]brokenQueue{"lingers": {lingers: true}, "impatient": {impatient: true}} {
		seen := false
		for seed := uint64(0); seed < uint64(walks) && !seen; seed++ {
			_, err := walkBoth(&queueModel{clients: 3, broken: broken}, seed)
			seen = err != nil
		}
		if !seen {
			t.Errorf("a client that is broken (%s) was not told from the shell", name)
		}
	}
}

// walkBoth takes one random path with both.
func walkBoth(m *queueModel, seed uint64) (path trace, err error) {
	random := rand.New(rand.NewPCG(seed, 1))
	for i := range m.random {
		m.random[i] = random.Float64()
	}
	s := m.initial()
	var shells [maxClients]*shellClient
	for i := range m.clients {
		shells[i] = newShellClient(m, i)
	}
	for {
		moves := m.moves(&s, nil)
		if len(moves) == 0 {
			return path, nil
		}
		mv := moves[random.IntN(len(moves))]
		before := s
		if violation := m.apply(&s, mv, &path); violation != "" {
			return path, errors.New(violation)
		}
		follow(m, &before, &s, mv, &shells)
		for i := range m.clients {
			if err := shells[i].differs(m, &s); err != nil {
				return path, fmt.Errorf("%s: %w", waiterName(i), err)
			}
		}
	}
}

// shellClient is a client that ships, in the world of the model.
type shellClient struct {
	i       int
	shell   *shell.Client
	a       shell.Acquisition
	now     time.Duration
	wall    int64
	random  float64
	soon    []func()
	timers  []*modelTimer
	peers   []*modelPeer
	warm    bool // past its first contact
	holders []node.Holder
	waiter  string
	held    bool
}

// modelPeer is a node as a shellClient sees it: what the model's pipes are.
type modelPeer struct {
	c      *shellClient
	out    []modelCall
	in     []node.Call // a notification is nil
	notify func(string)
}

type modelCall struct {
	node.Request
	call node.Call
}

const never = 1000 * time.Hour

func newShellClient(m *queueModel, i int) *shellClient {
	c := &shellClient{i: i, random: m.random[i]}
	var peers []shell.Peer
	for range m.group() {
		c.peers = append(c.peers, &modelPeer{c: c})
		peers = append(peers, c.peers[len(c.peers)-1])
	}
	c.shell = shell.NewClient(shell.Config{Env: c, Peers: peers, Terms: shell.Terms{TTL: queueTTL}, NodeTimeout: never})
	// In the model every client can be notified, and knows the nodes' time, from the first attempt
	// on. The shell learns both when it is refused for the first time.
	var first shell.Acquisition
	c.shell.Acquire(&first, context.Background(), "another name", c.shell.Terms(), &shellClient{})
	c.drain()
	first.Cancel()
	c.drain()
	for _, p := range c.peers {
		p.out = nil
	}
	c.warm, c.timers, c.holders = true, nil, nil
	return c
}

// follow does to the shells what a move of the model came to.
func follow(m *queueModel, before, s *queueState, mv queueMove, shells *[maxClients]*shellClient) {
	c, p := shells[mv.client], shells[mv.client].peers[mv.node]
	for i := range m.clients {
		shells[i].now = s.now
	}
	for n := range m.group() {
		c.wall = max(c.wall, int64(s.nodes[n].register)+1)
	}
	switch mv.kind {
	case comes:
		c.shell.Acquire(&c.a, context.Background(), "name", c.shell.Terms(), c)
	case letsGo:
		c.a.Lock().Release(true)
	case timer:
		for _, due := range slices.Clone(c.timers) {
			if due.on && due.at <= c.now {
				due.on = false
				due.f()
			}
		}
	case executes:
		sent := p.out[mv.nth]
		p.out = slices.Delete(p.out, int(mv.nth), int(mv.nth)+1)
		for i := range m.clients {
			was, is := before.clients[i].in[mv.node].length, &s.clients[i].in[mv.node]
			for _, msg := range is.msgs[was:is.length] {
				call := sent.call
				if msg.op == opNotify {
					call = nil
				}
				shells[i].peers[mv.node].in = append(shells[i].peers[mv.node].in, call)
			}
		}
	case hearsNotification:
		p.notify(c.waiter)
	case hears:
		call, msg := p.in[mv.nth], before.clients[mv.client].in[mv.node].msgs[mv.nth]
		p.in = slices.Delete(p.in, int(mv.nth), int(mv.nth)+1)
		switch {
		case call == nil:
			p.notify(c.waiter)
		case msg.status == core.Unknown:
			call.Done(node.Answer{}, errors.New("down"))
		default:
			// All are fenlock's clients: who waits for another program polls.
			call.Done(node.Answer{Status: node.Status(msg.status), Register: fence.Token(msg.number),
				HeldBy: "one of the clients", Remaining: msg.remaining, Ahead: int(msg.ahead), Clock: s.now}, nil)
		}
	}
	c.drain()
}

// differs says in what the shell differs from the model's client.
func (c *shellClient) differs(m *queueModel, s *queueState) error {
	model := &s.clients[c.i]
	for n, p := range c.peers {
		var want, got []string
		for _, msg := range model.out[n].msgs[:model.out[n].length] {
			op := map[queueOp]core.Op{opAcquire: core.Acquire, opConfirm: core.Confirm, opRelease: core.Release}[msg.op]
			want = append(want, fmt.Sprintf("%v of attempt %d, token %d, place %v", op, msg.attempt, msg.number, msg.stays))
		}
		for _, r := range p.out {
			attempt := slices.Index(c.holders, r.Holder) + 1
			got = append(got, fmt.Sprintf("%v of attempt %d, token %d, place %v", r.Op, attempt, r.Token, r.Place.Stamp != 0))
		}
		if !slices.Equal(want, got) {
			return fmt.Errorf("for node %d the model has %q under way, the shell %q", n+1, want, got)
		}
	}
	if holds := model.stage == holds || model.stage == served; holds != c.held {
		return fmt.Errorf("holds by the model: %v, by the shell: %v", holds, c.held)
	}
	due := time.Duration(never)
	for _, t := range c.timers {
		if t.on {
			due = min(due, t.at)
		}
	}
	if model.stage == waiting && due != model.retry.Due() {
		return fmt.Errorf("the model waits until %v, the shell until %v", model.retry.Due(), due)
	}
	return nil
}

func (c *shellClient) drain() {
	for len(c.soon) > 0 {
		f := c.soon[0]
		c.soon = c.soon[1:]
		f()
	}
}

// What shell.Env asks for.
func (c *shellClient) Now() time.Duration { return c.now }
func (c *shellClient) WallMicros() int64  { return c.wall }
func (c *shellClient) Random() float64    { return c.random }
func (c *shellClient) Go(f func())        { c.soon = append(c.soon, f) }

func (c *shellClient) ID() (id [node.IDLength]byte) {
	copy(id[:], fmt.Sprintf("%032x", rand.Uint64()))
	return id
}

func (c *shellClient) AfterFunc(d time.Duration, f func()) shell.Timer {
	t := &modelTimer{c: c, f: f}
	t.Reset(d)
	c.timers = append(c.timers, t)
	return t
}

type modelTimer struct {
	c  *shellClient
	at time.Duration
	on bool
	f  func()
}

func (t *modelTimer) Reset(d time.Duration) (was bool) {
	was, t.on, t.at = t.on, true, t.c.now+d
	return was
}

func (t *modelTimer) Stop() (was bool) {
	was, t.on = t.on, false
	return was
}

// What shell.Peer asks for.
func (p *modelPeer) InOrder() bool { return false }
func (p *modelPeer) Queues() bool  { return true }

func (p *modelPeer) Start(_ context.Context, r node.Request, _ time.Duration, call node.Call) {
	if !p.c.warm {
		p.c.Go(func() {
			call.Done(node.Answer{Status: node.Held, HeldBy: "one of the clients", Remaining: queueTTL}, nil)
		})
		return
	}
	if r.Op == node.Acquire && !slices.Contains(p.c.holders, r.Holder) {
		p.c.holders = append(p.c.holders, r.Holder)
	}
	if r.Place.Waiter != "" {
		p.c.waiter = r.Place.Waiter
	}
	p.out = append(p.out, modelCall{r, call})
}

func (p *modelPeer) Listen(_ string, _ time.Duration, notify func(string), done func(error)) {
	p.notify = notify
	p.c.Go(func() { done(nil) })
}

// What shell.Owner asks for.
func (c *shellClient) Waiting(*shell.Failure)                {}
func (c *shellClient) Held(fence.Token, bool)                { c.held = true }
func (c *shellClient) Done(shell.Failure)                    {}
func (c *shellClient) Extended(time.Duration, shell.Failure) {}
func (c *shellClient) Ended(shell.Failure, time.Duration)    {}
func (c *shellClient) Freed(shell.Failure)                   {}
