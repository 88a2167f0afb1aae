//go:build linux || darwin || freebsd

// Package demopage shows the scenes of fenlock demo on a page, while they are played: who
// has the lock and who believes so, as bars along the time, and below what happened, as in
// the terminal. It has no state but the events, and whoever comes late gets all of them.
package demopage

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/demo"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/ui"
)

// Page is the page of one demo. Its methods may be called from several goroutines.
type Page struct {
	scenes []demo.Scene

	mu      sync.Mutex
	events  []string      // in JSON
	over    bool          // no more will come
	changed chan struct{} // closed when something of the above changes
	open    int           // how many are looking
	opened  chan struct{} // closed when somebody looks for the first time
	left    chan struct{} // closed when nobody looks any more; nil while nobody does
}

// New returns the page of a demo that is going to play these scenes.
func New(scenes []demo.Scene) *Page {
	return &Page{scenes: scenes, changed: make(chan struct{}), opened: make(chan struct{})}
}

// Emit shows an event.
func (p *Page) Emit(e demo.Event) {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // it is made of texts and numbers
	}
	p.change(func() { p.events = append(p.events, string(text)) })
}

func (p *Page) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

// Opened is closed when somebody has opened the page.
func (p *Page) Opened() <-chan struct{} { return p.opened }

// Finish says that no more events will come, and waits until everybody who looks has all
// of them, for a few seconds at most, or until ctx is done.
func (p *Page) Finish(ctx context.Context) {
	p.change(func() { p.over = true })
	p.mu.Lock()
	left := p.left
	p.mu.Unlock()
	if left == nil {
		return
	}
	select {
	case <-left:
	case <-time.After(patientFor):
	case <-ctx.Done():
	}
}

const (
	// maxStreams is how many can look at a time.
	maxStreams = 16
	// patientFor is how long a browser may take to read what it is sent.
	patientFor = 3 * time.Second
	// heartbeat is how often a silent stream is written to.
	heartbeat = 10 * time.Second
)

// enter counts one more who looks; false if there are too many.
func (p *Page) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == maxStreams {
		return false
	}
	if p.open++; p.open == 1 {
		p.left = make(chan struct{})
	}
	select {
	case <-p.opened:
	default:
		close(p.opened)
	}
	return true
}

func (p *Page) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open--; p.open == 0 {
		close(p.left)
		p.left = nil
	}
}

// since returns the events from number n on, and what is closed when there are more.
func (p *Page) since(n int) (events []string, over bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events[min(n, len(p.events)):], p.over, p.changed
}

//go:embed assets
var assets embed.FS

var templates = sync.OnceValue(func() *template.Template { return template.Must(template.ParseFS(assets, "assets/demo.html")) })

// Handler answers the requests of the page until ctx is done.
func (p *Page) Handler(ctx context.Context) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		_ = templates().ExecuteTemplate(w, "demo.html", p.scenes) // the browser is gone
	})
	for _, name := range []string{"demo.css", "demo.js"} {
		mux.HandleFunc("GET /assets/"+name, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-cache")
			http.ServeFileFS(w, r, assets, "assets/"+name)
		})
	}
	mux.Handle("GET /assets/style.css", ui.Style())
	mux.Handle("GET /assets/icon.svg", ui.Icon())
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) { p.stream(ctx, w, r) })
	return ui.Guard(mux)
}

// stream sends the events as they come, as server-sent events. One that is sent again to a
// browser that comes back has the same number.
func (p *Page) stream(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	if !p.enter() {
		w.Header().Set("Retry-After", "10")
		http.Error(w, fmt.Sprintf("%d pages are open already", maxStreams), http.StatusServiceUnavailable)
		return
	}
	defer p.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	rc := http.NewResponseController(w)
	write := func(text string) bool {
		if rc.SetWriteDeadline(time.Now().Add(patientFor)) != nil {
			return false
		}
		_, err := w.Write([]byte(text))
		return err == nil && rc.Flush() == nil
	}
	rc.SetReadDeadline(time.Time{}) // the server's limits are for requests that end
	if !write(": fenlock demo\n\n") {
		return
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	sent := 0
	if last, err := strconv.Atoi(r.Header.Get("Last-Event-ID")); err == nil && last >= 0 && last < math.MaxInt {
		sent = last + 1
	}
	for {
		events, over, changed := p.since(sent)
		for _, text := range events {
			if !write(fmt.Sprintf("id: %d\ndata: %s\n\n", sent, text)) {
				return
			}
			sent++
		}
		if over {
			write("event: over\ndata: over\n\n")
			return
		}
		select {
		case <-changed:
		case <-beat.C:
			if !write(": still here\n\n") {
				return
			}
		case <-r.Context().Done():
			return
		case <-ctx.Done():
			return
		}
	}
}
