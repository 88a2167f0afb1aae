package zknode

import (
	"testing"

	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// In which life a note was written, by the epoch and by the sessions.
func TestLifeOfANote(t *testing.T) {
	const first, second = 0x0100_0a2b_0000_0000, 0x0200_0a2b_0000_0000 // sessions of the servers 1 and 2
	for _, c := range []struct {
		own, writer int64
		resumed     bool
		epoch, now  int64
		want        life
	}{
		{own: first + 9, writer: first, want: thisLife},
		{own: first, writer: first + 9, want: thisLife},
		{own: first + 300<<16, writer: first, want: earlierLife}, // restarted after 300 ms
		{own: first, writer: first + 300<<16, want: earlierLife}, // on another machine
		{own: first + 9, want: earlierLife},                      // the writer's session was of an earlier life
		{own: first + 9, writer: second, want: earlierLife},      // an ensemble's data, on a server that is alone
		{own: first + 9, writer: first, resumed: true, want: someLife},
		{own: second + 9, writer: first, resumed: true, want: someLife},
		{own: second + 9, writer: first, want: thisLife}, // in an ensemble the epoch tells
		{own: second + 9, want: thisLife},
		{own: second + 9, writer: second, now: 1, want: earlierLife},
		{own: first + 9, writer: first, epoch: 3, now: 4, want: earlierLife},
		{own: first + 9, writer: first, epoch: 3, now: 4, resumed: true, want: earlierLife},
		{own: -0x0100_0000_0000_0000, writer: 1, want: thisLife}, // server 255
	} {
		note := wire.Reply{Stat: wire.Stat{Mzxid: c.epoch<<32 + 5}}
		if c.writer != 0 {
			note.Data = noteText(&session.Link{ID: c.writer, Fresh: true})
		}
		if got := lifeOf(&session.Link{ID: c.own, Fresh: !c.resumed}, note, c.now<<32+7); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
