package transport

import (
	"fmt"

	"github.com/fenlock/fenlock/node"
)

// misconfigured returns an error that waiting does not mend.
func misconfigured(format string, args ...any) error {
	return fmt.Errorf("%w: %s", node.ErrMisconfigured, fmt.Sprintf(format, args...))
}

// invalid returns an error about an argument.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", node.ErrInvalid, fmt.Sprintf(format, args...))
}
