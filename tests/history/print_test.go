package history

import (
	"strings"
	"testing"
)

func TestPrint(t *testing.T) {
	h := script(t, "fenlock", good)
	h.Header.Seed, h.Header.Persistence, h.Header.Command = 7, "always", "make it"
	want := `fenlock, seed 7, 5 nodes of none (persistence always), 2 clients, names a, TTL 1s, 8.9s long
  run again: make it
  checked: history, validity, tokens, extension, resource, progress, leftovers, porcupine
  3 client processes; acquisitions: 5 done, 1 failed, 1 unknown; 1 extensions
  resource: 3 writes, 1 refused; porcupine put 17 operations into an order
  faults (strikes, of these while a lock was held):
    kill                         1     1
    pause                        1     1
  excused: 0
  VIOLATIONS: 0
`
	if got := Check(h).String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPrintOfWhatIsWrong(t *testing.T) {
	bad := with(t, "500 release", "600 release 1.1", "520", "620 released 1.1", "540",
		"540 wrote 2.1 token=11 base=0 value=2")
	tests := []struct {
		library string
		events  string
		want    []string
	}{
		{"fenlock", bad + "450 fault fault=forward breaks=clocks_run_at_the_same_rate", []string{
			"assumptions broken on purpose: clocks run at the same rate\n",
			"excused: 1\n    validity: ", "for another 90ms [broken: clocks run at the same rate]\n",
			"VIOLATIONS: 1\n    resource: ", "based on 0 and not on 1",
		}},
		{"redsync", rival + "1650 wrote 2.1 base=1 value=5\n1800 fault fault=late", []string{
			"overlaps: 0\n", "lost updates: 1\n", "wrote 2 on top of 1, and the value was 5 [faults: pause, slow]\n",
			"VIOLATIONS: 1\n    history: ", // the read that did not see it
		}},
	}
	for _, test := range tests {
		got := Check(script(t, test.library, test.events)).String()
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("got\n%s\nwithout %q", got, want)
			}
		}
	}
	got := Report{Violations: make([]Violation, most+3)}.String()
	if !strings.Contains(got, "VIOLATIONS: 23\n") || !strings.HasSuffix(got, "    and 3 more\n") ||
		strings.Count(got, "\n    : ") != most {
		t.Errorf("got\n%s", got)
	}
}
