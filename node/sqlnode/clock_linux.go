package sqlnode

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node/clock"
)

const bootIDFile = "/proc/sys/kernel/random/boot_id"

// machineClock returns the clock that all processes of this machine share, and
// the id of the boot that it counts from. There is no other clock to fall
// back to: a process that used another one would take living leases for void.
func machineClock() (now func() time.Duration, boot string, err error) {
	text, err := os.ReadFile(bootIDFile)
	if err != nil {
		return nil, "", fmt.Errorf("the kernel's boot id is needed to tell whether a lease is from this boot; is /proc mounted? %w", err)
	}
	if boot = strings.TrimSpace(string(text)); boot == "" {
		return nil, "", errors.New(bootIDFile + " is empty")
	}
	return clock.Now, boot, nil
}
