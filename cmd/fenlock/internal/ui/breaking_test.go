package ui

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/admin"
)

var seenField = regexp.MustCompile(`name="seen" value="([0-9a-f]+)"`)

// form is what the page that asks sends.
func (r answer) form(t *testing.T, name string) url.Values {
	t.Helper()
	m := seenField.FindStringSubmatch(r.body)
	if m == nil {
		t.Fatalf("%d: there is no form\n%s", r.status, r.body)
	}
	return url.Values{"name": {name}, "seen": {m[1]}}
}

func TestBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		f.hold("a", "host-a", 10, "w1", "w2")
		var logged []string
		a := browse(t, Config{Source: f, AllowRelease: true,
			Log: func(format string, args ...any) { logged = append(logged, fmt.Sprintf(format, args...)) }})
		a.get("/").want(t, 200, `href="break?name=a"`)
		r := a.get("/break?name=a")
		r.want(t, 200, "Break a?", "host-a", "10", "3 of 3", "w1, w2", "<b>w1</b> is the next in the queue",
			`<button type="submit" class="danger">Break a</button>`)
		if len(f.broken) > 0 {
			t.Fatal("it is broken already")
		}
		time.Sleep(time.Minute)
		s := a.stream("/events")
		s.next()
		a.do("POST", "/break", r.form(t, "a"), "Sec-Fetch-Site", "same-origin").want(t, 200, "a is broken",
			"host-a had it for 1 min 00 s, with token 10", "2 were waiting", "larger than 1034")
		if !slices.Equal(f.broken, []string{"a"}) || len(logged) != 1 ||
			!strings.Contains(logged[0], `broke "a", held by host-a, for a browser at`) {
			t.Errorf("broke %q, logged %q", f.broken, logged)
		}
		var trail string
		for !strings.Contains(trail, "free; host-a had it") {
			trail += strings.Join(s.next().Trail, "")
		}
		if !strings.Contains(trail, "broken on this page; host-a had it") {
			t.Errorf("the trail: %s", trail)
		}
		// Once more: a window that was still open.
		a.do("POST", "/break", r.form(t, "a")).want(t, 409, "a is not held", "nothing to break")
		a.get("/break?name=a").want(t, 200, "a is not held")
		if len(f.broken) != 1 {
			t.Errorf("broke %q", f.broken)
		}
	})
}

// A confirmation holds only for what the page has shown.
func TestBreakAnotherHolder(t *testing.T) {
	onPage(t, 3, Config{AllowRelease: true}, func(t *testing.T, f *fake, a *asking) {
		f.hold("a", "host-a", 10)
		form := a.get("/break?name=a").form(t, "a")
		time.Sleep(time.Second)
		f.hold("a", "host-a", 11) // the same process, later
		r := a.do("POST", "/break", form)
		r.want(t, 409, "Nothing was broken", "Break a?")
		if len(f.broken) > 0 {
			t.Fatal("it is broken")
		}
		for _, seen := range []string{"", "x"} {
			a.do("POST", "/break", url.Values{"name": {"a"}, "seen": {seen}}).want(t, 409, "Nothing was broken")
		}
		a.do("POST", "/break", r.form(t, "a")).want(t, 200, "a is broken")
	})
}

// Nothing is broken from elsewhere.
func TestBreakFromAnotherSite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		f.hold("a", "host-a", 10)
		a := signedIn(t, Config{Source: f, AllowRelease: true})
		form := a.get("/break?name=a").form(t, "a")
		for _, headers := range [][]string{
			{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"},
			{"Origin", "null"}, {"Origin", "http://127.0.0.1:5626"},
			{"Origin", "http://127.0.0.1:5625", "Sec-Fetch-Site", "cross-site"}, {"Origin", "http://localhost:5625"},
		} {
			a.do("POST", "/break", form, headers...).want(t, 403, "another site")
		}
		a.do("GET", "/break?"+form.Encode(), nil).want(t, 200, "Break a?") // which breaks nothing
		if len(f.broken) > 0 {
			t.Fatalf("broke %q", f.broken)
		}
		a.do("POST", "/break", form, "Origin", "http://127.0.0.1:5625").want(t, 200, "a is broken")
	})
}

func TestReadOnly(t *testing.T) {
	onPage(t, 3, Config{}, func(t *testing.T, f *fake, a *asking) {
		f.hold("a", "host-a", 10)
		a.get("/").want(t, 200, "not", "break?", "Break")
		a.get("/lock?name=a").want(t, 200, "not", "break?", "Break")
		a.get("/break?name=a").want(t, 403, "without --allow-release")
		a.do("POST", "/break", url.Values{"name": {"a"}, "seen": {fingerprint(f.locks["a"])}}).want(t, 403,
			"without --allow-release")
		if s := a.stream("/events").next(); strings.Contains(fmt.Sprint(s), "break?") {
			t.Error("the news have a way to break")
		}
		if len(f.broken) > 0 {
			t.Errorf("broke %q", f.broken)
		}
	})
}

func TestBreakWithoutAMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		f.hold("a", "host-a", 10)
		logs := 0
		a := browse(t, Config{Source: f, AllowRelease: true, Log: func(string, ...any) { logs++ }})
		form := a.get("/break?name=a").form(t, "a")
		f.change(func() { f.refuse = f.noQuorum() })
		a.do("POST", "/break", form).want(t, 503, "a may not be broken", "3 of 3 nodes do not answer, or do not vote",
			"10.0.0.2:6379: connection refused", "does no harm")
		f.change(func() { f.refuse = errors.New("fenlock: after 8 passes the nodes still have different numbers") })
		a.do("POST", "/break", form).want(t, 503, "after 8 passes", "not", "fenlock: after")
		f.change(func() { f.refuse, f.err = nil, f.noQuorum() })
		for _, r := range []answer{a.get("/break?name=a"), a.do("POST", "/break", form)} {
			r.want(t, 503, "a was not broken", "Nothing was sent", "10.0.0.1:6379: connection refused")
		}
		a.get("/lock?name=a").want(t, 200, "not", "break?")
		if len(f.broken) > 0 || logs != 2 {
			t.Errorf("broke %q, %d logs", f.broken, logs)
		}
	})
}

// A lock that ended between the question and the answer.
func TestBreakWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		f.hold("a", "host-a", 10)
		a := browse(t, Config{Source: ending{f}, AllowRelease: true})
		a.do("POST", "/break", a.get("/break?name=a").form(t, "a")).want(t, 200, "a was no longer held")
	})
}

// ending is a Source whose locks end when they are broken.
type ending struct{ *fake }

func (e ending) ForceRelease(context.Context, string) (admin.Broken, error) {
	return admin.Broken{}, nil
}
