//go:build linux

package main

import "time"

var (
	losing  = way{lose: true}
	holding = way{hold: true}
)

// Faults of the network, between all clients and a server unless they say
// otherwise.
var networkKinds = []kind{
	{
		name: "slow", shortest: 1, longest: 5, within: anybody,
		inject: func(s *scene) (func() error, error) {
			// Up to twice a node's timeout, a quarter of the TTL.
			w := way{delay: s.magnitude(time.Millisecond, s.ttl/2)}
			return disturb(s, rule{ways: [2]way{w, w}})
		},
	},
	{
		name: "cut", shortest: 0.02, longest: 2, within: anybody,
		inject: func(s *scene) (func() error, error) { return disturb(s, rule{cut: true}) },
	},
	{
		name: "half-open", shortest: 0.5, longest: 5, within: anybody,
		inject: func(s *scene) (func() error, error) { return disturb(s, rule{ways: [2]way{losing, losing}}) },
	},
	{
		name: "requests lost", shortest: 0.1, longest: 3, within: anybody,
		inject: func(s *scene) (func() error, error) { return disturb(s, rule{ways: [2]way{to: losing}}) },
	},
	{
		name: "replies lost", shortest: 0.1, longest: 3, within: anybody,
		inject: func(s *scene) (func() error, error) { return disturb(s, rule{ways: [2]way{from: losing}}) },
	},
	{
		name: "late requests", shortest: 0.5, longest: 3, within: anybody,
		inject: func(s *scene) (func() error, error) { return disturb(s, rule{ways: [2]way{to: holding}}) },
	},
	{
		name: "late replies", shortest: 0.5, longest: 3, within: anybody,
		inject: func(s *scene) (func() error, error) { return disturb(s, rule{ways: [2]way{from: holding}}) },
	},
	{
		name: "partition", nodeless: true, shortest: 0.5, longest: 5, within: anybody,
		inject: partition,
	},
}

func disturb(s *scene, r rule) (heal func() error, err error) {
	lift := s.member().proxy.impose(r)
	return func() error { lift(); return nil }, nil
}

// partition keeps half of the clients from a majority of the servers: packets
// vanish. The other half sees nothing of it.
func partition(s *scene) (heal func() error, err error) {
	n, half := len(s.cluster.members), s.rng.IntN(2)
	var lifts []func()
	for _, i := range s.rng.Perm(n)[:n/2+1] {
		lifts = append(lifts, s.cluster.members[i].proxy.impose(rule{
			only: func(client int) bool { return client%2 == half },
			ways: [2]way{losing, losing},
		}))
	}
	return func() error {
		for _, lift := range lifts {
			lift()
		}
		return nil
	}, nil
}
