package zknode

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock/node/cas"
)

// lastly returns the znode of a stripe with one lease, that a session has written.
func lastly(t *testing.T, at, ends time.Duration, session int64) znode {
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
	z := znode{Record: cas.Record{Leases: append(b, 1, 0)}, memory: "M", at: at, there: true}
	z.by = []writer{{session, at}}
	if parts, err := z.parts(); err != nil || len(parts) != 1 || parts[0].ends != ends {
		t.Fatalf("%+v, %v", parts, err)
	}
	return z
}

// What may have been written is looked after, and is not taken for what is there. What was written
// before another client's write does not hide that.
func TestWrittenAndSeen(t *testing.T) {
	timer := func(part, time.Duration, time.Duration) *time.Timer { return time.NewTimer(time.Hour) }
	var s sightings
	mine := part{"a", "h"}
	base := lastly(t, time.Second, time.Minute, 2)
	s.load(7, base)
	lost := lastly(t, 3*time.Second, time.Minute+3*time.Second, 1)
	changed := []written{{mine, lost.by[0], time.Minute + 3*time.Second}}
	s.saved(7, lost, base, changed, false, timer)
	if clock, _, ask := s.load(7, base); clock <= base.at || len(ask) != 0 ||
		!s.has(7, mine, lost.at) {
		t.Errorf("after a write that may be lost: clock %v, ask %v, looked after %v", clock, ask, s.has(7, mine, lost.at))
	}
	other := lastly(t, 4*time.Second, time.Minute+4*time.Second, 3)
	s.load(7, other)
	if s.has(7, mine, lost.at) || s.close() {
		t.Error("what another client has overwritten is looked after")
	}
	s.saved(7, lost, base, changed, true, timer)
	if seen := s.all[7]; seen.at != other.at || seen.parts[mine].writer != other.by[0] || s.has(7, mine, lost.at) {
		t.Errorf("what came before is taken for the newest: %+v", seen)
	}
	s.saved(7, lastly(t, 5*time.Second, 2*time.Minute, 1), other, changed, true, timer)
	if !s.close() {
		t.Error("nothing is looked after, and the session would end")
	}
}
