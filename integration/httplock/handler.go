// Package httplock lets one HTTP request at a time through to a handler, of all that have a name in
// common, on all servers.
//
//	locked, err := httplock.New(locker, 5*time.Second, func(r *http.Request) string {
//		return "orders/" + r.PathValue("id")
//	}, http.HandlerFunc(putOrder))
//	...
//	mux.Handle("PUT /orders/{id}", locked)
//
// The request that putOrder gets has a context that ends when the lock is lost, as it does when the
// client has gone. FromContext has the token:
//
//	token, _ := httplock.FromContext(r.Context())
//	// fencesql.Guard.Check in the transaction that writes, or, for a service that is asked to write,
//	fencehttp.SetToken(request, token)
//
// Package fencehttp is the other side of that: there the caller has the lock and sends its token,
// and the server refuses a stale one. Here the server takes the lock for its callers.
//
// # Waiting
//
// A client that has gone is not always noticed. net/http looks for that when the request's body has
// been read, and a request that waits for its lock does not read it. So the wait has a bound, after
// which the client is told when to try again. Requests that wait keep a connection and a goroutine
// each; http.Server has no bound for these.
//
// A body is read by the handler, under the lock, so that a client which sends it slowly keeps the
// others out, up to fenlock.WithMaxHold. http.Server's ReadTimeout bounds that.
package httplock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
)

// The types of the problems (RFC 9457) with which a request is refused without calling the handler.
const (
	// TypeHeld comes with 409: another request has the lock, and had it during the wait. The
	// header Retry-After has the seconds until its lease ends unless it is extended.
	TypeHeld = "https://pkg.go.dev/github.com/fenlock/fenlock/integration/httplock#TypeHeld"
	// TypeUnavailable comes with 503 and Retry-After: too few nodes answer, the server ends, or the
	// request's context has ended.
	TypeUnavailable = "https://pkg.go.dev/github.com/fenlock/fenlock/integration/httplock#TypeUnavailable"
	// TypeName comes with 400: the request's name cannot be locked (fenlock.CheckName).
	TypeName = "https://pkg.go.dev/github.com/fenlock/fenlock/integration/httplock#TypeName"
)

// Locks is where locks come from: a *fenlock.Locker or *groups.Groups.
type Locks interface {
	Check(name string, opts ...fenlock.Option) error
	Acquire(ctx context.Context, name string, opts ...fenlock.Option) (*fenlock.Lock, error)
	TryAcquire(ctx context.Context, name string, opts ...fenlock.Option) (*fenlock.Lock, error)
}

type handler struct {
	locks Locks
	waits bool
	name  func(*http.Request) string
	next  http.Handler
	opts  []fenlock.Option
}

// New returns a handler that calls next under the lock of a request's name. A request waits that
// long for it, or not at all if wait is 0. All requests that it gets are locked, reading ones
// included: wrap the routes that write. The options are for each lock. The error matches
// fenlock.ErrInvalid.
//
// Refusals are of type application/problem+json: see TypeHeld and the others. Next has to do its
// work before it returns. If it panics, the lock is released and the panic goes on to the server.
// If the lock is lost while next runs, its request's context ends, with the cause fenlock.ErrLost
// or fenlock.ErrMaxHold; what it answers is its own affair. The answer may reach the client only
// when the lock is released, so that the client's next request finds it free.
func New(locks Locks, wait time.Duration, name func(*http.Request) string, next http.Handler,
	opts ...fenlock.Option) (http.Handler, error) {
	switch {
	case locks == nil || name == nil || next == nil:
		return nil, fmt.Errorf("%w: httplock needs a Locker or Groups, a function and a handler, not nil", fenlock.ErrInvalid)
	case wait != 0:
		opts = append([]fenlock.Option{fenlock.WithWait(wait)}, opts...)
	}
	if err := locks.Check("httplock", opts...); err != nil {
		return nil, err
	}
	return &handler{locks, wait != 0, name, next, opts}, nil
}

// FromContext returns the token of the lock under which a request was let through. Ok is false, and
// the token 0, for any other context.
func FromContext(ctx context.Context) (token fence.Token, ok bool) {
	token, ok = ctx.Value(contextKey{}).(fence.Token)
	return token, ok
}

type contextKey struct{}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	acquire := h.locks.TryAcquire
	if h.waits {
		acquire = h.locks.Acquire
	}
	lock, err := acquire(r.Context(), h.name(r), h.opts...)
	if err != nil {
		refuse(w, r, err)
		return
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), contextKey{}, lock.Token()))
	unlink := context.AfterFunc(lock.Context(), func() { cancel(context.Cause(lock.Context())) })
	// Deferred, so that a panic in next does not keep the lock. Whatever comes of the release, the
	// lease ends by itself, and a loss was told by the context.
	defer func() {
		unlink()
		cancel(nil)
		lock.Release(context.WithoutCancel(r.Context()))
	}()
	locked := r.WithContext(ctx)
	h.next.ServeHTTP(w, locked)
	if r.MultipartForm == nil {
		r.MultipartForm = locked.MultipartForm // for the server, which removes its files
	}
}

// refuse says why there is no lock. A holder's label and the nodes' addresses are not the client's
// to know.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	var held *fenlock.HeldError
	switch {
	case errors.Is(err, fenlock.ErrInvalid):
		problem(w, http.StatusBadRequest, TypeName, "Not a name", "What the request is about has no name that can be locked.")
	case errors.Is(err, fenlock.ErrHeld) && r.Context().Err() == nil:
		after := time.Second
		if errors.As(err, &held) {
			after = max(after, held.RetryAfter)
		}
		retry(w, after)
		problem(w, http.StatusConflict, TypeHeld, "Locked", "Another request for the same is under way.")
	default:
		retry(w, time.Second)
		problem(w, http.StatusServiceUnavailable, TypeUnavailable, "No lock", "The request could not be locked now.")
	}
}

// retry rounds up: who comes too early is refused again.
func retry(w http.ResponseWriter, after time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int((after+time.Second-1)/time.Second)))
}

func problem(w http.ResponseWriter, status int, kind, title, detail string) {
	body, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{kind, title, status, detail + " Nothing was done."})
	if err != nil {
		panic(err) // cannot be: they are texts
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(append(body, '\n')) // an error means that the client is gone
}
