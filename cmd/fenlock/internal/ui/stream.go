package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock"
)

const (
	// maxStreams is how many pages can be open at a time.
	maxStreams = 64
	// patientFor is how long a browser may take to read what it is sent. One that does
	// not is let go, and comes back if it is still there.
	patientFor = 5 * time.Second
	// heartbeat is how often a silent stream is written to, so that a browser that is
	// gone is noticed. It is no news: the page must not take it for any.
	heartbeat = 10 * time.Second
)

// events sends an open page what has changed, as server-sent events, until the browser or the
// program ends.
func (p *pages) events(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	q, err := parseQuery(v)
	name := v.Get("name")
	if err == nil && v.Has("name") {
		err = fenlock.CheckName(name)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case p.streams <- struct{}{}:
		defer p.streams.leave()
	default:
		w.Header().Set("Retry-After", "10")
		http.Error(w, fmt.Sprintf("%d pages are open already", maxStreams), http.StatusServiceUnavailable)
		return
	}
	defer p.poller.watch(name)()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy would keep it until it ends
	out := eventWriter{w, http.NewResponseController(w)}
	// The server's limits are for requests that end.
	out.rc.SetReadDeadline(time.Time{})
	if out.write(": fenlock\n\n") != nil {
		return
	}
	p.send(r, out, q, name, p.seen(r))
}

// seen is the number of the last event that the page has. A browser that comes back tells
// it itself.
func (p *pages) seen(r *http.Request) uint64 {
	id := r.Header.Get("Last-Event-ID")
	if id == "" {
		id = r.URL.Query().Get("seen")
	}
	instance, number, _ := strings.Cut(id, "-")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || instance != p.instance {
		return 0
	}
	return n
}

func (p *pages) send(r *http.Request, out eventWriter, q query, name string, seen uint64) {
	var page sent
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		picture, changed := p.poller.current()
		if now, ok := p.screen(picture, q, name); ok {
			var events []event
			events, seen = p.poller.trail.about(seen, name)
			u := page.news(now, events)
			u.Instance, u.Next = p.instance, picture.rest().Milliseconds()
			text, err := json.Marshal(u)
			if err != nil {
				panic(err) // it is made of texts and numbers
			}
			if out.write(fmt.Sprintf("id: %s-%d\ndata: %s\n\n", p.instance, seen, text)) != nil {
				return
			}
		}
		select {
		case <-changed:
		case <-beat.C:
			if out.write(": still here\n\n") != nil {
				return
			}
		case <-r.Context().Done():
			return
		case <-p.poller.ctx.Done():
			return
		}
	}
}

// screen is what a page shows of a picture; false if that has nothing for it yet.
func (p *pages) screen(shown *picture, q query, name string) (screen, bool) {
	if shown == nil {
		return screen{}, false
	}
	if name == "" {
		return newOverview(shown, q, p.mayBreak).screen(), true
	}
	l, found := shown.single[name]
	if !found {
		return screen{}, false
	}
	return newLockPage(shown, l, p.mayBreak).screen(), true
}

// eventWriter writes to a browser that may not be reading.
type eventWriter struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (e eventWriter) write(text string) error {
	if err := e.rc.SetWriteDeadline(time.Now().Add(patientFor)); err != nil {
		return err
	}
	if _, err := e.w.Write([]byte(text)); err != nil {
		return err
	}
	return e.rc.Flush()
}
