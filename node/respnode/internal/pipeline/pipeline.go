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
	// A node has as many batches under way as it has pipelines. Requests about one name use one
	// pipeline, which sends a batch when the one before is answered. So they stay in order, and
	// under load they gather. With a single pipeline, each could wait for a whole round trip of
	// others, which is long where servers are far.
	pipelineCount = 4
	// maxBatch keeps the first of a batch from waiting long for the last: they are
	// all answered together. If more than twice as many wait, half of them are sent, up to mostBatch.
	// Otherwise a node with many locks does too few of them in a round trip where that is long.
	maxBatch  = 64
	mostBatch = 512
)

// Pipelines send requests that were started, many in one write.
type Pipelines struct {
	Sender
	all [pipelineCount]pipeline
}

// New returns the pipelines of a node.
func New(s Sender) *Pipelines {
	p := &Pipelines{Sender: s}
	for i := range p.all {
		l := &p.all[i]
		l.more.L, l.sender, l.slow.sender = &l.mu, &p.Sender, &p.Sender
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
		err = p.of(r.Name).add(s)
	}
	if err != nil {
		s.done(&p.Sender, node.Answer{}, err)
	}
}

// Exchange sends requests that were checked in one batch, at once, on the goroutine of
// its caller. They use one pipeline, that of the first: tests say by this what travels
// together.
func (p *Pipelines) Exchange(timeout time.Duration, requests []node.Request, calls []node.Call) {
	var batch []started
	for i, r := range requests {
		batch = append(batch, started{r, timeout, calls[i]})
	}
	p.of(requests[0].Name).exchange(batch, new(memory))
}

// of returns the pipeline of a name.
func (p *Pipelines) of(name string) *pipeline { return &p.all[node.Stripe(name)%pipelineCount] }

// Close lets the pipelines end. Nothing can be started any more.
func (p *Pipelines) Close() {
	for i := range p.all {
		l := &p.all[i]
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		l.more.Broadcast()
	}
}

// pipeline is the requests about some of the names that were started and not sent.
type pipeline struct {
	sender *Sender

	mu      sync.Mutex
	more    sync.Cond
	waiting []started // from head on
	head    int
	running bool // its goroutine, from the first request on
	closed  bool

	slow slowPath
}

// add puts a request at the end.
func (l *pipeline) add(s started) (err error) {
	l.mu.Lock()
	switch {
	case l.closed:
		err = engine.ErrClosed
	case !l.running:
		err = l.sender.Link.Spawn(l.run)
		l.running = err == nil
	}
	if err == nil {
		l.waiting = append(l.waiting, s)
	}
	l.mu.Unlock()
	if err == nil {
		l.more.Signal()
	}
	return err
}

// take moves what waits into a batch, and waits if nothing does. It returns false
// when the node is closed and nothing is left.
func (l *pipeline) take(batch []started) ([]started, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.head == len(l.waiting) {
		if l.closed {
			return nil, false
		}
		l.more.Wait()
	}
	waiting := l.waiting[l.head:]
	n := min(len(waiting), max(maxBatch, min(len(waiting)/2, mostBatch)))
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
	return batch, true
}

// run sends batches until the node is closed.
func (l *pipeline) run() {
	var batch []started
	var memory memory
	for {
		var more bool
		// Callers that were answered go on first. What they ask for next travels with the next
		// batch then, instead of waiting for another round trip.
		runtime.Gosched()
		if batch, more = l.take(batch[:0]); !more {
			return
		}
		l.exchange(batch, &memory)
		clear(batch)
		memory.clear()
	}
}

// exchange sends a batch in one write and hands the answers out. Its requests have
// no context: who waits has a timer, and the link gives up a connection that answers
// nothing.
func (l *pipeline) exchange(batch []started, m *memory) {
	server := l.sender.Voting.Ready()
	sent := batch[:0]
	promises, most := 0, time.Duration(0)
	for _, s := range batch {
		switch {
		case !s.call.Wanted():
			s.done(l.sender, node.Answer{}, node.NotSent(context.DeadlineExceeded))
		case server == nil || l.slow.has(s.request.Name):
			l.slow.send(s)
		default:
			sent = append(sent, s)
			if s.request.Op != node.Release {
				promises++
				most = max(most, s.timeout)
			}
		}
	}
	if len(sent) == 0 {
		return
	}
	proof := server.Prove(promises)
	m.compose(sent, l.sender.Keys, proof.Mark)
	m.commands = proof.Append(m.commands, most)
	m.replies = l.sender.Link.Exchange(m.commands, m.replies)
	proof.Read(m.replies)
	answers := m.split(len(sent))
	for i := range sent {
		l.finish(&proof, sent[i:], answers[i:])
	}
}

// finish hands the first answer out, unless something has to be done first.
func (l *pipeline) finish(proof *admission.Proof, sent []started, replies []resp.Reply) {
	s := sent[0]
	answer, notAdmitted, err := command.Parse(&s.request, replies[0], nil)
	standing, err := proof.Judge(s.request.Op, answer, notAdmitted, err)
	switch {
	case standing == admission.Redirected && overtaken(l.sender, sent, replies):
		s.done(l.sender, node.Answer{}, node.NotSent(l.sender.Errors.Describe(err)))
	case standing == admission.Redirected:
		l.slow.send(s)
	case err != nil:
		s.done(l.sender, node.Answer{}, err)
	case standing == admission.Counts:
		s.call.Done(answer, nil)
	case standing == admission.Elsewhere:
		l.slow.verify(s, answer)
	case overtaken(l.sender, sent, replies):
		s.call.Done(node.Answer{Status: node.Rejoining, Absence: node.Absence{Cause: node.Changed}}, nil)
	default:
		l.slow.send(s)
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
