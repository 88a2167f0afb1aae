package history

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestWriteAndRead(t *testing.T) {
	h := script(t, "fenlock", good)
	h.Header.Pairs = [][2]string{{"kill", "slow"}}
	path := filepath.Join(t.TempDir(), "history-1.jsonl")
	if err := h.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, h) {
		t.Errorf("read %+v; wrote %+v", got, h)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n != 1+len(h.Events) {
		t.Errorf("the file has %d lines for %d events", n, len(h.Events))
	}
	if want := `{"at":300000000,"kind":"extend","client":1,"op":1,"name":"a"}`; !strings.Contains(string(text),
		want+"\n") {
		t.Errorf("the file has no line %s", want)
	}
	if err := h.Write(filepath.Join(path, "x")); err == nil {
		t.Error("wrote into a folder that is none")
	}
}

// The example that is kept is the history of which all bad ones are made.
func TestExample(t *testing.T) {
	got, err := Read("testdata/example.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if want := script(t, "fenlock", good); !reflect.DeepEqual(got.Events, want.Events) {
		t.Error("testdata/example.jsonl is not the good history of script_test.go")
	}
}

// A history of real servers: three clients, while a replica of one server was
// promoted in its place and another server was read-only.
func TestRealHistory(t *testing.T) {
	h, err := Read("testdata/promote.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	r := Check(h)
	wantViolations(t, r.Violations, "", "")
	if r.Acquired != 37 || r.Writes != 213 || r.Faults["promote"].Held != 1 {
		t.Errorf("%d acquisitions, %d writes, strikes %v", r.Acquired, r.Writes, r.Faults)
	}
}

func TestReadSaysWhichLineIsBroken(t *testing.T) {
	const header = `{"library":"fenlock","clients":2,"names":["a"],"ttl":1,"max_ttl":1}` + "\n"
	const event = `{"at":5,"kind":"quiet"}` + "\n"
	tests := []struct{ text, want string }{
		{header + event, ""},
		{"", "line 1: the file is empty"},
		{"x\n", "line 1: not the header of a history"},
		{event, `line 1: not the header of a history: json: unknown field "at"`},
		{strings.Replace(header, "fenlock", "redlock", 1), `line 1: the library "redlock" is not one of`},
		{strings.Replace(header, `"a"`, "", 1), "line 1: the header has no names"},
		{strings.Replace(header, `"clients":2`, `"clients":0`, 1), "line 1: the header does not say how many clients"},
		{strings.Replace(header, `"max_ttl":1`, `"max_ttl":0`, 1), "line 1: the header has a TTL of 1ns and a MaxTTL of 0s"},
		{header + event[:10], "line 2: not an event: unexpected EOF"},
		{header + "\n" + event, "line 2: not an event"},
		{header + event + `{"at":5,"kind":"quiet","tokn":3}`, `line 3: not an event: json: unknown field "tokn"`},
		{header + event + `{"at":5,"kind":"quite"}`, `line 3: there is no kind of event "quite"`},
		{header + `{"at":4,"kind":"end"} {}`, "line 2: not an event: there is more than one object on the line"},
		{header + event[:len(event)-1] + "}", "line 2: not an event: there is more than one object on the line"},
		{header + `{"at":4,"kind":"end","text":"` + strings.Repeat("x", 1<<20), "line 2: bufio.Scanner: token too long"},
	}
	for _, test := range tests {
		path := filepath.Join(t.TempDir(), "h.jsonl")
		if err := os.WriteFile(path, []byte(test.text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := Read(path)
		if test.want == "" && err != nil ||
			test.want != "" && (err == nil || !strings.Contains(err.Error(), path+", "+test.want)) {
			t.Errorf("%.90q: got %v; want %q", test.text, err, test.want)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("got %v of a file that is not there", err)
	}
}
