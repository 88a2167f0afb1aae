package ui

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"path"
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	server := &http.Server{
		Handler:           newHandler(ctx, &running, c),
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

// NewHandler returns the Handler of a page. Close it in the end.
func NewHandler(c Config) *Handler {
	h := &Handler{}
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	h.Handler = newHandler(ctx, &h.ended, c)
	return h
}

// Close ends what the handler has begun: its streams, and the questions to the nodes.
func (h *Handler) Close() {
	h.cancel()
	h.ended.Wait()
}

// newHandler returns what answers requests until ctx is done. What it begins is waited for
// with running.
func newHandler(ctx context.Context, running *sync.WaitGroup, c Config) http.Handler {
	if c.Log == nil {
		c.Log = func(string, ...any) {}
	}
	instance := rand.Text()[:8]
	poller := newPoller(ctx, running, c.Source, c.Prefix, &trail{}, c.History)
	shown := &pages{poller: poller, source: c.Source, instance: instance, mayBreak: c.AllowRelease,
		asking: make(turns, atOnce)}
	breaks := &breaking{source: c.Source, poller: poller, log: c.Log, may: c.AllowRelease, asking: shown.asking}

	private := http.NewServeMux()
	private.HandleFunc("GET /{$}", shown.overview)
	private.HandleFunc("GET /lock", shown.lock)
	private.Handle("GET /events", newStreams(poller, instance, c.AllowRelease))
	private.HandleFunc("GET /break", breaks.ask)
	private.HandleFunc("POST /break", breaks.do)
	private.HandleFunc("/", notFound)

	public := http.NewServeMux()
	for _, name := range []string{"style.css", "live.js", "copy.js", "icon.svg"} {
		public.Handle("GET /assets/"+name, newAsset(name))
	}
	public.HandleFunc("/assets/", http.NotFound)
	public.Handle("GET /metrics", newExposition(poller, c.Token))
	public.Handle("/", newSignin(c.Token, private))
	return newGuard(c.Hosts, public)
}

// asset is a file of the page. There is no secret in it.
type asset struct {
	name, kind, tag string
	text            []byte
}

func newAsset(name string) *asset {
	text, err := assets.ReadFile(path.Join("assets", name))
	if err != nil {
		panic(err) // it is part of the program
	}
	sum := sha256.Sum256(text)
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".svg": "image/svg+xml"}
	return &asset{name: name, kind: kinds[path.Ext(name)], tag: `"` + hex.EncodeToString(sum[:8]) + `"`, text: text}
}

// ServeHTTP implements http.Handler.
func (a *asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "no-cache") // but ask whether it is still the same
	h.Set("ETag", a.tag)
	if r.Header.Get("If-None-Match") == a.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Write(a.text)
}
