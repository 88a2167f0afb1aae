package rule

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

func TestCheckTTL(t *testing.T) {
	for _, c := range []struct {
		ttl, want time.Duration
		ok        bool
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
		got, err := CheckTTL(c.ttl)
		if got != c.want || (err == nil) != c.ok {
			t.Errorf("CheckTTL(%v) = %v, %v; want %v, ok %v", c.ttl, got, err, c.want, c.ok)
		}
	}
}

func TestCheckNumbersAndHolder(t *testing.T) {
	if CheckProposal(0) != nil || CheckProposal(MaxProposal) != nil || CheckProposal(MaxProposal+1) == nil {
		t.Error("CheckProposal: the bound is MaxProposal, inclusive")
	}
	if CheckToken(fence.MaxToken) != nil || CheckToken(fence.MaxToken+1) == nil {
		t.Error("CheckToken: the bound is MaxToken, inclusive")
	}
	if CheckHolder("h") != nil || CheckHolder("") == nil {
		t.Error("CheckHolder: only the empty holder is refused")
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
