package filenode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/node/clock/boot"
)

// machineClock returns the clock that all processes of this machine share, and the name of the boot
// that it counts from.
func machineClock() (now func() time.Duration, name string, err error) {
	if name, err = boot.ID(); err != nil {
		return nil, "", err
	}
	ahead, err := offset()
	return func() time.Duration { return clock.Now() - ahead }, name, err
}

// initial is the machine's own time namespace (PROC_TIME_INIT_INO in the kernel's source).
const initial = "time:[4026531834]"

// offset returns how far the clock is ahead of the machine's in this time namespace
// (time_namespaces(7)). What the kernel tells is of the processes that this one starts.
func offset() (time.Duration, error) {
	own, err := os.Readlink("/proc/self/ns/time")
	if own == initial {
		return 0, nil
	}
	if of, err2 := os.Readlink("/proc/self/ns/time_for_children"); err == nil && err2 == nil && own != of {
		return 0, errors.New("this process has unshared its time namespace, and is in the one before")
	}
	text, err := os.ReadFile("/proc/self/timens_offsets")
	if errors.Is(err, fs.ErrNotExist) { // before Linux 5.6
		return 0, nil
	}
	for line := range strings.Lines(string(text)) {
		var seconds, nanoseconds int64
		if n, _ := fmt.Sscanf(line, "boottime %d %d", &seconds, &nanoseconds); n == 2 {
			return time.Duration(seconds)*time.Second + time.Duration(nanoseconds), nil
		}
	}
	return 0, err
}

// device returns the device that a file is on.
func device(s *syscall.Stat_t) uint64 { return uint64(s.Dev) }

// statx are the numbers of statx(2), which package syscall does not have.
var statx = map[string]uintptr{"amd64": 332, "386": 383, "arm": 397, "arm64": 291, "loong64": 291, "riscv64": 291,
	"ppc64": 383, "ppc64le": 383, "s390x": 379, "mips": 4366, "mipsle": 4366, "mips64": 5326, "mips64le": 5326}

// born returns when a file was made, in ns since 1970, 0 where nothing tells.
func born(f *os.File) uint64 {
	const emptyPath, wantBorn, at = 0x1000, 0x800, 80 // AT_EMPTY_PATH, STATX_BTIME, stx_btime
	number, known := statx[runtime.GOARCH]
	var path byte
	var s [256]byte
	if !known {
		return 0
	}
	_, _, errno := syscall.Syscall6(number, f.Fd(), uintptr(unsafe.Pointer(&path)), emptyPath, wantBorn,
		uintptr(unsafe.Pointer(&s)), 0)
	if errno != 0 || binary.NativeEndian.Uint32(s[:])&wantBorn == 0 {
		return 0
	}
	return binary.NativeEndian.Uint64(s[at:])*1e9 + uint64(binary.NativeEndian.Uint32(s[at+8:]))
}

// reserve has room on the disk for a part of the file, where the file system can tell.
func reserve(fd uintptr, at, size int64) error {
	err := syscall.Fallocate(int(fd), 0, at, size)
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return nil
	}
	return err
}
