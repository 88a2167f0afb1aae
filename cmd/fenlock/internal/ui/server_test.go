package ui

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/doctor"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// asking is a browser of a test.
type asking struct {
	t      *testing.T
	client *http.Client
	header http.Header // of each request
	host   string
}

func browse(t *testing.T, c Config) *asking {
	t.Helper()
	client, _ := serve(t, c)
	return &asking{t: t, client: client, header: http.Header{}, host: "127.0.0.1:5625"}
}

// onPage runs a test in a bubble, with a browser that shows the page of a fake group.
func onPage(t *testing.T, nodes int, c Config, test func(t *testing.T, f *fake, a *asking)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(nodes)
		c.Source = f
		test(t, f, browse(t, c))
	})
}

// answer is what came of a request.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a *asking) do(method, path string, form url.Values, headers ...string) answer {
	a.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(a.t.Context(), method, "http://127.0.0.1:5625"+path, body)
	must(a.t, err)
	r.Host, r.Header = a.host, a.header.Clone()
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := a.client.Do(r)
	must(a.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(a.t, err)
	return answer{resp.StatusCode, resp.Header, string(text)}
}

func (a *asking) get(path string, headers ...string) answer {
	a.t.Helper()
	return a.do("GET", path, nil, headers...)
}

// want fails the test unless the answer has the status, and all texts but those after a
// "not".
func (r answer) want(t *testing.T, status int, texts ...string) {
	t.Helper()
	if r.status != status {
		t.Errorf("status %d, want %d\n%s", r.status, status, r.body)
	}
	not := false
	for _, text := range texts {
		if text == "not" {
			not = true
		} else if strings.Contains(r.body, text) == not {
			t.Errorf("%q: %v\n%s", text, !not, r.body)
		}
	}
}

// Every answer has them, whatever it is about.
func TestHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		f.hold("a", "x", 1)
		for _, token := range []string{"", "0123456789abcdef"} {
			a := browse(t, Config{Source: f, Token: token, AllowRelease: true})
			for _, path := range []string{"/", "/lock?name=a", "/break?name=a", "/none", "/assets/style.css", "/assets/live.js",
				"/assets/copy.js", "/assets/icon.svg", "/assets/parts.html", "/?page=x", "/lock", "/events?page=0", "//", "/../x"} {
				if own := a.get(path).header.Get("Cross-Origin-Opener-Policy"); own != "" {
					t.Errorf("%s: a browser that does not trust the address is told of %q", path, own)
				}
				r := a.get(path, "Sec-Fetch-Site", "none")
				for name, want := range map[string]string{
					"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
					"Referrer-Policy":            "same-origin",
					"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
				} {
					if got := r.header.Get(name); got != want {
						t.Errorf("%s (%d): %s is %q", path, r.status, name, got)
					}
				}
				if kind := r.header.Get("Content-Type"); r.status == 200 && kind == "" ||
					r.status != 301 && r.status != 307 && strings.HasPrefix(kind, "text/html;") &&
						r.header.Get("Cache-Control") != "no-store" {
					t.Errorf("%s: %q, kept %q", path, kind, r.header.Get("Cache-Control"))
				}
				if strings.Contains(r.body, "style=") || strings.Contains(r.body, "<script>") ||
					strings.Contains(r.body, " onclick") {
					t.Errorf("%s has something in line, which its policy forbids:\n%s", path, r.body)
				}
			}
		}
	})
}

// A site can give a name of its own to this address, and no other way in.
func TestHost(t *testing.T) {
	onPage(t, 1, Config{Hosts: []string{"Locks.Example.com"}}, func(t *testing.T, _ *fake, a *asking) {
		for host, want := range map[string]int{
			"127.0.0.1:5625": 200, "localhost:5625": 200, "localhost": 200, "LOCALHOST:1": 200, "localhost.": 200,
			"[::1]:5625": 200, "[::1]": 200, "10.1.2.3": 200,
			"locks.example.com": 200, "LOCKS.example.com:80": 200, "locks.example.com.": 200,
			"evil.example": 403, "evil.example:5625": 403, "127.0.0.1.evil.example": 403, "localhost.evil.example": 403,
			"xlocks.example.com": 403, "127.0.0.1.nip.io:5625": 403, "0x7f000001": 403, "127.1": 403, "2130706433": 403,
			"localhost:x:y": 403, "<script>": 403, "[::1": 403,
		} {
			a.host = host
			if r := a.get("/assets/style.css"); r.status != 200 && r.status != 400 {
				t.Errorf("%q: the style of what it is told: %d", host, r.status)
			}
			for _, path := range []string{"/", "/assets/live.js"} {
				r := a.get(path)
				if r.status != want && (want != 403 || r.status != 400) {
					t.Errorf("%q%s: %d, want %d", host, path, r.status, want)
				}
				if strings.Contains(r.body, "<script>") {
					t.Errorf("%q is in the answer", host)
				}
			}
		}
	})
}

