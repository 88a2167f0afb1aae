//go:build linux

package worker

import (
	"context"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/tests/history"
)

// slotRound is a round with one of the slots, each of which protects something of its own. The
// config's names are those of the slots of one name. One of eight takes a slot's lock by its name.
func (u *user) slotRound(ctx context.Context) {
	if u.rng.IntN(8) == 0 {
		u.round(ctx)
		return
	}
	if u.slot == nil {
		name, _, _ := strings.Cut(u.config.Names[0], "#")
		var err error
		if u.slot, err = u.full().Slots(name, len(u.config.Names)); err != nil {
			panic(err) // the runner has chosen nodes that cannot do this
		}
	}
	u.sleep(ctx, u.logUniform(100*time.Microsecond, 100*time.Millisecond))
	asked := int64(clock.Now())
	attempt, cancel := u.impatient(ctx, 3)
	number, lease, err := u.slot(attempt, u.rng.IntN(3) > 0)
	cancel()
	if err != nil {
		u.sleep(ctx, u.logUniform(time.Millisecond, 50*time.Millisecond))
		return
	}
	t := u.begin(u.config.Names[number])
	t.note(history.Event{At: asked, Kind: history.Acquire})
	t.got(lease, nil)
	t.hold(ctx, u.logUniform(u.config.Shortest, u.config.Longest))
	late := t.lateWrite()
	t.release(u.impatient(context.Background(), 6))
	late()
}
