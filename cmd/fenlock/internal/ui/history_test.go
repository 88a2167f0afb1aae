package ui

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/doctor"
)

// at is a moment of a test, in seconds.
func at(seconds int) time.Time { return time.Unix(1_700_000_000+int64(seconds), 0) }

// seenOf is what is recorded of a node that is looked at each second, and does as a text says.
// Each letter is a look: v votes, d is down, o is out. A dot is a second without a look.
func seenOf(text string) (spans []span) {
	states := map[rune]doctor.State{'v': doctor.Votes, 'd': doctor.Down, 'o': doctor.Out}
	var last span
	for i, letter := range text {
		if state, looked := states[letter]; looked {
			last = last.next(state, at(i))
			spans = recordSpan(spans, last, at(i-1000))
		}
	}
	return spans
}

// What is recorded of a node, and what is said of it.
func TestSpans(t *testing.T) {
	gap := strings.Repeat(".", int(unseen.Seconds()))
	for _, c := range []struct {
		does, spans, begun, earlier string
	}{
		{"v", "votes 0-0?", "since 0 or before", ""},
		{"vvvv", "votes 0-3?", "since 0 or before", ""},
		{"dddd", "down 0-3?", "since 0 or before", ""},
		{"vvdd", "votes 0-2? down 2-3", "since 2", ""},
		{"vvddv", "votes 0-2? down 2-4 votes 4-4", "since 4", "in the last hour: once without a vote, for 2 s"},
		{"vvdoov", "votes 0-2? down 2-3 out 3-5 votes 5-5", "since 5", "in the last hour: once without a vote, for 3 s"},
		{"vdvddvo", "votes 0-1? down 1-2 votes 2-3 down 3-5 votes 5-6 out 6-6", "since 6",
			"in the last hour: 2 times without a vote, for 3 s in all"},
		{"v...v", "votes 0-4?", "since 0 or before", ""}, // a look that took longer
		{"v" + gap + "v", "votes 0-0? votes 61-61?", "since 61 or before", ""},
		{"vdd" + gap + "ddv", "votes 0-1? down 1-2 down 63-65? votes 65-65", "since 65",
			"in the last hour: 2 times without a vote, for 3 s in all"},
	} {
		spans := seenOf(c.does)
		var all []string
		for _, s := range spans {
			text := fmt.Sprintf("%s %d-%d", s.state, s.from.Unix()-at(0).Unix(), s.to.Unix()-at(0).Unix())
			if !s.seen {
				text += "?"
			}
			all = append(all, text)
		}
		if got := strings.Join(all, " "); got != c.spans {
			t.Errorf("%s: %s; want %s", c.does, got, c.spans)
		}
		last := spans[len(spans)-1]
		want := strings.Replace(c.begun, fmt.Sprint(last.from.Unix()-at(0).Unix()), last.from.Format(time.TimeOnly), 1)
		if got := begun(last); got != want {
			t.Errorf("%s: %s; want %s", c.does, got, want)
		}
		if got := earlier(spans, time.Hour, last.to); got != c.earlier {
			t.Errorf("%s: %q; want %q", c.does, got, c.earlier)
		}
	}
}

// However long it lasts and whatever happens, a history is of bounded size, and has what is not
// too old.
func TestHistoryIsBounded(t *testing.T) {
	h := history{lasting: time.Hour}
	var prev picture
	states := []doctor.State{doctor.Votes, doctor.Down}
	for i := range 20_000 {
		p := &picture{at: at(i), entries: []entry{{lock: lock{}}}}
		p.entries[0].Waiting = i % 7
		p.state = []span{(append(prev.state, span{}))[0].next(states[i%2], p.at)}
		h.record(p.at, p.state, p.waiting(), i%2)
		prev = *p
	}
	if n := len(h.nodes[0]); n != maxSpans || cap(h.nodes[0]) > 2*maxSpans+2 {
		t.Errorf("%d spans of a node (room for %d)", n, cap(h.nodes[0]))
	}
	if n := len(h.slices); n != sliceCount || cap(h.slices) > 2*sliceCount+2 {
		t.Errorf("%d slices (room for %d)", n, cap(h.slices))
	}
	c := chartOf(&h, prev.at)
	// 30 looks in each slice, the last one of which has not ended.
	if c.Waiting.Top != 6 || c.Moves.Top != 15 || c.Waiting.Said != "Waiting: at most 6 at a time" ||
		!strings.HasSuffix(c.Moves.Said, ", at most 15 in 30 s") || strings.Count(c.Waiting.Path, "M") != sliceCount {
		t.Errorf("%+v", c)
	}
	// An hour later, that is gone.
	p := &picture{at: prev.at.Add(2 * time.Hour),
		state: []span{prev.state[0].next(doctor.Votes, prev.at.Add(2*time.Hour))}}
	h.record(p.at, p.state, p.waiting(), 0)
	if c := chartOf(&h, p.at); len(h.nodes[0]) != 1 || len(h.slices) != 1 || c.Waiting.Path != "" ||
		c.Moves.Said != "No handovers" || len(c.Nodes[0].Parts) != 0 {
		t.Errorf("after two hours: %+v, %+v", h, c)
	}
}

