package fenlocksingleflight

import (
	"errors"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
)

// comesWithValue are the errors that a value is good in spite of.
var comesWithValue = []error{fenlock.ErrLost, fenlock.ErrMaxHold, fence.ErrStale}

// valueless returns an error that there is no value with. It matches what it matched, but for
// those. A load that has lost its lock returns that, or Do joins it. A caller that goes by it would
// take nothing for a value.
func valueless(err error) error {
	if !comes(err) {
		return err
	}
	return valuelessError{err}
}

func comes(err error) bool {
	for _, with := range comesWithValue {
		if errors.Is(err, with) {
			return true
		}
	}
	return false
}

// valuelessError has no Unwrap, since errors.Is would go on there.
type valuelessError struct{ err error }

func (e valuelessError) Error() string { return e.err.Error() }

func (e valuelessError) Is(target error) bool { return !comes(target) && errors.Is(e.err, target) }

func (e valuelessError) As(target any) bool { return errors.As(e.err, target) }
