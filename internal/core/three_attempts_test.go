//go:build three

package core_test

import (
	"os"
	"runtime"
	"testing"
	"time"
)

// maxAttempts is how many attempts a state of the search has room for.
const maxAttempts = 3

// TestThreeAttempts goes as far as the time in FENLOCK_SEARCH_TIME (default 3m
// per search) allows, or to the end. About 12 bytes of memory go into each state.
//
//	FENLOCK_SEARCH_TIME=10m go test -tags three -run ThreeAttempts -timeout 0 -v ./internal/core
func TestThreeAttempts(t *testing.T) {
	limit := 3 * time.Minute
	if text := os.Getenv("FENLOCK_SEARCH_TIME"); text != "" {
		var err error
		if limit, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []struct {
		name  string
		model model
	}{
		{"acquire in turn", model{attempts: 3, proposals: []uint8{1}, reserves: true, inTurn: true}},
		{"lose memory in turn", model{attempts: 3, proposals: []uint8{1}, losses: 1, reserves: true, inTurn: true}},
		{"extend in turn", model{attempts: 3, proposals: []uint8{1}, rounds: 1, reserves: true, inTurn: true}},
		{"another name moves a register, in turn",
			model{attempts: 3, proposals: []uint8{1, 2}, bumps: 1, reserves: true, inTurn: true}},
		{"acquire at the same time", model{attempts: 3, proposals: []uint8{1}, reserves: true}},
	} {
		t.Run(s.name, func(t *testing.T) {
			r := survey(&s.model, runtime.GOMAXPROCS(0), time.Now().Add(limit))
			t.Log(r)
			if r.Violation != "" {
				t.Fatalf("%s; TestEveryInterleaving with this model says by which path", r.Violation)
			}
		})
	}
}
