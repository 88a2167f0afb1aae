//go:build linux || darwin || freebsd

package demopage

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/demo"
)

// serve has a page of two scenes, and returns its URL.
func serve(t *testing.T) (*Page, string) {
	t.Helper()
	l, err := Listen(DefaultAddress)
	if err != nil {
		t.Fatal(err)
	}
	p := New([]demo.Scene{{Name: "one", Title: "<b>first</b>"}, {Name: "two", Title: "second"}})
	t.Cleanup(p.Serve(l))
	return p, "http://" + l.Addr().String()
}

// get asks for a path, with headers in pairs.
func get(t *testing.T, url string, headers ...string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

// lines are those of a stream that have something to say, up to its end.
func lines(t *testing.T, r *http.Response) (all []string) {
	t.Helper()
	for s := bufio.NewScanner(r.Body); s.Scan(); {
		if text := s.Text(); text != "" && text[0] != ':' {
			all = append(all, text)
		}
	}
	return all
}

// Whoever comes late gets everything, who comes back what is new, and in the end the page
// says that it is over, once everybody has heard so.
func TestEventsOfTheDemo(t *testing.T) {
	p, url := serve(t)
	p.Emit(demo.Event{Scene: "one", What: demo.Begin, Text: "first"})
	early := get(t, url+"/events")
	<-p.Opened()
	p.Emit(demo.Event{At: 5, Scene: "one", Actor: "client 1", What: demo.Holds, Text: "</script>", Token: 7})
	back := get(t, url+"/events", "Last-Event-ID", "0")
	p.Emit(demo.Event{At: 6, Scene: "one", Actor: "demo", What: demo.Stopped, Whom: []string{"client 1"}, Text: "stops"})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		p.Finish(context.Background())
	}()
	begin := []string{"id: 0", `data: {"at":0,"scene":"one","what":"begin","text":"first"}`}
	rest := []string{
		"id: 1", `data: {"at":5,"scene":"one","actor":"client 1","what":"holds","text":"\u003c/script\u003e","token":7}`,
		"id: 2", `data: {"at":6,"scene":"one","actor":"demo","what":"stopped","whom":["client 1"],"text":"stops"}`,
		"event: over", "data: over",
	}
	if got, want := strings.Join(lines(t, early), "\n"), strings.Join(append(begin, rest...), "\n"); got != want {
		t.Errorf("it was\n%s\nwant\n%s", got, want)
	}
	if got, want := strings.Join(lines(t, back), "\n"), strings.Join(rest, "\n"); got != want {
		t.Errorf("who came back got\n%s\nwant\n%s", got, want)
	}
	<-finished
	if far := lines(t, get(t, url+"/events", "Last-Event-ID", "9223372036854775807")); len(far) != 8 {
		t.Errorf("who has seen more than there was gets %q", far)
	}
	if late := lines(t, get(t, url+"/events")); len(late) != 8 {
		t.Errorf("who comes after the end gets %q", late)
	}
}

func TestPageOfTheDemo(t *testing.T) {
	_, url := serve(t)
	r := get(t, url)
	text, err := io.ReadAll(r.Body)
	if err != nil || !strings.Contains(string(text), `id="two"`) || !strings.Contains(string(text), "&lt;b&gt;first&lt;/b&gt;") {
		t.Errorf("%v: %s", err, text)
	}
	if policy := r.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") {
		t.Errorf("its policy is %q", policy)
	}
	for path, kind := range map[string]string{"style.css": "text/css", "demo.css": "text/css", "demo.js": "text/javascript", "icon.svg": "image/svg"} {
		if r := get(t, url+"/assets/"+path); r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Header.Get("Content-Type"), kind) {
			t.Errorf("%s: %s, %s", path, r.Status, r.Header.Get("Content-Type"))
		}
	}
	if r := get(t, url, "Host", "evil.example"); r.StatusCode != http.StatusForbidden {
		t.Errorf("asked for by another name: %s", r.Status)
	}
	if r := get(t, url+"/assets/demo.html"); r.StatusCode != http.StatusNotFound {
		t.Errorf("a template is shown: %s", r.Status)
	}
}

// More browsers than there are places are told so, and a place is free again when its
// browser has gone.
func TestPlacesAtTheDemo(t *testing.T) {
	p, url := serve(t)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for range maxStreams {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
	}
	if r := get(t, url+"/events"); r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one more is answered %s", r.Status)
	}
	p.mu.Lock()
	left := p.left
	p.mu.Unlock()
	leave()
	p.Emit(demo.Event{}) // who is gone is noticed
	<-left
	p.Finish(t.Context())
	if got := lines(t, get(t, url+"/events")); len(got) != 4 {
		t.Errorf("a free place has %q", got)
	}
}

func TestDemoListensHere(t *testing.T) {
	for address, text := range map[string]string{
		"0.0.0.0:0":   "whoever reaches it could look on: ssh -L leads to the page from elsewhere, or listen at a loopback address such as 127.0.0.1:5626",
		"5626":        "is no address: HOST:PORT is wanted",
		"192.0.2.1:0": "is no address of this machine",
	} {
		if l, err := Listen(address); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %q", address, err, text)
			if err == nil {
				l.Close()
			}
		}
	}
}
