package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/internal/admission"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// A pipeline that never runs empty keeps no more than what waits in it, in order.
func TestPipelineForgetsWhatWasTaken(t *testing.T) {
	var l pipeline
	const waiting = 100
	put, taken := 0, 0
	for put < waiting {
		l.waiting = append(l.waiting, started{timeout: time.Duration(put)})
		put++
	}
	for range 10_000 {
		batch := l.take(nil)
		if len(batch) != maxBatch {
			t.Fatalf("%d taken", len(batch))
		}
		for _, s := range batch {
			if s.timeout != time.Duration(taken) {
				t.Fatalf("request %d comes as number %d", s.timeout, taken)
			}
			taken++
			l.waiting = append(l.waiting, started{timeout: time.Duration(put)})
			put++
		}
	}
	if len(l.waiting)-l.head != waiting || cap(l.waiting) > 10*waiting {
		t.Errorf("%d wait, in memory for %d", len(l.waiting)-l.head, cap(l.waiting))
	}
}

// The more waits, the more travels together. Otherwise the round trip would bound how many locks a
// client can hold: they are extended three times in a TTL.
func TestBacklogsTravelTogether(t *testing.T) {
	for waiting, want := range map[int]int{1: 1, 64: 64, 65: 64, 128: 64, 400: 200, 1024: 512, 10_000: 512} {
		l := pipeline{waiting: make([]started, waiting)}
		if batch := l.take(nil); len(batch) != want {
			t.Errorf("of %d, %d are sent, want %d", waiting, len(batch), want)
		}
	}
	l := pipeline{waiting: make([]started, 2500)} // a node's share of 10,000
	trips := 0
	for left := len(l.waiting); left > 0; trips++ {
		left -= len(l.take(nil))
	}
	if trips > 20 {
		t.Errorf("%d round trips for all", trips)
	}
}

// outcome is a call that waits for nothing.
type outcome chan error

func (o outcome) Wanted() bool                  { return true }
func (o outcome) Done(_ node.Answer, err error) { o <- err }

// closedLink is one that was closed.
type closedLink struct{ resp.Link }

func (closedLink) Spawn(func()) error { return engine.ErrClosed }

// What comes when the connection was closed is answered, each of it: no goroutine is
// there that would take it.
func TestPipelineOfAClosedConnection(t *testing.T) {
	keys, err := command.NewKeys("")
	if err != nil {
		t.Fatal(err)
	}
	p := New(Sender{Link: closedLink{}, Keys: keys})
	for i := range 3 {
		o := make(outcome, 1)
		p.Start(node.Request{Op: node.Release, Name: "a", Holder: "h"}, time.Minute, o)
		select {
		case err := <-o:
			if err == nil {
				t.Errorf("request %d was carried out", i)
			}
		default:
			t.Errorf("request %d has no outcome", i)
		}
	}
}

// closing is one that is closed when it has started a goroutine.
type closing struct {
	resp.Link
	wait   sync.WaitGroup
	closed bool
}

func (l *closing) Spawn(f func()) error {
	if l.closed {
		return engine.ErrClosed
	}
	l.closed = true
	l.wait.Go(f)
	return nil
}

// late are the ways onto the slow path, and whether a request that cannot take it is not sent then.
var late = map[string]struct {
	spawn   func(p *slowPath, s started)
	notSent bool
}{
	"send":   {(*slowPath).send, true},
	"verify": {func(p *slowPath, s started) { p.verify(s, node.Answer{}) }, false},
}

// occupied returns a slow path on which a request about a name is under way, as long as under is
// open.
func occupied(link resp.Link, name string, under chan struct{}) (p *slowPath, first outcome) {
	p, first = &slowPath{sender: &Sender{Link: link}}, make(outcome, 1)
	p.spawn(started{node.Request{Name: name}, time.Minute, first}, node.NotSent,
		func(context.Context) (node.Answer, error) {
			<-under
			return node.Answer{}, nil
		})
	return p, first
}

