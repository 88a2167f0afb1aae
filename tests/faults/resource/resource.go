// Package resource is what the locks protect: a number for each name, which client
// processes read and write over a loopback port. A guard refuses tokens that are too
// old, and everything that was done is written down in its order.
package resource

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/tests/history"
)

// Server serves the resource: what is to be done is sent as its event, and answered with
// the value.
type Server struct {
	guarded bool
	guard   fence.Guard
	http    *httptest.Server

	mu     sync.Mutex // guards the rest
	values map[string]int
	events []history.Event
}

// New serves a resource until it is closed. Without a guard every token passes. It panics
// if there is no port left on the loopback device.
func New(guarded bool) *Server {
	r := &Server{guarded: guarded, values: make(map[string]int)}
	r.http = httptest.NewServer(http.HandlerFunc(r.serve))
	return r
}

// URL returns the address for a Client.
func (r *Server) URL() string { return r.http.URL }

// Close ends the service, and returns what was done in the order in which it was.
func (r *Server) Close() []history.Event {
	r.http.Close() // returns when nothing is under way
	return r.events
}

// Used reports whether it was used.
func (r *Server) Used() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events) > 0
}

func (r *Server) serve(w http.ResponseWriter, request *http.Request) {
	var e history.Event
	err := json.NewDecoder(request.Body).Decode(&e)
	if err != nil || e.Kind != history.ReadValue && (e.Kind != history.Wrote || e.Shared) {
		http.Error(w, "neither a read nor a write", http.StatusBadRequest)
		return
	}
	do := func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if e.Kind == history.ReadValue {
			e.Value = r.values[e.Name]
		} else {
			r.values[e.Name] = e.Value
		}
		r.note(e)
		return nil
	}
	switch {
	case !r.guarded:
		err = do()
	case e.Shared:
		err = r.guard.Read(context.Background(), e.Name, fence.Token(e.Token), do)
	default:
		err = r.guard.Do(context.Background(), e.Name, fence.Token(e.Token), do)
	}
	switch {
	case errors.Is(err, fence.ErrStale):
		r.mu.Lock()
		defer r.mu.Unlock()
		r.note(history.Event{Kind: history.Refused, Name: e.Name, Shared: e.Shared, Client: e.Client, Op: e.Op,
			Token: e.Token})
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		fmt.Fprint(w, e.Value)
	}
}

// note writes an event down. Called with mu held, so that the times are in the
// order of the events.
func (r *Server) note(e history.Event) {
	e.At = int64(clock.Now())
	r.events = append(r.events, e)
}

// ErrStale is the resource's answer to a token that is too old. After any other
// error it is not known whether a write was done.
var ErrStale = errors.New("stale token")

// Client is one client's way to the resource. It connects when it has to.
type Client struct {
	url  string
	http http.Client
}

// NewClient returns a client with connections of its own.
func NewClient(url string) *Client {
	// The timeout is generous: nothing fails between the clients and the resource, but
	// clients are paused.
	return &Client{url, http.Client{Transport: &http.Transport{}, Timeout: 2 * time.Second}}
}

// Do reads the value, or changes it, as an event says: of the kind history.ReadValue or
// history.Wrote, with the client that does it. A read may be Shared: beside others', whose tokens
// it is in no order with. It is sent once: package http sends no POST again that may have arrived.
func (c *Client) Do(e history.Event) (value int, err error) {
	body, err := json.Marshal(e)
	if err != nil {
		return 0, err
	}
	response, err := c.http.Post(c.url, "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body) // to its end, or the connection is not used again
	switch {
	case err != nil:
		return 0, err
	case response.StatusCode == http.StatusConflict:
		return 0, ErrStale
	case response.StatusCode != http.StatusOK:
		return 0, fmt.Errorf("%s: %s", response.Status, text)
	}
	_, err = fmt.Sscan(string(text), &value)
	return value, err
}

// Close closes the connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }
