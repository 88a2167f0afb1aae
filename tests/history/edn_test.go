package history

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// keyword is one of EDN. Other values are int64, string, []any and map[keyword]any.
type keyword string

// readEDN reads the value that a text begins with, by the specification of EDN, and returns the
// rest. It knows no more of it than a history needs, and panics at anything else.
func readEDN(text string) (value any, rest string) {
	text = strings.TrimLeft(text, " ,\n")
	until := func(end string) (all []any) {
		for text = strings.TrimLeft(text[1:], " ,\n"); !strings.HasPrefix(text, end); text = strings.TrimLeft(text, " ,\n") {
			value, text = readEDN(text)
			all = append(all, value)
		}
		text = text[1:]
		return all
	}
	switch text[0] {
	case '{':
		pairs := until("}")
		value := map[keyword]any{}
		for i := 0; i < len(pairs); i += 2 {
			key := pairs[i].(keyword)
			if _, ok := value[key]; ok {
				panic("a key twice: " + string(key))
			}
			value[key] = pairs[i+1]
		}
		return value, text
	case '[':
		return until("]"), text
	case '"':
		var s strings.Builder
		for text = text[1:]; text[0] != '"'; text = text[1:] {
			if text[0] == '\\' {
				text = text[1:]
				s.WriteByte(map[byte]byte{'"': '"', '\\': '\\', 'n': '\n', 't': '\t', 'r': '\r'}[text[0]])
				continue
			}
			s.WriteByte(text[0])
		}
		return s.String(), text[1:]
	}
	end := strings.IndexAny(text, " ,\n]}")
	if text[0] == ':' {
		return keyword(text[1:end]), text[end:]
	}
	if text[:end] == "true" {
		return true, text[end:]
	}
	n, err := strconv.ParseInt(text[:end], 10, 64)
	if err != nil {
		panic(err)
	}
	return n, text[end:]
}

// jepsen writes a history and reads it again. It checks what Jepsen insists on: indices, one thing
// at a time for each process and nothing after :info, and the value of a :fail.
func jepsen(t *testing.T, h *History) (ops []map[keyword]any) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "history.edn")
	if err := h.WriteEDN(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	running := map[any]map[keyword]any{}
	crashed := map[any]bool{}
	last := int64(0)
	for l := range strings.Lines(string(text)) {
		value, rest := readEDN(l)
		op := value.(map[keyword]any)
		process, kind, before := op["process"], op["type"], running[op["process"]]
		at := op["time"].(int64)
		if rest != "\n" || op["index"] != int64(len(ops)) || at < last {
			t.Fatalf("out of order, or more than a map: %s", l)
		}
		last, ops = at, append(ops, op)
		switch {
		case process == keyword("nemesis"):
			if _, tuple := op["value"].([]any); tuple || kind != keyword("info") {
				t.Errorf("the nemesis has a name, or does more than tell: %s", l)
			}
			continue
		case kind == keyword("invoke") && (before != nil || crashed[process]),
			kind != keyword("invoke") && (before == nil || before["f"] != op["f"] || !sameCall(before, op)),
			kind == keyword("fail") && !reflect.DeepEqual(before["value"], op["value"]):
			t.Errorf("process %v was in %v; crashed %t: %s", process, before, crashed[process], l)
		}
		delete(running, process)
		if kind == keyword("invoke") {
			running[process] = op
		}
		crashed[process] = crashed[process] || kind == keyword("info")
	}
	if len(running) > 0 {
		t.Errorf("without an end: %v", running)
	}
	return ops
}

func keyed(op map[keyword]any) (name any, value map[keyword]any) {
	tuple := op["value"].([]any)
	return tuple[0], tuple[1].(map[keyword]any)
}

func sameCall(a, b map[keyword]any) bool {
	name, value := keyed(a)
	name2, value2 := keyed(b)
	return name == name2 && value["client"] == value2["client"]
}

// fenced is FencedMutex of Jepsen's Hazelcast suite, and its search: whether an order explains what
// happened to a name.
func fenced(ops []map[keyword]any, name string) bool {
	type state struct {
		owner any
		fence int64
	}
	var all []porcupine.Operation
	pending := map[any]int{}
	for _, op := range ops {
		if op["process"] == keyword("nemesis") || op["f"] != keyword("acquire") && op["f"] != keyword("release") {
			continue
		}
		if of, _ := keyed(op); of != name {
			continue
		}
		index := op["index"].(int64)
		switch op["type"] {
		case keyword("invoke"):
			pending[op["process"]] = len(all)
			all = append(all, porcupine.Operation{Input: op, Call: index, Return: math.MaxInt64, Output: false})
		case keyword("ok"):
			o := &all[pending[op["process"]]]
			o.Input, o.Return, o.Output = op, index, true
		case keyword("fail"):
			all[pending[op["process"]]].Input = nil
		}
	}
	all = slices.DeleteFunc(all, func(o porcupine.Operation) bool { return o.Input == nil })
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{}} },
		Step: func(before, input, known any) (after []any) {
			s, op := before.(state), input.(map[keyword]any)
			if !known.(bool) {
				after = append(after, s) // it may never take effect
			}
			_, value := keyed(op)
			fence := value["fence"].(int64)
			switch {
			case op["f"] == keyword("release") && s.owner == value["client"]:
				after = append(after, state{nil, s.fence})
			case op["f"] == keyword("acquire") && s.owner == nil && (fence == 0 || fence > s.fence):
				after = append(after, state{value["client"], max(fence, s.fence)})
			}
			return after
		},
	}
	return porcupine.CheckOperationsTimeout(model.ToModel(), all, time.Minute) == porcupine.Ok
}

