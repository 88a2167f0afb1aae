package pipeline

import "time"

// distance is how far the server is: the round trip of a batch of a few requests, the shortest of
// the latest. How long a large one takes says more of the server's work, or of the machine's. The
// zero distance is far. Another connection may lead to another server.
type distance struct {
	shortest time.Duration
	dial     uint64 // the connection
}

const (
	// nearby is the round trip up to which it costs little to wait for that of others.
	nearby = 300 * time.Microsecond
	// fewSent is how many requests say how far the server is.
	fewSent = 2
)

// near reports whether the server is.
func (d *distance) near() bool { return d.shortest != 0 && d.shortest <= nearby }

// took takes the round trip of so many requests on a connection, 0 if there was none. A longer one
// makes the shortest longer, slowly.
func (d *distance) took(dial uint64, requests int, t time.Duration) {
	if t != 0 && dial != d.dial {
		*d = distance{dial: dial}
	}
	switch {
	case t == 0:
	case d.shortest == 0 || t < d.shortest:
		d.shortest = t
	case requests <= fewSent:
		d.shortest = min(t, d.shortest+d.shortest/64+1)
	}
}
