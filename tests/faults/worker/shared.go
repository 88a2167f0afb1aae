//go:build linux

package worker

import (
	"context"

	"github.com/fenlock/fenlock/tests/faults/library"
	"github.com/fenlock/fenlock/tests/history"
)

// shareRound is round for a name that is shared: two of three come to read. Of those who write,
// some let readers in after a while, and read on themselves.
func (u *user) shareRound(ctx context.Context) {
	u.roundOf(ctx, u.rng.IntN(3) > 0, func(t *tenure) {
		downgrades := !t.shared && u.rng.IntN(3) == 0
		t.hold(ctx, u.logUniform(u.config.Shortest, u.config.Longest))
		if d, can := t.lease.(library.Downgrader); downgrades && can && !t.spoilt {
			t.downgrade(ctx, d)
			t.hold(ctx, u.logUniform(u.config.Shortest, u.config.Longest))
		}
	})
}

// downgrade lets others in. From the call on they may be there, whatever comes of it.
func (t *tenure) downgrade(ctx context.Context, d library.Downgrader) {
	ctx, cancel := t.impatient(ctx, 3)
	defer cancel()
	t.shared = true
	t.note(history.Event{Kind: history.Downgrade})
	t.noteError(history.Downgraded, d.Downgrade(ctx))
}

// everyNameShared is everyName where every second one shares it.
func (u *user) everyNameShared() {
	for _, name := range u.shuffled() {
		u.once(name, u.rng.IntN(2) == 0)
	}
}
