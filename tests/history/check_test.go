package history

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// promises returns those that were broken, each once.
func promises(all []Violation) []string {
	var broken []string
	for _, v := range all {
		broken = append(broken, v.Promise)
	}
	slices.Sort(broken)
	return slices.Compact(broken)
}

func wantViolations(t *testing.T, all []Violation, promise, text string) {
	t.Helper()
	if promise == "" && len(all) != 0 {
		t.Errorf("got %+v; want none", all)
	}
	if promise == "" {
		return
	}
	if !slices.ContainsFunc(all, func(v Violation) bool {
		return v.Promise == promise &&
			strings.Contains(v.Text, text)
	}) {
		t.Errorf("got %+v; want %s: %q", all, promise, text)
	}
}

func TestGoodHistory(t *testing.T) {
	r := Check(script(t, "fenlock", good))
	wantViolations(t, r.Violations, "", "")
	wantViolations(t, r.Excused, "", "")
	if r.Acquired != 5 || r.Failed != 1 || r.Unknown != 1 || r.Extended != 1 || r.Writes != 3 || r.Refused != 1 ||
		r.Clients != 3 {
		t.Errorf("the counts are wrong: %+v", r)
	}
	// Five acquisitions and endings, six reads and writes, one refusal.
	if r.Operations != 17 {
		t.Errorf("porcupine had %d operations; want 17", r.Operations)
	}
	want := map[string]Count{"pause": {1, 1}, "kill": {1, 1}}
	if !reflect.DeepEqual(r.Faults, want) {
		t.Errorf("strikes are %v; want %v", r.Faults, want)
	}
	if all := []string{Coherence, Validity, Tokens, Extension, Resource, Progress, Leftovers,
		Porcupine}; !slices.Equal(r.Checked, all) {
		t.Errorf("checked %v; want %v", r.Checked, all)
	}
}

