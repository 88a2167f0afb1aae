//go:build linux

package main

import (
	"fmt"
	"time"
)

// Faults of processes: they crash, stand still and are too slow.
var processKinds = []kind{
	{
		name: "kill", forgets: true, shortest: 0.1, longest: 3, within: anybody,
		inject: func(s *scene) (func() error, error) { return crash(s, false) },
	},
	{
		name: "wipe", forgets: true, shortest: 0.1, longest: 3, within: nobody,
		inject: func(s *scene) (func() error, error) { return crash(s, true) },
	},
	{
		// The replica has what was written, but nobody may rely on it, so it is out.
		name: "promote", forgets: true, within: nobody,
		inject: func(s *scene) (func() error, error) {
			return func() error { return nil }, s.member().promote()
		},
	},
	{
		name: "stop server", shortest: 0.5, longest: 5, within: anybody,
		inject: func(s *scene) (func() error, error) {
			m := s.member()
			return m.thaw, m.freeze()
		},
	},
	{
		name: "starve", shortest: 0.5, longest: 5, within: anybody,
		inject: func(s *scene) (func() error, error) {
			// A tenth of a processor to a half of one.
			run := time.Millisecond + time.Duration(s.rng.Int64N(int64(9*time.Millisecond)))
			return starve(s.member(), run)
		},
	},
	{
		// Its lock ends before it goes on, so it must not write: redsync asks for that.
		name: "pause client", nodeless: true, shortest: 0.5, longest: 5, within: nobody,
		inject: func(s *scene) (func() error, error) {
			n := s.clients.count()
			if n == 0 {
				return nil, fmt.Errorf("%w: no clients", errNotNow)
			}
			resume, err := s.clients.pause(s.rng.IntN(n))
			return func() error { resume(); return nil }, err
		},
	},
	{
		name: "kill client", nodeless: true, within: anybody,
		inject: func(s *scene) (func() error, error) {
			n := s.clients.count()
			if n == 0 {
				return nil, fmt.Errorf("%w: no clients", errNotNow)
			}
			return func() error { return nil }, s.clients.kill(s.rng.IntN(n))
		},
	},
}

func crash(s *scene, wipe bool) (heal func() error, err error) {
	m := s.member()
	if err := m.kill(wipe); err != nil {
		return nil, err
	}
	return m.restart, nil
}

// starve lets a server run for a moment at a time, with 10 ms in between.
func starve(m *member, run time.Duration) (heal func() error, err error) {
	const still = 10 * time.Millisecond
	if err := m.freeze(); err != nil {
		return nil, err
	}
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		frozen := true
		for end := time.Now().Add(healTimeout); time.Now().Before(end); {
			wait := run
			if frozen {
				wait = still
			}
			select {
			case <-stop:
			case <-time.After(wait):
				if !frozen {
					frozen = m.freeze() == nil // it may be down
					continue
				}
				if err := m.thaw(); err != nil {
					stopped <- err
					return
				}
				frozen = false
				continue
			}
			break
		}
		if frozen {
			stopped <- m.thaw()
			return
		}
		stopped <- nil
	}()
	return func() error { close(stop); return <-stopped }, nil
}
