package command

import "time"

// What is believed of a server. A lease of another program may end in millions of years, and every
// number must be one that can be computed with.
const (
	mostRemaining = 365 * 24 * time.Hour
	mostClock     = 1 << 52 // in microseconds, the year 2112
)

func bound(n, most int64) int64 { return min(max(n, 0), most) }
