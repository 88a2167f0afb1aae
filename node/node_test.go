package node_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
)

func TestWords(t *testing.T) {
	var ops, statuses []string
	for op := range node.ForceRelease + 2 {
		ops = append(ops, op.String())
	}
	for s := range node.Rejoining + 2 {
		statuses = append(statuses, s.String())
	}
	if got := strings.Join(ops, ", "); got != "none, acquire, confirm, extend, release, force release, op(6)" {
		t.Error(got)
	}
	if got := strings.Join(statuses, ", "); got != "unknown, granted, held, outrun, lost, rejoining, status(6)" {
		t.Error(got)
	}
}

// engine is an engine of all kinds.
type engine struct {
	node.Ordered
	node.Queuer
	node.Rejoiner
	node.Admin
}

func (e *engine) Engine() any { return e }

// A wrapper that embeds a Node and overrides Do is asked by Do, whatever it wraps. The other
// interfaces are found on its engine.
func TestWrapper(t *testing.T) {
	var w node.Node = struct{ node.Node }{&engine{}}
	if _, starts := w.(node.Starter); starts {
		t.Error("a wrapper can be started, and so its Do passed over")
	}
	_, queues := w.Engine().(node.Queuer)
	_, rejoins := w.Engine().(node.Rejoiner)
	_, shows := w.Engine().(node.Admin)
	if !queues || !rejoins || !shows {
		t.Errorf("the engine keeps queues %v, rejoins %v, shows %v; want all", queues, rejoins, shows)
	}
}

func TestHolder(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	since := time.UnixMilli(1_700_000_000_123)
	made := node.NewHolder([node.IDLength]byte([]byte(id)), since.Add(999*time.Microsecond), 0, "host/42")
	if made != id+"@1700000000123:host/42" {
		t.Errorf("made %q", string(made))
	}
	for h, want := range map[node.Holder]struct {
		label string
		since time.Time
	}{
		made:                           {"host/42", since},
		id + "@1:":                     {"", time.UnixMilli(1)},
		id + ":host:42@7":              {"host:42@7", time.Time{}}, // as it was before
		id + "@0:a":                    {"a", time.Time{}},
		id + "@253402300800000:a":      {"a", time.Time{}},
		id + "@99999999999999999999:a": {"a", time.Time{}},
		id + "@-1:a":                   {},
		id + "@1/5:a:b":                {"a:b", time.UnixMilli(1)},
		id + "@1/05:a":                 {},
		id + "@1/0:a":                  {},
		id + "@1/123456:a":             {},
		id + "@1/:a":                   {},
		id + "@1/5/5:a":                {},
		id + "@/5:a":                   {},
		id + "@:a":                     {},
		id + "@1":                      {},
		id + "@1 :a":                   {},
		id:                             {},
		"":                             {},
		id + "x:a":                     {},
		node.Holder("g" + id[1:] + "@1700000000123:abc"): {},
		node.Reserved(id + ":1:abc"):                     {node.NextInQueue, time.Time{}},
	} {
		if h.Label() != want.label || !h.Since().Equal(want.since) {
			t.Errorf("%q: %q since %v; want %q since %v", string(h), h.Label(), h.Since(), want.label, want.since)
		}
	}
	slotted := node.NewHolder([node.IDLength]byte([]byte(id)), since, 5, "host/42/7:")
	if slotted != id+"@1700000000123/5:host/42/7:" || slotted.Slots() != 5 || slotted.Label() != "host/42/7:" {
		t.Errorf("made %q, of %d slots", string(slotted), slotted.Slots())
	}
	for h, want := range map[node.Holder]int{
		made: 0, "": 0, id + ":a/5:": 0, id + "@1/65536:a": 65536, node.Reserved(id + ":05:a"): 0, "shared:7": 0,
		"shared:7\n1 2 3 " + node.Reserved(id+":05:a") + "\n1 2 3 " + slotted + "\n1 2 3 " + made: 5,
	} {
		if h.Slots() != want {
			t.Errorf("%q: of %d slots; want %d", string(h), h.Slots(), want)
		}
	}
	if fmt.Sprint(made) != "holder(host/42)" {
		t.Errorf("printed as %v", made)
	}
	other := node.NewHolder([node.IDLength]byte([]byte(id)), since, 0, "host/43")
	if made.Fingerprint() == other.Fingerprint() || made.Fingerprint() == 0 || node.Holder("").Fingerprint() != 0 {
		t.Errorf("fingerprints %x, %x", made.Fingerprint(), other.Fingerprint())
	}
}
