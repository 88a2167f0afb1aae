//go:build linux

package kinds

import (
	"time"

	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/tests/faults/draw"
)

var (
	losing  = proxy.Effect{Lose: true}
	holding = proxy.Effect{Hold: true}
)

// Faults of the network, between all clients and a server unless they say
// otherwise.
var networkKinds = []Kind{
	{
		Name: "slow", Shortest: 1, Longest: 5, Within: everybody,
		Inject: func(s *Scene) (Heal, error) {
			// Up to twice a node's timeout, a quarter of the TTL.
			slow := proxy.Effect{Delay: draw.LogUniform(s.RNG, time.Millisecond, s.TTL/2)}
			return disturb(proxy.Rule{To: slow, From: slow})(s)
		},
	},
	{
		Name: "cut", Shortest: 0.02, Longest: 2, Within: everybody,
		Inject: disturb(proxy.Rule{Cut: true}),
	},
	{
		Name: "half-open", Shortest: 0.5, Longest: 5, Within: everybody,
		Inject: disturb(proxy.Rule{To: losing, From: losing}),
	},
	{
		Name: "requests lost", Shortest: 0.1, Longest: 3, Within: everybody,
		Inject: disturb(proxy.Rule{To: losing}),
	},
	{
		Name: "replies lost", Shortest: 0.1, Longest: 3, Within: everybody,
		Inject: disturb(proxy.Rule{From: losing}),
	},
	{
		Name: "late requests", Shortest: 0.5, Longest: 3, Within: everybody,
		Inject: disturb(proxy.Rule{To: holding}),
	},
	{
		Name: "late replies", Shortest: 0.5, Longest: 3, Within: everybody,
		Inject: disturb(proxy.Rule{From: holding}),
	},
	{
		Name: "partition", Nodeless: true, Shortest: 0.5, Longest: 5, Within: everybody,
		Inject: partition,
	},
}

func disturb(r proxy.Rule) func(*Scene) (Heal, error) {
	return func(s *Scene) (Heal, error) {
		lift := s.Member().Proxy.Impose(r)
		return func() error { lift(); return nil }, nil
	}
}

// partition keeps half of the clients from a majority of the servers: packets
// vanish. The other half sees nothing of it.
func partition(s *Scene) (Heal, error) {
	n, half := len(s.Cluster.Members), s.RNG.IntN(2)
	var lifts []func()
	for _, i := range s.RNG.Perm(n)[:n/2+1] {
		lifts = append(lifts, s.Cluster.Members[i].Proxy.Impose(proxy.Rule{
			Only: func(client int) bool { return client%2 == half },
			To:   losing,
			From: losing,
		}))
	}
	return func() error {
		for _, lift := range lifts {
			lift()
		}
		return nil
	}, nil
}
