package pipeline

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/internal/admission"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

const (
	// A node has at most as many batches under way as it has pipelines. Requests about one name use
	// one pipeline, which sends a batch when the one before is answered. So they stay in order, and
	// under load they gather. With a single pipeline, each could wait for a whole round trip of
	// others, which is long where servers are far.
	pipelineCount = 4
	// maxBatch keeps the first of a batch from waiting long for the last: they are
	// all answered together. If more than twice as many wait, half of them are sent, up to mostBatch.
	// Otherwise a node with many locks does too few of them in a round trip where that is long.
	maxBatch  = 64
	mostBatch = 512
	// fewOpen is up to how many requests gather in one batch after the other, where the server is
	// near. More of them make a command of a batch little cheaper. Client and server then work at
	// the same time, on two batches.
	fewOpen = 24
)

// Pipelines send requests that were started, many in one write.
type Pipelines struct {
	Sender
	slow slowPath

	mu     sync.Mutex // guards the rest
	all    [pipelineCount]pipeline
	open   int // requests that are not answered
	way    distance
	closed bool
}

// pipeline is the requests about some of the names that were started and not sent.
type pipeline struct {
	more    sync.Cond
	waiting []started // from head on
	head    int
	running bool // its goroutine, from the first request on
	busy    bool // the batch under way may have requests of it
}

// New returns the pipelines of a node.
func New(s Sender) *Pipelines {
	p := &Pipelines{Sender: s}
	p.slow.sender = &p.Sender
	for i := range p.all {
		p.all[i].more.L = &p.mu
	}
	return p
}

// Start begins an operation, as node.Starter has it.
func (p *Pipelines) Start(r node.Request, timeout time.Duration, call node.Call) {
	err := p.Keys.Check(&r)
	if err == nil && r.Op > node.Release {
		err = fmt.Errorf("%w: the operation %v cannot be started; nothing was done", node.ErrInvalid, r.Op)
	}
	s := started{r, timeout, call}
	if err == nil {
		err = p.add(s)
	}
	if err != nil {
		s.done(&p.Sender, node.Answer{}, err)
	}
}

// Exchange sends requests that were checked in one batch, at once, on the goroutine of
// its caller: tests say by this what travels together.
func (p *Pipelines) Exchange(timeout time.Duration, requests []node.Request, calls []node.Call) {
	var batch []started
	for i, r := range requests {
		batch = append(batch, started{r, timeout, calls[i]})
	}
	p.exchange(batch, new(memory))
}

// Close lets the pipelines end. Nothing can be started any more.
func (p *Pipelines) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for i := range p.all {
		p.all[i].more.Signal()
	}
}

// add puts a request at the end of its name's pipeline.
func (p *Pipelines) add(s started) (err error) {
	i := node.Stripe(s.request.Name) % pipelineCount
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &p.all[i]
	switch {
	case p.closed:
		err = engine.ErrClosed
	case !l.running:
		err = p.Link.Spawn(func() { p.run(i) })
		l.running = err == nil
	}
	if err != nil {
		return err
	}
	l.waiting = append(l.waiting, s)
	p.open++
	if free(p.joined(i)) { // otherwise the batch under way sees to it when it ends
		l.more.Signal()
	}
	return nil
}

// joined returns the pipelines whose requests are in one batch with those of one of them. What
// waits in several of them is no more than a batch.
func (p *Pipelines) joined(i int) []pipeline {
	n := 1
	switch {
	case !p.way.near(), p.Link.Pooled(): // one connection that hangs is not to hold up all
	case p.open <= fewOpen:
		n = pipelineCount
	case p.open <= maxBatch:
		n = 2
	}
	from := i / n * n
	return p.all[from : from+n]
}

// free reports whether no batch under way may have requests of some pipelines.
func free(some []pipeline) bool {
	for i := range some {
		if some[i].busy {
			return false
		}
	}
	return true
}

// batch is what a goroutine sends in one write.
type batch struct {
	requests []started
	of       []pipeline
	dial     uint64        // the connection
	took     time.Duration // 0: nothing was sent, or answered
}

// next ends a batch, and begins the next one. It waits if there is nothing to send.
// It returns false when the node is closed and nothing is left.
func (p *Pipelines) next(i int, b *batch) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end(b)
	for {
		begun := p.begin(i, b)
		p.wakeOthers(i)
		switch l := &p.all[i]; {
		case begun:
			return true
		case p.closed && l.head == len(l.waiting):
			return false
		default:
			l.more.Wait()
		}
	}
}

// end takes that a batch was answered.
func (p *Pipelines) end(b *batch) {
	for i := range b.of {
		b.of[i].busy = false
	}
	p.open -= len(b.requests)
	p.way.took(b.dial, len(b.requests), b.took)
	clear(b.requests)
	*b = batch{requests: b.requests[:0]}
}