// Every checker sees a bad history made by hand, and nothing in the good one.
func TestBadHistories(t *testing.T) {
	checkChanged(t, good, []changed{
		{"two holders", []string{"500 release", "600 release 1.1", "520", "620 released 1.1"},
			Validity, "client 2 (op 1, token 11) acquires it 410ms after the start, while client 1 (op 1, token 10) has it for another 90ms", []string{Porcupine}},
		{"two holders, one of whom said so late", []string{"700 holds", "1705 holds 2.1 until=1707"},
			Validity, "client 2 (op 1, token 11) has it for another 7ms", []string{Porcupine}},
		{"a token twice", []string{"1700", "1700 acquired 1.2 token=11 until=2690",
			"1740", "1740 read 1.2 token=11 value=2", "1750", "1750 wrote 1.2 token=11 base=2 value=3"},
			Tokens, "both have token 11", []string{Porcupine}},
		{"a token that does not grow", []string{"5110", "5110 acquired 1.4 token=13 until=6090"},
			Tokens, "although attempt 1000002 finished with 14 before it began", []string{Porcupine}},
		{"an extension after somebody else",
			[]string{"500 release", "", "520", "", "300", "511 extend 1.1", "310", "512 extended 1.1 until=513",
				"110", "110 acquired 1.1 token=10 until=505"},
			Extension, "attempt 2000001 had acquired it with 11 before that began", []string{Validity, Porcupine}},
		{"an automatic extension after somebody else",
			[]string{"500 release", "", "520", "", "300", "", "310", "1750 holds 1.1 until=1600\n1755 holds 1.1 until=2400",
				"110", "110 acquired 1.1 token=10 until=505"},
			Extension, "attempt 2000001 had acquired it with 11 before that began", []string{Validity, Porcupine}},
		{"a stale write", []string{"550", "550 wrote 1.1 token=10 base=2 value=7", "1740", "1740 read 1.2 token=14 value=7",
			"1750", "1750 wrote 1.2 token=14 base=7 value=8"},
			Resource, "a write with token 10 after it was used with 11", []string{Porcupine}},
		{"a stale write after a read", []string{"540", "", "550", "550 wrote 1.1 token=10 base=1 value=2"},
			Resource, "a write with token 10 after it was used with 11", []string{Porcupine}},
		{"a lost update", []string{"540", "540 wrote 2.1 token=11 base=0 value=2"},
			Resource, "based on 0 and not on 1, so updates are lost", nil},
		{"a wrong read", []string{"530", "530 read 2.1 token=11 value=0"},
			Coherence, "read 0, and the value was 1", nil},
		{"a refusal of the newest", []string{"1750", "1750 refused 1.2 token=14"},
			Porcupine, "there can be no refuse(14) of client 1", nil},
		{"a client that gets nothing once it is quiet", []string{"5150", "5150 failed 2.2", "5160", "", "5170", ""},
			Progress, "client 2 still waits, 4s after it was quiet", nil},
		{"a client that gets nothing from nodes that do not answer",
			[]string{"5150", "5150 missed client=2 node=1\n5155 failed 2.2", "5160", "", "5170", ""},
			Progress, "client 2 still waits, 4s after it was quiet; nodes failed clients 1 times meanwhile", nil},
		{"a client that waits for too long",
			[]string{"5150", "27001 acquired 2.2 token=21 until=28000", "5160", "", "5170", "", "5210", "27002 closed client=2",
				"9000", "29000 end"},
			Progress, "client 2 has waited for 22.001s", nil},
		{"a client that is not there any more", []string{"5140", "", "5150", "", "5160", "", "5170", "", "5210", ""},
			Progress, "of 2 clients 1 did anything after it was quiet", []string{Leftovers}},
		{"a lease that is left", []string{"5210", "5210 closed client=2\n8900 leftover node=3 name=a text=x"},
			Leftovers, `server 3 still has a lease of "a": x`, nil},
		{"goroutines that are left", []string{"5210", "5210 closed client=2 value=2"},
			Leftovers, "client 2 has 2 goroutines left", nil},
		{"a client that does not close", []string{"5210", ""},
			Leftovers, "of 2 clients 1 closed", nil},

		// Those that follow look bad and are not. It acquired it long before it could say
		// so: nothing is left by then, and that says nothing about until when there was.
		{"a client that is paused before it says what it has", []string{
			"110", "1650 acquired 1.1 token=10 until=1650", "120", "", "130", "", "300", "", "310", "", "500",
			"1651 release 1.1", "520", "1652 released 1.1 text=lost",
			"530", "530 read 2.1 token=11", "540", "540 wrote 2.1 token=11 base=0 value=1", "550", "1653 refused 1.1 token=10",
			"1740", "1740 read 1.2 token=14 value=1", "1750", "1750 wrote 1.2 token=14 base=1 value=2"},
			"", "", nil},
		// The one that was carried may have been the first, or both joined it.
		{"two extensions at a time, one from before somebody else", []string{
			"110", "110 acquired 1.1 token=10 until=505", "310", "511 extend 1.1\n512 extended 1.1", "500", "", "520", ""},
			"", "", nil},
	})
}

// changed is a history with lines that were changed, and the promise that it breaks, if any.
type changed struct {
	name    string
	change  []string
	promise string
	text    string
	also    []string // promises that the same change breaks
}

func checkChanged(t *testing.T, base string, tests []changed) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := Check(script(t, "fenlock", change(t, base, test.change...)))
			wantViolations(t, r.Violations, test.promise, test.text)
			wantViolations(t, r.Excused, "", "")
			want := slices.DeleteFunc(append(test.also, test.promise), func(p string) bool { return p == "" })
			slices.Sort(want)
			if got := promises(r.Violations); !slices.Equal(got, want) {
				t.Errorf("broken are %v; want %v (%+v)", got, want, r.Violations)
			}
		})
	}
}

