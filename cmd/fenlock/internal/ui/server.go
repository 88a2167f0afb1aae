package ui

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/listen"
)

// Config is what a page is about.
type Config struct {
	Source Source
	Prefix string // of the names of the locks that are shown
	// History is for how long it is kept what was seen. With 0, nothing is asked while no page
	// is open.
	History time.Duration
	// Token is what a browser has to send to see the page; "" for nothing.
	Token string
	// AllowRelease lets them break locks.
	AllowRelease bool
	Hosts        []string // names by which the page is asked for, beside localhost
	// Log is told what was broken, in a line. It may be called from several goroutines.
	Log func(format string, args ...any)
}

// maxConnections bounds what idle connections take: a page has two.
const maxConnections = 256

// endLimit is how long what is under way has when the page ends.
const endLimit = 3 * time.Second

// Serve answers requests until ctx is done, and closes the listener. It returns when
// everything has ended that it began; the error is the listener's.
func Serve(ctx context.Context, l net.Listener, c Config) error {
	h := NewHandler(c)
	defer h.Close()
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second, // streams have limits of their own
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // of what browsers do
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listen.Bounded(l, maxConnections, 0)) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	h.cancel() // its streams would not end
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer stop()
	if server.Shutdown(end) != nil {
		server.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Handler answers the requests of a page. It may be below any path that http.StripPrefix takes
// away.
type Handler struct {
	http.Handler
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// Close ends what the handler has begun: its streams, and the questions to the nodes.
func (h *Handler) Close() {
	h.cancel()
	h.ended.Wait()
}

// NewHandler returns the Handler of a page. Close it in the end.
func NewHandler(c Config) *Handler {
	if c.Log == nil {
		c.Log = func(string, ...any) {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &Handler{cancel: cancel}
	poller := newPoller(ctx, &h.ended, c.Source, c.Prefix, &trail{}, c.History)
	shown := &pages{poller: poller, source: c.Source, instance: rand.Text()[:8], mayBreak: c.AllowRelease, log: c.Log,
		asking: make(turns, atOnce), streams: make(turns, maxStreams)}

	private := http.NewServeMux()
	private.HandleFunc("GET /{$}", shown.overview)
	private.HandleFunc("GET /lock", shown.lock)
	private.HandleFunc("GET /events", shown.events)
	private.HandleFunc("GET /break", shown.askToBreak)
	private.HandleFunc("POST /break", shown.breakLock)
	private.HandleFunc("/", notFound)

	public := http.NewServeMux()
	const script = "text/javascript; charset=utf-8"
	for name, kind := range map[string]string{"style.css": "text/css; charset=utf-8", "live.js": script, "copy.js": script,
		"icon.svg": "image/svg+xml"} {
		public.Handle("GET /assets/"+name, asset(name, kind))
	}
	public.HandleFunc("/assets/", http.NotFound)
	public.Handle("GET /metrics", newExposition(poller, c.Token))
	public.Handle("/", newSignin(c.Token, private))
	h.Handler = newGuard(c.Hosts, public)
	return h
}

// asset answers with a file of the page. There is no secret in it.
func asset(name, kind string) http.HandlerFunc {
	text, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it is part of the program
	}
	tag := `"` + digest(text) + `"`
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", kind)
		h.Set("Cache-Control", "no-cache") // but ask whether it is still the same
		h.Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Write(text)
	}
}