func TestMethods(t *testing.T) {
	onPage(t, 1, Config{}, func(t *testing.T, _ *fake, a *asking) {
		for _, c := range []struct {
			method, path string
			want         int
		}{{"PUT", "/", 405}, {"DELETE", "/break?name=a", 405}, {"OPTIONS", "/", 405}, {"TRACE", "/", 405},
			{"POST", "/lock", 404}, {"HEAD", "/", 200}, {"HEAD", "/events", 400}, {"POST", "/", 404},
			{"POST", "/assets/style.css", 404}} {
			if r := a.do(c.method, c.path, nil); r.status != c.want && r.status != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d, want %d", c.method, c.path, r.status, c.want)
			}
		}
	})
}

// A body that never comes would keep the answer back, and a place with it.
func TestBodyThatIsNone(t *testing.T) {
	onPage(t, 1, Config{}, func(t *testing.T, _ *fake, a *asking) {
		for _, path := range []string{"/", "/events", "/metrics"} {
			if r := a.do("GET", path, url.Values{"a": {"b"}}); r.status != http.StatusBadRequest {
				t.Errorf("GET %s with a body: %d", path, r.status)
			}
		}
	})
}

// A page that asks the nodes when it is opened waits for a turn, as long as its browser waits.
func TestTurns(t *testing.T) {
	turns := make(turns, 1)
	gone, leave := context.WithCancel(t.Context())
	leave()
	if !turns.enter(t.Context()) || turns.enter(gone) {
		t.Error("two have a turn of one")
	}
	turns.leave()
	if !turns.enter(t.Context()) {
		t.Error("the turn of the one that left is lost")
	}
}

func TestBadInput(t *testing.T) {
	onPage(t, 1, Config{AllowRelease: true}, func(t *testing.T, f *fake, a *asking) {
		f.hold("a", "x", 1)
		long := strings.Repeat("n", fenlock.MaxNameLength+1)
		for path, said := range map[string]string{
			"/?page=0": "there is no page", "/?page=-1": "there is no page", "/?page=99999999999999999999": "there is no page",
			"/?page=x": "there is no page", "/?page=1%00": "there is no page",
			"/?filter=" + long: "the filter has 513 bytes", "/?filter=%ff": "not valid UTF-8",
			"/lock": "is empty", "/lock?name=": "is empty", "/lock?name=" + long: "has 513 bytes",
			"/lock?name=%ff": "not valid UTF-8", "/lock?name=a%0ab": "control character",
			"/break": "is empty", "/break?name=%1b": "control character", "/events?page=0": "there is no page",
			"/events?name=": "is empty", "/events?name=%00": "control character",
		} {
			a.get(path).want(t, 400, said, "not", "\x1b", "\xff")
		}
		for _, path := range []string{"/?page=7", "/?filter=none", "/?filter=%3Cscript%3E&waiting=1", "/?%zz",
			"/lock?name=none"} {
			a.get(path).want(t, 200)
		}
		a.get("/?filter=%22%3E%3Cscript%3E").want(t, 200, "&#34;&gt;&lt;script&gt;", "not", `"><script>`)
		form := url.Values{"name": {"a"}, "seen": {strings.Repeat("x", 2*maxForm)}}
		if r := a.do("POST", "/break", form); r.status != 400 || len(f.broken) > 0 {
			t.Errorf("a large form: %d, %v", r.status, f.broken)
		}
		if r := a.get("/" + strings.Repeat("x", 40<<10)); r.status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a large request: %d", r.status)
		}
	})
}

