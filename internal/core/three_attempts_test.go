//go:build campaign

package core_test

import (
	"os"
	"testing"
	"time"
)

// maxAttempts is how many attempts a state of the search has room for.
const maxAttempts = 3

// TestThreeAttempts goes as far as the time in FENLOCK_SEARCH_TIME (default 3m
// per search) allows, breadth first: all states up to some number of steps.
// About 60 bytes of memory go into each state, and more into those still to be
// expanded.
//
//	FENLOCK_SEARCH_TIME=10m go test -tags campaign -run ThreeAttempts -timeout 1h -v ./internal/core
func TestThreeAttempts(t *testing.T) {
	limit := 3 * time.Minute
	if text := os.Getenv("FENLOCK_SEARCH_TIME"); text != "" {
		var err error
		if limit, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	for name, m := range map[string]model{
		"acquire":           {attempts: 3, proposals: []uint8{1}},
		"acquire in turn":   {attempts: 3, proposals: []uint8{1}, inTurn: true},
		"extend, in turn":   {attempts: 3, proposals: []uint8{1}, rounds: 1, inTurn: true},
		"lose memory, both": {attempts: 3, proposals: []uint8{1}, losses: 2, inTurn: true},
	} {
		t.Run(name, func(t *testing.T) { explore(t, &m, time.Now().Add(limit)) })
	}
}