// A lock that was taken away by a broken assumption is excused. Nothing else is.
func TestExcuses(t *testing.T) {
	overlap := []string{"500 release", "600 release 1.1", "520", "620 released 1.1"}
	tests := []struct {
		name     string
		change   []string
		faults   string
		excused  []string
		violated []string
	}{
		{"an overlap", overlap, "450 fault fault=forward node=1 breaks=clocks\n460 healed fault=forward node=1",
			[]string{Validity}, nil},
		{"an overlap while a fault lasts", overlap,
			"50 fault fault=evict node=1 breaks=leases_stay\n460 healed fault=evict node=1",
			[]string{Validity}, nil},
		{"a fault that breaks nothing", overlap, "450 fault fault=kill node=1\n460 healed fault=kill node=1",
			nil, []string{Porcupine, Validity}},
		{"a fault that was over before", overlap,
			"10 fault fault=forward node=1 breaks=clocks\n20 healed fault=forward node=1",
			nil, []string{Porcupine, Validity}},
		{"a fault that came later", overlap, "511 fault fault=forward node=1 breaks=clocks\n620 healed fault=forward node=1",
			nil, []string{Porcupine, Validity}},
		{"a token that does not grow", []string{"5110", "5110 acquired 1.4 token=13 until=6090"},
			"10 fault fault=forward breaks=clocks",
			nil, []string{Porcupine, Tokens}},
		{"a token that does not grow, and registers that were lost",
			[]string{"5110", "5110 acquired 1.4 token=13 until=6090"},
			"2000 fault fault=wipe breaks=a_majority_of_registers_survives\n2001 healed fault=wipe",
			[]string{Porcupine, Tokens}, nil},
		{"a stale write", []string{"550", "550 wrote 1.1 token=10 base=2 value=7", "1740", "1740 read 1.2 token=14 value=7",
			"1750", "1750 wrote 1.2 token=14 base=7 value=8"},
			"10 fault fault=forward breaks=clocks", nil, []string{Porcupine, Resource}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := Check(script(t, "fenlock", with(t, test.change...), test.faults))
			if got := promises(r.Excused); !slices.Equal(got, test.excused) {
				t.Errorf("excused are %v; want %v: %+v", got, test.excused, r.Excused)
			}
			if got := promises(r.Violations); !slices.Equal(got, test.violated) {
				t.Errorf("violated are %v; want %v: %+v", got, test.violated, r.Violations)
			}
			if strings.Contains(test.faults, "breaks") && len(r.Assumptions) != 1 {
				t.Errorf("the assumptions broken are %q", r.Assumptions)
			}
		})
	}
}

// A clock that was set forward, runs and is set back does harm at two moments. What is excused by a
// step has it within, or at most the slack before.
func TestStepsOfAClockExcuseNothingBetween(t *testing.T) {
	overlap := with(t, "500 release", "600 release 1.1", "520", "620 released 1.1")
	later := func(h *History) *History {
		for i := range h.Events {
			h.Events[i].At += int64(time.Second)
			if h.Events[i].Until != 0 {
				h.Events[i].Until += int64(time.Second)
			}
		}
		return h
	}
	step := func(at, after int64) []Event {
		ms := int64(time.Millisecond)
		return []Event{
			{At: at * ms, Kind: Fault, Fault: "forward", Breaks: "clocks"},
			{At: after * ms, Kind: Fault, Fault: "forward", Breaks: "clocks"},
			{At: 3900 * ms, Kind: Fault, Fault: "forward"},
			{At: 3901 * ms, Kind: Healed, Fault: "forward"},
		}
	}
	// The first tenure was asked for at 1100.
	for _, test := range []struct {
		at, after int64
		excused   bool
	}{{849, 849, false}, {850, 850, true}, {1400, 1401, true}, {1510, 1511, true}, {1511, 1511, false},
		{1, 849, false}, {1, 2000, true}} {
		at, excused := test.at, test.excused
		h := later(script(t, "fenlock", overlap))
		h.Events = Merge(h.Events, step(at, test.after))
		r := Check(h)
		if got := slices.Contains(promises(r.Excused), Validity); got != excused {
			t.Errorf("a step at %d: excused %t; want %t: %+v", at, got, excused, r.Violations)
		}
		if got := slices.Contains(promises(r.Violations), Porcupine); got == excused {
			t.Errorf("a step at %d: porcupine found %+v", at, r.Violations)
		}
		if r.Faults["forward"].All != 1 {
			t.Errorf("strikes are %+v; want one of forward", r.Faults)
		}
	}
}

