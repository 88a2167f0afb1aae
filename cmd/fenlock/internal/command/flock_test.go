//go:build linux || darwin || freebsd

package command

import (
	"strings"
	"testing"
	"time"
)

// What flock(1) can do that means the same here.
func TestAsFlock(t *testing.T) {
	h := newHome(t, "SHELL=/bin/sh")
	end := h.hold("held")
	for _, test := range []struct {
		args   []string
		status int
		said   string
	}{
		{[]string{"-n", "held", "--", "true"}, 75, "is held"},
		{[]string{"-xnE", "3", "held", "-c", "exit 4"}, 3, "is held"},
		{[]string{"-w", "0.5", "held", "-c", "exit 4"}, 75, "gave up after 500ms"},
		{[]string{"-w", "0", "held", "-c", "exit 4"}, 75, "is held"},
		{[]string{"-xon", "free", "-c", "exit 4"}, 4, ""},
		{[]string{"free", "-c", `test "$0" = /bin/sh || exit 9; echo a | grep -q a && exit $((2 + 3))`}, 5, ""},
		{[]string{"free", "--command", "exit 6"}, 6, ""},
		{[]string{"free", "-c", ""}, 0, ""},
		{[]string{"free", "--", "sh", "-c", "exit 7"}, 7, ""},

		{[]string{"free", "-c"}, 64, "-c takes one COMMAND for the shell, not 0"},
		{[]string{"free", "-c", "a", "b"}, 64, "not 2"},
		{[]string{"-c", "true", "free"}, 64, "it goes after NAME"},
		{[]string{"-sn", "held", "--", "true"}, 75, "is held"},
		{[]string{"-s", "free", "-c", "exit 8"}, 8, ""},
		{[]string{"-u", "free"}, 64, "released when its command has ended"},
		{[]string{"-F", "free", "--", "true"}, 64, "stays beside the command"},
		{[]string{"--nonblock", "free", "--", "true"}, 64, "it is --no-wait, or -n"},
		{[]string{"--timeout=5", "free", "--", "true"}, 64, "it is --wait, or -w"},
		{[]string{"-w", "soon", "free", "--", "true"}, 64, `neither a time, such as 90s or 1m30s, nor a number`},
	} {
		h.start(append([]string{"fenlock", "run"}, test.args...)...).want(test.status, test.said)
	}
	end()
	h.env = append(h.env, "SHELL=/no/such/shell")
	h.start("fenlock", "run", "free", "-c", "true").want(127, "/no/such/shell")
	h.env = append(h.env, "SHELL=sh")
	h.start("fenlock", "run", "free", "-c", "exit 3").want(3)
}

func TestWaitValue(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "5": 5 * time.Second, "0.5": 500 * time.Millisecond, ".25": 250 * time.Millisecond, "+1": time.Second,
		"-1": -time.Second,
		"5s": 5 * time.Second, "1m30s": 90 * time.Second, "100ms": 100 * time.Millisecond, "9000000000": 9e18,
	} {
		var d time.Duration
		if err := (waitValue{&d}).Set(text); err != nil || d != want {
			t.Errorf("%q: %v, %v", text, d, err)
		}
	}
	for _, text := range []string{"", ".", "-", "1-2", "1.2.3", "1e3", "0x1", "inf", "NaN", "5 s", "5m1", "99999999999"} {
		var d time.Duration
		if err := (waitValue{&d}).Set(text); err == nil || d != 0 {
			t.Errorf("%q is %v", text, d)
		}
	}
}

func TestMistypedFlags(t *testing.T) {
	h := newHome(t)
	for typed, said := range map[string]string{
		"--wiat=5":    "unknown flag: --wiat; did you mean --wait? (see fenlock run --help)",
		"--verbos":    "did you mean --verbose?",
		"--max-hodl":  "did you mean --max-hold?",
		"--max":       "did you mean --max-hold or --max-ttl?",
		"--node-file": "did you mean --nodes-file?",
		"-ttl":        "did you mean --ttl?",
		"-wait":       "did you mean --wait?",
		"--frobnify":  "unknown flag: --frobnify (see fenlock run --help)",
		"-Z":          "unknown shorthand flag: 'Z' in -Z (see fenlock run --help)",
	} {
		r := h.start("fenlock", "run", typed, "x", "--", "true")
		r.want(64, said)
		if got := r.stderr.String(); strings.Count(got, "\n") != 1 {
			t.Errorf("%s: %q", typed, got)
		}
	}
	h.start("fenlock", "--versoin").want(64, "did you mean --version?")
}

// The reader of a log wants to know why nothing happens; otherwise there is --quiet.
func TestAWaitIsTold(t *testing.T) {
	h := newHome(t, "FENLOCK_NODES=local")
	end := h.hold("x", "--label", "the holder")
	r := h.start("fenlock", "run", "-w", "0.3", "--quiet", "x", "--", "true")
	r.want(75)
	if got := r.stderr.String(); strings.Contains(got, "waiting") || strings.Count(got, "\n") != 1 {
		t.Errorf("with --quiet: %q", got)
	}
	for _, wait := range []string{"--no-wait", "--wait=0.3"} { // in a crontab, where a lock that is held is no error
		r = h.start("fenlock", "run", wait, "-E", "0", "--quiet", "x", "--", "true")
		r.want(0)
		if got := r.stderr.String(); got != "" {
			t.Errorf("with --quiet -E 0 %s: %q", wait, got)
		}
	}
	r = h.start("sh", "-c", `exec fenlock run x -- echo mine 2>&1`)
	r.until(`waiting: "x" is held by the holder`)
	end()
	if out := r.rest(); out != "mine\n" {
		t.Errorf("it went on with %q", out)
	}
	r.want(0)
}
