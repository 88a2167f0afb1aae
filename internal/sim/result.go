package sim

import (
	"fmt"
	"strings"
	"time"
)

// Sums count what happened in a run, or in many.
type Sums struct {
	Events    int
	Simulated time.Duration
	Acquired  int // locks
	Extended  int // extensions that were carried
	Late      int // of them by answers that came when the next one had begun
	Given     int // locks that nodes gave to waiters
	Steps     int // of the models
	Untied    int // runs in which from some moment on the steps were not looked at
	// Of stores, by the action of admission.model that each is; "over" counts runs in which from some
	// moment on they were not looked at.
	Admissions map[string]int
	// Shared are the locks of those who shared a name, and Downgraded those whose holders let
	// others do so.
	Shared, Downgraded int
	Exported, Adopted  int // locks that went from one process to another
	Faults             [faults]Counts
}

// Result is what came of a run.
type Result struct {
	Seed uint64
	Hash uint64 // of all events: equal for equal runs
	Sums
	// Longest is how long a client waited once nothing failed any more, and Bound what is allowed.
	Longest, Bound time.Duration
	Violations     []Violation
	// Broken are the assumptions that the run broke on purpose. What rests on them
	// is not checked.
	Broken []string
}

// Violation is a promise that was not kept.
type Violation struct {
	At    time.Duration
	Check string
	Text  string
}

func (v Violation) String() string {
	return fmt.Sprintf("%.6fs: %s: %s", v.At.Seconds(), v.Check, v.Text)
}

// Total sums up many runs.
type Total struct {
	Runs, Failed int
	Sums
	Longest  time.Duration
	Slowest  uint64  // the seed of Longest
	Tightest float64 // the largest share of its bound that a client waited
}

// Add adds a run.
func (t *Total) Add(r Result) {
	t.Runs++
	if len(r.Violations) > 0 {
		t.Failed++
	}
	t.Events += r.Events
	t.Acquired += r.Acquired
	t.Extended += r.Extended
	t.Late += r.Late
	t.Shared += r.Shared
	t.Downgraded += r.Downgraded
	t.Exported += r.Exported
	t.Adopted += r.Adopted
	t.Given += r.Given
	t.Steps += r.Steps
	t.Untied += r.Untied
	if t.Admissions == nil {
		t.Admissions = map[string]int{}
	}
	for action, n := range r.Admissions {
		t.Admissions[action] += n
	}
	t.Simulated += r.Simulated
	if share := r.Longest.Seconds() / r.Bound.Seconds(); share > t.Tightest {
		t.Longest, t.Slowest, t.Tightest = r.Longest, r.Seed, share
	}
	for f, s := range r.Faults {
		t.Faults[f].All += s.All
		t.Faults[f].Held += s.Held
	}
}

// Missing are the kinds of faults that never struck while a lock was held.
func (t *Total) Missing() (missing []string) {
	for f, s := range t.Faults {
		if s.Held == 0 {
			missing = append(missing, Fault(f).String())
		}
	}
	return missing
}

// String is a report of several lines.
func (t Total) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d seeds, %d failed; %d events in %v; %d locks, %d of them shared and %d shared later, %d exported and %d adopted, %d given, %d extensions, %d of them late\n", t.Runs, t.Failed, t.Events,
		t.Simulated.Round(time.Second), t.Acquired, t.Shared, t.Downgraded, t.Exported, t.Adopted, t.Given, t.Extended,
		t.Late)
	if t.Steps > 0 {
		fmt.Fprintf(&b, "%d steps of the models; %d seeds were not looked at to their end\n", t.Steps, t.Untied)
		fmt.Fprintf(&b, "admissions of stores: %d by enough registers, %d new, %d weak, %d on the list; %d seeds were not looked at to their end\n",
			t.Admissions["admit"], t.Admissions["new"], t.Admissions["weak"], t.Admissions["known"], t.Admissions["over"])
	}
	fmt.Fprintf(&b, "the longest wait once nothing failed: %v, %.0f %% of its bound (seed %d)\n",
		t.Longest.Round(time.Millisecond), 100*t.Tightest, t.Slowest)
	for f, s := range t.Faults {
		fmt.Fprintf(&b, "%-26s %9d, %9d while a lock was held\n", Fault(f), s.All, s.Held)
	}
	return b.String()
}
