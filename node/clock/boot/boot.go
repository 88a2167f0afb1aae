// Package boot names the boot of the machine from which package clock counts. A lease that is
// stored with a time of that clock has to carry the name. After a boot the clock begins anew, and a
// lease from before would seem to last for as long as the machine had been up. Its holder ended
// with that boot.
package boot

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
)

const file = "/proc/sys/kernel/random/boot_id"

// ErrUnknown is in the error of ID on a system other than Linux. There clock.Now counts from the
// start of the program, so no other process can read times of it.
var ErrUnknown = errors.New("the boot of this machine has no name")

// ID returns the name of this boot, the same for all processes of the machine and of its
// containers, until it is booted again. The error says what is missing; nothing takes the place of
// the name.
func ID() (string, error) {
	if runtime.GOOS != "linux" {
		return "", fmt.Errorf("%w: %s has none that fenlock reads", ErrUnknown, runtime.GOOS)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf(
			"the kernel's boot id is needed to tell whether a lease is from this boot; is /proc mounted? %w", err)
	}
	id := strings.TrimSpace(string(text))
	if id == "" {
		return "", errors.New(file + " is empty")
	}
	return id, nil
}