// Nothing that others wrote to the nodes is anything but text.
func TestEscaping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		const evil = `</script><script>alert(1)</script><img src=x onerror=alert(2)>"'{{.}}&amp;`
		f.hold(evil, evil, 1, evil)
		f.hold("control \x1b]2;x\x07\r\n", "label\x00\u202e", 2, "waiter\x1b[2J")
		f.hold("bytes \xff\xfe", "\xff", 3)
		f.hold("javascript:alert(1)", "x", 4)
		f.change(func() {
			f.nodes[1].State, f.nodes[1].Why, f.nodes[1].Note, f.nodes[1].Advice = doctor.Down, evil+"\x1b", evil, evil+"\x1b"
		})
		a := browse(t, Config{Source: f, AllowRelease: true})
		all := ""
		for _, path := range []string{"/", "/lock?" + url.Values{"name": {evil}}.Encode(),
			"/break?" + url.Values{"name": {evil}}.Encode()} {
			r := a.get(path)
			r.want(t, 200)
			all += r.body
		}
		s := a.stream("/events")
		s.next()
		f.hold("next "+evil, evil, 5)
		all += strings.Join(append([]string{}, html("event", trailRowOf(event{lock: evil, text: evil})),
			fmt.Sprint(s.next().Lists), fmt.Sprint(s.next().Trail)), "")
		for _, raw := range []string{"<script>alert", "<img", "\x1b", "\x00", "\x07", "\u202e", "\xff", `href="javascript:`} {
			if strings.Contains(all, raw) {
				t.Errorf("%q is in what the browser gets", raw)
			}
		}
		for _, text := range []string{`control \u001b]2;x\u0007\u000d\u000a`, `label\u0000\u202e`, `bytes \xff\xfe`,
			`waiter\u001b[2J`, `"lock?name=javascript%3Aalert%281%29"`} {
			if !strings.Contains(all, text) {
				t.Errorf("%q is not there", text)
			}
		}
		if strings.Contains(all, "name=bytes") || strings.Contains(all, "name=control") {
			t.Error("a name that fenlock does not take has a page")
		}
	})
}

// Thousands of locks are shown a page at a time.
func TestManyLocks(t *testing.T) {
	onPage(t, 5, Config{}, func(t *testing.T, f *fake, a *asking) {
		for i := range 50_000 {
			f.hold(fmt.Sprintf("lock-%05d", i), "x", 1)
		}
		f.hold("lock-00777", "x", 1, "w")
		rows := func(r answer) int { return strings.Count(r.body, `<tr id="lock-`) }
		r := a.get("/")
		if r.want(t, 200, "More than 2,000 locks", "Page 1 of 20", "only the first 2,000 are looked at", `href="./?page=2"`,
			"not", "lock-00100"); rows(r) != perPage {
			t.Errorf("%d rows", rows(r))
		}
		if len(r.body) > 512<<10 {
			t.Errorf("the page has %d bytes", len(r.body))
		}
		if r := a.get("/?page=20"); rows(r) != perPage || !strings.Contains(r.body, "lock-01999") ||
			strings.Contains(r.body, "Next<") {
			t.Errorf("the last page has %d rows", rows(r))
		}
		if r := a.get("/?page=1000"); rows(r) != perPage || !strings.Contains(r.body, "lock-01999") {
			t.Errorf("a page after the last one has %d rows", rows(r))
		}
		if r := a.get("/?filter=777"); rows(r) != 2 || !strings.Contains(r.body, "lock-01777") {
			t.Errorf("filtered: %d rows", rows(r))
		}
		if r := a.get("/?filter=777&waiting=1"); rows(r) != 1 {
			t.Errorf("with waiters: %d rows", rows(r))
		}
		a.get("/?filter=none").want(t, 200, "None of 2,000 locks is like that")
		a.get("/lock?name=lock-49999").want(t, 200, "Held by x")
		s := a.stream("/events?page=3")
		if u := s.next(); len(u.Lists["locks"].Order) != perPage || len(u.Lists["locks"].Items) != perPage {
			t.Errorf("%d rows are sent", len(u.Lists["locks"].Order))
		}
	})
}

func TestPrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		f.hold("a/1", "x", 1)
		f.hold("b/1", "x", 1)
		browse(t, Config{Source: f, Prefix: "b/"}).get("/").want(t, 200, "b/1", "not", "a/1")
	})
}

