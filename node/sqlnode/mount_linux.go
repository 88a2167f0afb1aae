package sqlnode

import "golang.org/x/sys/unix"

// isMountPoint reports whether something is mounted at the path itself, false if the
// kernel does not know (before 5.8).
func isMountPoint(path string) bool {
	var s unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, 0, 0, &s)
	return err == nil && s.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}
