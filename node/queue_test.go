package node_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

const client = "0123456789abcdef0123456789abcdef"

func TestNotice(t *testing.T) {
	for want, n := range map[string]node.Notice{
		client + ":7":                     {Waiter: client + ":7"},
		client + ":7:host 42:x":           {Waiter: client + ":7:host 42:x", Clock: time.Second}, // reserved only
		client + ":7 8 1000000":           {Waiter: client + ":7", Number: 8, Clock: time.Second},
		client + ":7 9 0":                 {Waiter: client + ":7:host 42:x", Number: 9, Clock: 999},
		client + ":07 5629499534213120 1": {Waiter: client + ":07", Number: node.MaxRegister, Clock: 1999},
	} {
		text := n.String()
		if text != want {
			t.Errorf("%+v is %q; want %q", n, text, want)
		}
		back, ok := node.ParseNotice(text)
		if n.Number == 0 {
			n.Clock = 0
		} else {
			n.Waiter, _, _ = strings.Cut(n.Waiter, ":host")
		}
		n.Clock = n.Clock.Truncate(time.Microsecond)
		if !ok || back != n {
			t.Errorf("%q is %+v, %v; want %+v", text, back, ok, n)
		}
	}
	for _, text := range []string{"", "nobody", client, client + ":7 8", client + ":7 8 ", client + ":7 8 x",
		client + ":7 8 -1",
		client + ":7 8 1 2", client + ":7 x 1", client + ":7 -8 1", client + ":7 5629499534213121 1",
		client + ":7 99999999999999999999 1", client + ":7 8 9223372036854776", client + ":7 8 99999999999999999999",
		client + ":7  8 1"} {
		if n, ok := node.ParseNotice(text); ok {
			t.Errorf("%q is %+v", text, n)
		}
	}
	// The longest clock that there is.
	if n, ok := node.ParseNotice(client + ":7 8 9223372036854775"); !ok || n.Clock != 9223372036854775*time.Microsecond {
		t.Errorf("%+v, %v", n, ok)
	}
}

func TestGiven(t *testing.T) {
	const waiter = client + ":7"
	labelled := waiter + ":host 42:x#1"
	for _, c := range []struct {
		waiter string
		number fence.Token
		want   node.Holder
		label  string
		since  time.Time
	}{
		{waiter, 8, client + "#7#8:", "", time.Time{}}, // not a time
		{labelled, 8, client + "#7#8:host 42:x#1", "host 42:x#1", time.Time{}},
		{labelled, 1_700_000_000_123_456, client + "#7#1700000000123456:host 42:x#1", "host 42:x#1",
			time.UnixMilli(1_700_000_000_123)},
		{waiter, 0, client + "#7#0:", "", time.Time{}},
	} {
		h := node.Given(c.waiter, c.number)
		if h != c.want || h.Label() != c.label || !h.Since().Equal(c.since) || h.Reserves() || h.Shared() || h.Slots() != 0 {
			t.Errorf("%q with %d: %q, label %q, since %v", c.waiter, c.number, string(h), h.Label(), h.Since())
		}
		for _, who := range []string{waiter, labelled, waiter + ":other"} {
			if !h.GivenTo(who) {
				t.Errorf("%q is not given to %q", string(h), who)
			}
		}
		for _, who := range []string{"", client, client + ":", client + ":77", client + ":70", client + ":07",
			client + ":" + "7#8",
			"1" + client[1:] + ":7"} {
			if h.GivenTo(who) {
				t.Errorf("%q is given to %q", string(h), who)
			}
		}
	}
	for _, h := range []node.Holder{"", client + "#7", client + "@7:x", client + ":7", node.Reserved(waiter),
		"shared:1\n1 1 1 " + node.Given(waiter, 8)} {
		if h.GivenTo(waiter) {
			t.Errorf("%q is given to the waiter", string(h))
		}
	}
	if node.Given(waiter, 8).Fingerprint() == node.Given(waiter, 9).Fingerprint() {
		t.Error("what is given with different numbers has one holder")
	}
	// What only looks like it was made by another program.
	for _, h := range []node.Holder{client + "#7#8", client + "#7:x", client + "##8:x", client + "#a#8:x",
		client + "#7#:x", client + "#7#-8:x", client + "#7#8#9:x"} {
		if h.Label() != "" || !h.Since().IsZero() {
			t.Errorf("%q has the label %q, since %v", string(h), h.Label(), h.Since())
		}
	}
}
