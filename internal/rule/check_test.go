package rule

import (
	"math"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
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
	if CheckProposal(0) != nil || CheckProposal(core.MaxProposal) != nil || CheckProposal(core.MaxProposal+1) == nil {
		t.Error("CheckProposal: the bound is MaxProposal, inclusive")
	}
	if CheckToken(fence.MaxToken) != nil || CheckToken(fence.MaxToken+1) == nil {
		t.Error("CheckToken: the bound is MaxToken, inclusive")
	}
	if CheckHolder("h") != nil || CheckHolder("") == nil {
		t.Error("CheckHolder: only the empty holder is refused")
	}
}