// What every kind of event becomes. Times are in ms.
func TestEDN(t *testing.T) {
	h := script(t, "fenlock", `
		5 fault fault=cut_"all" node=2
		10 acquire 1.1
		20 acquired 1.1 token=10 until=90
		30 read 1.1 token=10
		31 wrote 1.1 token=10 value=1
		40 acquire 2.1
		50 extend 1.1
		51 extend 1.1
		52 extendfailed 1.1 text=\no
		53 extended 1.1 until=120
		60 release 1.1
		61 acquired 2.1 token=11 until=500
		62 released 1.1
		70 refused 1.1 token=10
		80 downgrade 2.1
		81 downgraded 2.1
		90 acquire 1.2 shared=true
		91 acquired 1.2 token=12 until=200
		92 read 1.2 token=12 value=1 shared=true
		100 ended 2.1 text=lost
		110 release 2.1
		111 released 2.1 text=lost
		120 healed fault=cut_"all" node=2
		130 acquire 3.1
		210 wrote 3.1 token=13 value=2 base=1
		220 acquire 4.1
		230 acquire 1.3
		240 failed 1.3 text=held
		300 quiet
		400 end`)
	var got strings.Builder
	for _, op := range jepsen(t, h) {
		fmt.Fprintf(&got, "%d %v %v %v", op["time"].(int64)/int64(time.Millisecond)+5, op["process"], op["type"], op["f"])
		if op["process"] == keyword("nemesis") {
			fmt.Fprintf(&got, " %v\n", op["value"])
			continue
		}
		name, value := keyed(op)
		fmt.Fprintf(&got, " %s %s %d", name, value["client"], value["fence"])
		for _, more := range []keyword{"base", "value"} {
			if n, ok := value[more]; ok {
				fmt.Fprintf(&got, " %s=%d", more, n)
			}
		}
		for _, more := range []keyword{"expired", "error", "until"} {
			if v, ok := op[more]; ok {
				fmt.Fprintf(&got, " %s=%v", more, v)
			}
		}
		got.WriteByte('\n')
	}
	if got.String() != wantEDN {
		t.Errorf("wrote\n%s\nwant\n%s", got.String(), wantEDN)
	}
}

const wantEDN = `5 nemesis info start map[breaks: fault:cut "all" node:2]
5 nemesis info start map[breaks: fault:cut "all" node:2]
10 0 invoke acquire a 1.1 0
20 0 ok acquire a 1.1 10 until=85000000
30 0 invoke read a 1.1 10 value=0
30 0 ok read a 1.1 10 value=0
31 0 invoke write a 1.1 10 base=0 value=1
31 0 ok write a 1.1 10 base=0 value=1
40 1 invoke acquire a 2.1 0
50 0 invoke extend a 1.1 10
51 2 invoke extend a 1.1 10
52 0 info extend a 1.1 10 error=\no
53 2 ok extend a 1.1 10 until=115000000
60 2 invoke release a 1.1 10
61 1 ok acquire a 2.1 11 until=495000000
62 2 ok release a 1.1 10
70 2 invoke refuse a 1.1 10
70 2 ok refuse a 1.1 10
80 1 invoke downgrade a 2.1 11
81 1 ok downgrade a 2.1 11
90 2 invoke acquire-shared a 1.2 0
91 2 ok acquire-shared a 1.2 12 until=195000000
92 2 invoke read-shared a 1.2 12 value=1
92 2 ok read-shared a 1.2 12 value=1
100 1 invoke release a 2.1 11 expired=true
110 3 invoke release a 2.1 11
111 3 info release a 2.1 11 error=lost
120 nemesis info stop map[breaks: fault:cut "all" node:2]
120 nemesis info stop map[breaks: fault:cut "all" node:2]
130 4 invoke acquire a 3.1 0
200 2 invoke release a 1.2 12 expired=true
210 1 ok release a 2.1 11 expired=true
210 2 ok release a 1.2 12 expired=true
210 4 ok acquire a 3.1 13
210 4 invoke write a 3.1 13 base=1 value=2
210 4 ok write a 3.1 13 base=1 value=2
220 5 invoke acquire a 4.1 0
230 2 invoke acquire a 1.3 0
240 2 fail acquire a 1.3 0 error=held
400 5 info acquire a 4.1 0
`

// What Jepsen's model of a fenced lock says of histories whose verdict is known.
func TestEDNFenced(t *testing.T) {
	tests := []struct {
		name, text string
		legal      bool
	}{
		{"good", good, true},
		{"a token that is too small", with(t, "5150 acq", "5150 acquired 2.2 token=19 until=6130"), false},
		{"a token twice", with(t, "5150 acq", "5150 acquired 2.2 token=20 until=6130"), false},
		{"two holders", with(t, "510 acq", "510 acquired 2.1 token=11 until=2490", "700 holds", "700 holds 2.1 until=2690",
			"1710 ended", "2000 ended 2.1 text=lost", "1720 rel", "2100 release 2.1", "1730 rel", "2200 released 2.1 text=lost"),
			false},
		{"an unknown acquisition that may have been between", with(t, "600 acq", "400 acquire 3.1"), true},
	}
	for _, test := range tests {
		h := script(t, "fenlock", test.text)
		if legal := fenced(jepsen(t, h), "a"); legal != test.legal {
			t.Errorf("%s: legal %t; want %t", test.name, legal, test.legal)
		}
	}
	h, err := Read("testdata/promote.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	ops := jepsen(t, h)
	for _, name := range h.Header.Names {
		if !fenced(ops, name) {
			t.Errorf("promote.jsonl is not legal: %s", name)
		}
	}
}
