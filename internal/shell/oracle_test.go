//go:build !race

// The race detector is slow in bubbles. TestStress is for it.

package shell

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// shaky is a node behind a network and a server that stall, delay and lose. If it is ordered, what is carried out keeps
// its order (by client), and so do answers.
type shaky struct {
	node    *memnode.Node
	ordered bool
	queues  bool
	healed  *atomic.Bool
	lag     *atomic.Int64 // most delay on the way
	loss    float64

	mu       sync.Mutex
	in, back time.Time
}

func (p *shaky) InOrder() bool { return p.ordered }
func (p *shaky) Queues() bool  { return p.queues }
func (p *shaky) Listen(client string, _ time.Duration, notify func(string), done func(error)) {
	done(p.node.Listen(context.Background(), client, func(w string) {
		if p.healed.Load() || rand.Float64() < 0.9 {
			time.AfterFunc(rand.N(time.Millisecond+time.Duration(p.lag.Load())), func() { notify(w) })
		}
	}))
}

func (p *shaky) way(last *time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := 200 * time.Microsecond
	if !p.healed.Load() {
		d += rand.N(time.Duration(p.lag.Load()) + 1)
	}
	at := time.Now().Add(d)
	if p.ordered && at.Before(*last) {
		at = *last
	}
	if p.ordered {
		*last = at.Add(1)
	}
	return time.Until(at)
}

func (p *shaky) Start(_ context.Context, r node.Request, timeout time.Duration, call node.Call) {
	chance := rand.Float64()
	if p.healed.Load() {
		chance = 1
	}
	if chance < p.loss {
		if chance < p.loss/2 {
			time.AfterFunc(rand.N(4*timeout), func() { call.Done(node.Answer{}, fmt.Errorf("connection reset")) })
		}
		return
	}
	time.AfterFunc(p.way(&p.in), func() {
		a, err := p.node.Do(context.Background(), r)
		if chance < 2*p.loss {
			return
		}
		time.AfterFunc(p.way(&p.back), func() { call.Done(a, err) })
	})
}

type oracle struct {
	mu    sync.Mutex
	held  map[string]map[*tellOwner]bool
	last  map[string]fence.Token
	locks int
	paced int
}

func TestNobodyHoldsTwice(t *testing.T) {
	runs := 30
	if s := os.Getenv("ATTACK_RUNS"); s != "" {
		runs, _ = strconv.Atoi(s)
	}
	var total, paced, late atomic.Int64
	for run := range runs {
		ordered, queues := run%2 == 0, run/2%2 == 0
		nodes := []int{3, 5}[run/4%2]
		loss := []float64{0, 0.01, 0.05}[run%3]
		onItsOwn(t, func(t *testing.T) {
			ttl := []time.Duration{10 * time.Second, 40 * time.Second}[run/2%2^run/4%2]
			healed, lag := new(atomic.Bool), new(atomic.Int64)
			began := time.Now()
			var mem []*memnode.Node
			for range nodes {
				mem = append(mem, memnode.New("n"))
			}
			client := func() *Client {
				c := Config{Env: &bubbleEnv{began, time.Hour}, Terms: Terms{TTL: ttl}, NodeTimeout: 500 * time.Millisecond}
				for _, m := range mem {
					c.Peers = append(c.Peers, &shaky{node: m.Share(), ordered: ordered, queues: queues, healed: healed, lag: lag, loss: loss})
				}
				return NewClient(c)
			}
			o := oracle{held: map[string]map[*tellOwner]bool{}, last: map[string]fence.Token{}}
			var clients []*Client
			for range 6 {
				clients = append(clients, client())
			}
			var under sync.WaitGroup
			stop := time.Now().Add(90 * time.Second)
			under.Go(func() { // the weather
				for time.Now().Before(stop) {
					lag.Store(int64([]time.Duration{0, 0, 300 * time.Millisecond, 900 * time.Millisecond, 2 * time.Second, 5 * time.Second}[rand.IntN(6)]))
					time.Sleep(rand.N(8 * time.Second))
				}
			})
			const names = 4
			for w := range 24 {
				under.Go(func() {
					c := clients[w%len(clients)]
					for time.Now().Before(stop) {
						name := fmt.Sprint(rand.IntN(names))
						var ow *tellOwner
						cancel := time.AfterFunc(time.Hour, func() {})
						if rand.IntN(3) == 0 {
							ow = try(c, name, c.Terms())
						} else {
							ow = take(c, name)
							cancel = time.AfterFunc(rand.N(12*time.Second), ow.a.Cancel)
						}
						if f := <-ow.done; f.Failed() {
							cancel.Stop()
							if ow.a.paced {
								paced.Add(1)
							}
							time.Sleep(rand.N(200 * time.Millisecond))
							continue
						}
						cancel.Stop()
						l := ow.a.Lock()
						o.mu.Lock()
						o.locks++
						valid := l.Remaining() > 0
						if l.Remaining() > ttl {
							t.Error("longer than a TTL")
						}
						if l.acquiring.sent != 0 && l.Remaining() > 0 && time.Since(began)+time.Hour-l.acquiring.sent > 600*time.Millisecond {
							late.Add(1)
						}
						if valid {
							for other := range o.held[name] {
								if other.a.Lock().Remaining() > 0 {
									t.Errorf("%s is held twice", name)
								}
							}
							if tok := l.Token(); tok <= o.last[name] {
								t.Errorf("token %d after %d", tok, o.last[name])
							} else {
								o.last[name] = tok
							}
						}
						if o.held[name] == nil {
							o.held[name] = map[*tellOwner]bool{}
						}
						o.held[name][ow] = true
						o.mu.Unlock()
						time.Sleep(rand.N([]time.Duration{10 * time.Millisecond, 300 * time.Millisecond, 6 * time.Second}[rand.IntN(3)]))
						o.mu.Lock()
						delete(o.held[name], ow)
						o.mu.Unlock()
						ow.a.Lock().Release(false)
					}
				})
			}
			under.Wait()
			healed.Store(true)
			total.Add(int64(o.locks))
			if loss == 0 {
				time.Sleep(11 * time.Second) // what is on the way arrives
			} else {
				time.Sleep(ttl + 4*time.Second)
			}
			fresh := client()
			for i := range names {
				f := try(fresh, fmt.Sprint(i), fresh.Terms())
				if why := <-f.done; why.Failed() {
					t.Errorf("ordered %v queues %v: %d s after the end, a name is not free: %+v", ordered, queues, 14, why)
				} else {
					f.a.Lock().Release(false)
				}
			}
			time.Sleep(40 * ttl)
			for _, c := range append(clients, fresh) {
				g := c.group
				if len(g.pacing.waiting) > 0 {
					t.Error("waits for a turn for ever", len(g.pacing.waiting))
				}
				if u := underOf(&g.pacing); u != 0 {
					t.Errorf("%d attempts are under way for ever", u)
				}
				g.deadlines.mu.Lock()
				left := g.deadlines.first != nil
				g.deadlines.mu.Unlock()
				if left {
					t.Error("deadlines are left")
				}
				if n := c.Counts(); n.InFlight != 0 || n.Strays != 0 || n.Held != 0 || n.Waiters != 0 {
					t.Errorf("left: %+v", n)
				}
				closeNow(t, c)
			}
			time.Sleep(time.Minute)
		})
	}
	t.Logf("%d locks, %d of late grants, %d callers gave up while paced", total.Load(), late.Load(), paced.Load())
}
