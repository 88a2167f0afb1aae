package ui

import (
	"net/http"
	"strings"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/listen"
)

// policy lets a page have its own script and style, and send its own forms, and nothing
// else. HTML that the script makes must come through the one door that it has for that.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types fenlock"

// maxForm is the size of the largest form, in bytes: a name of a lock, with every byte
// escaped, and a little more.
const maxForm = 8 << 10

// guard is what every request has to pass first. It sets the headers of every answer, and
// refuses requests that were not meant for this program.
type guard struct {
	hosts []string // names, beside the loopback's and all addresses
	next  http.Handler
}

// newGuard returns one that also keeps other sites from sending forms.
func newGuard(hosts []string, next http.Handler) *guard {
	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusForbidden, message{Class: "bad", Head: "That came from another site",
			Text: []string{"Nothing was done."}})
	}))
	return &guard{hosts, cross.Handler(next)}
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	// Not no-referrer: a browser would leave the origin out of the page's own forms.
	h.Set("Referrer-Policy", "same-origin")
	if r.Header.Get("Sec-Fetch-Site") != "" { // else the browser says on its console that it is of no use here
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	switch {
	case r.URL.Path == "": // of a handler below a path, without a slash at its end
		p, query, _ := strings.Cut(r.RequestURI, "?")
		seeOther(w, "./"+p[strings.LastIndexByte(p, '/')+1:]+"/?"+query)
		return
	case !single(r.URL.Path): // from where the page's own links would lead elsewhere
		http.Error(w, "there is no such page", http.StatusNotFound)
		return
	case !listen.Meant(r.Host, g.hosts...) && r.URL.Path != "/assets/style.css": // which what is said here is shown with
		say(w, http.StatusForbidden, message{
			Class: "bad", Head: "This is not called like that",
			Text: []string{"This page was asked for as " + short(r.Host, 100) + ". It answers to addresses and to localhost, and to the names that it was given (--host): any site could give a name of its own to this address."},
		})
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost:
		h.Set("Allow", "GET, HEAD, POST")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	if r.Method != http.MethodPost && r.ContentLength != 0 || r.Method == http.MethodHead && r.URL.Path == "/events" {
		// A body that never ends keeps the answer back, and a HEAD request would be sent news
		// without end.
		h.Set("Connection", "close")
		http.Error(w, "this is not asked for like that", http.StatusBadRequest)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	g.next.ServeHTTP(w, r)
}

// single reports whether a path is that of a page or of a file. All links are relative to
// these, so they are right below any path.
func single(path string) bool {
	if file, is := strings.CutPrefix(path, "/assets/"); is {
		path = "/" + file
	}
	return path[0] == '/' && !strings.ContainsAny(path[1:], `/\`) && path != "/." && path != "/.."
}
