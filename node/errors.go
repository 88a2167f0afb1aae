package node

import "errors"

// What an engine marks its errors with, for errors.Is.
var (
	// ErrMisconfigured marks the error of a node that will not work until its configuration, or the
	// client's, is changed. Examples are a wrong password, a replica, an evicting maxmemory policy.
	// Waiting does not help, so Acquire does not wait for a quorum that such nodes deny.
	ErrMisconfigured = errors.New("misconfigured")

	// ErrInvalid marks a request, a URL or another argument that cannot be used.
	// Nothing was done.
	ErrInvalid = errors.New("fenlock: invalid argument")
)

// ErrNotSent marks the error of a request that was certainly not carried out and never will be. It
// was not sent, or the store says that it did nothing. Nothing of it is left there, so that an
// acquire needs no release. An error without it says nothing.
var ErrNotSent = errors.New("not sent")

// NotSent marks an error with ErrNotSent. Its text stays. NotSent(nil) is nil.
func NotSent(err error) error {
	if err == nil {
		return nil
	}
	return notSent{err}
}

type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

func (e notSent) Is(target error) bool { return target == ErrNotSent }

// Permanent reports whether a node's error is one that waiting does not mend.
func Permanent(err error) bool {
	return errors.Is(err, ErrMisconfigured) || errors.Is(err, ErrInvalid)
}
