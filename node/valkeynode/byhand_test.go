package valkeynode_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// What another program wrote into fenlock's keys is an error that says so, and changes nothing.
// Taken for 0, it would promise old numbers once more.

var noNumbers = []string{"", " ", "abc", "-5", "1.5", "nan", "inf", "-inf", "0x10", "5 6", "1e3", "7 ",
	"99999999999999999999"}

func TestRegisterThatIsNoNumber(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s, n := admitted(t, kind, time.Minute)
		for i, text := range noNumbers {
			r := node.Request{Name: fmt.Sprint("name-", i), Holder: "me", TTL: time.Minute, Token: 7}
			field, key := fmt.Sprint(node.Stripe(r.Name)), "fenlock:"+r.Name
			s.Do("HSET", registersKey, field, text)
			for _, r.Op = range []node.Op{node.Acquire, node.Extend, node.ForceRelease, node.Confirm} {
				if r.Op == node.Confirm {
					s.Do("SET", key, "me 7", "PX", "60000")
				}
				a, err := n.Do(t.Context(), r)
				if err == nil || !strings.Contains(err.Error(), "changed by hand") {
					t.Errorf("%s with the register %q: %+v, %v", r.Op, text, a, err)
				}
				if lease := s.Do("GET", key); r.Op != node.Confirm && lease != "(nil)" ||
					s.Do("HGET", registersKey, field) != text {
					t.Errorf("%s with the register %q has left the lease %q and the register %q", r.Op, text, lease,
						s.Do("HGET", registersKey, field))
				}
			}
		}
	})
}

func TestOriginThatIsNoNumber(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s, n := admitted(t, kind, time.Minute)
		for i, text := range noNumbers {
			r := node.Request{Op: node.Extend, Name: fmt.Sprint("name-", i), Holder: "me", TTL: time.Minute}
			key := "fenlock:" + r.Name
			s.Do("SET", key, "me "+text)
			a, err := n.Do(t.Context(), r)
			if err == nil || !strings.Contains(err.Error(), key+" has no origin") {
				t.Errorf("with the origin %q: %+v, %v", text, a, err)
			}
			if got := s.Do("PTTL", key); got != "-1" {
				t.Errorf("with the origin %q it was extended: it ends in %s ms", text, got)
			}
		}
	})
}

// A forced release takes a lease away, not another program's data.
func TestForceReleaseLeavesOtherData(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s, n := admitted(t, kind, time.Minute)
		s.Do("RPUSH", "fenlock:x", "data")
		a, err := n.Do(t.Context(), node.Request{Op: node.ForceRelease, Name: "x", Token: 7})
		if !errors.Is(err, node.ErrMisconfigured) {
			t.Errorf("%+v, %v", a, err)
		}
		if of, register := s.Do("TYPE", "fenlock:x"), s.Do("HGET", registersKey,
			fmt.Sprint(node.Stripe("x"))); of != "list" || register != "(nil)" {
			t.Errorf("it has left a %s, and the register %s", of, register)
		}
	})
}

// A damaged register hides no locks but its own, from a client that asks about that one.
func TestListBesideADamagedRegister(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s, n := admitted(t, kind, time.Minute)
		for _, name := range []string{"bad", "good"} {
			s.Do("SET", "fenlock:"+name, "me 7", "PX", "60000")
		}
		s.Do("HSET", registersKey, fmt.Sprint(node.Stripe("bad")), "abc")
		var listed []string
		err := n.List(t.Context(), "", func(l node.Lease) bool {
			listed = append(listed, l.Name)
			return true
		})
		if slices.Sort(listed); err != nil || !slices.Equal(listed, []string{"bad", "before", "good"}) {
			t.Errorf("%q, %v", listed, err)
		}
		if l, err := n.Inspect(t.Context(), "bad"); err == nil || !strings.Contains(err.Error(), "changed by hand") {
			t.Errorf("%+v, %v", l, err)
		}
		s.Do("HSET", registersKey, fmt.Sprint(node.Stripe("bad")), "0")
		if l, err := n.Inspect(t.Context(), "bad"); err != nil || !l.Leased {
			t.Errorf("%+v, %v", l, err)
		}
	})
}

// The group that a server is in is shown with a lease, unless that may be any group.
func TestInspectedMembers(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s, n := admitted(t, kind, time.Minute)
		for record, want := range map[string]string{"b:1 a:1  c:1": "a:1 b:1 c:1", "*": "", "": ""} {
			s.Do("HSET", registersKey, "members", record)
			if l, err := n.Inspect(t.Context(), "x"); err != nil || l.Members != want {
				t.Errorf("%q is shown as %q, %v", record, l.Members, err)
			}
		}
	})
}
