package admission

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rebuild"
	"github.com/fenlock/fenlock/node/valkeynode/internal/command"
)

// asker is what admission asks a server, and tells it.
type asker struct {
	link Link
	keys *command.Keys
}

// gather asks for everything that a verdict needs.
func (a *asker) gather(ctx context.Context) (command.Facts, error) {
	replies, err := a.link.DoMulti(ctx, a.keys.Gather(a.link.B(), rand.Text())...)
	if err != nil {
		return command.Facts{}, err
	}
	return command.ParseFacts(replies)
}

// notice returns how long ago it was first noticed that the server lost its memory.
func (a *asker) notice(ctx context.Context, replID string) (since time.Duration, err error) {
	reply, err := a.link.Do(ctx, a.keys.Notice(a.link.B(), replID))
	if err != nil {
		return 0, err
	}
	return command.ParseNotice(reply)
}

// admit raises the registers, marks the server as admitted, and loads the scripts.
func (a *asker) admit(ctx context.Context, f command.Facts, maxTTL time.Duration, r rebuild.Result) error {
	reply, err := a.link.Do(ctx, a.keys.Admit(a.link.B(), f, maxTTL, r.Empty, r.Tokens))
	if err == nil {
		err = command.ParseAdmit(reply)
	}
	if err != nil {
		return err
	}
	// Should the server restart in between, the scripts are loaded beside no mark
	// or an old one, and refuse.
	for _, s := range command.Operations {
		reply, err := a.link.Do(ctx, command.Load(a.link.B(), s))
		if err == nil {
			err = command.ParseLoad(s, reply)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// registers returns all registers, and whether they count.
func (a *asker) registers(ctx context.Context) (r node.Registers, err error) {
	replies, err := a.link.DoMulti(ctx, a.keys.Registers(a.link.B())...)
	if err != nil {
		return r, err
	}
	f, tokens, err := a.keys.ParseRegisters(replies)
	if err != nil {
		return r, err
	}
	return node.Registers{Server: f.RunID, Memory: f.ReplID, Admitted: marked(f), Empty: f.Empty, MaxTTL: f.MaxTTL, Tokens: tokens}, nil
}
