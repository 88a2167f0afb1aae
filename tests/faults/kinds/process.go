//go:build linux

package kinds

import (
	"fmt"
	"time"

	"github.com/fenlock/fenlock/tests/faults/cluster"
	"github.com/fenlock/fenlock/tests/history"
)

// Faults of processes: they crash, stand still and are too slow.
var processKinds = []Kind{
	{
		Name: "kill", Crash: true, Start: true, Goes: true, Shortest: 0.1, Longest: 3, Within: onlyFenlock, Durable: rivals,
		Inject: crash(false),
	},
	{
		Name: "wipe", On: []string{cluster.Valkey.Name, cluster.Etcd.Name, cluster.ZooKeeper.Name, cluster.NATS.Name,
			cluster.S3.Name},
		Forgets: true, Goes: true, Shortest: 0.1, Longest: 3, Within: onlyFenlock,
		Inject: crash(true),
	},
	{
		// The replica has what was written, but no client may rely on it, so it is out.
		Name: "promote", On: onValkey, Forgets: true, Goes: true, Within: onlyFenlock,
		Inject: func(s *Scene) (Heal, error) {
			return over, s.Member().Promote()
		},
	},
	{
		Name: "stop server", Goes: true, Shortest: 0.5, Longest: 5, Within: everybody,
		Inject: func(s *Scene) (Heal, error) {
			m := s.Member()
			return m.Thaw, m.Freeze()
		},
	},
	{
		Name: "starve", Shortest: 0.5, Longest: 5, Within: everybody,
		Inject: func(s *Scene) (Heal, error) {
			// A tenth of a processor to a half of one.
			run := time.Millisecond + time.Duration(s.RNG.Int64N(int64(9*time.Millisecond)))
			return starve(s.Member(), run)
		},
	},
	{
		// Its lock ends before it goes on, so it must not write: redsync asks for that.
		Name: "pause client", OfClients: true, Nodeless: true, Shortest: 0.5, Longest: 5, Within: onlyFenlock,
		Inject: client(func(s *Scene, i int) (Heal, error) {
			resume, err := s.Clients.Pause(i)
			return func() error { resume(); return nil }, err
		}),
	},
	{
		Name: "kill client", OfClients: true, Nodeless: true, Within: everybody,
		Inject: client(func(s *Scene, i int) (Heal, error) { return over, s.Clients.Kill(i) }),
	},
}

// RollingRestart is how many operators update servers. No campaign has it of itself, because it
// leaves no majority that remembers its registers. fenlock's servers then vote for nothing until
// all leases have ended; no other server's do.
var RollingRestart = Kind{
	Name: "rolling restart", Breaks: history.RegistersSurvive, Forgets: true, Nodeless: true, Durable: everybody,
	Inject: func(s *Scene) (Heal, error) {
		for i := range s.Cluster.Members {
			m := s.Cluster.Members[(s.Node+i)%len(s.Cluster.Members)]
			if err := m.Kill(false); err != nil {
				return nil, err
			}
			time.Sleep(s.TTL / 20)
			if err := m.Restart(); err != nil {
				return nil, err
			}
		}
		return over, nil
	},
}

func crash(wipe bool) func(*Scene) (Heal, error) {
	return func(s *Scene) (Heal, error) {
		m := s.Member()
		return m.Restart, m.Kill(wipe)
	}
}

// client is for faults of one client, whichever.
func client(inject func(s *Scene, i int) (Heal, error)) func(*Scene) (Heal, error) {
	return func(s *Scene) (Heal, error) {
		n := s.Clients.Count()
		if n == 0 {
			return nil, fmt.Errorf("%w: no clients", cluster.ErrNotNow)
		}
		return inject(s, s.RNG.IntN(n))
	}
}

// starve lets a server run for a moment at a time, with 10 ms in between.
func starve(m *cluster.Member, run time.Duration) (Heal, error) {
	const still = 10 * time.Millisecond
	if err := m.Freeze(); err != nil {
		return nil, err
	}
	frozen := true
	stop := Repeated(still, func() (time.Duration, error) {
		if frozen {
			frozen = false
			return run, m.Thaw()
		}
		if frozen = m.Freeze() == nil; frozen { // it may be down
			return still, nil
		}
		return run, nil
	})
	return func() error {
		err := stop()
		if frozen && err == nil {
			err = m.Thaw()
		}
		return err
	}, nil
}