// What comes when the connection was closed does not overtake a request about the same name that is
// on the slow path. A release before its acquire would leave a lease behind.
func TestSlowPathOfAClosedConnection(t *testing.T) {
	for name, way := range late {
		link, under := new(closing), make(chan struct{})
		p, first := occupied(link, "a", under)
		second := make(outcome, 1)
		way.spawn(p, started{node.Request{Name: "a"}, time.Minute, second})
		if err := <-second; !errors.Is(err, engine.ErrClosed) || errors.Is(err, node.ErrNotSent) != way.notSent {
			t.Errorf("%s: %v", name, err)
		}
		if !p.has("a") {
			t.Error("the third would overtake the first")
		}
		close(under)
		link.wait.Wait()
		if err := <-first; err != nil {
			t.Errorf("the first: %v", err)
		}
	}
}

// A request that waits for another one about its name is answered before its caller gives up. The
// next one waits for both.
func TestSlowPathTakesTooLong(t *testing.T) {
	for name, way := range late {
		synctest.Test(t, func(t *testing.T) {
			link, under := new(openLink), make(chan struct{})
			p, first := occupied(link, "a", under)
			second, start := make(outcome, 1), time.Now()
			way.spawn(p, started{node.Request{Name: "a"}, 10 * time.Second, second})
			if err := <-second; !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, node.ErrNotSent) != way.notSent {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(start); took != 9*time.Second {
				t.Errorf("%s: after %v", name, took)
			}
			if !p.has("a") {
				t.Error("the third would overtake the first")
			}
			close(under)
			link.wait.Wait()
			if err := <-first; err != nil || p.has("a") {
				t.Errorf("the first: %v; is one left: %v", err, p.has("a"))
			}
		})
	}
}

// openLink is one that carries nothing.
type openLink struct {
	resp.Link
	wait sync.WaitGroup
}

func (l *openLink) Spawn(f func()) error { l.wait.Go(f); return nil }
func (l *openLink) Pooled() bool         { return false }
func (l *openLink) Dial() uint64         { return 1 }

// of returns a request about a name of a pipeline.
func of(i int) started {
	for n := 0; ; n++ {
		if name := fmt.Sprint(n); node.Stripe(name)%pipelineCount == i {
			return started{request: node.Request{Name: name}}
		}
	}
}

// idle returns pipelines without goroutines, of a server that is so far.
func idle(way time.Duration) *Pipelines {
	p := New(Sender{Link: new(openLink)})
	p.way.shortest = way
	for i := range p.all {
		p.all[i].running = true
	}
	return p
}

// Where the server is near, few requests are one batch, whatever their names, and what comes
// meanwhile is the next. With more of them, and where the server is far, there are several.
func TestBatchesAreJoinedWhereTheServerIsNear(t *testing.T) {
	for _, c := range []struct {
		name  string
		way   time.Duration
		each  int    // requests in each pipeline
		sizes [4]int // of the batches that the pipelines' goroutines then begin, 0 if they cannot
	}{
		{"near", nearby, 1, [4]int{4}},
		{"near, few", nearby, fewOpen / 4, [4]int{fewOpen}},
		{"near, more", nearby, fewOpen/4 + 1, [4]int{fewOpen/2 + 2, 0, fewOpen/2 + 2}},
		{"near, a batch", nearby, maxBatch / 4, [4]int{maxBatch / 2, 0, maxBatch / 2}},
		{"near, many", nearby, maxBatch/4 + 1, [4]int{maxBatch/4 + 1, maxBatch/4 + 1, maxBatch/4 + 1, maxBatch/4 + 1}},
		{"far", nearby + 1, 1, [4]int{1, 1, 1, 1}},
		{"unknown", 0, 1, [4]int{1, 1, 1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := idle(c.way)
			for i := range p.all {
				for range c.each {
					p.add(of(i))
				}
			}
			var batches [4]batch
			for i, size := range c.sizes {
				if begun := p.begin(i, &batches[i]); begun != (size > 0) || len(batches[i].requests) != size {
					t.Errorf("pipeline %d begins a batch of %d requests, not %d", i, len(batches[i].requests), size)
				}
			}
		})
	}
}

