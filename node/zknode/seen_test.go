package zknode

import (
	"fmt"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
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
	if clock, _, ask := s.load(7, base); clock <= base.at || ask[mine] != base.by[0] ||
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

// An extension that was lost, and never carried out, must not have Close end the session of the
// lease that is there.
func TestLostExtensionAndClose(t *testing.T) {
	timer := func(part, time.Duration, time.Duration) *time.Timer { return time.NewTimer(time.Hour) }
	var s sightings
	mine := part{"a", "h"}
	base := znode{memory: "M", at: time.Second}
	got := lastly(t, 2*time.Second, time.Minute, 1)
	s.load(7, base)
	s.saved(7, got, base, []written{{mine, got.by[0], time.Minute}}, true, timer)
	lost := lastly(t, 3*time.Second, time.Minute+3*time.Second, 1)
	s.saved(7, lost, got, []written{{mine, lost.by[0], time.Minute + 3*time.Second}}, false, timer)
	// another client writes about another name: the lease is there as it was
	z := got
	z.at = 4 * time.Second
	s.load(7, z)
	if !s.has(7, mine, lost.at) {
		t.Error("a lease is there that this client has written, and its client does not remove it")
	}
	if !s.close() {
		t.Error("a lease is there that this client has written, and Close ends its session")
	}
	if clear(s.all[7].own); !s.close() {
		t.Error("Close ends the session that has written a lease")
	}
}

// The same, with servers: an extension never arrives, a client writes about another name of the
// stripe, and the holder's process closes its node. Its lease stays for its TTL.
func TestCloseAfterALostExtension(t *testing.T) {
	t.Parallel()
	url := freshURL()
	n, other := open(t, url), open(t, url)
	ready(t, n)
	ready(t, other)
	stripe, sibling := node.Stripe("a"), ""
	for i := 0; sibling == ""; i++ {
		if name := fmt.Sprint("b", i); node.Stripe(name) == stripe {
			sibling = name
		}
	}
	r := lasting(request("a", "me", 0), 20*time.Second)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	l, err := store{n}.Load(t.Context(), stripe)
	if err != nil {
		t.Fatal(err)
	}
	// what Save does for an extension that is sent, over a connection that is lost then
	u := l.State.(under)
	z := znode{Record: l.Record, memory: u.memory, there: true, at: l.Clock}
	z.Touched, z.TouchedBy = r.Name, r.Holder
	changed, err := z.write(u.znode, u.link.ID)
	if err != nil || len(changed) != 1 {
		t.Fatal(changed, err)
	}
	store{n}.keep(stripe, z, u.znode, changed, false)
	want(t, node.Granted)(other.Do(t.Context(), as(node.Acquire, request(sibling, "other", 0))))
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, request(sibling, "me", 0))))
	n.Close()
	late := open(t, url) // which has asked about no session yet
	a, err := late.Do(t.Context(), as(node.Acquire, request("a", "rival", 0)))
	if err == nil && a.Status == node.Rejoining {
		t.Fatal(a)
	}
	if err != nil || a.Status != node.Held {
		t.Errorf("a lease of 20s is over at once: %+v, %v", a, err)
	}
}

// What a closer look has found is not forgotten, if another client was first meanwhile.
func TestCloserLookOnce(t *testing.T) {
	t.Parallel()
	url := freshURL()
	n, other := open(t, url), open(t, url)
	ready(t, n)
	ready(t, other)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "dead", 0))))
	n.seen.close()
	n.session.Close(true) // its process is gone, and its session
	s := store{other}
	stripe := node.Stripe("a")
	l, err := s.Load(t.Context(), stripe)
	if err != nil || l.Closer == nil {
		t.Fatal(l, err)
	}
	if r, err := l.Closer(t.Context()); err != nil || len(r.Leases) > 0 {
		t.Fatalf("%q, %v", r.Leases, err)
	}
	// the Save lost a race, and it begins again
	l, err = s.Load(t.Context(), stripe)
	if err != nil {
		t.Fatal(err)
	}
	if l.Closer == nil && len(l.Leases) > 0 {
		t.Error("the lease of a session that is gone counts again")
	}
	a, err := other.Do(t.Context(), as(node.Acquire, request("a", "next", 0)))
	if err != nil || a.Status != node.Granted {
		t.Errorf("a dead holder's lock is refused: %+v, %v", a, err)
	}
}

