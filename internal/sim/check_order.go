package sim

import (
	"fmt"
	"time"
)

// moment is the difference between two arrivals that the order of service has to
// respect, where the nodes' clocks agree: a client's clock may drift by half a
// percent in a minute and a half, and the second of them needs a few round trips
// until it is in all queues.
const moment = time.Second

// overtook is asked when a lock is acquired: does somebody wait who came long
// before? Nothing is promised but where nothing goes wrong, and of waiters of one
// process only the first one is in the queues.
func (l *lock) overtook() (violation string) {
	w, came := l.c.w, l.began
	if !w.profile.calm() || !w.profile.agree || w.profile.users > 1 || w.profile.noQueues > 0 {
		return ""
	}
	if l.a.waits {
		came = l.a.came
	}
	for _, c := range w.clients {
		for _, a := range c.waiting[l.name] {
			if a.lock != l && !a.gaveUp && a.came+moment < came {
				return fmt.Sprintf("attempt %d of client %d acquires name %d, for which client %d has waited %v longer",
					l.id, l.c.id, l.name, c.id, came-a.came)
			}
		}
	}
	return ""
}