// What a person sees first in each situation.
func TestStatus(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes int
		how   func(f *fake)
		class string
		said  string
	}{
		{"all well", 5, func(*fake) {}, "good", "All 5 nodes answer. Nothing is locked."},
		{"one node", 1, func(f *fake) { f.hold("a", "x", 1) }, "good", "The node answers. 1 lock is held, no waiters."},
		{"waiters", 3, func(f *fake) { f.hold("a", "x", 1, "w"); f.hold("b", "x", 1) }, "good",
			"All 3 nodes answer. 2 locks are held, and 1 waits."},
		{"one down", 5, func(f *fake) { f.nodes[0].State = doctor.Down }, "warn",
			"1 of 5 nodes does not vote. Locks still work, and would with 1 fewer. Nothing is locked."},
		{"two down", 5, func(f *fake) { f.nodes[0].State, f.nodes[1].State = doctor.Down, doctor.Out }, "warn",
			"2 of 5 nodes do not vote. Locks still work. If one more goes, none can be taken or extended."},
		{"no majority", 3, func(f *fake) {
			f.nodes[0].State, f.nodes[1].State, f.err = doctor.Down, doctor.Down, f.noQuorum()
		}, "bad", "2 of 3 nodes do not vote. No lock can be taken or extended, and the holders are not known."},
		{"out", 3, func(f *fake) { f.nodes[0].State, f.nodes[1].State = doctor.Out, doctor.Out }, "bad",
			"2 of 3 nodes do not vote. No lock can be taken or extended."},
		{"ready", 3, func(f *fake) { f.nodes[0].State = doctor.Ready }, "good", "All 3 nodes answer."},
		{"two of two", 2, func(f *fake) { f.nodes[0].State = doctor.Down }, "bad",
			"1 of 2 nodes does not vote. No lock can be taken"},
		{"none", 3, func(f *fake) {
			for i := range f.nodes {
				f.nodes[i].State = doctor.Misconfigured
			}
		}, "bad", "None of 3 nodes votes."},
		{"the only one", 1, func(f *fake) { f.nodes[0].State = doctor.Down }, "bad", "The node does not vote."},
		{"while listing", 3, func(f *fake) { f.err = f.noQuorum() }, "bad", "The list is not whole."},
		{"too slow", 3, func(f *fake) { f.slow = time.Hour }, "warn", "The list is not whole. context deadline exceeded."},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(c.nodes)
				c.how(f)
				s := statusOf(look(t.Context(), f, "", nil, nil))
				if got := s.Head + " " + s.Text; s.Class != c.class || !strings.HasPrefix(got, c.said) {
					t.Errorf("%s: %s; want %s: %s", s.Class, got, c.class, c.said)
				}
			})
		})
	}
}

// A browser asks again for a file that it has, and is not sent it again.
func TestAssets(t *testing.T) {
	onPage(t, 1, Config{Token: "0123456789abcdef"}, func(t *testing.T, _ *fake, a *asking) {
		for path, kind := range map[string]string{"/assets/style.css": "text/css; charset=utf-8",
			"/assets/live.js": "text/javascript; charset=utf-8", "/assets/icon.svg": "image/svg+xml"} {
			r := a.get(path)
			if r.status != 200 || r.header.Get("Content-Type") != kind || len(r.body) < 100 {
				t.Errorf("%s: %d, %s", path, r.status, r.header.Get("Content-Type"))
			}
			if r = a.get(path, "If-None-Match", r.header.Get("ETag")); r.status != 304 || r.body != "" {
				t.Errorf("%s again: %d", path, r.status)
			}
		}
	})
}

// Where no node tells anything, the first page says so at last.
func TestStillLooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1)
		a := browse(t, Config{Source: stuck{f}})
		a.get("/?filter=a").want(t, 503, "Still looking", `href="./?filter=a"`)
	})
}

// stuck is a Source that does not answer for long.
type stuck struct{ *fake }

func (s stuck) Nodes(ctx context.Context) []Node {
	select {
	case <-time.After(20 * time.Second):
	case <-ctx.Done():
	}
	time.Sleep(20 * time.Second)
	return s.fake.Nodes(ctx)
}