// A client whose wall clock is ahead finds a stripe that is not there, and another is first to make
// it. The lease of that one, which is killed, ends for it as for any other.
func TestAbsentStripeAndClockAhead(t *testing.T) {
	t.Parallel()
	url := freshURL()
	n, other := open(t, url), open(t, url)
	ready(t, n)
	ready(t, other)
	// what other.read returns for wire.NoNode if its clock is an hour ahead
	ahead := time.Duration(time.Now().Add(time.Hour).UnixMicro()) * time.Microsecond
	other.seen.load(node.Stripe("a"), znode{memory: other.vote.Load().memory, at: ahead})
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, lasting(request("a", "dead", 0), time.Second))))
	n.stop()
	n.session.Close(true) // even its session is gone
	eventually(t, other, as(node.Acquire, request("a", "next", 0)))
}

// What may have made a stripe counts as little: another client may have made it with an earlier
// clock.
func TestAbsentStripeAndALostWrite(t *testing.T) {
	timer := func(part, time.Duration, time.Duration) *time.Timer { return time.NewTimer(time.Hour) }
	var s sightings
	mine := part{"a", "h"}
	lost := lastly(t, time.Hour, time.Hour+time.Minute, 1)
	changed := []written{{mine, lost.by[0], time.Hour + time.Minute}}
	s.saved(7, lost, znode{memory: "M", at: time.Hour}, changed, false, timer)
	made := lastly(t, time.Second, time.Minute, 2)
	if s.load(7, made); s.all[7].at != made.at || s.all[7].parts[mine] == nil {
		t.Errorf("%+v is seen, and not %+v", s.all[7], made)
	}
	// in another memory than the one that was seen, and carried out after all
	lost.memory = "N"
	s.saved(7, lost, znode{memory: "N", at: time.Hour}, changed, false, timer)
	if s.load(7, lost); !s.has(7, mine, lost.at) {
		t.Error("a lease of another memory is not looked after")
	}
}

// A stripe begins far from where times end, whatever a client's wall clock shows.
func TestWhereAClockBegins(t *testing.T) {
	for year, want := range map[int]bool{-4000: false, 1969: false, 2026: true, 2300: false, 9999: false} {
		when := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		z := lastly(t, begin(when), begin(when)+time.Minute, 1)
		got, err := parseStripe(z.text())
		if err != nil || got.at != z.at || (got.at.Microseconds() == when.UnixMicro()) != want {
			t.Errorf("in the year %d: %v, %v", year, z.at, err)
		}
	}
}

// A session was asked about when it was asked about: not when only a lease was looked at.
func TestAskedWhenAsked(t *testing.T) {
	var s sightings
	mine, z := part{"a", "h"}, lastly(t, time.Second, time.Minute, 2)
	for range 2 {
		if _, _, ask := s.load(7, z); ask[mine] != z.by[0] {
			t.Fatalf("asks about %v", ask)
		}
	}
	s.answered(7, "M", map[part]writer{mine: z.by[0]}, now(), nil)
	if _, over, ask := s.load(7, z); len(ask) > 0 || over[mine] {
		t.Errorf("a session that lives: ask %v, over %v", ask, over)
	}
	gone := map[part]bool{mine: true}
	s.answered(7, "other", map[part]writer{mine: z.by[0]}, now(), gone)
	s.answered(7, "M", map[part]writer{mine: {2, 0}}, now(), gone)
	if _, over, _ := s.load(7, z); over[mine] {
		t.Error("an answer about another lease counts")
	}
	s.answered(7, "M", map[part]writer{mine: z.by[0]}, now(), gone)
	if _, over, ask := s.load(7, z); len(ask) > 0 || !over[mine] {
		t.Errorf("a session that has ended: ask %v, over %v", ask, over)
	}
}
