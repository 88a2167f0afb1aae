// Package clock reads a clock that never steps and that goes on while the
// machine is suspended. A lease ends on the server while a laptop sleeps or a
// virtual machine is suspended, so its holder must count that time too; Go's
// own monotonic clock does not.
package clock

import (
	"syscall"
	"time"
	"unsafe"
)

const clockBoottime = 7 // CLOCK_BOOTTIME, clock_gettime(2)

// Now returns the time since the machine was booted, suspended time included.
// On systems other than Linux it is the time since the program started, on
// Go's monotonic clock, which may not count suspended time.
func Now() time.Duration {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		// The clock exists since Linux 2.6.39, and the arguments are constant.
		panic("fenlock: clock_gettime(CLOCK_BOOTTIME): " + errno.Error())
	}
	return time.Duration(ts.Nano())
}
