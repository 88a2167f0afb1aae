package etcdnode

import (
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/node/rule"
)

func FuzzRecord(f *testing.F) {
	f.Add([]byte("1 2 3 4 holder"))
	f.Add([]byte("1 2 3 4  "))
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := parseRecord(value)
		if err != nil {
			return
		}
		again, err := parseRecord([]byte(r.String()))
		if err != nil || again != r {
			t.Errorf("%q is %+v, and again %+v, %v", value, r, again, err)
		}
		if left := r.remaining(0); left < time.Millisecond || left > max(r.ttl, time.Millisecond) {
			t.Errorf("%q has %v left", value, left)
		}
	})
}

// A prefix of escaped names is the escaped prefix: leases are listed by that.
func FuzzKeys(f *testing.F) {
	f.Add("a/b", "a/")
	f.Add("\x00%41", "\x00%")
	f.Fuzz(func(t *testing.T, name, prefix string) {
		k := keys("/p/")
		if got, ok := k.leaseName(k.lease(name)); !ok || got != name {
			t.Errorf("%q became %q", name, got)
		}
		if strings.HasPrefix(name, prefix) != strings.HasPrefix(k.lease(name), k.lease(prefix)) {
			t.Errorf("%q and the prefix %q: %q, %q", name, prefix, k.lease(name), k.lease(prefix))
		}
		if name != prefix && strings.HasPrefix(k.queue(name), k.queue(prefix)) {
			t.Errorf("the queues of %q and %q mix", name, prefix)
		}
		p := node.Place{Waiter: strings.Repeat("0", 32) + ":1:ü/ x", Stamp: 1 << 53}
		if got, ok := k.place(name, k.waiter(name, p)); !ok || got != p {
			t.Errorf("%+v became %+v", p, got)
		}
	})
}

func TestRegistersCompareAsBytes(t *testing.T) {
	all := []fence.Token{0, 1, 9, 10, 255, 256, 1 << 52, fence.MaxToken}
	for i, a := range all {
		if got, err := parseRegister([]byte(formatRegister(a))); err != nil || got != a {
			t.Errorf("%d became %d, %v", a, got, err)
		}
		for _, b := range all[i+1:] {
			if formatRegister(a) >= formatRegister(b) {
				t.Errorf("%q >= %q", formatRegister(a), formatRegister(b))
			}
		}
	}
}

// A key that is attached to an etcd lease lives for its TTL, or it is not said to.
func TestCovers(t *testing.T) {
	const ttl = 10 * time.Second
	for ago, want := range map[time.Duration]bool{0: true, window - time.Second: true, window + time.Millisecond: false} {
		l := &sharedLease{life: ttl + window, sent: clock.Now() - ago}
		if got := l.covers(ttl); got != want {
			t.Errorf("granted %v ago: %v; want %v", ago, got, want)
		}
		if l.dead.Store(true); l.covers(ttl) {
			t.Errorf("granted %v ago, and gone: covered", ago)
		}
	}
}

func TestSeconds(t *testing.T) {
	for ttl, want := range map[time.Duration]int64{time.Millisecond: 3, time.Second: 3, 1001 * time.Millisecond: 4,
		10 * time.Second: 12} {
		if got := seconds(ttl); got != want || time.Duration(got)*time.Second < ttl+window {
			t.Errorf("%v: %d s; want %d", ttl, got, want)
		}
	}
}

// A client whose clock is behind comes after those whom it finds.
func TestClock(t *testing.T) {
	var c sharedClock
	before := c.now()
	c.read(before + time.Hour)
	if now := c.now(); now < before+time.Hour || now > before+2*time.Hour {
		t.Errorf("after reading an hour more: %v", now-before)
	}
	c.read(before)
	c.read(latest + time.Hour)
	if now := c.now(); now < before+time.Hour || now > before+2*time.Hour {
		t.Errorf("afterwards: %v", now-before)
	}
	if stamp := latest.Microseconds(); stamp > 1<<53 || rule.CheckPlace(node.Place{Stamp: stamp}) != nil {
		t.Errorf("the latest stamp %d is none", stamp)
	}
}

// What a lease has left is never zero. A client that comes back when it is over does not do so all
// the time, whatever the clocks show.
func TestRemaining(t *testing.T) {
	const ttl, written = 5 * time.Second, time.Hour
	for age, want := range map[time.Duration]time.Duration{
		-time.Hour: ttl, 0: ttl, time.Second: 4 * time.Second, ttl: time.Millisecond,
		ttl + time.Millisecond: time.Millisecond,
		ttl + time.Second:      time.Second / 2, ttl + 9*time.Second: 9 * time.Second / 2, 24 * time.Hour: ttl,
	} {
		if got := (record{ttl: ttl, written: written}).remaining(written + age); got != want {
			t.Errorf("after %v: %v; want %v", age, got, want)
		}
	}
}
