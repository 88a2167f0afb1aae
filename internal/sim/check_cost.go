package sim

import (
	"fmt"
	"time"
)

// tooOften is asked when an acquisition ends: waiting must not be polling. Where
// nothing goes wrong a waiter tries when it comes, again once it can be notified,
// when it is notified, and when leases should have ended, which is a third of the
// shortest TTL later at least.
func (a *acquisition) tooOften() (violation string) {
	w := a.c.w
	few, pause := 20, 5*time.Millisecond
	if w.profile.calm() && w.profile.noQueues == 0 {
		few, pause = 5, 50*time.Millisecond
	}
	if waited := w.now - a.came; a.tries > few+int(waited/pause) {
		return fmt.Sprintf("client %d has tried %d times in %v to acquire name %d", a.c.id, a.tries, waited, a.name)
	}
	return ""
}
