package ui

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/doctor"
)

// told returns what the trail tells of a change, each as "subject: text".
func told(t *testing.T, f *fake, change func()) (lines []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		before := look(context.Background(), f, "", nil, nil)
		f.change(change)
		now := look(context.Background(), f, "", nil, before)
		for _, e := range changes(before, now) {
			if !e.at.Equal(now.at) {
				t.Errorf("%v: at %v, seen at %v", e.text, e.at, now.at)
			}
			lines = append(lines, fmt.Sprintf("%s %s%s: %s", e.kind, e.lock, e.node, e.text))
		}
	})
	return lines
}

func TestChanges(t *testing.T) {
	var f *fake
	for _, c := range []struct {
		name   string
		change func()
		want   []string
	}{
		{"nothing", func() {}, nil},
		{"a lock is taken", func() { f.locks["new"] = f.held("new", "host-b", 20) },
			[]string{"taken new: taken by host-b, token 20"}},
		{"by another program", func() { f.locks["new"] = f.held("new", "", 0) },
			[]string{"taken new: taken by another program"}},
		{"a lock is extended", func() { l := f.locks["a"]; l.Left = 10 * time.Second; f.locks["a"] = l }, nil},
		{"its token is told", func() { l := f.locks["b"]; l.Token = 12; f.locks["b"] = l }, nil},
		{"a lock is free", func() { delete(f.locks, "a") }, []string{"freed a: free; host-a had it"}},
		{"its leases are left", func() { l := f.locks["a"]; l.State = admin.Free; f.locks["a"] = l },
			[]string{"freed a: free; host-a had it"}},
		{"another holder", func() { f.locks["a"] = f.held("a", "host-b", 11) },
			[]string{"moved a: went from host-a to host-b, token 11"}},
		{"the same one again", func() { f.locks["a"] = f.held("a", "host-a", 11) },
			[]string{"moved a: went from host-a to host-a, token 11"}},
		{"a waiter has come", func() {
			l := f.locks["a"]
			l.Waiters = []admin.WaiterInfo{{Label: "w1", Waited: time.Millisecond}, {Label: "w2"}}
			l.Waiting = 2
			f.locks["a"] = l
		}, []string{"waits a: w2 waits, 2nd in the queue"}},
		{"a waiter is gone", func() { l := f.locks["a"]; l.Waiters, l.Waiting = nil, 0; f.locks["a"] = l }, nil},
		{"a waiter of two is gone", func() {
			l := f.locks["c"]
			l.Waiters, l.Waiting = []admin.WaiterInfo{{Label: "w2", Waited: time.Millisecond}}, 1
			f.locks["c"] = l
		}, []string{"left c: w1 waits no more"}},
		{"a waiter has the lock", func() {
			l := f.held("c", "w1", 33)
			l.Waiters, l.Waiting = []admin.WaiterInfo{{Label: "w2", Waited: time.Millisecond}}, 1
			f.locks["c"] = l
		}, []string{"moved c: went from host-c to w1, token 33"}},
		{"a waiter that was there was not seen before", func() {
			l := f.locks["b"]
			l.Waiters, l.Waiting = []admin.WaiterInfo{{Label: "w9", Waited: time.Hour}}, 1
			f.locks["b"] = l
		}, nil},
		{"a node is down", func() {
			f.nodes[1].State, f.nodes[1].Why = doctor.Down, "refused"
		},
			[]string{"down valkey://10.0.0.2:6379: is down: refused",
				"down : So few nodes vote that no lock can be taken or extended."}},
		{"a node votes again", func() { f.nodes[2].State, f.nodes[2].Why = doctor.Votes, "" },
			[]string{"up valkey://10.0.0.3:6379: votes again"}},
		{"a node would vote again", func() { f.nodes[2].State = doctor.Ready },
			[]string{"up valkey://10.0.0.3:6379: votes again"}},
		{"a node was never asked", func() { f.nodes[1].State = doctor.Ready }, nil},
		{"a node is down in another way", func() { f.nodes[2].State = doctor.Misconfigured },
			[]string{"down valkey://10.0.0.3:6379: is misconfigured: gone"}},
		{"a node is out", func() {
			f.nodes[2].State, f.nodes[2].Why, f.nodes[2].Wait = doctor.Out, "it lost its memory", 1500*time.Millisecond
		}, []string{"down valkey://10.0.0.3:6379: does not vote for another 2s: it lost its memory"}},
		{"the same reason in other words", func() { f.nodes[2].Why = "timeout" }, nil},
		{"no majority, and nothing is listed", func() { clear(f.locks); f.err = f.noQuorum() },
			[]string{"down : So few nodes vote that no lock can be taken or extended."}},
		{"no majority, and all is unclear", func() {
			f.err = f.noQuorum()
			for name, l := range f.locks {
				l.State = admin.Unclear
				f.locks[name] = l
			}
		}, []string{"down : So few nodes vote that no lock can be taken or extended."}},
		{"the list is not whole", func() { clear(f.locks); f.err = context.DeadlineExceeded }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f = newFake(3)
			f.nodes[2].State, f.nodes[2].Why = doctor.Down, "gone"
			f.hold("a", "host-a", 10, "w1")
			f.hold("b", "host-b", 0)
			f.hold("c", "host-c", 30, "w1", "w2")
			if got := told(t, f, func() { c.change() }); !slices.Equal(got, c.want) {
				t.Errorf("told\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
			}
		})
	}
}

