//go:build !race

package core_test

// raceEnabled reduces the exhaustive check, see race_test.go.
const raceEnabled = false
