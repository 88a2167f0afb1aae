package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const example = "../testdata/example.jsonl"

func TestRun(t *testing.T) {
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	stale := file("stale.jsonl", strings.Replace(string(text), `"kind":"refused"`, `"kind":"wrote","value":9,"base":2`, 1))
	broken := file("broken.jsonl", string(text[:len(text)-5]))
	short := file("short.jsonl", string(text[:strings.LastIndex(strings.TrimSpace(string(text)), "\n")+1]))

	edn := filepath.Join(t.TempDir(), "history.edn")

	tests := []struct {
		files          []string
		status         int
		stdout, stderr string
	}{
		{nil, 64, "", "usage: "},
		{[]string{example}, 0, "VIOLATIONS: 0\n", ""},
		{[]string{stale}, 1, "a write with token 10 after it was used with 11", ""},
		{[]string{broken}, 1, "", "cannot check " + broken + ", line 43: not an event: unexpected EOF\n"},
		{[]string{short}, 1, `history: the last event is not "end": the run was cut short`, ""},
		{[]string{"none"}, 1, "", "cannot check open none: no such file"},
		{[]string{stale, example}, 1, example + ": fenlock, seed 1, ", ""},
		{[]string{broken, example}, 1, "VIOLATIONS: 0\n", "cannot check"},
		{[]string{"-edn", edn, example}, 0, "VIOLATIONS: 0\n", ""},
		{[]string{"-edn", edn, example, example}, 64, "", "usage: "},
		{[]string{"-no", example}, 64, "", "usage: "},
		{[]string{"-edn", edn + "/none", example}, 1, "VIOLATIONS: 0\n", "cannot write"},
		{[]string{"-edn", edn, short}, 1, "VIOLATIONS: 1\n", "the run was cut short"},
	}
	for _, test := range tests {
		var stdout, stderr strings.Builder
		status := run(test.files, &stdout, &stderr)
		if status != test.status || !strings.Contains(stdout.String(), test.stdout) ||
			!strings.Contains(stderr.String(), test.stderr) {
			t.Errorf("%v: status %d\n%s\n%s", test.files, status, &stdout, &stderr)
		}
		if test.stderr == "" && stderr.Len() > 0 || test.stdout == "" && stdout.Len() > 0 {
			t.Errorf("%v: printed\n%s\n%s", test.files, &stdout, &stderr)
		}
	}
	if text, err := os.ReadFile(edn); err != nil || !strings.HasPrefix(string(text), "{:index 0, ") {
		t.Errorf("-edn wrote %.40q, %v", text, err)
	}
}
