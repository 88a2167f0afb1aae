//go:build linux

package main

import (
	"fmt"
	"strings"
	"time"
)

// Faults by which a running server loses what it was told to remember.
var memoryKinds = []kind{
	{
		name: "flush", forgets: true, within: nobody,
		inject: func(s *scene) (func() error, error) { return s.member().configure(commands("FLUSHALL SYNC"), nil) },
	},
	{
		name: "script flush", within: anybody,
		inject: func(s *scene) (func() error, error) {
			return s.member().configure(commands("SCRIPT FLUSH SYNC"), nil)
		},
	},
	{
		// All keys, or those that end: then the server still passes for one that has
		// forgotten nothing.
		name: "evict", breaks: noEviction, forgets: true, shortest: 0.1, longest: 2, within: nobody,
		inject: func(s *scene) (func() error, error) {
			policy := []string{"allkeys-random", "volatile-random"}[s.rng.IntN(2)]
			m := s.member()
			heal, err := m.configureUntil(
				commands("CONFIG SET maxmemory-policy "+policy+" maxmemory 1"),
				commands("CONFIG SET maxmemory 0 maxmemory-policy noeviction"),
				func() bool {
					info, err := m.ask(askTimeout, "INFO", "keyspace")
					keys := field(info, "db0")
					return err == nil && (keys == "" || strings.Contains(keys, "expires=0"))
				})
			// The leases are gone, and there are no new ones: every write is refused.
			s.note("evict", s.node, noEviction)
			return heal, err
		},
	},
}

// configureUntil is configure with a wait until holds reports that the server is as
// the change wants it.
func (m *member) configureUntil(change, undo [][]string, holds func() bool) (heal func() error, err error) {
	heal, err = m.configure(change, undo)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(patientTimeout); time.Now().Before(end); time.Sleep(pollInterval) {
		if holds() {
			return heal, nil
		}
	}
	if err := heal(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: not within %v", errNotNow, patientTimeout)
}
