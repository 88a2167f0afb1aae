package respnode

import (
	"context"
	"fmt"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// Guard writes keys on a Valkey or Redis server and refuses the write of a
// holder that is not the newest. The server is where the data is; it
// need not be a node. Safe for concurrent use.
//
// The largest token seen for a key is kept in a second key, without a time to live. Its name is the
// key with "fenlock-token:" before it. To remove it lets every token pass again. Writes to the key
// that do not go through a Guard are not checked. A server that evicts the second key, or is set
// back to an old snapshot, forgets tokens too. A second key that holds no token refuses every
// write.
type Guard struct {
	// Refused is told of each write that is refused for its token, before Set returns; ctx is
	// Set's. It may be nil. It is set before the Guard is used, and must be safe for concurrent
	// use.
	Refused func(ctx context.Context, e *fence.StaleError)

	errors command.Errors
	link   resp.Link
}

// NewGuard returns a guard for the keys of the server at a link, which it closes when it
// is closed. Of the server, it needs the name and the secrets.
func NewGuard(link resp.Link, s Server) *Guard {
	return &Guard{errors: command.Errors{Name: s.Name, Secrets: s.Secrets}, link: link}
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
	reply, err := g.run(ctx, key, record, token.String(), value)
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

// run runs the script. For a node it would be wrong to load one that is not there; here
// nothing depends on who did.
func (g *Guard) run(ctx context.Context, args ...string) (resp.Reply, error) {
	script := command.Guard
	reply, err := g.link.Do(ctx, append(resp.Command{"EVALSHA", script.SHA(), "2"}, args...))
	if command.IsNoScript(err) {
		reply, err = g.link.Do(ctx, append(resp.Command{"EVAL", script.Text(), "2"}, args...))
	}
	return reply, err
}

// Close closes the link.
func (g *Guard) Close() { g.link.Close() }
