package sqlnode

import (
	"time"

	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/node/clock/boot"
)

// machineClock returns the clock that all processes of this machine share, and
// the id of the boot that it counts from. There is no other clock to fall
// back to: a process that used another one would take living leases for void.
func machineClock() (now func() time.Duration, id string, err error) {
	id, err = boot.ID()
	return clock.Now, id, err
}
