// Package session keeps a session with a ZooKeeper ensemble: a connection to one of its
// servers, and another one when that is lost. A request is sent once, over one
// connection, or not at all: nothing is kept to be sent over the next one.
package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// Config says with whom a session is.
type Config struct {
	Servers []string // host:port
	// Dial connects to a server. It returns soon after ctx is done.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Digest returns user:password, anew for each connection. Nil: none.
	Digest func() (string, error)
	// Timeout is what a new session asks for.
	Timeout func() time.Duration
	// Event is told which znode has changed that was watched, by the goroutine that reads. It returns
	// at once. Nil: no znode is watched.
	Event func(path string)
}

// Session keeps a session. It connects when a Link is asked for first, and keeps connected
// from then on. Safe for concurrent use.
type Session struct {
	config Config
	life   context.Context
	end    context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	started bool
	closed  bool
	final   bool          // see Finish
	link    *Link         // nil: not connected
	changed chan struct{} // closed when link, lastErr or closed change
	lastErr error         // of the last attempt to connect

	// Of the session; only the goroutine that connects uses them.
	id       int64
	password []byte
	zxid     int64        // the largest transaction that was seen; the goroutine that reads has it in its time
	unproven atomic.Int64 // see Link.Behind
}

// New returns a session that is not there yet.
func New(config Config) *Session {
	s := &Session{config: config, changed: make(chan struct{})}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Link returns the connection, and waits for one until ctx is done. The error then says
// why there is none. Nothing was sent.
func (s *Session) Link(ctx context.Context) (*Link, error) {
	for {
		s.mu.Lock()
		if !s.started && !s.closed {
			s.started = true
			s.work.Go(s.run)
		}
		link, closed, final, changed, last := s.link, s.closed, s.final, s.changed, s.lastErr
		s.mu.Unlock()
		switch {
		case closed:
			return nil, engine.ErrClosed
		case ctx.Err() != nil:
			return nil, unconnected(context.Cause(ctx), last)
		case link != nil && link.usable():
			return link, nil
		case final:
			return nil, unconnected(context.Canceled, last)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// Ails returns why the last attempt to connect failed, nil if there is a connection or no attempt
// has ended.
func (s *Session) Ails() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastErr
}

// Finish ends all waits for a connection: there is a connection now, or the error matches
// context.Canceled.
func (s *Session) Finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.final = true
	s.wake()
}

func unconnected(why, last error) error {
	if last == nil {
		return fmt.Errorf("no server has answered: %w", why)
	}
	return fmt.Errorf("no server can be used: %w (%w)", last, why)
}

// Close ends the connection. If finish is set, the session is ended too, and what is
// ephemeral in it goes; otherwise it ends by itself when its timeout has passed.
func (s *Session) Close(finish bool) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.work.Wait()
		return
	}
	s.closed = true
	link := s.link
	s.wake()
	s.mu.Unlock()
	if link != nil && finish {
		ctx, cancel := context.WithTimeout(s.life, closePatience)
		link.Do(ctx, wire.Close{})
		cancel()
	}
	s.end()
	if link != nil {
		link.fail(engine.ErrClosed)
	}
	s.work.Wait()
}

// closePatience is how long Close waits until the server has ended the session.
const closePatience = 500 * time.Millisecond

// wake wakes who waits for a change. Called with mu held.
func (s *Session) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// The pause between two attempts to connect to all servers, and how long an attempt lasts. While
// the servers elect a leader, a new session takes them long.
const (
	minPause  = 20 * time.Millisecond
	maxPause  = time.Second
	minAnswer = time.Second
	maxAnswer = 8 * time.Second
	// patience is how long the servers may refuse a client that has seen more than they
	// have: one that was away catches up. Nothing is concluded from its end.
	patience = time.Second
)

// run connects, again and again, until Close.
func (s *Session) run() {
	servers := slices.Clone(s.config.Servers)
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	pause, answer := minPause, minAnswer
	refused := time.Time{} // since then no server has taken the client, and one at least has refused it
	for i := 0; s.life.Err() == nil; i++ {
		humble := s.zxid > 0 && !refused.IsZero() && time.Since(refused) > patience
		link, err := s.connect(servers[i%len(servers)], answer, humble)
		if err == nil {
			refused = time.Time{}
		} else if refused.IsZero() && errors.Is(err, errRefused) {
			refused = time.Now()
		}
		s.mu.Lock()
		if s.closed && link != nil {
			link.fail(engine.ErrClosed)
		}
		if link != nil {
			s.link, s.lastErr = link, nil
		} else if s.life.Err() == nil {
			s.lastErr = err
		}
		s.wake()
		s.mu.Unlock()
		if link != nil {
			began := time.Now()
			<-link.done
			link.wait()
			s.mu.Lock()
			s.link, s.lastErr = nil, link.cause()
			s.wake()
			s.mu.Unlock()
			if time.Since(began) > maxPause {
				pause, answer = minPause, minAnswer
				continue
			}
			// A server that takes clients and drops them is one that does not work.
		}
		if (i+1)%len(servers) != 0 {
			continue
		}
		select {
		case <-time.After(time.Duration((0.75 + rand.Float64()/2) * float64(pause))):
		case <-s.life.Done():
		}
		pause, answer = min(2*pause, maxPause), min(2*answer, maxAnswer)
	}
}
