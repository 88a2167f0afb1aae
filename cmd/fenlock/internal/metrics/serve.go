package metrics

import (
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/listen"
)

// MaxConnections is how many connections there are at most. One more is closed at once: a
// Prometheus has one.
const MaxConnections = 16

// pace is the time from one request to the next. A client that asks without end, even without the
// token, is not to have the CPU that the lock is extended with. A hundred times what a Prometheus
// asks is no work.
const pace = 10 * time.Millisecond

// Serve has a handler answer at a listener, until end closes that and all connections. It takes no
// more from the program than a few connections with a request each, of which none is waited for,
// however slow they are. The callback is told why it has ended before.
func Serve(l net.Listener, h http.Handler, failed func(error)) (end func()) {
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      10 * time.Second,
		MaxHeaderBytes:    8 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // of what clients do
	}
	s.SetKeepAlivesEnabled(false) // Prometheus connects again
	go func() {
		if err := s.Serve(listen.Bounded(l, MaxConnections, pace)); err != http.ErrServerClosed {
			failed(err)
		}
	}()
	return func() { s.Close() }
}

// Handler answers GET /metrics with a text, which is not written before it is whole, or with an
// error. A client has to know the token (Authorization: Bearer) if it is not empty.
func Handler(token string, text func(*http.Request) ([]byte, error)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		b, err := text(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", ContentType)
		w.Write(b)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		switch {
		case token != "" && !known(r, token):
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the token is wanted: Authorization: Bearer TOKEN", http.StatusUnauthorized)
		case token == "" && !listen.Meant(r.Host):
			http.Error(w, "ask for this by address or as localhost", http.StatusForbidden)
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

// known reports whether a request has the token.
func known(r *http.Request, token string) bool {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer") && listen.SameToken(given, token)
}
