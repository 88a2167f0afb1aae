//go:build linux

package worker

import (
	"context"

	"github.com/fenlock/fenlock/tests/faults/library"
)

// use is what a client does with locks of some kind.
type use struct {
	// round is one round, which ends soon when ctx does.
	round func(u *user, ctx context.Context)
	// last acquires each name once, when nothing fails any more.
	last func(u *user)
	// beside goes on beside the rounds until ctx is done; nil: nothing does.
	beside func(u *user, ctx context.Context)
}

// uses are by the name that package library has for them; "" is for plain locks.
var uses = map[string]use{
	"":                {round: (*user).round, last: (*user).everyName},
	library.Exclusive: {round: (*user).round, last: (*user).everyName},
	library.Shared:    {round: (*user).shareRound, last: (*user).everyNameShared},
	library.Several:   {round: (*user).severalRound, last: (*user).allNames},
	library.Slots:     {round: (*user).slotRound, last: (*user).everyName},
	library.Lead:      {round: (*user).leadRound, last: (*user).everyName, beside: (*user).follow},
}

// full is the library, which has all kinds of locks, or the client would not be told to use them.
func (u *user) full() library.Full { return u.locker.(library.Full) }
