package cas

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/node/engine"
)

func newClock() *Clock { return NewClock(nil, nil, nil, nil) }

// lastly returns the record of a stripe with one lease, that a session has written.
func lastly(t *testing.T, at, ends time.Duration, session string) Timed {
	t.Helper()
	// as package cas encodes a lease: name, holder, end, origin and token
	b := []byte{1, 'a', 1, 'h'}
	for n := uint64(ends.Microseconds()); ; n >>= 7 {
		if n < 0x80 {
			b = append(b, byte(n))
			break
		}
		b = append(b, byte(n)|0x80)
	}
	z := Timed{Record: Record{Leases: append(b, 1, 0)}, Memory: "M", At: at, There: true}
	z.by = []Writer{{session, at}}
	if parts, err := z.Parts(); err != nil || len(parts) != 1 || parts[0].Ends != ends {
		t.Fatalf("%+v, %v", parts, err)
	}
	return z
}

// What may have been written is looked after, and is not taken for what is there. What was written
// before another client's write does not hide that.
func TestWrittenAndSeen(t *testing.T) {
	timer := func(Part, time.Duration, time.Duration) *time.Timer { return time.NewTimer(time.Hour) }
	s := newClock()
	mine := Part{"a", "h"}
	base := lastly(t, time.Second, time.Minute, "2")
	s.load(7, base)
	lost := lastly(t, 3*time.Second, time.Minute+3*time.Second, "1")
	changed := []Written{{mine, lost.by[0], time.Minute + 3*time.Second}}
	s.saved(7, lost, base, changed, false, timer)
	if clock, _, ask := s.load(7, base); clock <= base.At || ask[mine] != base.by[0] ||
		!s.has(7, mine, lost.At) {
		t.Errorf("after a write that may be lost: clock %v, ask %v, looked after %v", clock, ask, s.has(7, mine, lost.At))
	}
	other := lastly(t, 4*time.Second, time.Minute+4*time.Second, "3")
	s.load(7, other)
	if s.has(7, mine, lost.At) || s.Close() {
		t.Error("what another client has overwritten is looked after")
	}
	s.saved(7, lost, base, changed, true, timer)
	if seen := s.all[7]; seen.at != other.At || seen.parts[mine].Writer != other.by[0] || s.has(7, mine, lost.At) {
		t.Errorf("what came before is taken for the newest: %+v", seen)
	}
	s.saved(7, lastly(t, 5*time.Second, 2*time.Minute, "1"), other, changed, true, timer)
	if !s.Close() {
		t.Error("nothing is looked after, and the session would end")
	}
}

// An extension that was lost, and never carried out, must not have Close end the session of the
// lease that is there.
func TestLostExtensionAndClose(t *testing.T) {
	timer := func(Part, time.Duration, time.Duration) *time.Timer { return time.NewTimer(time.Hour) }
	s := newClock()
	mine := Part{"a", "h"}
	base := Timed{Memory: "M", At: time.Second}
	got := lastly(t, 2*time.Second, time.Minute, "1")
	s.load(7, base)
	s.saved(7, got, base, []Written{{mine, got.by[0], time.Minute}}, true, timer)
	lost := lastly(t, 3*time.Second, time.Minute+3*time.Second, "1")
	s.saved(7, lost, got, []Written{{mine, lost.by[0], time.Minute + 3*time.Second}}, false, timer)
	// another client writes about another name: the lease is there as it was
	z := got
	z.At = 4 * time.Second
	s.load(7, z)
	if !s.has(7, mine, lost.At) {
		t.Error("a lease is there that this client has written, and its client does not remove it")
	}
	if !s.Close() {
		t.Error("a lease is there that this client has written, and Close ends its session")
	}
	if clear(s.all[7].own); !s.Close() {
		t.Error("Close ends the session that has written a lease")
	}
}

