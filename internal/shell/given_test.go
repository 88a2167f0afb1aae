package shell

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// heldEnv keeps what is to run soon, as a scheduler may, once it is told to.
type heldEnv struct {
	*bubbleEnv
	keeps bool
	kept  []func()
}

func (e *heldEnv) Go(f func()) {
	if e.keeps {
		e.kept = append(e.kept, f)
		return
	}
	e.bubbleEnv.Go(f)
}

// countingPeer answers before Start returns, and counts.
type countingPeer struct {
	*faultyPeer
	sent map[node.Op]int
}

func (p *countingPeer) Start(_ context.Context, r node.Request, _ time.Duration, call node.Call) {
	p.sent[r.Op]++
	call.Done(p.node.Do(context.Background(), r))
}

// Who was given the lock between its decision to ask and its asking takes it, and asks nobody.
func TestGivenWhenItIsTimeToAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 8 * time.Second
		env := &heldEnv{bubbleEnv: &bubbleEnv{start: time.Now(), epoch: time.Hour}}
		sent := map[node.Op]int{}
		var configs [2]Config
		for range 3 {
			n := memnode.New("node")
			for k := range configs {
				p := &faultyPeer{node: n.Share(), sync: true, queues: true, listens: func() (time.Duration, error) { return 0, nil }}
				configs[k].Peers = append(configs[k].Peers, &countingPeer{p, [2]map[node.Op]int{{}, sent}[k]})
			}
		}
		configs[0].Env, configs[1].Env = env.bubbleEnv, env
		time.Sleep(time.Second) // a clock that shows 0 is none
		var clients [2]*Client
		for k := range clients {
			configs[k].Terms, configs[k].NodeTimeout = Terms{TTL: ttl}, 100*time.Millisecond
			clients[k] = NewClient(configs[k])
			defer closeNow(t, clients[k])
		}
		var first, second Acquisition
		holder, waiter := newOnceOwner(t), newOnceOwner(t)
		clients[0].Acquire(&first, t.Context(), "orders", clients[0].Terms(), holder)
		<-holder.over
		clients[1].Acquire(&second, t.Context(), "orders", clients[1].Terms(), waiter)
		synctest.Wait()
		env.keeps = true
		for range 100 { // until it is about to ask again
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			if len(env.kept) > 0 {
				break
			}
		}
		if len(env.kept) != 1 {
			t.Fatalf("%d functions are to run, want that which asks again", len(env.kept))
		}
		first.Lock().Release(false)
		<-holder.free
		synctest.Wait()
		env.keeps = false
		clear(sent)
		env.kept[0]()
		if f := <-waiter.over; f.Failed() || !second.Lock().Given() {
			t.Errorf("it was not given the lock: %+v", f)
		}
		if len(sent) > 0 {
			t.Errorf("it has sent %v", sent)
		}
		second.Lock().Release(false)
		<-waiter.free
	})
}
