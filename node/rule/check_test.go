package rule

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

func TestCheckTTL(t *testing.T) {
	for _, c := range []struct {
		ttl, lease time.Duration
		ok         bool
	}{
		{time.Millisecond, time.Millisecond, true},
		{1999 * time.Microsecond, time.Millisecond, true},
		{time.Hour, time.Hour, true},
		{maxTTL, maxTTL, true},
		{time.Millisecond - 1, 0, false},
		{0, 0, false},
		{-time.Second, 0, false},
		{maxTTL + 1, 0, false},
		{math.MaxInt64, 0, false},
	} {
		for _, op := range []node.Op{node.Acquire, node.Extend} {
			r := node.Request{Op: op, Name: "a", Holder: "h", TTL: c.ttl}
			err := Check(r)
			if (err == nil) != c.ok || err != nil && !errors.Is(err, node.ErrInvalid) {
				t.Errorf("%v for %v: %v; want ok %v", op, c.ttl, err, c.ok)
			}
			var e Entry
			if Serve(&e, nil, time.Second, r); c.ok && e.Expires != time.Second+c.lease {
				t.Errorf("%v for %v: the lease ends after %v; want %v", op, c.ttl, e.Expires-time.Second, c.lease)
			}
		}
	}
}

// Each operation is refused for what it uses, and for nothing else.
func TestCheckLooksAtWhatTheOperationUses(t *testing.T) {
	good := node.Request{Name: "a", Holder: "h", TTL: time.Second, Token: 1}
	for what, bad := range map[string]struct {
		change  func(*node.Request)
		refuses []node.Op
	}{
		"no TTL":       {func(r *node.Request) { r.TTL = 0 }, []node.Op{node.Acquire, node.Extend}},
		"no holder":    {func(r *node.Request) { r.Holder = "" }, []node.Op{node.Acquire, node.Extend}},
		"bad place":    {func(r *node.Request) { r.Place.Stamp = -1 }, []node.Op{node.Acquire, node.Release}},
		"bad proposal": {func(r *node.Request) { r.Token = MaxProposal + 1 }, []node.Op{node.Acquire}},
		"bad token":    {func(r *node.Request) { r.Token = fence.MaxToken + 1 }, []node.Op{node.Acquire, node.Confirm, node.Extend, node.ForceRelease}},
	} {
		for op := node.Acquire; op <= node.ForceRelease; op++ {
			r := good
			r.Op = op
			if err := Check(r); err != nil {
				t.Errorf("%v: %v", op, err)
			}
			bad.change(&r)
			err := Check(r)
			if refused := slices.Contains(bad.refuses, op); (err != nil) != refused || err != nil && !errors.Is(err, node.ErrInvalid) {
				t.Errorf("%v with %s: %v; want it refused: %v", op, what, err, refused)
			}
		}
	}
	for _, op := range []node.Op{0, node.ForceRelease + 1, 255} {
		r := good
		r.Op = op
		if err := Check(r); !errors.Is(err, node.ErrInvalid) {
			t.Errorf("%v: %v; want ErrInvalid", op, err)
		}
		if a, _ := Serve(&Entry{}, nil, 0, r); a.Status != node.Unknown {
			t.Errorf("%v was served: %+v", op, a)
		}
	}
}

func TestCheckNumbersAndHolder(t *testing.T) {
	if checkProposal(0) != nil || checkProposal(MaxProposal) != nil || checkProposal(MaxProposal+1) == nil {
		t.Error("checkProposal: the bound is MaxProposal, inclusive")
	}
	if checkToken(fence.MaxToken) != nil || checkToken(fence.MaxToken+1) == nil {
		t.Error("checkToken: the bound is MaxToken, inclusive")
	}
	if checkHolder("h") != nil || checkHolder("") == nil {
		t.Error("checkHolder: only the empty holder is refused")
	}
}

func TestCheckPlace(t *testing.T) {
	const client = "0123456789abcdef0123456789abcdef"
	for _, c := range []struct {
		waiter string
		stamp  int64
		ok     bool
	}{
		{"", 0, true},
		{client + ":1", 1, true},
		{client + ":0", 0, true},
		{client + ":" + strings.Repeat("9", 19), 1 << 53, true},
		{"", -1, false},
		{client + ":1", -1, false},
		{client + ":1", 1<<53 + 1, false},
		{client + ":1", math.MaxInt64, false},
		{client + ":1", math.MinInt64, false},
		{client, 1, false},
		{client + ":", 1, false},
		{client + ":" + strings.Repeat("9", 20), 1, false},
		{client + ":-1", 1, false},
		{client + ":+1", 1, false},
		{client + ": 1", 1, false},
		{client + ":1:2", 1, false},
		{client + ":a", 1, false},
		{client + ":1\n", 1, false},
		{client + "::1", 1, false},
		{client[1:] + ":1", 1, false},
		{client + "0:1", 1, false},
		{strings.ToUpper(client) + ":1", 1, false},
		{"g" + client[1:] + ":1", 1, false},
		{client[:31] + "\x00:1", 1, false},
		{":1", 1, false},
		{"1", 1, false},
		{" ", 1, false},
	} {
		if err := CheckPlace(node.Place{Waiter: c.waiter, Stamp: c.stamp}); (err == nil) != c.ok {
			t.Errorf("CheckPlace(%q, %d): %v; want ok %v", c.waiter, c.stamp, err, c.ok)
		}
	}
}
