package valkeynode

import (
	"context"
	"fmt"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/valkeynode/internal/command"
	"github.com/fenlock/fenlock/node/valkeynode/internal/transport"
	"github.com/valkey-io/valkey-go"
)

// Guard writes keys on a Valkey or Redis server and refuses the write of a
// holder that is not the newest. The server is where the data is; it
// need not be a node. Safe for concurrent use.
//
// The largest token seen for a key is kept in a second key, the first one with
// "fenlock-token:" before it and without a time to live: removing it lets every
// token pass again. Writes to the key that do not go through a Guard are not
// checked. A server that evicts the second key, or is set back to an old snapshot,
// forgets tokens too. A second key that holds no token refuses every write.
type Guard struct {
	// Refused is told of each write that is refused for its token, before Set returns; ctx
	// is Set's. Nil: nobody is. It is set before the Guard is used, and must be safe for
	// concurrent use.
	Refused func(ctx context.Context, e *fence.StaleError)

	errors command.Errors
	conn   *transport.Conn
	script *valkey.Lua
}

// OpenGuard returns a guard for the keys of the server at a URL, which has the
// form of Open's. It connects when it is first used.
func OpenGuard(rawURL string, with ...Option) (*Guard, error) {
	o := apply(with)
	if o.prefixSet {
		return nil, command.Invalid("a guard has no prefix: it writes the keys that it is told")
	}
	_, conn, errors, err := o.connect(rawURL)
	if err != nil {
		return nil, err
	}
	// The library falls back from EVALSHA to EVAL. For a node that would be
	// wrong; here nothing depends on who loaded the script.
	return &Guard{errors: errors, conn: conn, script: valkey.NewLuaScript(command.Guard)}, nil
}

// Set sets key to value if token is at least the largest token that the key was
// set with, and remembers it. Otherwise the error is a *fence.StaleError and
// nothing is written. Check and write are one step on the server.
//
// Any other error leaves it open whether the value was written, unless it
// matches fence.ErrInvalidToken, node.ErrInvalid (the key is one of fenlock's own) or
// node.ErrMisconfigured; calling Set again with the same token is safe.
func (g *Guard) Set(ctx context.Context, key, value string, token fence.Token) error {
	if !token.Valid() {
		return fmt.Errorf("%w: %d", fence.ErrInvalidToken, uint64(token))
	}
	record, err := command.GuardKey(key)
	if err != nil {
		return g.errors.Fail(err)
	}
	reply, err := g.conn.Exec(ctx, g.script, []string{key, record}, []string{token.String(), value})
	if err != nil {
		return g.errors.Fail(command.DescribeGuard(err, record))
	}
	newest, err := reply.AsInt64()
	if err == nil && newest != 0 {
		stale := &fence.StaleError{Resource: key, Token: token, Newest: fence.Token(newest)}
		if g.Refused != nil {
			g.Refused(ctx, stale)
		}
		return stale
	}
	return g.errors.Fail(err)
}

// Close closes the connection.
func (g *Guard) Close() { g.conn.Close() }
