//go:build !linux && !darwin && !freebsd

package sqlnode

// filesystem is documented in space_linux.go. Elsewhere nothing is known.
func filesystem(string) (kind string, space uint64, known bool) { return "", 0, false }
