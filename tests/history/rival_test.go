package history

import (
	"slices"
	"strings"
	"testing"
)

// rival is a history of a library without tokens: one client is paused between
// its read and its write, and the resource guards nothing.
const rival = `
	100 acquire 1.1
	110 acquired 1.1 until=1090
	120 read 1.1
	150 fault fault=pause
	800 acquire 2.1
	1200 acquired 2.1 until=2190
	1210 read 2.1
	1220 wrote 2.1 value=1
	1300 release 2.1
	1310 released 2.1
	1400 healed fault=pause
	1500 fault fault=slow node=2
	1600 healed fault=slow node=2
	1700 read 1.1 value=1
	1710 wrote 1.1 base=1 value=2
	1720 release 1.1
	1730 released 1.1 text=expired
	5000 quiet
	5100 acquire 1.2
	5110 acquired 1.2 until=6090
	5120 release 1.2
	5130 released 1.2
	5140 acquire 2.2
	5150 acquired 2.2 until=6130
	5160 release 2.2
	5170 released 2.2
	9000 end
`

func TestLibrariesWithoutTokens(t *testing.T) {
	r := Check(script(t, "redsync", rival))
	wantViolations(t, r.Violations, "", "")
	if len(r.Lost) != 0 || len(r.Overlaps) != 0 {
		t.Errorf("good, but lost %+v, overlaps %+v", r.Lost, r.Overlaps)
	}
	if want := []string{Coherence, Validity, Progress, Leftovers}; !slices.Equal(r.Checked, want) {
		t.Errorf("checked %q; want %q", r.Checked, want)
	}
}

// What is lost is listed with the kinds that were active, and is no violation.
func TestLostUpdatesOfLibrariesWithoutTokens(t *testing.T) {
	h := script(t, "redislock", rival)
	for i := range h.Events {
		if e := &h.Events[i]; e.Kind == Wrote && e.Client == 1 {
			e.Base, e.Value = 0, 1
		}
	}
	r := Check(h)
	wantViolations(t, r.Violations, "", "")
	if len(r.Lost) != 1 || !slices.Equal(r.Lost[0].Faults, []string{"pause", "slow"}) || r.Lost[0].Name != "a" {
		t.Fatalf("lost are %+v; want one, with pause and slow", r.Lost)
	}
	if want := `"a": client 1 (op 1), 1.61s after the start: wrote 1 on top of 0, and the value was 1`; r.Lost[0].Text != want {
		t.Errorf("got %q; want %q", r.Lost[0].Text, want)
	}
}

// The one that is there first may be the one that was paused, and write first.
func TestLostUpdatesAreTracedToTheEarlierTenure(t *testing.T) {
	const order = `
	1215 wrote 1.1 value=1
	1220 wrote 2.1 value=1`
	h := script(t, "redsync", strings.NewReplacer(
		"	1220 wrote 2.1 value=1", order, "	1400 healed", "	700 healed", "	1710 wrote 1.1 base=1 value=2", "").Replace(rival))
	r := Check(h)
	wantViolations(t, r.Violations, "", "")
	if len(r.Lost) != 1 || !slices.Equal(r.Lost[0].Faults, []string{"pause"}) {
		t.Errorf("lost are %+v; want one, with the pause before the second was asked for", r.Lost)
	}
}

func TestOverlapsOfLibrariesWithoutTokens(t *testing.T) {
	early := func(breaks string) Report {
		h := script(t, "redsync", rival)
		for i := range h.Events {
			e := &h.Events[i]
			if e.Kind == Acquired && e.Client == 2 && e.Op == 1 {
				e.At -= 200e6
			}
			if e.Fault == "pause" {
				e.Breaks = breaks
			}
		}
		h.Events = Merge(h.Events)
		return Check(h)
	}
	r := early("")
	wantViolations(t, r.Violations, Validity, "client 2 (op 1) acquires it 900ms after the start, while client 1 (op 1) has it for another 90ms")
	if len(r.Overlaps) != 1 || !slices.Equal(r.Overlaps[0].Faults, []string{"pause"}) || r.Overlaps[0].Assumption != "" {
		t.Errorf("overlaps are %+v", r.Overlaps)
	}
	r = early("no pauses")
	wantViolations(t, r.Violations, "", "")
	if len(r.Excused) != 1 || len(r.Overlaps) != 1 || r.Overlaps[0].Assumption != "no pauses" {
		t.Errorf("excused %+v, overlaps %+v", r.Excused, r.Overlaps)
	}
}
