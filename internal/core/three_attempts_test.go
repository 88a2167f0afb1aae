//go:build three

package core_test

import (
	"testing"
	"time"
)

// maxAttempts is how many attempts a state of the search has room for.
const maxAttempts = 3

// TestThreeAttempts visits what three attempts on three nodes can do, with the states that make a
// difference: see grouped. About 12 bytes of memory go into each.
//
//	go test -tags three -run ThreeAttempts -timeout 0 -v ./internal/core
func TestThreeAttempts(t *testing.T) {
	for _, s := range []exploration{
		{"at the same time", model{proposals: []uint8{1}, reserves: true}, 7_700_000},
		{"one loss of memory, in turn", model{proposals: []uint8{1}, losses: 1, reserves: true, inTurn: true}, 39_000},
		{"registers move, in turn", model{proposals: []uint8{1, 2}, bumps: 2, reserves: true, inTurn: true}, 338_000},
		{"an extension each, in turn", model{proposals: []uint8{1}, rounds: 1, reserves: true, inTurn: true}, 8_700_000},
	} {
		t.Run(s.name, func(t *testing.T) {
			s.model.attempts, s.model.grouped = 3, true
			if r := explore(t, &s.model, time.Time{}); r.States < s.atLeast {
				t.Errorf("only %d states, expected %d or more", r.States, s.atLeast)
			}
		})
	}
}