// Whatever comes, and however far the server is, the requests of a pipeline are sent in order, each
// batch when the one before is answered. What waits can be sent, or a batch is under way.
func TestPipelinesStayInOrder(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		p := idle(nearby)
		var batches [4]batch
		var put, sent [4]int
		most := 1 + random.IntN(40)
		for range 1000 {
			switch i := random.IntN(4); {
			case random.IntN(3) > 0 && put[i]-sent[i] < most:
				s := of(i)
				s.timeout = time.Duration(put[i])
				put[i]++
				p.add(s)
			case batches[i].of != nil:
				batches[i].took = 1 + time.Duration(random.IntN(4*int(nearby)))
				p.end(&batches[i])
			case p.begin(i, &batches[i]):
				for _, s := range batches[i].requests {
					of := node.Stripe(s.request.Name) % pipelineCount
					if s.timeout != time.Duration(sent[of]) {
						t.Fatalf("seed %d: request %d of pipeline %d comes as number %d", seed, s.timeout, of, sent[of])
					}
					sent[of]++
					for k := range batches {
						if k != i && slices.ContainsFunc(batches[k].requests, func(other started) bool {
							return node.Stripe(other.request.Name)%pipelineCount == of
						}) {
							t.Fatalf("seed %d: two batches with requests of pipeline %d are under way", seed, of)
						}
					}
				}
			default:
				idle, waits := true, false
				for k := range p.all {
					idle = idle && batches[k].of == nil
					waits = waits || p.all[k].head < len(p.all[k].waiting) && !free(p.joined(k))
				}
				if idle && waits {
					t.Fatalf("seed %d: no batch is under way, and what waits cannot be sent", seed)
				}
			}
		}
	}
}

// What was added is taken by some goroutine, whatever the others do: a hang is a lost wakeup.
func TestPipelinesWakeUp(t *testing.T) {
	keys, err := command.NewKeys("")
	if err != nil {
		t.Fatal(err)
	}
	link := new(openLink)
	p := New(Sender{Link: link, Keys: keys, Voting: admission.New(nil, link, keys, command.Errors{}, 0)})
	var wait sync.WaitGroup
	for i := range 100 {
		wait.Go(func() {
			name := fmt.Sprint(i)
			for n := range 300 {
				if i == 0 { // it is near, and far, and near again
					p.mu.Lock()
					p.way.shortest = nearby + time.Duration(n%2)
					p.mu.Unlock()
				}
				o := make(unwanted, 1)
				p.Start(node.Request{Op: node.Release, Name: name, Holder: "h"}, time.Minute, o)
				<-o
			}
		})
	}
	wait.Wait()
	p.Close()
	link.wait.Wait()
}

// unwanted is a call that is not sent.
type unwanted chan error

func (o unwanted) Wanted() bool                  { return false }
func (o unwanted) Done(_ node.Answer, err error) { o <- err }

// blocked is a call whose batch is under way until the channel is closed.
type blocked chan struct{}

func (b blocked) Wanted() bool              { <-b; return false }
func (blocked) Done(_ node.Answer, _ error) {}

// A pipeline that is closed while a batch is under way may have its requests sent by the goroutine
// of another one. Then its own still ends: Close of the node waits for all.
func TestPipelinesEndAfterABatch(t *testing.T) {
	keys, err := command.NewKeys("")
	if err != nil {
		t.Fatal(err)
	}
	for first := range pipelineCount {
		synctest.Test(t, func(t *testing.T) { // a goroutine that never ends is a deadlock
			link := new(openLink)
			p := New(Sender{Link: link, Keys: keys, Voting: admission.New(nil, link, keys, command.Errors{}, 0)})
			p.way.shortest = nearby
			under := make(blocked)
			p.Start(node.Request{Op: node.Release, Name: of(first).request.Name, Holder: "h"}, time.Minute, under)
			synctest.Wait()
			outcomes := make(unwanted, pipelineCount)
			for i := range pipelineCount {
				p.Start(node.Request{Op: node.Release, Name: of(i).request.Name, Holder: "h"}, time.Minute, outcomes)
			}
			synctest.Wait()
			p.Close()
			synctest.Wait()
			close(under)
			link.wait.Wait()
			if len(outcomes) != pipelineCount {
				t.Errorf("%d of %d requests have an outcome", len(outcomes), pipelineCount)
			}
		})
	}
}
