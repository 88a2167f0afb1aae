//go:build darwin || freebsd

package sqlnode

import (
	"strings"

	"golang.org/x/sys/unix"
)

// filesystem is documented in space_linux.go. Here all kinds have names.
func filesystem(path string) (kind string, space uint64, known bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return "", 0, false
	}
	return strings.ToLower(unix.ByteSliceToString(s.Fstypename[:])), uint64(max(s.Bavail, 0)) * uint64(s.Bsize), true
}
