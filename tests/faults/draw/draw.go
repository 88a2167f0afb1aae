// Package draw draws random numbers as this harness wants them. A fault or a pause
// has to be tried in every order of magnitude, not only in the largest one.
package draw

import (
	"math"
	"math/rand/v2"
	"time"
)

// LogUniform draws a duration whose logarithm is spread evenly, so that every
// order of magnitude comes up as often. Both bounds are more than 0.
func LogUniform(rng *rand.Rand, low, high time.Duration) time.Duration {
	return time.Duration(float64(low) * math.Exp(rng.Float64()*math.Log(float64(high)/float64(low))))
}
