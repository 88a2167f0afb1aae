//go:build linux

package kinds

import (
	"strings"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/tests/faults/cluster"
)

// Faults by which a running server loses what it was told to remember.
var memoryKinds = []Kind{
	{
		Name: "flush", On: onValkey, Forgets: true, Within: onlyFenlock,
		Inject: tell("FLUSHALL SYNC", ""),
	},
	{
		Name: "script flush", On: onValkey, Within: everybody,
		Inject: tell("SCRIPT FLUSH SYNC", ""),
	},
	{
		// All keys, or those that end: then the server still passes for one that has
		// forgotten nothing.
		Name: "evict", On: onValkey, Breaks: noEviction, Forgets: true, Shortest: 0.1, Longest: 2,
		Inject: func(s *Scene) (Heal, error) {
			policy := []string{"allkeys-random", "volatile-random"}[s.RNG.IntN(2)]
			m := s.Member()
			heal, err := m.ConfigureUntil(
				strings.Fields("CONFIG SET maxmemory-policy "+policy+" maxmemory 1"),
				strings.Fields("CONFIG SET maxmemory 0 maxmemory-policy noeviction"),
				func() bool {
					info, err := m.Ask(cluster.Brief, "INFO", "keyspace")
					keys := testserver.Field(info, "db0")
					return err == nil && (keys == "" || strings.Contains(keys, "expires=0"))
				})
			// The leases are gone, and there are no new ones: every write is refused.
			s.Note("evict", s.Node, noEviction)
			return heal, err
		},
	},
}
