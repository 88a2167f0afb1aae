package zknode

import (
	"errors"
	"fmt"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// removed is of a znode that is there as long as the record is.
func (l location) removed(path string) error {
	return fmt.Errorf("%w: a person has removed %s: stop all clients, and remove %s with all that is below it",
		node.ErrMisconfigured, path, l.root)
}

// errNothing is of an ensemble that was never used.
var errNothing = errors.New("nothing is there yet: the node is not admitted")

// lost reports whether a connection was lost while something was under way.
func lost(err error) bool {
	var l *session.LostError
	return errors.As(err, &l)
}

// isUndone reports whether an error says that nothing was done, and never will be.
func isUndone(err error) bool {
	return errors.Is(err, node.ErrNotSent) || errors.Is(err, cas.ErrConflict)
}

// unread returns why one of some znodes could not be read, nil if each was, or is not there.
func (l location) unread(replies []wire.Reply) error {
	for _, reply := range replies {
		if reply.Err != wire.OK && reply.Err != wire.NoNode {
			return l.describe(reply.Err)
		}
	}
	return nil
}

// refused reports whether a code means that nothing was carried out.
func refused(c wire.Code) bool {
	switch c {
	case wire.NoAuth, wire.InvalidACL, wire.AuthFailed, wire.SessionExpired, wire.SessionMoved,
		wire.NotReadOnly, wire.LocalSession, wire.QuotaExceeded, wire.Throttled, wire.BadArguments, wire.MarshallingError,
		wire.NotEmpty:
		return true
	}
	return false
}

// describe says what can be done about what a server answers. What waiting does not mend
// matches node.ErrMisconfigured.
func (l location) describe(code wire.Code) error {
	who := "without a user (the URL names none)"
	if l.digest != nil {
		who = "as the URL's user"
	}
	switch code {
	case wire.NoAuth:
		return fmt.Errorf(
			"%w: %w for what is below %s, %s: give all clients the user and the password that made the znodes, or another root", node.ErrMisconfigured, code, l.root, who)
	case wire.InvalidACL, wire.AuthFailed:
		return fmt.Errorf("%w: %w, %s: does the ensemble have the authentication provider digest?", node.ErrMisconfigured,
			code, who)
	case wire.QuotaExceeded:
		return fmt.Errorf("%w: %w: raise that of %s, or of what is above it (setquota)", node.ErrMisconfigured, code, l.root)
	case wire.NotReadOnly:
		return fmt.Errorf("%w: it is cut off from the others, and takes no writes", code)
	case wire.SessionExpired:
		return fmt.Errorf("%w: the servers have not heard of this client for its timeout; the leases in it are gone, and a new session is begun", code)
	}
	return code
}
