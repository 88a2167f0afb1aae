//go:build linux

package kinds

import (
	"time"

	"github.com/fenlock/fenlock/tests/faults/draw"
)

const year = 365 * 24 * time.Hour

// Faults of the servers' wall clocks, which leases end by. Both steps of a fault are
// noted where they break something: a step forward ends leases before their time,
// and a server's quarantine. A step back prolongs them, which costs time only, but its
// heal is a step forward: no library states that it bears either.
var clockKinds = []Kind{
	{
		Name: "clock forward", Breaks: sameRate, Shortest: 0.1, Longest: 5,
		Inject: func(s *Scene) (Heal, error) {
			m, node, d := s.Member(), s.Node, draw.LogUniform(s.RNG, time.Second, year)
			m.Clock.Step(d)
			s.Note("clock forward", node, sameRate)
			return func() error {
				s.Note("clock forward", node, "")
				m.Clock.Step(-d)
				return m.Settle()
			}, nil
		},
	},
	{
		Name: "clock back", Shortest: 0.1, Longest: 5,
		Inject: func(s *Scene) (Heal, error) {
			m, node, d := s.Member(), s.Node, draw.LogUniform(s.RNG, time.Second, year)
			m.Clock.Step(-d)
			return func() error {
				// Before and after: whatever happens by it, happens in between.
				s.Note("clock back", node, sameRate)
				m.Clock.Step(d)
				s.Note("clock back", node, sameRate)
				return m.Settle()
			}, nil
		},
	},
}
