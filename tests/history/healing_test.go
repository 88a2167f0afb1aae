package history

import (
	"slices"
	"testing"
)

// In good, client 2 has lost its lock at 1710.
func TestHealing(t *testing.T) {
	const majority = "1490 missed client=2 node=1\n1500 missed client=2 node=2\n1501 missed client=2 node=5"
	tests := map[string]struct {
		more     string
		violated bool
		excused  bool
	}{
		"no reason":                    {"", true, false},
		"a majority":                   {majority, false, false},
		"a majority, another client's": {"1490 missed client=1 node=1\n1500 missed client=1 node=2\n1501 missed client=1 node=5", true, false},
		"a minority":                   {"1490 missed client=2 node=1\n1500 missed client=2 node=2\n1501 missed client=2 node=2", true, false},
		"young when one went":          {"1259 missed client=2 node=1", false, false},
		"old when one went":            {"1260 missed client=2 node=1", true, false},
		"it was stopped":               {"900 absent client=2 until=1700", false, false},
		"a clock that was set": {"1000 fault fault=forward node=1 breaks=clocks\n1800 healed fault=forward node=1",
			false, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := script(t, "fenlock", good, test.more)
			r := Check(h)
			if slices.Contains(r.Checked, Healing) || len(r.Violations) > 0 {
				t.Errorf("where nobody watches: %+v", r)
			}
			h.Header.Watched = true
			r = Check(h)
			if !slices.Contains(r.Checked, Healing) || r.Gone != 1 {
				t.Errorf("checked %v, %d gone", r.Checked, r.Gone)
			}
			const text = "client 2 (op 1, token 11), 1.61s after the start: attempt 2000001 loses its lock"
			for _, found := range []struct {
				all  []Violation
				want bool
			}{{r.Violations, test.violated}, {r.Excused, test.excused}} {
				if found.want {
					wantViolations(t, found.all, Healing, text)
				} else {
					wantViolations(t, found.all, "", "")
				}
			}
		})
	}
	h := script(t, "fenlock", good, "350 missed client=1 node=1", "360 missed client=2 node=1",
		"1790 missed client=1 node=2", majority)
	h.Header.Watched = true
	if r := Check(h); r.Stood != 2 {
		t.Errorf("%d locks stood, want client 1's first and second", r.Stood)
	}
	h = script(t, "fenlock", good, "350 missed client=1 node=6")
	wantViolations(t, Check(h).Violations, Coherence, "which node")
}
