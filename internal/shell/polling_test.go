package shell

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// hop is how long a request or an answer travels.
const hop = 300 * time.Microsecond

// counted is a node in memory. It counts the attempts.
type counted struct {
	node     *memnode.Node
	queues   bool
	mute     bool // it cannot notify
	far      bool // requests and answers travel for twice as long
	down     *atomic.Bool
	attempts *atomic.Int64
}

func (p *counted) InOrder() bool { return true }
func (p *counted) Queues() bool  { return p.queues }

func (p *counted) Listen(client string, _ time.Duration, notify func(string), done func(error)) {
	if p.mute || p.down.Load() {
		done(fmt.Errorf("%w: no permission", node.ErrMisconfigured))
		return
	}
	done(p.node.Listen(context.Background(), client, func(w string) { time.AfterFunc(hop, func() { notify(w) }) }))
}

func (p *counted) Start(_ context.Context, r node.Request, _ time.Duration, call node.Call) {
	if r.Op == node.Acquire {
		p.attempts.Add(1)
	}
	travels := hop
	if p.far {
		travels *= 2
	}
	if !p.queues {
		r.Place = node.Place{}
	}
	time.AfterFunc(travels, func() {
		if p.down.Load() {
			call.Done(node.Answer{}, errors.New("LOADING"))
			return
		}
		a, err := p.node.Do(context.Background(), r)
		if !p.queues {
			a.Ahead, a.Clock = 0, 0
		}
		call.Done(a, err)
	})
}

// pollers are waiters for one name of three nodes, each in a process of its own.
type pollers struct {
	nodes    []*counted
	attempts atomic.Int64
	began    time.Time
	all      []*tellOwner
}

// newPollers returns those of three nodes, of which so many keep queues. The others are nearer.
func newPollers(queues int, mute bool) *pollers {
	p := &pollers{began: time.Now()}
	for i := range 3 {
		p.nodes = append(p.nodes, &counted{node: memnode.New(fmt.Sprint(i)), queues: i < queues, mute: mute,
			far: i < queues && queues < 3, down: new(atomic.Bool), attempts: &p.attempts})
	}
	return p
}

func (p *pollers) client() *Client {
	config := Config{Env: &bubbleEnv{p.began, time.Hour}, Terms: Terms{TTL: 10 * time.Second, Label: "label"},
		NodeTimeout: 500 * time.Millisecond}
	for _, n := range p.nodes {
		own := *n
		own.node = n.node.Share()
		config.Peers = append(config.Peers, &own)
	}
	return NewClient(config)
}

// do has each node carry a request out, as another program's.
func (p *pollers) do(t *testing.T, r node.Request) {
	for _, n := range p.nodes {
		if _, err := n.node.Do(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// come has so many begin to wait, over a second, and returns a channel with the first that gets it.
func (p *pollers) come(n int) <-chan *tellOwner {
	got := make(chan *tellOwner, 1)
	for range n {
		o := take(p.client(), "name")
		p.all = append(p.all, o)
		go func() {
			if f := <-o.done; !f.Failed() {
				got <- o
			}
		}()
		time.Sleep(time.Second / time.Duration(n))
	}
	return got
}

// rate is how many attempts there are in a second at a node.
func (p *pollers) rate(d time.Duration) float64 {
	before := p.attempts.Load()
	time.Sleep(d)
	return float64(p.attempts.Load()-before) / 3 / d.Seconds()
}

// However many waiters poll, they ask seldom, and one of them finds the lock free soon.
func TestManyPoll(t *testing.T) {
	held := func(t *testing.T, p *pollers) (free func()) {
		o := take(p.client(), "name")
		o.held(t)
		return func() { o.a.Lock().Release(false) }
	}
	foreign := func(t *testing.T, p *pollers) (free func()) {
		r := node.Request{Op: node.Acquire, Name: "name", Holder: "other", TTL: time.Hour}
		p.do(t, r)
		r.Op = node.Release
		return func() { p.do(t, r) }
	}
	down := func(_ *testing.T, p *pollers) (free func()) {
		for _, n := range p.nodes {
			n.down.Store(true)
		}
		return func() {
			for _, n := range p.nodes {
				n.down.Store(false)
			}
		}
	}
	const many = 300
	for _, scene := range []struct {
		name        string
		queues      int
		mute        bool
		takes       func(*testing.T, *pollers) (free func())
		alone, most float64       // attempts a second at a node, of one and of many
		latest      time.Duration // when one of them has it
	}{
		{"no queues", 0, true, held, 4, 660, 750 * time.Millisecond},
		{"no notifications", 3, true, held, 20, 440, 150 * time.Millisecond},
		{"another program", 3, false, foreign, 20, 440, 150 * time.Millisecond},
		{"one queue of three", 1, false, held, 4, 660, 750 * time.Millisecond},
		{"two queues of three", 2, false, held, 1, 440, 10 * time.Millisecond},
		{"errors", 3, false, down, 4, 660, 750 * time.Millisecond},
	} {
		for n, most := range map[int]float64{1: scene.alone, many: scene.most} {
			t.Run(fmt.Sprintf("%s, %d", scene.name, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := newPollers(scene.queues, scene.mute)
					free := scene.takes(t, p)
					got := p.come(n)
					time.Sleep(5 * time.Second) // until they have polled for long
					rate := p.rate(3 * time.Second)
					began := time.Now()
					free()
					first := <-got
					took := time.Since(began)
					t.Logf("%.1f attempts a second at a node, and one has it after %v", rate, took)
					if rate > most {
						t.Errorf("%.1f attempts a second at a node, want %v at most", rate, most)
					}
					if took > scene.latest+10*time.Millisecond {
						t.Errorf("one has it after %v, want %v at most", took, scene.latest)
					}
					for _, o := range p.all {
						if o != first {
							o.a.Cancel()
						}
					}
					first.a.Lock().Release(false)
					time.Sleep(time.Minute)
				})
			})
		}
	}
}
