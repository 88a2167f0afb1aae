//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/node/valkeynode"
	"github.com/fenlock/fenlock/tests/faults/wallclock"
)

// Member is one server of a cluster. Safe for concurrent use: faults may overlap on
// one server.
type Member struct {
	Clock *wallclock.Clock
	Proxy *proxy.Proxy
	start func() *testserver.Server

	life sync.Mutex // held while the server is ended, started or replaced

	mu     sync.Mutex
	server *testserver.Server
	frozen int // by how many faults
}

// ErrNotNow says that a fault cannot begin, because another one has the server in
// a state that does not allow it. Nothing was done.
var ErrNotNow = errors.New("not now")

// For how long the harness waits for a server.
const (
	Brief     = 500 * time.Millisecond // a reply to what is asked again
	Patience  = 10 * time.Second       // a reply that should come
	HealLimit = 60 * time.Second       // far longer than any fault lasts

	pollInterval = 20 * time.Millisecond
)

// The harness is a user of its own, whatever becomes of the clients'.
const (
	adminUser     = "harness"
	adminPassword = "harness"
)

// Server returns the process that is the member now: a replica can take its place.
func (m *Member) Server() *testserver.Server {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.server
}

// Ask sends a command as the harness, past the proxy. The reply is as text, an
// error of the server too; the error says that there was none.
func (m *Member) Ask(timeout time.Duration, args ...string) (string, error) {
	return m.Server().Ask(adminUser, adminPassword, timeout, args...)
}

// asker is Ask with this timeout.
func (m *Member) asker(timeout time.Duration) func(args ...string) (string, error) {
	return func(args ...string) (string, error) { return m.Ask(timeout, args...) }
}

// expectOK is for commands that are answered with OK.
func expectOK(s *testserver.Server, timeout time.Duration, args ...string) error {
	reply, err := s.Ask(adminUser, adminPassword, timeout, args...)
	if err == nil && reply != "OK" {
		err = errors.New(reply)
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", s.Addr(), strings.Join(args[:min(len(args), 3)], " "), err)
	}
	return nil
}

// Configure changes the running server by a command. heal sends undo, unless it is
// empty, until that is answered with OK, which another fault may delay. A server that
// was restarted or replaced in between has its normal configuration already.
func (m *Member) Configure(change, undo []string) (heal func() error, err error) {
	s := m.Server()
	pid := s.Pid()
	if pid == 0 {
		return nil, fmt.Errorf("%w: the server is down", ErrNotNow)
	}
	restore := func() error {
		return m.retry(s, pid, func() error {
			if len(undo) > 0 {
				if err := expectOK(s, Brief, undo...); err != nil {
					return err
				}
			}
			return m.settle(s)
		})
	}
	if err := expectOK(s, Patience, change...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotNow, errors.Join(err, restore()))
	}
	return restore, nil
}

// ConfigureUntil is Configure with a wait until holds reports that the server is as
// the change wants it.
func (m *Member) ConfigureUntil(change, undo []string, holds func() bool) (heal func() error, err error) {
	heal, err = m.Configure(change, undo)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(pollInterval) {
		if holds() {
			return heal, nil
		}
	}
	if err := heal(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: not within %v", ErrNotNow, Patience)
}

// retry calls f until it succeeds, or until that life of that server is over.
func (m *Member) retry(s *testserver.Server, pid int, f func() error) error {
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
		if wipe {
			s.Wipe()
		}
		return nil
	})
}

// Restart starts the server again. It is no error if it runs.
func (m *Member) Restart() error {
	m.life.Lock()
	defer m.life.Unlock()
	s := m.Server()
	var err error
	for range 3 { // somebody's outgoing connection may have the port for a moment
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

// Promote attaches a replica, kills the server once it is copied, and puts the
// replica in its place.
func (m *Member) Promote() error {
	m.life.Lock()
	defer m.life.Unlock()
	old := m.Server()
	if old.Pid() == 0 {
		return fmt.Errorf("%w: the server is down", ErrNotNow)
	}
	return testserver.Try(func() error {
		replica := m.start()
		host, port, _ := strings.Cut(old.Addr(), ":")
		err := expectOK(replica, Patience, "REPLICAOF", host, port)
		if err == nil {
			err = awaitCopy(replica)
		}
		if err != nil {
			replica.Kill()
			return fmt.Errorf("%w: no replica: %w", ErrNotNow, err)
		}
		old.Kill()
		if err := expectOK(replica, Patience, "REPLICAOF", "NO", "ONE"); err != nil {
			return err
		}
		m.mu.Lock()
		m.server = replica
		m.mu.Unlock()
		m.Proxy.Retarget(replica.Addr())
		return m.Settle()
	})
}

// awaitCopy waits until a replica has its primary's data.
func awaitCopy(replica *testserver.Server) error {
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(pollInterval) {
		info, err := replica.Ask(adminUser, adminPassword, Brief, "INFO", "replication")
		if err == nil && testserver.Field(info, "master_link_status") == "up" {
			return nil
		}
	}
	return fmt.Errorf("the link is not up within %v", Patience)
}

// Settle ends what a clock that was set back would keep for years: the leases and
// waiter queues are given as much time as they can have had left. This is what an
// operator would do, and takes nothing from anybody. Where the clock is still off, or
// the server is down, that is left to whoever mends it.
func (m *Member) Settle() error {
	s := m.Server()
	pid := s.Pid()
	if pid == 0 {
		return nil
	}
	return m.retry(s, pid, func() error { return m.settle(s) })
}

func (m *Member) settle(s *testserver.Server) error {
	if !m.Clock.Moved() || m.Clock.Off() != 0 {
		return nil
	}
	err := expectOK(s, Brief, "EVAL", `
		for _, key in ipairs(redis.call('KEYS', '*')) do
			local longest = tonumber(ARGV[1])
			if string.sub(key, 1, #ARGV[2]) == ARGV[2] then
				longest = 15000
			end
			if redis.call('PTTL', key) > longest then
				redis.call('PEXPIRE', key, longest)
			end
		end
		return redis.status_reply('OK')`, "0", fmt.Sprint(TTL.Milliseconds()), QueuePrefix)
	for _, code := range []string{"READONLY", "MISCONF"} {
		if err != nil && strings.Contains(err.Error(), code) {
			return nil // another fault is at work, whose heal will do it
		}
	}
	return err
}

// MarkAdmitted writes what an admission leaves, so that nobody needs to wait for
// the quarantine of the first start.
func (m *Member) MarkAdmitted(durable bool) error {
	return testserver.MarkAdmitted(m.asker(Patience), valkeynode.DefaultPrefix, TTL, durable)
}
