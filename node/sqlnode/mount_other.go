//go:build !linux

package sqlnode

// isMountPoint is documented in mount_linux.go. Elsewhere a file cannot be mounted by
// itself, or it cannot be told.
func isMountPoint(string) bool { return false }
