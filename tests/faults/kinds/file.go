//go:build linux

package kinds

import (
	"time"

	"github.com/fenlock/fenlock/tests/faults/cluster"
	"github.com/fenlock/fenlock/tests/faults/draw"
)

// Faults of a file, and of those that share it.
var fileKinds = []Kind{
	{
		// One client after the other, and those that take their places, some of them in the middle
		// of a write.
		Name: "kill clients", On: []string{cluster.File.Name}, OfClients: true, Nodeless: true, Shortest: 0.5, Longest: 3,
		Within: onlyFenlock,
		Inject: func(s *Scene) (Heal, error) {
			return Repeated(0, func() (time.Duration, error) {
				heal, err := client(func(s *Scene, i int) (Heal, error) { return over, s.Clients.Kill(i) })(s)
				if err == nil {
					err = heal()
				}
				s.Note("kill clients", -1, "")
				return draw.LogUniform(s.RNG, 100*time.Microsecond, 50*time.Millisecond), err
			}), nil
		},
	},
	{
		// What is held can be extended and released: its place is reserved.
		Name: "full disk", On: []string{cluster.File.Name}, Shortest: 0.5, Longest: 5, Within: onlyFenlock,
		Inject: func(s *Scene) (Heal, error) { return s.Member().Fill() },
	},
	{
		// It is mended as the message says: all programs are ended.
		Name: "replace file", On: []string{cluster.File.Name}, Breaks: samePlace, Shortest: 0.1, Longest: 2,
		Within: onlyFenlock,
		Inject: func(s *Scene) (Heal, error) {
			heal := func() error {
				if err := s.Member().Reopen(); err != nil {
					return err
				}
				for i := range s.Clients.Count() {
					if err := s.Clients.Kill(i); err != nil {
						return err
					}
				}
				return nil
			}
			return heal, s.Member().Move(s.RNG.IntN(2) == 0)
		},
	},
	{
		// Waiters ask, and are reachable again.
		Name: "remove pipes", On: []string{cluster.File.Name}, Within: onlyFenlock,
		Inject: func(s *Scene) (Heal, error) { return over, s.Member().Tidy() },
	},
}
