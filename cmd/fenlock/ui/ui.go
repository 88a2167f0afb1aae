// Package ui serves the page of "fenlock ui" in a program of your own, below any path. The page
// shows the nodes of a quorum group, its locks with holders and waiters, and what has changed.
//
// A browser gets labels, times and tokens, and no identity of a holder with which a lock
// could be released. The page has a token of its own (Config.Token), or the program lets in
// only those who may see it (Config.Guarded).
//
// What the page can do, and how it is protected, is in docs/ui.md.
package ui

import (
	"fmt"
	"net/http"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/listen"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/ui"
)

// Config is what a page shows, and to whom.
type Config struct {
	// Nodes are all nodes of the group, as of Locker.Nodes. The caller closes them, after
	// Handler.Close.
	Nodes []fenlock.Node
	// Prefix is what the names of the locks that are shown begin with; "" shows all.
	Prefix string

	// Token is what a browser has to know, of 16 bytes or more. It types it in, or has it as
	// ?token=TOKEN in the address, and gets a cookie for it that ends with the handler.
	// Prometheus sends it as a bearer token.
	Token string
	// Guarded says that the program itself lets in only those who may see the page and,
	// with AllowRelease, break locks. Then there is no Token. One of both is needed.
	Guarded bool
	// AllowRelease lets those who see the page break locks.
	AllowRelease bool
	// Hosts are the names by which browsers ask for the page, such as "locks.example.com":
	// without a port, in any case of letters. Requests by other names are refused, beside
	// addresses and localhost, because any site can give a name of its own to this program.
	Hosts []string

	// History is for how long the page keeps what it sees, also while no browser shows it. It
	// asks the nodes every five seconds then, and each second while a browser does. Its memory
	// is bounded. 0 keeps nothing, and asks nothing while no browser shows the page.
	History time.Duration
	// Log is told which locks were broken, and by which address, a line each; nil logs
	// nothing. It is called from several goroutines.
	Log func(format string, args ...any)
}

// Handler answers the requests for a page. It is safe for concurrent use.
type Handler struct {
	page  *ui.Handler
	group *ui.Group
}

// New returns the Handler of a page. With a History it asks the nodes from now on. Close it
// in the end. The error matches fenlock.ErrInvalid.
//
// All links are relative. Below a path, which has to end with a slash, take the path away:
//
//	http.Handle("/locks/", http.StripPrefix("/locks", handler))
//
// A proxy may change the path; it must not buffer /events, and should pass Host on. What
// wraps the http.ResponseWriter must have Unwrap, or the page cannot follow the changes.
func New(c Config) (*Handler, error) {
	switch {
	case c.Guarded && c.Token != "":
		return nil, invalid("Guarded and Token exclude each other")
	case !c.Guarded && len(c.Token) < listen.MinToken:
		return nil, invalid(fmt.Sprintf(
			"Token has %d bytes, at least %d are needed; or say that the program protects the page (Guarded)", len(c.Token),
			listen.MinToken))
	case c.History < 0:
		return nil, invalid(fmt.Sprintf("History is %v", c.History))
	}
	group, err := ui.NewGroup(c.Nodes)
	if err != nil {
		return nil, err
	}
	page := ui.NewHandler(ui.Config{
		Source: group, Prefix: c.Prefix, History: c.History, Token: c.Token, AllowRelease: c.AllowRelease, Hosts: c.Hosts,
		Log: c.Log,
	})
	return &Handler{page: page, group: group}, nil
}

func invalid(text string) error {
	return fmt.Errorf("%w: %s", fenlock.ErrInvalid, text)
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.page.ServeHTTP(w, r) }

// Close ends the streams to browsers and the questions to the nodes. Requests that come
// later are answered with errors.
func (h *Handler) Close() {
	h.page.Close()
	h.group.Close()
}
