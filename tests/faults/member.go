//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

// What the harness itself says to a server, as a user of its own.
const (
	adminUser     = "harness"
	adminPassword = "harness"

	askTimeout     = 500 * time.Millisecond // for what is asked again
	patientTimeout = 10 * time.Second       // for what should be answered
	healTimeout    = 60 * time.Second       // far longer than any fault lasts
	pollInterval   = 20 * time.Millisecond
)

// errNotNow says that a fault cannot begin, because another one has the server in
// a state that does not allow it. Nothing was done.
var errNotNow = errors.New("not now")

// member is one server of a cluster. Safe for concurrent use: faults may overlap on
// one server.
type member struct {
	start func() *testserver.Server
	clock *wallclock
	proxy *proxy

	life sync.Mutex // held while the server is ended, started or replaced

	mu     sync.Mutex
	server *testserver.Server
	frozen int // by how many faults
}

func (m *member) current() *testserver.Server {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.server
}

// ask sends a command as the harness, past the proxy. The reply is as text, an
// error of the server too; the error says that there was none.
func (m *member) ask(timeout time.Duration, args ...string) (string, error) {
	return m.current().Ask(adminUser, adminPassword, timeout, args...)
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

// configure changes the running server by commands, one after the other. undo is
// for heal: it sends its commands until they are answered with OK, which another
// fault may delay. A server that was restarted or replaced in between has its normal
// configuration already.
func (m *member) configure(change, undo [][]string) (heal func() error, err error) {
	s := m.current()
	pid := s.Pid()
	if pid == 0 {
		return nil, fmt.Errorf("%w: the server is down", errNotNow)
	}
	restore := func() error {
		return m.retry(s, pid, func() error {
			for _, args := range undo {
				if err := expectOK(s, askTimeout, args...); err != nil {
					return err
				}
			}
			return m.settle(s)
		})
	}
	for _, args := range change {
		if err := expectOK(s, patientTimeout, args...); err != nil {
			return nil, fmt.Errorf("%w: %w", errNotNow, errors.Join(err, restore()))
		}
	}
	return restore, nil
}

// retry calls f until it succeeds, or until that life of that server is over.
func (m *member) retry(s *testserver.Server, pid int, f func() error) error {
	var err error
	for end := time.Now().Add(healTimeout); time.Now().Before(end); time.Sleep(pollInterval) {
		if s.Pid() != pid {
			return nil
		}
		if err = f(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("not within %v: %w", healTimeout, err)
}

// kill ends the server as a crash would, and wipe deletes its data as well. It is
// no error if it is down.
func (m *member) kill(wipe bool) error {
	m.life.Lock()
	defer m.life.Unlock()
	s := m.current()
	return testserver.Try(func() error {
		s.Kill()
		if wipe {
			s.Wipe()
		}
		return nil
	})
}

// restart starts the server again. It is no error if it runs.
func (m *member) restart() error {
	m.life.Lock()
	defer m.life.Unlock()
	s := m.current()
	var err error
	for range 3 { // somebody's outgoing connection may have the port for a moment
		if s.Pid() != 0 {
			return nil
		}
		if err = testserver.Try(func() error { s.Restart(); return nil }); err == nil {
			return m.retry(s, s.Pid(), func() error { return m.settle(s) })
		}
		time.Sleep(pollInterval)
	}
	return err
}

// freeze stops the server's process, until each freeze had its thaw.
func (m *member) freeze() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.server.Pid() == 0 {
		return fmt.Errorf("%w: the server is down", errNotNow)
	}
	// Whether or not it is frozen: it may have been restarted since.
	if err := testserver.Try(func() error { m.server.Pause(); return nil }); err != nil {
		return fmt.Errorf("%w: %w", errNotNow, err) // killed in between
	}
	m.frozen++
	return nil
}

// thaw undoes one freeze. A server that was killed meanwhile needs none.
func (m *member) thaw() error {
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

// promote attaches a replica, kills the server once it is copied, and puts the
// replica in its place.
func (m *member) promote() error {
	m.life.Lock()
	defer m.life.Unlock()
	old := m.current()
	if old.Pid() == 0 {
		return fmt.Errorf("%w: the server is down", errNotNow)
	}
	return testserver.Try(func() error {
		replica := m.start()
		host, port, _ := strings.Cut(old.Addr(), ":")
		err := expectOK(replica, patientTimeout, "REPLICAOF", host, port)
		if err == nil {
			err = m.copied(replica)
		}
		if err != nil {
			replica.Kill()
			return fmt.Errorf("%w: no replica: %w", errNotNow, err)
		}
		old.Kill()
		if err := expectOK(replica, patientTimeout, "REPLICAOF", "NO", "ONE"); err != nil {
			return err
		}
		m.mu.Lock()
		m.server = replica
		m.mu.Unlock()
		m.proxy.retarget(replica.Addr())
		return m.retry(replica, replica.Pid(), func() error { return m.settle(replica) })
	})
}

// copied waits until a replica has its primary's data.
func (m *member) copied(replica *testserver.Server) error {
	for end := time.Now().Add(patientTimeout); time.Now().Before(end); time.Sleep(pollInterval) {
		info, err := replica.Ask(adminUser, adminPassword, askTimeout, "INFO", "replication")
		if err == nil && field(info, "master_link_status") == "up" {
			return nil
		}
	}
	return fmt.Errorf("the link is not up within %v", patientTimeout)
}

// settle ends what a clock that was set back would keep for years: the leases and
// lines are given as much time as they can have had left. This is what an operator
// would do, and takes nothing from anybody. It waits for a clock that is still off.
func (m *member) settle(s *testserver.Server) error {
	if m.clock.steps() == 0 || m.clock.off() != 0 {
		return nil
	}
	err := expectOK(s, askTimeout, "EVAL", `
		for _, key in ipairs(redis.call('KEYS', '*')) do
			local longest = tonumber(ARGV[1])
			if string.sub(key, 1, #ARGV[2]) == ARGV[2] then
				longest = 15000
			end
			if redis.call('PTTL', key) > longest then
				redis.call('PEXPIRE', key, longest)
			end
		end
		return redis.status_reply('OK')`, "0", fmt.Sprint(groupTTL.Milliseconds()), linePrefix)
	for _, code := range []string{"READONLY", "MISCONF"} {
		if err != nil && strings.Contains(err.Error(), code) {
			return nil // another fault is at work, whose heal will do it
		}
	}
	return err
}

// markAdmitted writes what an admission leaves, so that nobody needs to wait for
// the quarantine of the first start.
func (m *member) markAdmitted(durable bool) error {
	info, err := m.ask(patientTimeout, "INFO", "replication")
	if err != nil {
		return err
	}
	is := map[bool]string{false: "0", true: "1"}
	reply, err := m.ask(patientTimeout, "HSET", registersKey, "admitted", field(info, "master_replid"),
		"maxttl", fmt.Sprint(groupTTL.Milliseconds()), "durable", is[durable])
	if err == nil && reply != "3" {
		err = errors.New(reply)
	}
	return err
}

// checkClock fails if the server was started without the library that moves its
// clock: every fault of the clock would be none.
func (m *member) checkClock() error {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", m.server.Pid()))
	if err == nil && !strings.Contains(string(maps), m.clock.library) {
		err = fmt.Errorf("the server %s has not loaded %s", m.server.Addr(), m.clock.library)
	}
	return err
}
