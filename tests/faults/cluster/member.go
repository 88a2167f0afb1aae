//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/tests/faults/wallclock"
)

// Member is one server of a cluster. Safe for concurrent use: faults may overlap on
// one server.
type Member struct {
	Engine *Engine
	Clock  *wallclock.Clock
	Proxy  *proxy.Proxy

	number   int // from 0
	start    func() Server
	operator operator // the harness's way to it; nil: it is made anew each time

	life sync.Mutex // held while the server is ended, started or replaced

	mu     sync.Mutex
	server Server
	frozen int // by how many faults
}

// ErrNotNow says that a fault cannot begin, because another one has the server in
// a state that does not allow it. Nothing was done.
var ErrNotNow = errors.New("not now")

// For how long the harness waits for a server.
const (
	Brief     = 500 * time.Millisecond // a reply to what is asked again
	Patience  = 10 * time.Second       // a reply that should come
	HealLimit = 3 * time.Minute        // far longer than any fault lasts

	pollInterval = 20 * time.Millisecond
)

// Server returns the process that is the member now: a replica can take its place.
func (m *Member) Server() Server {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.server
}

// retry calls f until it succeeds, or until that life of that server is over.
func (m *Member) retry(s Server, pid int, f func() error) error {
	var err error
	for end := time.Now().Add(HealLimit); time.Now().Before(end); time.Sleep(pollInterval) {
		if s.Pid() != pid {
			return nil
		}
		if err = f(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("not within %v: %w", HealLimit, err)
}

// Kill ends the server as a crash would, and wipe deletes its data as well. It is
// no error if it is down.
func (m *Member) Kill(wipe bool) error {
	m.life.Lock()
	defer m.life.Unlock()
	s := m.Server()
	return testserver.Try(func() error {
		s.Kill()
		if w, ok := s.(interface{ Wipe() }); ok && wipe {
			w.Wipe()
		}
		return nil
	})
}

// Stop ends the server as an operator does: it closes its connections and writes what it
// has.
func (m *Member) Stop() error {
	m.life.Lock()
	defer m.life.Unlock()
	s := m.Server()
	if s.Pid() == 0 || m.Frozen() {
		return fmt.Errorf("%w: the server is down, or stopped", ErrNotNow)
	}
	return testserver.Try(func() error { s.Stop(); return nil })
}

// Restart starts the server again. It is no error if it runs.
func (m *Member) Restart() error {
	m.life.Lock()
	defer m.life.Unlock()
	s := m.Server()
	var err error
	for range 3 { // an outgoing connection may have the port for a moment
		if s.Pid() != 0 {
			return nil
		}
		if err = testserver.Try(func() error { s.Restart(); return nil }); err == nil {
			return m.Settle()
		}
		time.Sleep(pollInterval)
	}
	return err
}

// Freeze stops the server's process, until each Freeze had its Thaw.
func (m *Member) Freeze() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.server.Pid() == 0 {
		return fmt.Errorf("%w: the server is down", ErrNotNow)
	}
	// Whether or not it is frozen: it may have been restarted since.
	if err := testserver.Try(func() error { m.server.Pause(); return nil }); err != nil {
		return fmt.Errorf("%w: %w", ErrNotNow, err) // killed in between
	}
	m.frozen++
	return nil
}

// Thaw undoes one Freeze. A server that was killed meanwhile needs none.
func (m *Member) Thaw() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen--
	if m.frozen > 0 || m.server.Pid() == 0 {
		return nil
	}
	err := testserver.Try(func() error { m.server.Resume(); return nil })
	if m.server.Pid() == 0 {
		return nil
	}
	return err
}

// Frozen reports whether a Freeze had no Thaw yet.
func (m *Member) Frozen() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.frozen != 0
}

// Settle ends what a clock that was set back would keep for years. This is what an operator would
// do, and takes nothing from any client. Where the clock is still off, or the server is down, that
// is left to the fault's end.
func (m *Member) Settle() error {
	s := m.Server()
	pid := s.Pid()
	if pid == 0 {
		return nil
	}
	if m.Engine.settle != nil {
		return m.retry(s, pid, func() error { return m.Engine.settle(m, s) })
	}
	steps := m.Clock.Steps()
	if !m.Engine.WallClock || steps == 0 || m.Clock.Off() != 0 {
		return nil
	}
	time.Sleep(m.Engine.TTL * 11 / 10) // see release
	return m.retry(s, pid, func() error {
		if m.Clock.Steps() != steps {
			return nil
		}
		return m.release()
	})
}
