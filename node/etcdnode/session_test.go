package etcdnode

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/clock"
)

func TestTokensCompareAsBytes(t *testing.T) {
	all := []fence.Token{0, 1, 9, 10, 255, 256, 1 << 52, fence.MaxToken}
	for i, a := range all {
		if got, err := parseToken([]byte(formatToken(a))); err != nil || got != a {
			t.Errorf("%d became %d, %v", a, got, err)
		}
		for _, b := range all[i+1:] {
			if formatToken(a) >= formatToken(b) {
				t.Errorf("%q >= %q", formatToken(a), formatToken(b))
			}
		}
	}
}

// What is written in a session ends before it, or the session is not said to cover it.
func TestCovers(t *testing.T) {
	const need = 10 * time.Second
	for ago, want := range map[time.Duration]bool{0: true, window - time.Second: true, window + time.Millisecond: false} {
		s := &session{ends: clock.Now() - ago + need + window}
		if got := s.covers(need); got != want {
			t.Errorf("granted %v ago: %v; want %v", ago, got, want)
		}
		if s.gone.Store(true); s.covers(need) {
			t.Errorf("granted %v ago, and gone: covered", ago)
		}
	}
}

func TestSeconds(t *testing.T) {
	for need, want := range map[time.Duration]int64{time.Millisecond: 3, time.Second: 3, 1001 * time.Millisecond: 4,
		10 * time.Second: 12} {
		if got := seconds(need); got != want || time.Duration(got)*time.Second < need+window {
			t.Errorf("%v: %d s; want %d", need, got, want)
		}
	}
}
