//go:build linux

package kinds

import (
	"github.com/fenlock/fenlock/tests/faults/cluster"
)

// Faults that an operator of a database, or of a cluster, makes. Valkey's are in the other
// files.
var databaseKinds = []Kind{
	{
		// It closes its connections and writes what it has.
		Name: "restart", On: []string{cluster.Postgres.Name, cluster.MySQL.Name, cluster.Etcd.Name, cluster.ZooKeeper.Name,
			cluster.NATS.Name, cluster.S3.Name},
		Start: true, Goes: true, Shortest: 0.1, Longest: 2, Within: onlyFenlock,
		Inject: func(s *Scene) (Heal, error) {
			m := s.Member()
			return m.Restart, m.Stop()
		},
	},
	{
		// Tables that are made anew, while clients are connected.
		Name: "replace", On: onDatabases, Forgets: true, Shortest: 0.1, Longest: 1, Within: onlyFenlock,
		Inject: func(s *Scene) (Heal, error) { return s.Member().Replace() },
	},
	{
		Name: "end sessions", On: onDatabases, Within: onlyFenlock,
		Inject: func(s *Scene) (Heal, error) { return s.Member().EndSessions() },
	},
	{
		// PostgreSQL ends all the others when one of its processes crashes.
		Name: "crash backend", On: []string{cluster.Postgres.Name}, Crash: true, Within: onlyFenlock,
		Inject: func(s *Scene) (Heal, error) { return s.Member().CrashBackend(s.RNG) },
	},
	{
		Name: "read only", On: onDatabases, Shortest: 0.1, Longest: 3, Within: onlyFenlock,
		Inject: func(s *Scene) (Heal, error) { return s.Member().ReadOnly() },
	},
}