// begin makes a batch of what waits, and reports whether there is something to send.
func (p *Pipelines) begin(i int, b *batch) bool {
	some := p.joined(i)
	if !free(some) {
		return false
	}
	for k := range some {
		b.requests = some[k].take(b.requests)
	}
	if len(b.requests) == 0 {
		return false
	}
	b.of = some
	for k := range some {
		some[k].busy = true
	}
	return true
}

// wakeOthers wakes the goroutines of pipelines whose requests can be sent. When the node is closed,
// it wakes those that have none left, too: a batch of others may have taken them after Close.
func (p *Pipelines) wakeOthers(i int) {
	for k := range p.all {
		if l := &p.all[k]; k != i && (p.closed || l.head < len(l.waiting)) && free(p.joined(k)) {
			l.more.Signal()
		}
	}
}

// take moves what waits into a batch, as far as there is room.
func (l *pipeline) take(batch []started) []started {
	waiting := l.waiting[l.head:]
	n := min(len(waiting), max(maxBatch, min(len(waiting)/2, mostBatch))-len(batch))
	batch = append(batch, waiting[:n]...)
	clear(waiting[:n])
	l.head += n
	// What was taken must not be carried along for ever: under load there is always
	// something left. Each request is moved once, on average.
	if left := len(l.waiting) - l.head; l.head >= left {
		copy(l.waiting, l.waiting[l.head:])
		clear(l.waiting[left:])
		l.waiting, l.head = l.waiting[:left], 0
	}
	return batch
}

// run sends batches until the node is closed.
func (p *Pipelines) run(i int) {
	var b batch
	var m memory
	for {
		// Callers that were answered go on first. What they ask for next travels with the next
		// batch then, instead of waiting for another round trip.
		runtime.Gosched()
		if !p.next(i, &b) {
			return
		}
		b.dial = p.Link.Dial()
		b.took = p.exchange(b.requests, &m)
		m.clear()
	}
}

// exchange sends a batch in one write and hands the answers out. Its requests have
// no context: who waits has a timer, and the link gives up a connection that answers
// nothing. It returns how long the server took, 0 if it was not asked.
func (p *Pipelines) exchange(batch []started, m *memory) (took time.Duration) {
	server := p.Voting.Ready()
	sent := batch[:0]
	promises, most := 0, time.Duration(0)
	for _, s := range batch {
		switch {
		case !s.call.Wanted():
			s.done(&p.Sender, node.Answer{}, node.NotSent(context.DeadlineExceeded))
		case server == nil || p.slow.has(s.request.Name):
			p.slow.send(s)
		default:
			sent = append(sent, s)
			if s.request.Op != node.Release {
				promises++
				most = max(most, s.timeout)
			}
		}
	}
	if len(sent) == 0 {
		return 0
	}
	proof := server.Prove(promises)
	m.compose(sent, p.Keys, proof.Mark)
	m.commands = proof.Append(m.commands, most)
	asked := time.Now()
	m.replies = p.Link.Exchange(m.commands, m.replies)
	if took = time.Since(asked); !m.replies[len(m.replies)-1].Said() {
		took = 0
	}
	proof.Read(m.replies)
	answers := m.split(len(sent))
	for i := range sent {
		p.finish(&proof, sent[i:], answers[i:])
	}
	return took
}

// finish hands the first answer out, unless something has to be done first.
func (p *Pipelines) finish(proof *admission.Proof, sent []started, replies []resp.Reply) {
	s := sent[0]
	answer, notAdmitted, err := command.Parse(&s.request, replies[0], nil)
	standing, err := proof.Judge(s.request.Op, answer, notAdmitted, err)
	switch {
	case standing == admission.Redirected && overtaken(&p.Sender, sent, replies):
		s.done(&p.Sender, node.Answer{}, node.NotSent(p.Errors.Describe(err)))
	case standing == admission.Redirected:
		p.slow.send(s)
	case err != nil:
		s.done(&p.Sender, node.Answer{}, err)
	case standing == admission.Counts:
		s.call.Done(answer, nil)
	case standing == admission.Elsewhere:
		p.slow.verify(s, answer)
	case overtaken(&p.Sender, sent, replies):
		s.call.Done(node.Answer{Status: node.Rejoining, Absence: node.Absence{Cause: node.Changed}}, nil)
	default:
		p.slow.send(s)
	}
}

// overtaken reports whether the first of these was not executed, and a later one about the same
// name was. Then it cannot be made once more.
func overtaken(sender *Sender, sent []started, replies []resp.Reply) bool {
	for i := range sent[1:] {
		if sent[i+1].request.Name != sent[0].request.Name {
			continue
		}
		_, notAdmitted, err := command.Parse(&sent[i+1].request, replies[i+1], nil)
		if !notAdmitted && !sender.Keys.Redirected(err) {
			return true
		}
	}
	return false
}
