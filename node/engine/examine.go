package engine

import (
	"time"

	"github.com/fenlock/fenlock/node"
)

// FirstAnswer is how long a store may take to answer first when it is examined. After that it is
// said why it does not.
const FirstAnswer = 3 * time.Second

// trips is how often a store is read to find the shortest time that takes.
const trips = 3

// MeasureTrips reads a store a few times, and notes in an examination how long that takes at least.
// If read returns what the store's clock showed, the clock of the fastest read is noted too. Zero
// is no clock. The error is that of read.
func MeasureTrips(e *node.Examination, read func() (clock time.Time, err error)) error {
	for range trips {
		before := time.Now()
		clock, err := read()
		if err != nil {
			return err
		}
		trip := time.Since(before)
		if e.RoundTrip > 0 && trip >= e.RoundTrip {
			continue
		}
		if e.RoundTrip = trip; !clock.IsZero() {
			e.Clock = node.ClockReading{Store: clock, Here: before.Add(trip / 2)}
		}
	}
	return nil
}