// Bars and strips are where they belong.
func TestChart(t *testing.T) {
	const second = int64(sliceCount * 1000) // a slice is a second
	h := history{lasting: time.Duration(second) * time.Millisecond}
	var last span
	for i, state := range []doctor.State{doctor.Votes, doctor.Down, doctor.Down, doctor.Out, doctor.Votes} {
		p := &picture{at: at(i), entries: []entry{{}}}
		p.entries[0].Waiting = []int{0, 4, 1, 0, 2}[i]
		last = last.next(state, p.at)
		p.state = []span{last}
		h.record(p.at, p.state, p.waiting(), []int{0, 0, 1, 0, 0}[i])
	}
	c := chartOf(&h, at(4))
	if want := "M116 30v-30.0h1v30.0zM117 30v-7.5h1v7.5zM119 30v-15.0h1v15.0z"; c.Waiting.Path != want {
		t.Errorf("waiting: %s; want %s", c.Waiting.Path, want)
	}
	if want := "M117 30v-30.0h1v30.0z"; c.Moves.Path != want || c.Moves.Said != "Handovers: 1, at most 1 in 1 s" {
		t.Errorf("moves: %+v; want %s", c.Moves, want)
	}
	if want := "M115 30v-30h5v30z"; c.Seen != want {
		t.Errorf("looked: %s; want %s", c.Seen, want)
	}
	clock := func(i int) string { return at(i).Format(time.TimeOnly) }
	want := []stripPart{
		{"bad", "116", "3", "1: down from " + clock(1) + " to " + clock(3)},
		{"warn", "118", "2", "1: does not vote from " + clock(3) + " to " + clock(4)},
	}
	if got := c.Nodes[0].Parts; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the strip: %+v; want %+v", got, want)
	}
}

// With a history the group is looked at also while no page is open, less often. A page that is
// opened has what was seen before.
func TestHistoryGoesOn(t *testing.T) {
	onPage(t, 3, Config{History: time.Hour}, func(t *testing.T, f *fake, a *asking) {
		time.Sleep(10*time.Minute + time.Second) // between two looks
		if n, most := f.looked(), int(10*time.Minute/seldom); n < most-1 || n > most+1 {
			t.Errorf("%d looks in ten minutes", n)
		}
		f.change(func() { f.nodes[1].State, f.nodes[1].Why = doctor.Down, "no answer" })
		f.hold("a", "host-a", 1)
		time.Sleep(20 * time.Minute)
		f.hold("a", "host-b", 2, "w1", "w2")
		f.change(func() { f.nodes[1].State, f.nodes[1].Why = doctor.Votes, "" })
		time.Sleep(seldom + time.Second)
		f.change(func() { l := f.locks["a"]; l.Waiters, l.Waiting = nil, 0; f.locks["a"] = l })
		f.change(func() { f.nodes[2].State, f.nodes[2].Why = doctor.Down, "no answer" })
		time.Sleep(seldom)
		down := time.Now()
		time.Sleep(5*time.Minute + time.Second)
		before := f.looked()
		r := a.get("/")
		r.want(t, 200, "for <time", "since "+down.UTC().Format("15:04")[:4],
			"in the last hour: once without a vote, for 20 min", "The last hour", "Handovers: 1, at most 1 in 30 s",
			"Waiting: at most 2 at a time",
			"went from host-a to host-b", "is down: no answer", "votes again", "<title>2: down from 00:10:")
		if strings.Contains(r.body, "or before</p>") {
			t.Error("a node that was seen to fail may have failed before")
		}
		// A page that is opened now shows the present state.
		synctest.Wait()
		if n := f.looked(); n != before+1 {
			t.Errorf("%d looks when the page was opened", n-before)
		}
		time.Sleep(10 * time.Second)
		if n := f.looked(); n < before+10 {
			t.Errorf("%d looks within ten seconds of that", n-before)
		}
	})
}

// The chart is sent when there is something new on it, and not each second.
func TestChartIsSentSeldom(t *testing.T) {
	onPage(t, 3, Config{History: time.Hour}, func(t *testing.T, f *fake, a *asking) {
		f.hold("a", "host-a", 1, "w1")
		s := a.stream("/events")
		sent := 0
		for range 120 {
			if s.next().Parts["chart"] != "" {
				sent++
			}
		}
		if sent < 4 || sent > 7 {
			t.Errorf("sent %d times in two minutes", sent)
		}
	})
}
