package cas

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"
)

const waiter = "0123456789abcdef0123456789abcdef:7"

func sample() Record {
	r := Record{Register: 9, Mark: 1 << 60, Told: time.Hour}
	r.Leases = encodeLeases(map[string]rule.Lease{"a": {Holder: "h", Expires: time.Hour, Origin: 7, Token: 9},
		"\x00": {Holder: "\xff"}})
	r.Queues = encodeQueues(map[string]rule.QueueRecord{"q": {Expires: time.Hour,
		Waiters: rule.Waiters{{Waiter: "w", Stamp: 5}, {Waiter: "x", Stamp: 1 << 53}}}})
	r.Notices = encodeNotices([]notice{{time.Second, waiter}, {time.Hour, waiter + " 12 3600000000"}})
	return r
}

func TestRecord(t *testing.T) {
	for _, r := range []Record{{}, sample()} {
		got, err := ParseRecord(r.Bytes())
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v, %v; want %+v", got, err, r)
		}
		if err := r.Check(); err != nil {
			t.Error(err)
		}
	}
	if got := decodeNotices(sample().Notices); len(got) != 2 || engine.ClientOf(got[1].text) != engine.ClientOf(waiter) ||
		got[1].at != time.Hour {
		t.Errorf("%+v", got)
	}
	whole := string(sample().Bytes())
	for text, says := range map[string]string{
		"": "not fenlock", "{}": "not fenlock", "fenlock record": "one version", "fenlock record 1": "one version of fenlock",
		"fenlock record 2\n": "knows fenlock record 1", "fenlock natsnode 2\nxyz": "one version of fenlock",
		strings.Repeat("x", 1000): "not fenlock",
		"fenlock record 1\n":      "cannot be read", whole[:len(whole)-1]: "cannot be read", whole + "x": "cannot be read",
	} {
		if _, err := ParseRecord([]byte(text)); !errors.Is(err, node.ErrMisconfigured) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%.30q: %v; want %q", text, err, says)
		}
	}
	if err := (Record{Register: node.MaxRegister + 1}).Check(); !errors.Is(err, ErrDamaged) {
		t.Errorf("a register past the bound: %v", err)
	}
	if err := (Record{Leases: []byte{200}}).Check(); !errors.Is(err, ErrDamaged) {
		t.Errorf("leases that are cut off: %v", err)
	}
}

// A record of any bytes is read as what was written, or refused.
func FuzzRecord(f *testing.F) {
	r := sample()
	f.Add(r.Bytes(), r.Leases, r.Queues)
	f.Add([]byte("fenlock record 1\n"), []byte{}, []byte{1, 'a', 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b, l, q []byte) {
		if r, err := ParseRecord(b); err == nil {
			if again, err := ParseRecord(r.Bytes()); err != nil || !reflect.DeepEqual(r, again) {
				t.Errorf("%+v, %+v, %v", r, again, err)
			}
		} else if !errors.Is(err, node.ErrMisconfigured) {
			t.Error(err)
		}
		if leases, err := decodeLeases(l); err == nil {
			if again, err := decodeLeases(encodeLeases(leases)); err != nil || !reflect.DeepEqual(leases, again) {
				t.Errorf("%v, %v, %v", leases, again, err)
			}
		} else if !errors.Is(err, node.ErrMisconfigured) {
			t.Error(err)
		}
		if queues, err := decodeQueues(q); err == nil {
			if again, err := decodeQueues(encodeQueues(queues)); err != nil || !reflect.DeepEqual(queues, again) {
				t.Errorf("%v, %v, %v", queues, again, err)
			}
		}
		if n := decodeNotices(q); len(n) > 0 &&
			!bytes.Equal(encodeNotices(decodeNotices(encodeNotices(n))), encodeNotices(n)) {
			t.Errorf("%v", n)
		}
		loaded := Loaded{Record: Record{Leases: l, Queues: q, Notices: q}, Votes: true}
		request := node.Request{Op: node.Acquire, Name: "a", Holder: "h", TTL: time.Second}
		d, err := loaded.decide(node.Stripe("a"), request, time.Hour, func(string) bool { return true })
		if err != nil || d.answer.Status != node.Granted {
			return
		}
		if l, err := decodeLeases(d.after.Leases); err != nil || l["a"].Holder != "h" || d.after.Register != 1 {
			t.Errorf("%v, %v, %v", d.after, l, err)
		}
	})
}
