//go:build unix

package etcdnode_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/etcdnode"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// prefixOf returns what the keys of a node begin with.
func prefixOf(url string) string { return url[strings.Index(url, "/test/"):] + "/" }

// keysOf returns what is written below a prefix, with the revisions of that, but for sessions,
// which come and go.
func keysOf(t testing.TB, c *clientv3.Client, prefix string) []string {
	t.Helper()
	a, err := c.Get(t.Context(), prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, kv := range a.Kvs {
		if strings.HasPrefix(string(kv.Key), prefix+"session/") {
			continue
		}
		all = append(all, fmt.Sprintf("%s %d %s", strings.TrimPrefix(string(kv.Key), prefix), kv.ModRevision, kv.Value))
	}
	return all
}

// beginning returns those that begin so.
func beginning(all []string, with string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !strings.HasPrefix(s, with) })
}

// facts has a client look at the store.
func facts(t testing.TB, n *etcdnode.Node) admit.Facts {
	t.Helper()
	f, err := n.Store().Facts(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// note has a client note that the store is out.
func note(t testing.TB, n *etcdnode.Node, f admit.Facts, want bool) {
	t.Helper()
	if done, err := n.Store().Note(within(t, 10*time.Second), f); err != nil || done != want {
		t.Fatalf("note: %v, %v; want %v", done, err, want)
	}
}

// set has a client set the mark.
func set(t testing.TB, n *etcdnode.Node, f admit.Facts, want bool) {
	t.Helper()
	if done, err := n.Store().Mark(within(t, 10*time.Second), f, n.Admission().Terms(), nil); err != nil || done != want {
		t.Fatalf("mark: %v, %v; want %v", done, err, want)
	}
}

// The note removes the mark, and no lease of before counts. The time counts from after that. The
// etcd lease is requested when the mark is gone for certain, however long the client is paused in
// between.
func TestNoteRemovesMarkAndLeases(t *testing.T) {
	t.Parallel()
	url := fresh()
	n, other, c := open(t, url), unjoined(t, url), raw(t, shared())
	join(t, other, time.Hour, false)
	held := request(node.Acquire, "a", "1", time.Minute)
	must(t, n, held, node.Granted)
	must(t, n, request(node.Acquire, "b", "1", time.Minute), node.Granted)
	before := keysOf(t, c, prefixOf(url))
	if len(beginning(before, "stripe/")) != 2 || len(beginning(before, "meta ")) != 1 {
		t.Fatalf("written: %q", before)
	}
	f := facts(t, n)
	if !f.Votes || !f.Marked || !f.Recorded || f.Memory == "" {
		t.Fatalf("a store that votes: %+v", f)
	}
	note(t, n, f, true)
	after := keysOf(t, c, prefixOf(url))
	if len(beginning(after, "meta ")) != 0 {
		t.Errorf("after the note there is %q", after)
	}
	if !slices.Equal(beginning(after, "stripe/"), beginning(before, "stripe/")) {
		t.Errorf("the registers were %q, and are %q", before, after)
	}
	out := facts(t, n)
	if out.Counted || out.Marked || out.Memory == "" || out.Memory == f.Memory || !out.Recorded || out.Terms != f.Terms {
		t.Errorf("it counts already, or the note says too little: %+v", out)
	}
	if len(beginning(after, "quarantine ")) != 0 {
		t.Errorf("the time began before the mark was gone: %q", after)
	}
	note(t, n, f, false) // a client that was paused since before
	if again := keysOf(t, c, prefixOf(url)); !slices.Equal(after, again) {
		t.Errorf("a client that was late changed %q to %q", after, again)
	}
	note(t, n, out, true)
	counted := facts(t, n)
	if !counted.Counted || counted.Out > 2*time.Second || counted.Memory != out.Memory ||
		len(beginning(keysOf(t, c, prefixOf(url)), "quarantine ")) != 1 {
		t.Errorf("it does not count: %+v", counted)
	}
	must(t, n, as(node.Extend, held), node.Rejoining)

	// For a client whose leases are longer, it begins anew, and goes on for the others.
	longer := unjoined(t, fresh())
	shorter := unjoined(t, "etcd://"+longer.Member())
	join(t, shorter, time.Second, false)
	join(t, longer, time.Hour, false)
	note(t, shorter, facts(t, shorter), true)
	note(t, shorter, facts(t, shorter), true)
	first := facts(t, shorter)
	if f := facts(t, longer); !first.Counted || f.Counted || f.Memory != first.Memory {
		t.Fatalf("counted for 1 s: %+v, and for an hour %+v", first, f)
	}
	note(t, longer, facts(t, longer), true)
	for name, n := range map[string]*etcdnode.Node{"shorter": shorter, "longer": longer} {
		if f := facts(t, n); !f.Counted || f.Memory != first.Memory {
			t.Errorf("%s, after it began anew: %+v", name, f)
		}
	}
}

// Clients are paused between two steps, while others do theirs.
func TestPausedBetweenSteps(t *testing.T) {
	t.Parallel()
	const maxTTL = 20 * time.Second
	url := fresh()
	prefix, c := prefixOf(url), raw(t, shared())
	n, other := unjoined(t, url), unjoined(t, url)
	join(t, n, maxTTL, false)
	join(t, other, maxTTL, false)
	unnoted := facts(t, n)
	note(t, other, unnoted, true)
	noted := facts(t, n)
	note(t, other, noted, true)
	var waited admit.Facts
	eventually(t, func() error {
		if waited = facts(t, n); waited.Out < admit.Quarantine(maxTTL) {
			return fmt.Errorf("%+v", waited)
		}
		return nil
	})
	set(t, n, unnoted, false)
	set(t, n, noted, false)
	set(t, other, facts(t, other), true)
	held := request(node.Acquire, "a", "1", maxTTL)
	register := must(t, other, held, node.Granted).Register
	before := keysOf(t, c, prefix)
	for _, f := range []admit.Facts{unnoted, noted, waited} {
		note(t, n, f, false)
		set(t, n, f, false)
	}
	if after := keysOf(t, c, prefix); !slices.Equal(before, after) {
		t.Errorf("clients that were late changed %q to %q", before, after)
	}
	stripe := node.Stripe("a")
	for token, want := range map[fence.Token]fence.Token{1: register, register + 5: register + 5} {
		if err := n.Store().Raise(t.Context(), waited, map[int]fence.Token{stripe: token}); err != nil {
			t.Fatal(err)
		}
		if r, err := n.Registers(t.Context()); err != nil || token > register && r.Tokens[stripe] != want ||
			r.Tokens[stripe] < register {
			t.Errorf("raised to %d: %d, %v", token, r.Tokens[stripe], err)
		}
	}
	must(t, n, request(node.Acquire, "a", "2", time.Second), node.Held)
	must(t, other, as(node.Extend, held), node.Granted)
}

// What an older program has left is refused, with what to do about it.
func TestFormatOfBefore(t *testing.T) {
	t.Parallel()
	c := raw(t, shared())
	mark := `{"format":1,"cluster":"c","memory":"m","index":1,"term":1,"max_ttl":"5m0s","members":["alone"]}`
	second := strings.Replace(mark, "1", "2", 1)
	for key, value := range map[string]string{"meta": mark, "notice": second, "register/123": "00000000000005"} {
		url := fresh()
		if _, err := c.Put(t.Context(), prefixOf(url)+key, value); err != nil {
			t.Fatal(err)
		}
		n := open(t, url)
		if _, err := n.Do(within(t, 10*time.Second), request(node.Acquire, "a", "1", time.Second)); !errors.Is(err,
			node.ErrMisconfigured) || !strings.Contains(err.Error(), "etcdctl del --prefix") {
			t.Errorf("%s: %v; want ErrMisconfigured, and what to do", key, err)
		}
		if all := keysOf(t, c, prefixOf(url)); len(all) != 1 {
			t.Errorf("%s: written: %q", key, all)
		}
	}
}

// A cluster was made anew in its place, and counts its revisions anew: the mark has the revision
// that it had before. What a client decided under the mark of before is not written.
func TestSameRevisions(t *testing.T) {
	t.Parallel()
	url := fresh()
	n, other, c := open(t, url), open(t, url), raw(t, shared())
	held := request(node.Acquire, "a", "1", time.Minute)
	must(t, n, held, node.Granted)
	n.Recall("before")
	must(t, n, as(node.Extend, held), node.Granted) // it has looked at the mark again
	must(t, other, request(node.Acquire, "a", "2", time.Minute), node.Held)
	if all := keysOf(t, c, prefixOf(url)); strings.Contains(fmt.Sprint(all), "before") {
		t.Errorf("written under the mark of before: %q", all)
	}
}

// What cannot be what fenlock has written is refused, with the reason, and nothing is written.
func TestKeysThatContradict(t *testing.T) {
	t.Parallel()
	c := raw(t, shared())
	meta := func(change string) string {
		return `{"Format":3,"Cluster":"c","Memory":"m","Index":1,"Term":1,"Terms":{"MaxTTL":3600000000000,"Members":"a"}` +
			change + `}`
	}
	for what, k := range map[string]struct{ key, value, key2, value2, says string }{
		"another MaxTTL":      {key: "meta", value: meta(`,"Terms":{"MaxTTL":7200000000000}`), says: "MaxTTL is 2h0m0s"},
		"other members":       {key: "meta", value: meta(`,"Terms":{"Members":"a b"}`), says: "another group"},
		"MaxTTL of a notice":  {key: "notice", value: meta(`,"Terms":{"MaxTTL":7200000000000}`), says: "MaxTTL is 2h0m0s"},
		"members of a notice": {key: "notice", value: meta(`,"Terms":{"Members":"a b"}`), says: "another group"},
		"a newer format":      {key: "meta", value: meta(`,"Format":4`), says: "newer fenlock"},
		"a newer notice":      {key: "notice", value: meta(`,"Format":4`), says: "newer fenlock"},
		"admitted and out": {key: "meta", value: meta(""), key2: "notice", value2: meta(""),
			says: "that it was admitted, and that it is out"},
		"no memory":            {key: "meta", value: meta(`,"Memory":""`), says: "changed by hand"},
		"no cluster":           {key: "notice", value: meta(`,"Cluster":""`), says: "changed by hand"},
		"no time":              {key: "meta", value: meta(`,"Terms":{"MaxTTL":"soon"}`), says: "changed by hand"},
		"a time that is less":  {key: "meta", value: meta(`,"Terms":{"MaxTTL":-1}`), says: "changed by hand"},
		"a wait that is less":  {key: "notice", value: meta(`,"Wait":-1`), says: "changed by hand"},
		"no JSON":              {key: "meta", value: "x", says: "changed by hand"},
		"no format":            {key: "meta", value: "{}", says: "changed by hand"},
		"what was seen":        {key: "seen", value: "x", says: "changed by hand"},
		"a word for a number":  {key: "notice", value: meta(`,"Cause":"five"`), says: "changed by hand"},
		"an array for a group": {key: "meta", value: "[]", says: "changed by hand"},
	} {
		t.Run(what, func(t *testing.T) {
			url := fresh()
			for key, value := range map[string]string{k.key: k.value, k.key2: k.value2} {
				if _, err := c.Put(t.Context(), prefixOf(url)+key, value); key != "" && err != nil {
					t.Fatal(err)
				}
			}
			before := keysOf(t, c, prefixOf(url))
			n := unjoined(t, url)
			join(t, n, time.Hour, true)
			for _, op := range []node.Op{node.Acquire, node.Extend, node.Confirm, node.ForceRelease} {
				a, err := n.Do(within(t, 10*time.Second), request(op, "a", "1", time.Second))
				if !errors.Is(err, node.ErrMisconfigured) || !strings.Contains(fmt.Sprint(err), k.says) {
					t.Errorf("%v: %+v, %v; want ErrMisconfigured with %q", op, a, err, k.says)
				}
			}
			e, _ := n.Examine(within(t, 10*time.Second), node.Look{})
			if e.Admitted {
				t.Errorf("it is shown as admitted")
			}
			if after := keysOf(t, c, prefixOf(url)); !slices.Equal(before, after) {
				t.Errorf("%q is now %q", before, after)
			}
		})
	}
}

// However many registers are raised, all of them are: a transaction has only so many.
func TestRaiseOfMany(t *testing.T) {
	t.Parallel()
	n := open(t, fresh())
	await(t, n)
	all := map[int]fence.Token{}
	for stripe := range 300 {
		all[stripe] = fence.Token(1000 + stripe)
	}
	if err := n.Store().Raise(within(t, 10*time.Second), admit.Facts{}, all); err != nil {
		t.Fatal(err)
	}
	r, err := n.Registers(within(t, 10*time.Second))
	for stripe, token := range all {
		if err != nil || r.Tokens[stripe] != token {
			t.Fatalf("register %d is %d; want %d, %v", stripe, r.Tokens[stripe], token, err)
		}
	}
}
