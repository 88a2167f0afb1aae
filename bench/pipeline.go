package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
)

// pipeline sends commands to all servers, the same ones to each, over one
// connection per server, and counts the answers. Once its buffers have grown it
// makes no garbage.
type pipeline struct {
	need   int // answers that make an answer
	conns  []net.Conn
	active atomic.Int32 // callers

	// sent is how many commands there were, answered how many of them each server
	// has answered. The ring has those that are between the two.
	ring     [1 << 14]sentCall
	sent     atomic.Uint64
	answered []atomic.Uint64

	mu      sync.Mutex // guards the rest, and writing to the ring
	oldest  uint64     // what answered was at least, when it was last looked at
	pending []byte     // to be written
	spare   []byte     // the buffer that pending changes places with
	writing bool
	calls   []*call
	err     error

	wake chan struct{} // the writer
	end  chan struct{}
	wait sync.WaitGroup
}

// call is what one caller waits for, one after the other.
type call struct {
	number uint64
	state  atomic.Uint64 // the number, and in the low byte how many have answered
	done   chan struct{}
}

type sentCall struct {
	call   *call
	number uint64
}

func newPipeline(addresses []string, need int) (*pipeline, error) {
	p := &pipeline{need: need, answered: make([]atomic.Uint64, len(addresses)), wake: make(chan struct{}, 1),
		end: make(chan struct{})}
	for _, address := range addresses {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			p.close()
			return nil, err
		}
		p.conns = append(p.conns, conn)
	}
	for i := range p.conns {
		p.wait.Go(func() { p.read(i) })
	}
	p.wait.Go(p.write)
	return p, nil
}

func (p *pipeline) newCall() *call {
	c := &call{done: make(chan struct{}, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, c)
	return c
}

// do sends a command, which it copies, and waits for the answer.
func (p *pipeline) do(c *call, command []byte) error {
	alone := p.active.Add(1) == 1
	defer p.active.Add(-1)
	p.mu.Lock()
	for p.err == nil && p.full() {
		p.mu.Unlock()
		runtime.Gosched()
		p.mu.Lock()
	}
	if p.err != nil {
		defer p.mu.Unlock()
		return p.err
	}
	c.number++
	c.state.Store(c.number << 8)
	n := p.sent.Load()
	p.ring[n%uint64(len(p.ring))] = sentCall{c, c.number}
	p.sent.Store(n + 1)
	p.pending = append(p.pending, command...)
	if alone { // no command can be waited for: to wake the writer would only take time
		p.flush()
	}
	p.mu.Unlock()
	if !alone {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
	<-c.done
	if c.state.Load()&0xff >= uint64(p.need) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// full reports whether the slowest server has not answered a whole ring yet.
func (p *pipeline) full() bool {
	if p.sent.Load()-p.oldest < uint64(len(p.ring)) {
		return false
	}
	p.oldest = p.answered[0].Load()
	for i := range p.answered {
		p.oldest = min(p.oldest, p.answered[i].Load())
	}
	return p.sent.Load()-p.oldest >= uint64(len(p.ring))
}

// write writes for callers that are not alone.
func (p *pipeline) write() {
	for {
		select {
		case <-p.wake:
		case <-p.end:
			return
		}
		// Goroutines that can run now may have a command too: one write for all of them.
		runtime.Gosched()
		p.mu.Lock()
		p.flush()
		p.mu.Unlock()
	}
}

// flush writes what is pending, and what comes meanwhile. Called with mu held.
func (p *pipeline) flush() {
	if p.writing {
		return
	}
	p.writing = true
	for len(p.pending) > 0 && p.err == nil {
		out := p.pending
		p.pending = p.spare[:0]
		p.mu.Unlock()
		var err error
		for _, conn := range p.conns {
			if _, err = conn.Write(out); err != nil {
				break
			}
		}
		p.mu.Lock()
		p.spare = out
		if err != nil {
			p.fail(err)
		}
	}
	p.writing = false
}

// read counts the answers of one server.
func (p *pipeline) read(i int) {
	replies := bufio.NewReaderSize(p.conns[i], 64<<10)
	for n := uint64(0); ; n++ {
		line, err := replies.ReadSlice('\n')
		if err == nil {
			err = checkReply(line)
		}
		if err == nil && n >= p.sent.Load() {
			err = errors.New("an answer to nothing")
		}
		if err != nil {
			p.mu.Lock()
			p.fail(fmt.Errorf("server %d: %w", i+1, err))
			p.mu.Unlock()
			return
		}
		s := p.ring[n%uint64(len(p.ring))]
		s.call.answer(s.number, p.need)
		p.answered[i].Store(n + 1)
	}
}

// checkReply returns an error unless the reply is a number: everything else says
// that a lock was not acquired or released.
func checkReply(line []byte) error {
	if len(line) < 4 || line[0] != ':' || line[len(line)-2] != '\r' {
		return fmt.Errorf("answered %.100q", line)
	}
	for _, digit := range line[1 : len(line)-2] {
		if digit < '0' || digit > '9' {
			return fmt.Errorf("answered %.100q", line)
		}
	}
	return nil
}

// answer counts a server's answer. One that comes after enough others have is not
// waited for any more.
func (c *call) answer(number uint64, need int) {
	for {
		state := c.state.Load()
		if state>>8 != number {
			return
		}
		if c.state.CompareAndSwap(state, state+1) {
			if int(state&0xff)+1 == need {
				c.done <- struct{}{}
			}
			return
		}
	}
}

// fail ends all calls, those to come too. Called with mu held.
func (p *pipeline) fail(err error) {
	if p.err != nil {
		return
	}
	p.err = err
	for _, c := range p.calls {
		select {
		case c.done <- struct{}{}:
		default:
		}
	}
}

var errPipelineClosed = errors.New("the pipeline is closed")

// close must not be called while a call is under way.
func (p *pipeline) close() {
	p.mu.Lock()
	p.fail(errPipelineClosed)
	p.mu.Unlock()
	close(p.end)
	for _, conn := range p.conns {
		conn.Close()
	}
	p.wait.Wait()
}
