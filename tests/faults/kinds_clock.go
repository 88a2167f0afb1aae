//go:build linux

package main

import "time"

const year = 365 * 24 * time.Hour

// Faults of the servers' wall clocks, which leases end by. Both steps of a fault are
// noted where they break something: a step forward ends leases before their time,
// and a server's quarantine. A step back prolongs them, which costs time only.
var clockKinds = []kind{
	{
		name: "clock forward", breaks: sameRate, shortest: 0.1, longest: 5, within: nobody,
		inject: func(s *scene) (func() error, error) {
			m, node, d := s.member(), s.node, s.magnitude(time.Second, year)
			m.clock.step(d)
			s.note("clock forward", node, sameRate)
			return func() error {
				s.note("clock forward", node, "")
				m.clock.step(-d)
				return settled(m)
			}, nil
		},
	},
	{
		name: "clock back", shortest: 0.1, longest: 5, within: nobody,
		inject: func(s *scene) (func() error, error) {
			m, node, d := s.member(), s.node, s.magnitude(time.Second, year)
			m.clock.step(-d)
			return func() error {
				// Before and after: whatever happens by it, happens in between.
				s.note("clock back", node, sameRate)
				m.clock.step(d)
				s.note("clock back", node, sameRate)
				return settled(m)
			}, nil
		},
	},
}

func settled(m *member) error {
	s := m.current()
	pid := s.Pid()
	if pid == 0 {
		return nil // its restart will do it
	}
	return m.retry(s, pid, func() error { return m.settle(s) })
}
