package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

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

// Explain puts into an error, once, what a person can do about it. Without advice, "", it does so
// for a server that was not connected to. If lasting, waiting does not help, and the error matches
// node.ErrMisconfigured. What a server has written can be printed then: it is not long, and has no
// control characters. nil stays nil.
func Explain(err error, advice string, lasting bool) error {
	if err == nil {
		return nil
	}
	err = printable(err)
	if advice == "" {
		advice = unreached(err.Error())
	}
	if !strings.Contains(err.Error(), advice) {
		err = fmt.Errorf("%w (%s)", err, advice)
	}
	if lasting && !errors.Is(err, node.ErrMisconfigured) {
		err = fmt.Errorf("%w: %w", node.ErrMisconfigured, err)
	}
	return err
}

// mostText is how much of an error's text is repeated, in bytes.
const mostText = 4 << 10

// printed is an error with a text that can be printed.
type printed struct {
	error
	text string
}

func (e printed) Error() string { return e.text }
func (e printed) Unwrap() error { return e.error }

func printable(err error) error {
	control := func(r rune) bool { return r != '\n' && r < ' ' || 0x7f <= r && r < 0xa0 }
	text := err.Error()
	if len(text) > mostText {
		text = strings.ToValidUTF8(text[:mostText], "") + " ..."
	} else if !strings.ContainsFunc(text, control) {
		return err
	}
	return printed{err, strings.Map(func(r rune) rune {
		if control(r) {
			return ' '
		}
		return r
	}, text)}
}

// unreached says what a person can do about a server that was not connected to, "" for any other
// error. It goes by the words of the system: some client libraries keep no more of its errors.
func unreached(text string) string {
	for _, e := range []struct{ says, advice string }{
		{"connection refused", "nothing listens there: is the port right, and the server up?"},
		{"no such host", "correct the name of the host"},
		{"network is unreachable", "correct the address, or look at the network"},
		{"no route to host", "is the host up, and the address right?"},
	} {
		if strings.Contains(text, e.says) {
			return e.advice
		}
	}
	return ""
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
