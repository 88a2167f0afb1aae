//go:build linux || darwin || freebsd

package watchdog

import (
	"os"
	"time"

	"github.com/fenlock/fenlock/node/clock"
)

// watchdog is the side of the link that asks.
type watchdog struct {
	link    Link
	orders  <-chan Order
	signals <-chan os.Signal

	question uint64
	asked    time.Duration // when the question was, by clock.Now
	open     bool          // it was not answered
}

// ask asks how long the lock is valid, and returns when it did.
func (w *watchdog) ask() time.Duration {
	w.question++
	w.open, w.asked = true, clock.Now()
	w.link.Report(News{Asks: w.question})
	return w.asked
}

// end returns the end of the validity by an answer, false if it is no answer to the
// last question.
func (w *watchdog) end(a *Answer) (time.Duration, bool) {
	if a.Asked != w.question || !w.open {
		return 0, false
	}
	w.open = false
	return w.asked + a.Left, true
}