// What may have made a stripe counts as little: another client may have made it with an earlier
// clock.
func TestAbsentStripeAndALostWrite(t *testing.T) {
	timer := func(Part, time.Duration, time.Duration) *time.Timer { return time.NewTimer(time.Hour) }
	s := newClock()
	mine := Part{"a", "h"}
	lost := lastly(t, time.Hour, time.Hour+time.Minute, "1")
	changed := []Written{{mine, lost.by[0], time.Hour + time.Minute}}
	s.saved(7, lost, Timed{Memory: "M", At: time.Hour}, changed, false, timer)
	made := lastly(t, time.Second, time.Minute, "2")
	if s.load(7, made); s.all[7].at != made.At || s.all[7].parts[mine] == nil {
		t.Errorf("%+v is seen, and not %+v", s.all[7], made)
	}
	// in another memory than the one that was seen, and carried out after all
	lost.Memory = "N"
	s.saved(7, lost, Timed{Memory: "N", At: time.Hour}, changed, false, timer)
	if s.load(7, lost); !s.has(7, mine, lost.At) {
		t.Error("a lease of another memory is not looked after")
	}
}

// A stripe begins far from where times end, whatever a client's wall clock shows.
func TestWhereAClockBegins(t *testing.T) {
	for year, want := range map[int]bool{-4000: false, 1969: false, 2026: true, 2300: false, 9999: false} {
		when := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		z := lastly(t, NewTimed(when).At, NewTimed(when).At+time.Minute, "1")
		got, err := ParseTimed(z.Text())
		if err != nil || got.At != z.At || (got.At.Microseconds() == when.UnixMicro()) != want {
			t.Errorf("in the year %d: %v, %v", year, z.At, err)
		}
	}
}

// A memory without its quotes is what no fenlock has written.
func TestMemoryWithoutQuotes(t *testing.T) {
	if z, err := ParseTimed([]byte("fenlock stripe 2\nmemory 5\n")); !errors.Is(err, ErrDamaged) {
		t.Errorf("%+v, %v", z, err)
	}
}

// A session was asked about when it was asked about: not when only a lease was looked at.
func TestAskedWhenAsked(t *testing.T) {
	s := newClock()
	mine, z := Part{"a", "h"}, lastly(t, time.Second, time.Minute, "2")
	for range 2 {
		if _, _, ask := s.load(7, z); ask[mine] != z.by[0] {
			t.Fatalf("asks about %v", ask)
		}
	}
	s.answered(7, "M", map[Part]Writer{mine: z.by[0]}, now(), nil)
	if _, over, ask := s.load(7, z); len(ask) > 0 || over[mine] {
		t.Errorf("a session that lives: ask %v, over %v", ask, over)
	}
	gone := map[Part]bool{mine: true}
	s.answered(7, "other", map[Part]Writer{mine: z.by[0]}, now(), gone)
	s.answered(7, "M", map[Part]Writer{mine: {"2", 0}}, now(), gone)
	if _, over, _ := s.load(7, z); over[mine] {
		t.Error("an answer about another lease counts")
	}
	s.answered(7, "M", map[Part]Writer{mine: z.by[0]}, now(), gone)
	if _, over, ask := s.load(7, z); len(ask) > 0 || !over[mine] {
		t.Errorf("a session that has ended: ask %v, over %v", ask, over)
	}
}

// out is a store that does not vote, and counts how often it is asked.
type out struct {
	Store
	loads int
}

func (o *out) Load(context.Context, int) (Loaded, error) { o.loads++; return Loaded{}, nil }

// A store that is out for long is not asked all the time.
func TestSweepIsPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, life := new(out), engine.NewLifetime()
		c := NewClock(s, life, nil, nil)
		z := lastly(t, time.Second, 2*time.Second, "1")
		c.Saved(7, z, Timed{}, []Written{{Part{"a", "h"}, z.by[0], 2 * time.Second}}, true)
		time.Sleep(10 * time.Minute)
		c.Close()
		life.End()
		life.Wait()
		if least := int(10*time.Minute/mostSweepPause) - 1; s.loads < least || s.loads > least+10 {
			t.Errorf("it was asked %d times; want %d or a few more", s.loads, least)
		}
	})
}
