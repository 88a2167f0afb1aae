package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// script makes a history of lines like
//
//	510 acquired 2.1 token=11 until=1490
//
// which are a time in ms, a kind, and client and op. The name is a unless it
// says name=. Lines may be in any order.
func script(t testing.TB, library string, texts ...string) *History {
	t.Helper()
	h := &History{Header: Header{
		Library: library, Server: "none", Nodes: 5, Clients: 2, Names: []string{"a"},
		TTL: time.Second, MaxTTL: time.Second,
	}}
	for line := range strings.Lines(strings.Join(texts, "\n")) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		e, err := scriptEvent(fields)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		h.Events = append(h.Events, e)
	}
	h.Events = Merge(h.Events)
	return h
}

func scriptEvent(fields []string) (e Event, err error) {
	if len(fields) < 2 || !slices.Contains(kinds, Kind(fields[1])) {
		return e, fmt.Errorf("there is no kind")
	}
	object := map[string]any{"kind": fields[1]}
	for _, f := range append([]string{"at=" + fields[0]}, fields[2:]...) {
		key, value, pair := strings.Cut(f, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case !pair:
			object["name"] = "a"
			if _, err := fmt.Sscanf(f, "%d.%d", &e.Client, &e.Op); err != nil {
				return e, err
			}
		case value == "true":
			object[key] = true
		case err != nil:
			object[key] = strings.ReplaceAll(value, "_", " ")
		case key == "at" || key == "until":
			object[key] = n * int64(time.Millisecond)
		default:
			object[key] = n
		}
	}
	text, err := json.Marshal(object)
	if err != nil {
		return e, err
	}
	return e, strict(text, &e)
}

// good has two clients that take turns, one of which is once too slow, and a
// third that was killed. Every bad history in the tests is good with a line
// changed.
const good = `
	100 acquire 1.1
	110 acquired 1.1 token=10 until=1090
	120 read 1.1 token=10
	130 wrote 1.1 token=10 base=0 value=1
	150 fault fault=pause
	200 acquire 2.1
	300 extend 1.1
	310 extended 1.1 until=1290
	400 healed fault=pause
	500 release 1.1
	510 acquired 2.1 token=11 until=1490
	520 released 1.1
	530 read 2.1 token=11 value=1
	540 wrote 2.1 token=11 base=1 value=2
	550 refused 1.1 token=10
	600 acquire 3.1
	700 holds 2.1 until=1690
	1000 acquire 1.2
	1700 acquired 1.2 token=14 until=2690
	1710 ended 2.1 text=lost
	1720 release 2.1
	1730 released 2.1 text=lost
	1740 read 1.2 token=14 value=2
	1750 wrote 1.2 token=14 base=2 value=3
	1760 fault fault=kill node=2
	1800 release 1.2
	1810 released 1.2
	1900 healed fault=kill node=2
	3000 acquire 1.3
	3010 failed 1.3 text=held
	5000 quiet
	5100 acquire 1.4
	5110 acquired 1.4 token=20 until=6090
	5120 release 1.4
	5130 released 1.4
	5140 acquire 2.2
	5150 acquired 2.2 token=21 until=6130
	5160 release 2.2
	5170 released 2.2
	5200 closed client=1
	5210 closed client=2
	9000 end
`

// with returns good, changed: pairs of a line's beginning and what takes its place.
func with(t testing.TB, pairs ...string) string {
	t.Helper()
	return change(t, good, pairs...)
}

func change(t testing.TB, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i+1 < len(pairs); i += 2 {
		lines := strings.Split(text, "\n")
		at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), pairs[i]) })
		if at < 0 {
			t.Fatalf("the history has no line %q", pairs[i])
		}
		lines[at] = pairs[i+1]
		text = strings.Join(lines, "\n")
	}
	return text
}
