package valkeynode_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// Servers that were admitted before there was a number have none, which is the first.
// Admission writes the newest, and a lease from before, which has no origin, is a
// stranger's until it ends.
func TestFirstFormatIsTurnedIntoTheNewest(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, kind)
		for i, before := range []string{"1", ""} {
			server.MarkAdmitted("fenlock:", time.Minute)
			server.Do("HSET", registersKey, "format", before)
			if before == "" {
				server.Do("HDEL", registersKey, "format")
			}
			name := fmt.Sprint("old", i)
			old := long(name, "old")
			server.Do("SET", "fenlock:"+name, string(old.Holder), "PX", "60000")
			n := joined(t, server.URL(), time.Minute)
			if _, err := n.Registers(bounded(t)); err != nil {
				t.Error(err)
			}
			if a := want(t, node.Held)(n.Do(bounded(t), as(node.Acquire, long(name, "new")))); a.HeldBy != "old" {
				t.Errorf("held by %q", a.HeldBy)
			}
			if got := server.Do("HGET", registersKey, "format"); got != testserver.Format {
				t.Errorf("the format is %s after the admission", got)
			}
			for _, op := range []node.Op{node.Confirm, node.Extend, node.Release} {
				want(t, node.Lost)(n.Do(bounded(t), as(op, old)))
			}
		}
	})
}

// In the second format a lease had no token, and a waiter no label. A holder of then that
// goes on with this program goes on holding.
func TestSecondFormatIsTakenOver(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, kind)
		server.MarkAdmitted("fenlock:", time.Minute)
		server.Do("HSET", registersKey, "format", "2")
		r := long("a", "old")
		r.Holder = node.Holder(strings.Repeat("1", 32) + ":old 5") // as it was made then
		server.Do("SET", "fenlock:a", string(r.Holder)+" 17", "PX", "60000")
		n := joined(t, server.URL(), time.Minute)
		if a := want(t, node.Held)(n.Do(bounded(t), as(node.Acquire, long("a", "new")))); a.HeldBy != "old 5" {
			t.Errorf("held by %q", a.HeldBy)
		}
		if got := server.Do("HGET", registersKey, "format"); got != testserver.Format {
			t.Errorf("the format is %s after the admission", got)
		}
		shows := func(token int) {
			t.Helper()
			l, err := n.Inspect(bounded(t), "a")
			if err != nil || l.Label != "old 5" || l.Origin != 17 || int(l.Token) != token || !l.Since.IsZero() {
				t.Errorf("inspected %+v, %v", l, err)
			}
		}
		shows(0)
		if a := want(t, node.Granted)(n.Do(bounded(t), as(node.Extend, r))); a.Register != 17 {
			t.Errorf("the origin is %d", a.Register)
		}
		r.OwnToken = 17
		want(t, node.Granted)(n.Do(bounded(t), as(node.Extend, r)))
		shows(17)
		want(t, node.Granted)(n.Do(bounded(t), as(node.Release, r)))
	})
}

// A record that is not what this program knows is an error that says so, and stays.
func TestOtherFormatsAreRefused(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, kind)
		server.Do("SET", "fenlock:a", "somebody") // so that there is something to list
		for _, c := range []struct{ field, value, says string }{
			{"format", "4",
				"format 4, and this program knows formats up to 3: a newer fenlock wrote them; upgrade this program"},
			{"format", "0", "no fenlock wrote"}, {"format", "soon", "no fenlock wrote"}, {"format", "-1", "no fenlock wrote"},
			{"format", "01", "no fenlock wrote"}, {"format", "99999999999999999999", "no fenlock wrote"},
			{"maxttl", "soon", "no number of milliseconds"}, {"maxttl", "0", "no number of milliseconds"},
		} {
			server.MarkAdmitted("fenlock:", groupTTL)
			server.Do("HSET", registersKey, c.field, c.value)
			before := server.Do("HGETALL", registersKey)
			refused(t, server.URL(), server.Addr(), c.says)
			n := joined(t, server.URL(), groupTTL)
			if _, err := n.Registers(bounded(t)); !errors.Is(err, fenlock.ErrMisconfigured) ||
				!strings.Contains(err.Error(), c.says) {
				t.Errorf("registers: %v", err)
			}
			if after := server.Do("HGETALL", registersKey); after != before {
				t.Errorf("the record was %s and is %s", before, after)
			}
		}
	})
}

// A newer program takes a server over while an older one holds a lock. The server promises nothing
// to the older program any more, however its requests are sent, and it says why.
func TestNewerFormatInTheMiddle(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server, n := admitted(t, kind, time.Minute)
		held, other := long("held", "one"), long("other", "one")
		want(t, node.Granted)(n.Do(bounded(t), as(node.Acquire, held)))
		server.Do("HSET", registersKey, "format", "4")
		before := server.Do("HGETALL", registersKey)
		for op, r := range map[node.Op]node.Request{
			node.Acquire: other, node.Confirm: held, node.Extend: held, node.ForceRelease: {Name: "held", Token: 9},
		} {
			ways := map[string]func() (node.Answer, error){
				"alone": func() (node.Answer, error) { return n.Do(bounded(t), as(op, r)) },
			}
			if op != node.ForceRelease {
				ways["started"] = func() (node.Answer, error) { return start(n, op, r, 10*time.Second).wait(t) }
				ways["together"] = func() (node.Answer, error) { return startTogether(t, n, op, r) }
			}
			for way, do := range ways {
				a, err := do()
				if !errors.Is(err, fenlock.ErrMisconfigured) || !strings.Contains(fmt.Sprint(err), "format 4") ||
					!strings.Contains(fmt.Sprint(err), "upgrade") {
					t.Errorf("%v, %s: %+v, %v; want ErrMisconfigured that says why", op, way, a, err)
				}
			}
		}
		if after := server.Do("HGETALL", registersKey); after != before {
			t.Errorf("the registers were %s and are %s", before, after)
		}
		if keys := server.Do("EXISTS", "fenlock:other"); keys != "0" {
			t.Error("a lease was made")
		}
		// What it made itself it may remove: that promises nothing.
		want(t, node.Granted)(n.Do(bounded(t), as(node.Release, held)))
		server.Do("HSET", registersKey, "format", testserver.Format)
		want(t, node.Granted)(startTogether(t, n, node.Acquire, other))
	})
}
