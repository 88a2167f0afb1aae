//go:build linux || darwin || freebsd

package filenode

import "github.com/fenlock/fenlock/node/engine"

// gone is the error of a file that others do not find any more. It has none of their leases, and
// they have none of its.
type gone struct{ error }

func (g gone) Unwrap() error { return g.error }

// unreadable is the error of a file that has headers, and none that is complete.
type unreadable struct{ error }

func (u unreadable) Unwrap() error { return u.error }

// foreign is the error of a file that is none of fenlock's.
func foreign() error {
	return engine.Misconfiguredf("it is something else than a file of fenlock's; choose another path")
}

// damaged is the error of a file that a process of fenlock's would not leave behind.
func damaged(what string) error {
	return engine.Misconfiguredf("the file is damaged, cut off or was changed by hand: %s; when no lock is held, delete it (tokens then start again from the wall clock)", what)
}
