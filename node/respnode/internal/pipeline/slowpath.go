package pipeline

import (
	"context"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
)

// slowPath is what takes time, each on a goroutine of its own. The server has to be connected to,
// looked at or admitted first, which must not hold up requests about other names. Those about the
// same name go one after the other, since a release that overtakes its acquire leaves a lease
// behind.
type slowPath struct {
	sender *Sender

	mu   sync.Mutex
	last map[string]chan struct{} // of each name, what is closed when its last is over
}

// has reports whether requests about a name are on the slow path: others go after them.
func (p *slowPath) has(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[name] != nil
}

// begin returns what has to be over first, nil if nothing has, and what to call in
// the end.
func (p *slowPath) begin(name string) (before <-chan struct{}, end func()) {
	mine := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil {
		p.last = make(map[string]chan struct{})
	}
	before = p.last[name]
	p.last[name] = mine
	return before, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		close(mine)
		if p.last[name] == mine {
			delete(p.last, name)
		}
	}
}

// send carries out a request that has not been executed.
func (p *slowPath) send(s started) {
	p.spawn(s, node.NotSent, func(ctx context.Context) (node.Answer, error) {
		return p.sender.operate(ctx, &s.request, s.call.Wanted)
	})
}

// verify hands an answer out if the server can be a node.
func (p *slowPath) verify(s started, answer node.Answer) {
	sent := func(err error) error { return err }
	p.spawn(s, sent, func(ctx context.Context) (node.Answer, error) { return p.sender.after(ctx, answer) })
}

// spawn ends before the one who waits gives up, so that the reason is returned, which
// says more than "no answer". Early is what marks an error from before do.
func (p *slowPath) spawn(s started, early func(error) error, do func(ctx context.Context) (node.Answer, error)) {
	before, end := p.begin(s.request.Name)
	err := p.sender.Link.Spawn(func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.timeout*9/10)
		defer cancel()
		if before != nil {
			select {
			case <-before:
			case <-ctx.Done():
				s.done(p.sender, node.Answer{}, early(ctx.Err()))
				<-before // the next request waits for all of them
				end()
				return
			}
		}
		answer, err := do(ctx)
		end() // first: who hears of it may begin the next, which need not come this way
		s.done(p.sender, answer, err)
	})
	if err != nil {
		// The link is closed. The name stays on the slow path: what comes later fails here, too, and
		// does not overtake what is under way.
		s.done(p.sender, node.Answer{}, early(err))
	}
}

// started is a request that was started, and is not answered yet.
type started struct {
	request node.Request
	timeout time.Duration
	call    node.Call
}

func (s *started) done(sender *Sender, answer node.Answer, err error) {
	s.call.Done(answer, sender.Errors.Fail(err))
}