// A lock that cannot be told for a while was not free meanwhile.
func TestWhatIsKnownIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		f.hold("a", "host-a", 10)
		f.hold("b", "host-b", 11)
		var all []string
		var p *picture
		step := func() {
			next := look(t.Context(), f, "", nil, p)
			if p != nil {
				for _, e := range changes(p, next) {
					all = append(all, fmt.Sprint(e.kind, " ", e.lock))
				}
			}
			p = next
			time.Sleep(time.Second)
		}
		step()
		saved := f.locks["a"]
		f.change(func() { delete(f.locks, "a"); f.err = f.noQuorum() })
		step()
		step()
		f.change(func() { f.locks["a"] = saved; delete(f.locks, "b"); f.err = nil })
		step()
		if want := []string{"down ", "up ", "freed b"}; !slices.Equal(all, want) {
			t.Errorf("told %q, want %q", all, want)
		}
	})
}

// Beyond the last lock that is looked at nothing is known.
func TestChangesAtTheEndOfTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		for i := range MaxLocks + 10 {
			f.hold(fmt.Sprintf("lock-%05d", i), "x", 1)
		}
		before := look(t.Context(), f, "", nil, nil)
		if len(before.locks) != MaxLocks || before.bound != fmt.Sprintf("lock-%05d", MaxLocks-1) {
			t.Fatalf("%d locks to %q", len(before.locks), before.bound)
		}
		f.change(func() { f.locks["lock-00000a"] = f.held("lock-00000a", "y", 2) })
		now := look(t.Context(), f, "", nil, before)
		f.change(func() { delete(f.locks, "lock-00000") })
		last := look(t.Context(), f, "", nil, now)
		var got []string
		for _, e := range append(changes(before, now), changes(now, last)...) {
			got = append(got, string(e.kind)+" "+e.lock)
		}
		if want := []string{"taken lock-00000a", "freed lock-00000"}; !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

// However much happens, the trail is of bounded length.
func TestTrailIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		before := look(t.Context(), f, "", nil, nil)
		for i := range 1000 {
			f.hold(fmt.Sprint(i), "x", 1)
		}
		all := changes(before, look(t.Context(), f, "", nil, before))
		if n := len(all); n != mostChanges+1 || all[n-1].text != "950 more changes at the same moment" {
			t.Errorf("%d changes, the last one is %q", n, all[n-1].text)
		}
		var tr trail
		for range 10 {
			tr.add(all...)
		}
		events, last := tr.about(0, "")
		if len(events) != maxTrail || last != 10*(mostChanges+1) || events[0].number != last-maxTrail+1 ||
			events[maxTrail-1].number != last {
			t.Errorf("%d events, from %d to %d", len(events), events[0].number, last)
		}
		if events, _ := tr.about(last-2, ""); len(events) != 2 {
			t.Errorf("%d events are after the last but two", len(events))
		}
		if events, _ := tr.about(last+100, ""); events != nil {
			t.Errorf("%d events are after a number that was never given", len(events))
		}
	})
}

// A time that is told as a time that has passed is a little different each time.
func TestJitterIsNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		f.hold("a", "host-a", 10, "w1", "w1")
		p := look(t.Context(), f, "", nil, nil)
		first := newOverview(p, query{Page: 1}, false).screen().lists[1].items[0].key()
		for i, off := range []time.Duration{300, -400, 900, -1000} {
			time.Sleep(time.Second)
			f.change(func() {
				l := f.locks["a"]
				for j := range l.Waiters {
					l.Waiters[j].Waited = time.Duration(i+1)*time.Second + off*time.Millisecond + time.Duration(j)
				}
				l.Left = time.Duration(9000-i*100) * time.Millisecond
				f.locks["a"] = l
			})
			p = look(t.Context(), f, "", nil, p)
			if now := newOverview(p, query{Page: 1}, false).screen().lists[1].items[0].key(); now != first {
				t.Fatalf("the row has changed:\n%s\n%s", first, now)
			}
		}
	})
}

// A late holder is told of: less than half of the longest time that was seen is left.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		f.hold("a", "host-a", 10)
		var p *picture
		for _, c := range []struct {
			left time.Duration
			late bool
		}{{6700, false}, {9900, false}, {4950, false}, {4949, true}, {100, true}, {9900, false}, {0, false}} {
			f.change(func() { l := f.locks["a"]; l.Left = c.left * time.Millisecond; f.locks["a"] = l })
			p = look(t.Context(), f, "", nil, p)
			if got := p.locks[0].late(); got != c.late {
				t.Errorf("%d ms left: late is %v", c.left, got)
			}
		}
		f.hold("a", "host-b", 11) // has a shorter TTL, perhaps
		f.change(func() { l := f.locks["a"]; l.Left = time.Second; f.locks["a"] = l })
		if p = look(t.Context(), f, "", nil, p); p.locks[0].late() {
			t.Error("the next holder is late at once")
		}
	})
}
