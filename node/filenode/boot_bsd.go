//go:build darwin || freebsd

package filenode

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

// machineClock is documented in boot_linux.go. Here it is the wall clock: a step of it ends leases
// early or late.
func machineClock() (now func() time.Duration, name string, err error) {
	variable := "kern.bootsessionuuid"
	if runtime.GOOS == "freebsd" {
		variable = "kern.boot_id"
	}
	if name, err = syscall.Sysctl(variable); err != nil || name == "" {
		return nil, "", fmt.Errorf("the name of this boot is needed (sysctl %s): %w", variable, err)
	}
	return func() time.Duration { return time.Duration(time.Now().UnixNano()) }, name, nil
}

// device is not asked here: a file has another one behind a nullfs.
func device(*syscall.Stat_t) uint64 { return 0 }

// born is documented in boot_linux.go.
func born(*os.File) uint64 { return 0 }

// reserve is documented in boot_linux.go. Here a full disk can end a lock.
func reserve(uintptr, int64, int64) error { return nil }
