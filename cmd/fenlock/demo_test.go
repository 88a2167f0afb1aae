//go:build linux || darwin || freebsd

package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestDemo(t *testing.T) {
	t.Parallel()
	h := newHome(t, "TMPDIR="+t.TempDir(), "FENLOCK_NODES=valkey://192.0.2.1") // nobody's business
	r := h.start("fenlock", "demo", "5")
	out := r.rest()
	r.want(0)
	for _, text := range []string{"== clock: clocks jump =", "  Promise: ", "It went as told."} {
		if !strings.Contains(out, text) {
			t.Errorf("it does not show %q:\n%s", text, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Errorf("colours, and no terminal: %q", out)
	}
}

func TestDemoArguments(t *testing.T) {
	h := newHome(t)
	r := h.start("fenlock", "demo", "--list")
	if out := r.rest(); !strings.HasPrefix(out, "1  contention  ") || strings.Count(out, "\n") != 6 {
		t.Errorf("--list: %q", out)
	}
	r.want(0)
	h.start("fenlock", "demo", "pause").want(exitUsage, `there is no scene "pause": fenlock demo --list`)
	h.start("fenlock", "demo", "paused", "clock").want(exitUsage, "at most 1 arg")
	r = h.start("fenlock", "demo", "client")
	r.stdin.Write([]byte("hello\n"))
	r.want(exitUsage, "is started by fenlock demo")
}

// Where nobody reads what it shows, it ends.
func TestDemoIntoAClosedPipe(t *testing.T) {
	t.Parallel()
	r := newHome(t, "TMPDIR="+t.TempDir()).start("sh", "-c", "(fenlock demo clock; echo $? >&3) 3>&2 | head -n 1")
	r.want(0, "broken pipe", "\n1\n")
}

// The page says where it is before anything is played, and has what the terminal has.
func TestDemoOnAPage(t *testing.T) {
	t.Parallel()
	h := newHome(t, "TMPDIR="+t.TempDir())
	r := h.start("fenlock", "demo", "--page", "clock")
	_, url, found := strings.Cut(r.line(), "The page is ")
	if !found || !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Fatalf("it begins with %q", url)
	}
	events, err := http.Get(url + "events")
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()
	text, err := io.ReadAll(events.Body)
	if err != nil || !strings.Contains(string(text), `"what":"promise"`) || !strings.HasSuffix(string(text), "event: over\ndata: over\n\n") {
		t.Errorf("%v: %s", err, text)
	}
	if out := r.rest(); !strings.Contains(out, "It went as told.") {
		t.Errorf("the terminal shows %s", out)
	}
	r.want(0)
	h.start("fenlock", "demo", "--page=0.0.0.0:0", "clock").want(exitUsage, "--page: 0.0.0.0:0 can be reached from other machines")
}
