package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/fenlock/fenlock"
)

// firstLook is how long a page waits for the first picture.
const firstLook = 15 * time.Second

// pages answers with the pages that show a picture, and has what answers all else about it.
type pages struct {
	poller   *poller
	source   Source
	instance string
	mayBreak bool
	log      func(format string, args ...any)
	asking   turns
	streams  turns // that are open
}

// turns bounds how many opened pages ask the nodes at a time, so that a browser that opens
// thousands is no load for the nodes.
type turns chan struct{}

// enter waits for a turn; false if ctx is done before.
func (t turns) enter(ctx context.Context) bool {
	select {
	case t <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t turns) leave() { <-t }

// picture returns the newest one. If there is none, it has answered.
func (p *pages) picture(w http.ResponseWriter, r *http.Request) (*picture, bool) {
	ctx, cancel := context.WithTimeout(r.Context(), firstLook)
	defer cancel()
	picture, err := p.poller.now(ctx)
	if err != nil {
		say(w, http.StatusServiceUnavailable, message{
			Class: "warn", Head: "Still looking",
			Text: []string{"The nodes have not told all yet. This page can be asked for again."},
			Back: here(r), To: "Look again",
		})
		return nil, false
	}
	return picture, true
}

func (p *pages) overview(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r.URL.Query())
	if err != nil {
		say(w, http.StatusBadRequest, message{Class: "bad", Head: "That cannot be shown", Text: []string{sentence(err)}})
		return
	}
	picture, ok := p.picture(w, r)
	if !ok {
		return
	}
	v := newOverview(picture, q, p.mayBreak)
	show(w, http.StatusOK, "overview.html",
		page{Title: v.Title(), Live: p.live(v.Now, "", v.Query.at("events", v.Query.Page), r), View: v})
}

func (p *pages) lock(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	if err := fenlock.CheckName(name); err != nil {
		say(w, http.StatusBadRequest, message{Class: "bad", Head: "That cannot be the name of a lock",
			Text: []string{sentence(err)}})
		return
	}
	picture, ok := p.picture(w, r)
	if !ok {
		return
	}
	l, found := picture.single[name]
	if !found {
		if !p.asking.enter(r.Context()) {
			return
		}
		defer p.asking.leave()
		l = inspect(r.Context(), p.source, []string{name})[name]
		l.steady(picture.byName())
	}
	v := newLockPage(picture, l, p.mayBreak)
	show(w, http.StatusOK, "lock.html",
		page{Title: v.Title(), Live: p.live(v.Now, name, "events?"+url.Values{"name": {name}}.Encode(), r), View: v})
}

// live is what the script of a page needs, and the trail.
func (p *pages) live(now time.Time, name, stream string, r *http.Request) *live {
	events, last := p.poller.trail.about(0, name)
	l := &live{Stream: stream, Instance: p.instance, Last: last, Now: now.UnixMilli(), Again: here(r)}
	for i := len(events) - 1; i >= 0; i-- { // newest first
		l.Trail = append(l.Trail, trailRowOf(events[i]))
	}
	return l
}

// here is where a page is, from where it is.
func here(r *http.Request) string { return "." + r.URL.RequestURI() }

func notFound(w http.ResponseWriter, r *http.Request) {
	say(w, http.StatusNotFound, message{Class: "warn", Head: "There is no such page",
		Text: []string{fmt.Sprintf("Nothing is at %s.", short(r.URL.Path, 200))}})
}
