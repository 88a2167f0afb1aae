package fenlock_test

import (
	"slices"
	"testing"
)

// counting is a node that has no slots: it remembers, in the order of their arrival, who has come.
type counting []string

// Two ways to admit no more than so many holders that are not exact, and the orders of arrival that
// show it. That is why each slot is a lock of its own.
func TestCountingHoldersAdmitsTooMany(t *testing.T) {
	// Each node admits the first three that come, and a client that a majority admits is a holder.
	// Five nodes admit fifteen times, which is enough for five majorities.
	holders := 0
	arrivals := [5]counting{{"A", "B", "C", "D", "E"}, {"B", "C", "D", "E", "A"}, {"C", "D", "E", "A", "B"},
		{"D", "E", "A", "B", "C"}, {"E", "A", "B", "C", "D"}}
	for _, who := range []string{"A", "B", "C", "D", "E"} {
		admitted := 0
		for _, node := range arrivals {
			if slices.Index(node, who) < 3 {
				admitted++
			}
		}
		if admitted >= 3 {
			holders++
		}
	}
	if holders != 5 {
		t.Errorf("%d of at most 3 hold", holders)
	}

	// Each node tells who was there before, and who hears of fewer than two others at a majority of
	// the nodes is a holder.
	holders = 0
	for _, who := range []string{"A", "B", "C"} {
		others, majority := map[string]bool{}, 0
		for _, node := range []counting{{"B", "A"}, {"C", "B"}, {"A", "C"}} {
			if at := slices.Index(node, who); at >= 0 {
				majority++
				for _, other := range node[:at] {
					others[other] = true
				}
			}
		}
		if majority >= 2 && len(others) < 2 {
			holders++
		}
	}
	if holders != 3 {
		t.Errorf("%d of at most 2 hold", holders)
	}
}
