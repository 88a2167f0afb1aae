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
	const text = `"a": client 1 (op 1), 1.61s after the start: wrote 1 on top of 0, and the value was 1`
	for _, test := range []struct {
		name   string
		change []string
		text   string
		faults []string
	}{
		{"the paused one writes last", []string{"1710", "1710 wrote 1.1 value=1"}, text, []string{"pause", "slow"}},
		{"it writes first, and the pause was over before the other one asked", []string{
			"1220", "1215 wrote 1.1 value=1\n1220 wrote 2.1 value=1", "1400", "700 healed fault=pause", "1710", "",
		}, "client 2 (op 1)", []string{"pause"}},
	} {
		r := Check(script(t, "redislock", change(t, rival, test.change...)))
		wantViolations(t, r.Violations, "", "")
		if len(r.Lost) != 1 || !slices.Equal(r.Lost[0].Faults, test.faults) || r.Lost[0].Name != "a" ||
			!strings.Contains(r.Lost[0].Text, test.text) {
			t.Errorf("%s: lost are %+v; want one, with %v and %s", test.name, r.Lost, test.faults, test.text)
		}
	}
}

func TestOverlapsOfLibrariesWithoutTokens(t *testing.T) {
	for _, breaks := range []string{"", "no pauses"} {
		fault := "150 fault fault=pause breaks=" + strings.ReplaceAll(breaks, " ", "_")
		r := Check(script(t, "redsync", change(t, rival, "1200", "1000 acquired 2.1 until=2190", "150", fault)))
		if breaks == "" {
			wantViolations(t, r.Violations, Validity,
				"client 2 (op 1) acquires it 900ms after the start, while client 1 (op 1) has it for another 90ms")
		} else if wantViolations(t, r.Violations, "", ""); len(r.Excused) != 1 {
			t.Errorf("excused %+v", r.Excused)
		}
		if len(r.Overlaps) != 1 || !slices.Equal(r.Overlaps[0].Faults, []string{"pause"}) ||
			r.Overlaps[0].Assumption != breaks {
			t.Errorf("overlaps are %+v", r.Overlaps)
		}
	}
}
