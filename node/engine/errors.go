package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/fenlock/fenlock/node"
)

// ErrClosed is the error of what is asked of a node after its Close.
var ErrClosed = errors.New("the node is closed")

// Invalidf returns an error about an argument. It matches node.ErrInvalid.
func Invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", node.ErrInvalid, fmt.Errorf(format, args...))
}

// Misconfiguredf returns an error that waiting does not mend. It matches
// node.ErrMisconfigured.
func Misconfiguredf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", node.ErrMisconfigured, fmt.Errorf(format, args...))
}

// Named puts into an error which node it is of, and what was asked of it. nil stays nil.
func Named(name, op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", name, op, err)
}

// Explain puts into an error what a person can do about it, "" for nothing. If lasting, waiting
// does not help, and the error matches node.ErrMisconfigured.
func Explain(err error, advice string, lasting bool) error {
	if advice != "" {
		err = fmt.Errorf("%w (%s)", err, advice)
	}
	if lasting && !errors.Is(err, node.ErrMisconfigured) {
		err = fmt.Errorf("%w: %w", node.ErrMisconfigured, err)
	}
	return err
}

// Contextual has the error of a request match that of a context which is done, whatever a client
// library has made of the interruption. The context is the request's own, or its node's Lifetime,
// whose error is ErrClosed. What was not sent stays marked so.
func Contextual(err error, contexts ...context.Context) error {
	for _, ctx := range contexts {
		cause := ctx.Err()
		if cause != nil && errors.Is(context.Cause(ctx), ErrClosed) {
			cause = ErrClosed
		}
		if err != nil && cause != nil && !errors.Is(err, cause) {
			return fmt.Errorf("%w: %w", cause, err)
		}
	}
	return err
}
