//go:build darwin || freebsd

package filenode

import (
	"strings"
	"syscall"
)

// filesystem is documented in space_linux.go. Here all kinds have names.
func filesystem(path string) (kind string, space uint64, known bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return "", 0, false
	}
	var name strings.Builder
	for _, c := range s.Fstypename {
		if c == 0 {
			break
		}
		name.WriteByte(byte(c))
	}
	return strings.ToLower(name.String()), uint64(max(s.Bavail, 0)) * uint64(s.Bsize), true
}
