package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/doctor"
)

// listening is a page of a test that is open.
type listening struct {
	t     *testing.T
	resp  *http.Response
	lines *bufio.Scanner
	id    string
	close context.CancelFunc
}

// stream opens the stream of a page.
func (a *asking) stream(path string, headers ...string) *listening {
	a.t.Helper()
	ctx, cancel := context.WithCancel(a.t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", "http://127.0.0.1:5625"+path, nil)
	must(a.t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := a.client.Do(r)
	must(a.t, err)
	s := &listening{t: a.t, resp: resp, lines: bufio.NewScanner(resp.Body), close: func() { cancel(); resp.Body.Close() }}
	s.lines.Buffer(nil, 4<<20)
	a.t.Cleanup(s.close)
	return s
}

// next returns the next news.
func (s *listening) next() (u update) {
	s.t.Helper()
	u, ok := s.tryNext()
	if !ok {
		s.t.Fatalf("the stream has ended: %v", s.lines.Err())
	}
	return u
}

func (s *listening) tryNext() (u update, ok bool) {
	s.t.Helper()
	for s.lines.Scan() {
		if id, found := strings.CutPrefix(s.lines.Text(), "id: "); found {
			s.id = id
		}
		if text, found := strings.CutPrefix(s.lines.Text(), "data: "); found {
			must(s.t, json.Unmarshal([]byte(text), &u))
			return u, true
		}
	}
	return u, false
}

// A page is sent all at first, then what has changed.
func TestStream(t *testing.T) {
	onPage(t, 3, Config{}, func(t *testing.T, f *fake, a *asking) {
		f.hold("a", "host-a", 10)
		s := a.stream("/events")
		if kind := s.resp.Header.Get("Content-Type"); s.resp.StatusCode != 200 || kind != "text/event-stream" {
			t.Fatalf("%d, %s", s.resp.StatusCode, kind)
		}
		rowA, rowB := lockID("a"), lockID("b")
		u := s.next()
		if len(u.Parts) != 2 || len(u.Lists["nodes"].Items) != 3 ||
			!strings.Contains(u.Lists["locks"].Items[rowA], "host-a") || len(u.Until) != 1 || len(u.Texts) != 3 ||
			len(u.Trail) != 1 || u.At == 0 || u.Instance == "" {
			t.Errorf("at first: %+v", u)
		}
		u = s.next()
		if len(u.Parts)+len(u.Lists["nodes"].Items)+len(u.Lists["locks"].Items)+len(u.Texts)+len(u.Trail) != 0 ||
			len(u.Lists["locks"].Order) != 1 {
			t.Errorf("when nothing has changed: %+v", u)
		}
		f.hold("b", "host-b", 11, "w1")
		u = s.next()
		if l := u.Lists["locks"]; fmt.Sprint(l.Order) != fmt.Sprint([]string{rowA, rowB}) || len(l.Items) != 1 ||
			!strings.Contains(l.Items[rowB], "w1") || len(u.Trail) != 2 || !strings.Contains(u.Trail[0], "taken by host-b") ||
			!strings.Contains(u.Trail[1], "w1 waits") {
			t.Errorf("a lock was taken: %+v", u)
		}
		if !strings.Contains(u.Parts["status"], "2 locks are held, and 1 waits") {
			t.Errorf("the status: %+v", u.Parts)
		}
		f.change(func() { delete(f.locks, "a"); f.nodes[0].RoundTrip = 9 * time.Millisecond })
		u = s.next()
		if l := u.Lists["locks"]; len(l.Order) != 1 || len(l.Items) != 0 || len(u.Texts) != 1 ||
			u.Texts["trip-node-1"] != "9.0 ms" {
			t.Errorf("a lock is free: %+v", u)
		}
		f.change(func() { f.nodes[2].State, f.nodes[2].Why = doctor.Down, "no answer" })
		u = s.next()
		if n := u.Lists["nodes"].Items; len(n) != 1 || !strings.Contains(n["node-3"], "no answer") ||
			!strings.HasPrefix(u.Title, "1 of 3 nodes does not vote") {
			t.Errorf("a node is down: %+v", u)
		}
	})
}

// A browser that comes back is told what it has missed.
func TestStreamGoesOn(t *testing.T) {
	onPage(t, 3, Config{}, func(t *testing.T, f *fake, a *asking) {
		s := a.stream("/events")
		s.next()
		last := s.id
		s.close()
		f.hold("a", "host-a", 10)
		time.Sleep(2 * time.Second)
		if u := a.stream("/events", "Last-Event-ID", last).next(); len(u.Trail) != 1 ||
			!strings.Contains(u.Trail[0], "host-a") {
			t.Errorf("by the header: %q", u.Trail)
		}
		if u := a.stream("/events?seen=" + last).next(); len(u.Trail) != 1 {
			t.Errorf("by the query: %q", u.Trail)
		}
		for _, id := range []string{"other-1", "-", "x", "1", last + "x", "-99999999999999999999"} {
			if u := a.stream("/events", "Last-Event-ID", id).next(); len(u.Trail) != 2 {
				t.Errorf("by %q: %q", id, u.Trail)
			}
		}
	})
}

// The page of one lock is about that lock.
func TestStreamOfOneLock(t *testing.T) {
	onPage(t, 3, Config{AllowRelease: true}, func(t *testing.T, f *fake, a *asking) {
		a.get("/lock?name=a").want(t, 200, "Free: it has no holder", "No waiters.", "not", "break?")
		s := a.stream("/events?name=a")
		s.next()
		f.hold("a", "host-a", 10, "w1", "w2", "w3", "w4", "w5")
		f.hold("b", "host-b", 10)
		u := s.next()
		if !strings.Contains(u.Parts["facts"], "Held by host-a") || !strings.Contains(u.Parts["facts"], `"break?name=a`) ||
			!strings.Contains(u.Parts["queue"], "w5") || len(u.Lists["votes"].Items) != 3 || len(u.Until) != 4 {
			t.Errorf("%+v", u)
		}
		if all := strings.Join(u.Trail, ""); strings.Contains(all, "host-b") || !strings.Contains(all, "host-a") {
			t.Errorf("told %q", u.Trail)
		}
		if u = s.next(); len(u.Parts)+len(u.Lists["votes"].Items) != 0 {
			t.Errorf("when nothing has changed: %+v", u)
		}
		a.get("/lock?name=a").want(t, 200, "Held by host-a", "w5")
	})
}

// A browser that does not read is let go, and holds up no other.
func TestSlowReader(t *testing.T) {
	onPage(t, 3, Config{}, func(t *testing.T, f *fake, a *asking) {
		for i := range 200 {
			f.hold(fmt.Sprint(i), "x", 1)
		}
		slow, quick := a.stream("/events"), a.stream("/events")
		for range 10 {
			quick.next()
		}
		n := 0
		for ; ; n++ {
			if _, ok := slow.tryNext(); !ok {
				break
			}
		}
		if n > 1 { // what was in a buffer
			t.Errorf("%d news were kept for a browser that does not read", n)
		}
		quick.next()
	})
}

// Only so many pages can be open.
func TestManyStreams(t *testing.T) {
	onPage(t, 3, Config{}, func(t *testing.T, f *fake, a *asking) {
		f.hold("a", "x", 1)
		var all []*listening
		for range maxStreams {
			s := a.stream("/events")
			s.next()
			all = append(all, s)
		}
		before := f.looked()
		var reading sync.WaitGroup
		for _, s := range all {
			reading.Go(func() {
				for range 5 {
					s.next()
				}
			})
		}
		reading.Wait()
		if n := f.looked() - before; n > 6 {
			t.Errorf("looked %d times for 5 pictures of %d pages", n, len(all))
		}
		if r := a.get("/events"); r.status != 503 || r.header.Get("Retry-After") == "" {
			t.Errorf("one more: %d", r.status)
		}
		a.get("/").want(t, 200)
		all[0].close()
		synctest.Wait()
		a.stream("/events").next()
	})
}

// The end of the program is the end of all streams, at once; and a reader that hangs holds
// up nothing for long.
func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		client, stop := serve(t, Config{Source: f})
		a := &asking{t: t, client: client}
		var all []*listening
		for range 5 {
			s := a.stream("/events")
			s.next()
			all = append(all, s)
		}
		for i := range 100 {
			f.hold(fmt.Sprint(i), "x", 1)
		}
		time.Sleep(1500 * time.Millisecond) // it is being written to
		start := time.Now()
		stop()
		if took := time.Since(start); took > endLimit {
			t.Errorf("it took %v", took)
		}
		for _, s := range all {
			for {
				if _, ok := s.tryNext(); !ok {
					break
				}
			}
		}
		looked := f.looked()
		time.Sleep(time.Hour)
		if f.looked() != looked {
			t.Error("the group is still looked at")
		}
	})
}
