//go:build !linux

package sqlnode

import "time"

// machineClock is documented in clock_linux.go. Here it is the wall clock,
// which goes on through a reboot: leases do too.
func machineClock() (now func() time.Duration, boot string, err error) {
	return func() time.Duration { return time.Duration(time.Now().UnixNano()) }, "", nil
}
