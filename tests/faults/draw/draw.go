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
