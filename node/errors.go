package node

import "errors"

// What an engine marks its errors with, for errors.Is.
var (
	// ErrMisconfigured marks the error of a node that will not work until
	// somebody changes its configuration or the client's: a wrong password, a
	// replica, an evicting maxmemory policy. Waiting does not help, so Acquire
	// does not wait for a quorum that such nodes deny.
	ErrMisconfigured = errors.New("misconfigured")

	// ErrInvalid marks a request, a URL or another argument that cannot be used.
	// Nothing was done.
	ErrInvalid = errors.New("fenlock: invalid argument")
)

// Permanent reports whether a node's error is one that waiting does not mend.
func Permanent(err error) bool {
	return errors.Is(err, ErrMisconfigured) || errors.Is(err, ErrInvalid)
}
