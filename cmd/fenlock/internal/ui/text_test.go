package ui

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// A client that can write to the nodes can write any name and label.
func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "orders/42": "orders/42", "grün 锁 🔒": "grün 锁 🔒", "a\nb": `a\u000ab`, "\x1b[2J": `\u001b[2J`,
		"\xffx":    `\xffx`,
		"a\u202eb": `a\u202eb`, "\u200b": `\u200b`, "\U000e0001": `\U000e0001`, "\ufffd": `\ufffd`, "<b>&": "<b>&",
		"a\u00a0b": `a\u00a0b`,
		// What looks like another name in a browser.
		"pay roll": "pay roll", "pay  roll": `pay \u0020roll`, " pay ": `\u0020pay\u0020`, "pay\u034froll": `pay\u034froll`,
		"pay\u3164": `pay\u3164`, "pay\u2800": `pay\u2800`, "pay\ufe0f": `pay\ufe0f`,
	} {
		if got := visible(text); got != want {
			t.Errorf("%q is shown as %s; want %s", text, got, want)
		}
	}
}

func FuzzVisible(f *testing.F) {
	for _, text := range []string{"", "a", "\x00", "\xff\xfe", "a\u202e", "\ufffd", "锁"} {
		f.Add(text, 3)
	}
	f.Fuzz(func(t *testing.T, text string, most int) {
		for _, got := range []string{visible(text), short(text, max(most, 0))} {
			if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%q is shown as %q", text, got)
			}
		}
	})
}

func TestShort(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"aé", 2, "a…"}, {"锁", 1, "…"}, {"a\n", 1, "a…"}} {
		if got := short(c.text, c.most); got != c.want {
			t.Errorf("%q in %d bytes is %q; want %q", c.text, c.most, got, c.want)
		}
	}
}

func TestTimes(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 0: "0 s", 59900 * time.Millisecond: "59 s", time.Minute: "1 min 00 s",
		3661 * time.Second:            "1 h 01 min",
		47*time.Hour + 59*time.Minute: "47 h 59 min", 49 * time.Hour: "2 d 01 h", 1 << 62: "53375 d 23 h",
	} {
		if got := passed(d); got != want {
			t.Errorf("passed(%v) is %s; want %s", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{-1: "0.0 s", 0: "0.0 s", 9999 * time.Millisecond: "9.9 s",
		59999 * time.Millisecond: "59.9 s", time.Minute: "1 min 00 s"} {
		if got := left(d); got != want {
			t.Errorf("left(%v) is %s; want %s", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "", time.Microsecond: "0.1 ms", 340 * time.Microsecond: "0.3 ms",
		12 * time.Millisecond: "12 ms", 1400 * time.Millisecond: "1.4 s"} {
		if got := roundTrip(d); got != want {
			t.Errorf("roundTrip(%v) is %q; want %q", d, got, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th",
		21: "21st", 102: "102nd", 111: "111th"} {
		if got := ordinal(n); got != want {
			t.Errorf("%d is %s; want %s", n, got, want)
		}
	}
	for n, want := range map[int]string{0: "0 locks", 1: "1 lock", 2: "2 locks", 999: "999 locks", 1000: "1,000 locks",
		1234567: "1,234,567 locks"} {
		if got := plural(n, "lock", "locks"); got != want {
			t.Errorf("%d is %s; want %s", n, got, want)
		}
	}
}

func TestReason(t *testing.T) {
	for _, c := range []struct{ err, want string }{
		{"valkey://a:1: connection refused", "connection refused"},
		{"fenlock: valkey://a:1: fenlock: no", "no"},
		{"a\x1b]2;b", `a\u001b]2;b`},
		{strings.Repeat("x", 500), strings.Repeat("x", 400) + "…"},
	} {
		if got := reason("valkey://a:1", errors.New(c.err)); got != c.want {
			t.Errorf("%q is told as %q; want %q", c.err, got, c.want)
		}
	}
	for node, want := range map[string]string{"valkey://a:1/2": "a:1/2", "/var/lib/x.db": "/var/lib/x.db",
		"memory": "memory", "x://": "x://"} {
		if got := address(node); got != want {
			t.Errorf("%s is at %s; want %s", node, got, want)
		}
	}
	if got := fmt.Sprint(exact(time.Date(2026, 11, 22, 3, 4, 5, 6,
		time.FixedZone("", 3600)))); got != "2026-11-22 03:04:05 +01:00" {
		t.Error(got)
	}
}
