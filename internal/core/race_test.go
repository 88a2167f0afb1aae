//go:build race

package core_test

// raceEnabled reduces the exhaustive check: the race detector makes it about
// ten times slower.
const raceEnabled = true
