//go:build linux

package worker

import (
	"time"

	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/tests/history"
)

// watchAbsence notes when this process did nothing for a while: it was stopped, or others
// had the processors. It never returns.
func watchAbsence(client int, ttl time.Duration, log *eventLog) {
	for last := clock.Now(); ; {
		time.Sleep(ttl / 100)
		now := clock.Now()
		if now-last > ttl/10 {
			log.write(history.Event{At: int64(last), Kind: history.Absent, Client: client, Until: int64(now)})
		}
		last = now
	}
}