// What does not fit together is no history, and must not pass for a good one.
func TestIncoherentHistories(t *testing.T) {
	tests := []struct {
		change []string
		text   string
	}{
		{[]string{"9000 end", ""}, `the last event is not "end": the run was cut short`},
		{[]string{"5000 quiet", ""}, `there is no event "quiet"`},
		{[]string{"5000 quiet", "5000 quiet\n5001 quiet"}, "it is the second"},
		{[]string{"5000 quiet", "5000 quiet\n5001 end"}, "it is not the last"},
		{[]string{"100 acquire", ""}, `event 1 (acquired): client 1 (op 1) did not ask for "a"`},
		{[]string{"100 acquire", "100 acquire 1.1 name=b"}, `the header does not have the name "b"`},
		{[]string{"100 acquire", "100 acquire name=a"}, "it does not say which client and op"},
		{[]string{"200 acquire", "200 acquire 1.1"}, "client 1 (op 1, token 10) has begun before"},
		{[]string{"200 acquire", "200 acquire 2.1\n201 acquired 1.1 token=12"}, "client 1 (op 1, token 10) has it already"},
		{[]string{"110", "110 acquired 1.1"}, "it has no token"},
		{[]string{"120", "120 read 1.1 token=11"}, "client 1 (op 1, token 10) does not have the token 11"},
		{[]string{"120", "120 read 1.1"}, "client 1 (op 1, token 10) does not have the token 0"},
		{[]string{"300", ""}, "client 1 (op 1, token 10) did not begin an extension"},
		{[]string{"500", ""}, "client 1 (op 1, token 10) did not begin to release it"},
		{[]string{"700", "700 holds 3.1 until=800"}, "client 3 (op 1) has not acquired it"},
		{[]string{"3010", "3010 failed 1.3\n3011 holds 1.3 until=4000"}, "client 1 (op 3) had failed"},
		{[]string{"5120", "5120 failed 1.4"}, "client 1 (op 4, token 20) has it"},
		{[]string{"150", "150 fault node=1"}, "it does not say which fault"},
		{[]string{"100 acquire", "0 acquire 1.1"}, "the time 0 is out of order"},
	}
	for _, test := range tests {
		r := Check(script(t, "fenlock", with(t, test.change...)))
		wantViolations(t, r.Violations, Coherence, test.text)
		if len(r.Violations) != 1 {
			t.Errorf("%q is not all: %+v", test.text, r.Violations)
		}
	}
	h := script(t, "fenlock", good)
	h.Events[3], h.Events[4] = h.Events[4], h.Events[3]
	wantViolations(t, Check(h).Violations, Coherence, "is out of order")
}

func TestCount(t *testing.T) {
	// In the good history nothing is held at 4000, nor before 110.
	for events, want := range map[string]Count{
		"4000 fault fault=x\n4001 fault fault=x":                                                     {All: 1},
		"4000 fault fault=x\n4001 healed fault=x\n4002 fault fault=x":                                {All: 2},
		"140 fault fault=x\n141 fault fault=x\n4001 healed fault=x\n4002 fault fault=x":              {All: 2, Held: 1},
		"80 fault fault=x node=1\n140 fault fault=x node=2\n142 fault fault=x node=1":                {All: 2, Held: 2},
		"140 fault fault=x\n141 healed fault=x text=not_now\n150 fault fault=x\n4001 healed fault=x": {All: 1, Held: 1},
	} {
		if got := Check(script(t, "fenlock", good, events)).Faults["x"]; got != want {
			t.Errorf("%q: strikes are %+v; want %+v", events, got, want)
		}
	}
}
