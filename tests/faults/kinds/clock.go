//go:build linux

package kinds

import (
	"time"

	"github.com/fenlock/fenlock/tests/faults/cluster"
	"github.com/fenlock/fenlock/tests/faults/draw"
)

// withClocks are the engines whose servers have a clock that can be moved. etcd is a
// static program, and decides nothing by a wall clock.
var withClocks = []string{cluster.Valkey.Name, cluster.Postgres.Name, cluster.MySQL.Name, cluster.ZooKeeper.Name}

const year = 365 * 24 * time.Hour

// Faults of the servers' wall clocks, which leases of most engines end by. Both steps of a fault
// are noted where they break something: a step forward ends leases before their time, and a
// server's quarantine. A step back prolongs them, which costs time only, but its heal is a step
// forward: no library states that it bears either.
var clockKinds = []Kind{
	{
		Name: "clock forward", On: withClocks, Breaks: sameRate, Shortest: 0.1, Longest: 5,
		Inject: func(s *Scene) (Heal, error) {
			m, node, d := s.Member(), s.Node, draw.LogUniform(s.RNG, time.Second, year)
			m.Clock.Step(d)
			s.Note("clock forward", node, breaks(m))
			return func() error {
				s.Note("clock forward", node, "")
				m.Clock.Step(-d)
				return m.Settle()
			}, nil
		},
	},
	{
		Name: "clock back", On: withClocks, Shortest: 0.1, Longest: 5,
		Inject: func(s *Scene) (Heal, error) {
			m, node, d := s.Member(), s.Node, draw.LogUniform(s.RNG, time.Second, year)
			m.Clock.Step(-d)
			return func() error {
				// Before and after: whatever happens by it, happens in between.
				s.Note("clock back", node, breaks(m))
				m.Clock.Step(d)
				s.Note("clock back", node, breaks(m))
				return m.Settle()
			}, nil
		},
	},
}

// breaks is what a step of a server's clock breaks.
func breaks(m *cluster.Member) string { return Kind{Breaks: sameRate}.BreaksOn(m.Engine) }
