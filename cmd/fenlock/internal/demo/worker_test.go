//go:build linux || darwin || freebsd

package demo

import (
	"bytes"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// What a client is told in vain is reported, and changes nothing.
func TestOrdersInVain(t *testing.T) {
	open := `{"do":"open","nodes":["sqlite://` + filepath.Join(t.TempDir(), "locks.db") + `"],"ttl":1000000000}`
	for _, test := range []struct {
		orders []string
		want   string // the last report
	}{
		{[]string{`{"do":"acquire","name":"x"}`}, "failed: open comes first, and once"},
		{[]string{open, open}, "failed: open comes first, and once"},
		{[]string{`{"do":"open","nodes":["http://127.0.0.1"]}`}, "failed: "},
		{[]string{`{"do":"open"}`}, "failed: "},
		{[]string{open, `{"do":"release"}`}, "failed: there is no lock"},
		{[]string{open, `{"do":"acquire"}`}, "failed: "},
		{[]string{open, `{"do":"read","url":"http://127.0.0.1:1/"}`}, "failed: "},
		{[]string{open, `{"do":"try","name":"x"}`, `{"do":"dance"}`}, "failed: unknown order dance"},
		{[]string{open, `{"do":"try","name":"y"}`, `{"do":"release"}`}, "released"},
		{[]string{open, `{"do":"try","name":"y"}`, `{"do":"release"}`, `{"do":"release"}`}, "failed: "},
	} {
		orders, in := io.Pipe()
		out, reports := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- RunClient(orders, reports) }()
		var r report
		for lines, rest := json.NewDecoder(out), test.orders; len(rest) > 0; rest = rest[1:] {
			io.WriteString(in, rest[0]+"\n")
			r = report{}
			if err := lines.Decode(&r); err != nil {
				t.Fatal(err)
			}
		}
		in.Close()
		go io.Copy(io.Discard, out)
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", test.orders, err)
		}
		if got := strings.TrimSuffix(string(r.What)+": "+r.Text, ": "); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %q, want %q", test.orders, got, test.want)
		}
	}
}

func TestOrdersThatAreNone(t *testing.T) {
	if err := RunClient(strings.NewReader("hello\n"), new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), "is started by fenlock demo") {
		t.Errorf("RunClient: %v", err)
	}
}
