// Package fencehttp carries fencing tokens over HTTP: a client puts its token into a header. A
// Handler in front of the resource refuses a request whose token is older than one that the
// resource has seen.
//
//	var guard fence.Guard
//	mux.Handle("PUT /orders/{id}", fencehttp.Handler(&guard,
//		func(r *http.Request) string { return "orders/" + r.PathValue("id") },
//		http.HandlerFunc(putOrder)))
//
// # More than one server
//
// The Guard is in the server's memory. With several server processes behind one address each would
// have its own, and a restart empties it. An old token could get in where the newer token has not
// been. Then the check that decides belongs where the data is. The handler behind this one calls
// fencesql.Guard.Check in the transaction that writes, with the token of FromContext. It answers a
// refusal with WriteStale. The Guard here then only turns most late requests away earlier.
package fencehttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/fenlock/fenlock/fence"
)

// Header is the request header with the fencing token in its decimal form.
const Header = "Fencing-Token"

// The types of the problems (RFC 9457) with which Handler refuses a request
// without calling the handler behind it.
const (
	// TypeStale comes with 412: the token is older than one that was seen. The
	// members "token" and "newest" are both numbers. Sending the request again
	// cannot succeed: the lock is lost, take it again.
	TypeStale = "https://pkg.go.dev/github.com/fenlock/fenlock/fence/fencehttp#TypeStale"
	// TypeMissing comes with 428 (RFC 6585): the request has no token.
	TypeMissing = "https://pkg.go.dev/github.com/fenlock/fenlock/fence/fencehttp#TypeMissing"
	// TypeMalformed comes with 400: the header is not one valid token.
	TypeMalformed = "https://pkg.go.dev/github.com/fenlock/fenlock/fence/fencehttp#TypeMalformed"
	// TypeBusy comes with 503: the request's context ended while another request
	// for the resource was under way. Sending it again may succeed.
	TypeBusy = "https://pkg.go.dev/github.com/fenlock/fenlock/fence/fencehttp#TypeBusy"
)

// Handler calls next for requests whose token is at least the largest one that the resource has
// seen, and answers the others itself. The body has the type application/problem+json: see
// TypeStale and the other types. It guards every request that it gets, reading ones included: wrap
// the routes that write.
//
// Resource says what a request writes. It has to say the same for all requests that write the same
// thing. It should name what exists, not what any client invents: the Guard keeps an entry for
// each. It is called only with a valid token.
//
// Next runs inside the guard: until it returns, no other request for the same resource runs. A
// check beforehand would not do. A request with token 33 could pass it, be delayed on its way to
// the data, and overwrite what 34 has written in between. So next has to do its writing before it
// returns, and should not wait for long. A client that sends its body slowly holds up the others;
// http.Server.ReadTimeout bounds that. FromContext gives next the token.
//
// The token counts from when next is called, whatever it then answers. If next
// panics, the panic goes on to the server and the resource is free again.
//
// With several server processes this Guard is not enough: see the package's
// comment.
func Handler(g *fence.Guard, resource func(*http.Request) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, refusal := requestToken(r)
		if refusal != nil {
			refusal.write(w)
			return
		}
		err := g.Do(r.Context(), resource(r), token, func() error {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), contextKey{}, token)))
			return nil
		})
		var stale *fence.StaleError
		switch {
		case err == nil:
		case errors.As(err, &stale):
			WriteStale(w, stale)
		default: // the context: the token is valid, and the function returns nil
			(&problem{
				Type: TypeBusy, Title: "Resource busy", Status: http.StatusServiceUnavailable,
				Detail: "The request ended while another one was writing the resource. Nothing was written.",
				Token:  token,
			}).write(w)
		}
	})
}

// WriteStale answers a request with 412 and a problem of TypeStale, as Handler
// does. It is for a handler whose own check, in a database, refused the token; that
// handler must have undone its writes. The resource's name is not sent.
func WriteStale(w http.ResponseWriter, stale *fence.StaleError) {
	(&problem{
		Type: TypeStale, Title: "Stale fencing token", Status: http.StatusPreconditionFailed,
		Detail: fmt.Sprintf("Token %d is older than %d, which the resource has seen. The lock was lost; nothing was written.",
			uint64(stale.Token), uint64(stale.Newest)),
		Token: stale.Token, Newest: stale.Newest,
	}).write(w)
}

// FromContext returns the token of the request that a Handler let through. Ok is
// false, and the token 0, for any other context.
func FromContext(ctx context.Context) (t fence.Token, ok bool) {
	t, ok = ctx.Value(contextKey{}).(fence.Token)
	return t, ok
}

// SetToken puts t into the request's header, in place of what is there. A token
// that is not valid removes the header, so that the server refuses the request.
func SetToken(req *http.Request, t fence.Token) {
	if !t.Valid() {
		req.Header.Del(Header)
		return
	}
	req.Header.Set(Header, t.String())
}

type contextKey struct{}

func requestToken(r *http.Request) (fence.Token, *problem) {
	values := r.Header.Values(Header)
	if len(values) == 0 {
		return 0, &problem{
			Type: TypeMissing, Title: "Fencing token required", Status: http.StatusPreconditionRequired,
			Detail: "The request needs the header " + Header + " with the token of the lock that it is sent under.",
		}
	}
	// Two tokens are none: which of them was the guard to believe?
	token, err := fence.Parse(values[0])
	if err != nil || len(values) > 1 {
		return 0, &problem{
			Type: TypeMalformed, Title: "Malformed fencing token", Status: http.StatusBadRequest,
			Detail: "The header " + Header + " must be there once, with a whole number from 1 to " + fence.MaxToken.String() +
				".",
		}
	}
	return token, nil
}

// problem is a body of RFC 9457; token and newest are extension members.
type problem struct {
	Type   string      `json:"type"`
	Title  string      `json:"title"`
	Status int         `json:"status"`
	Detail string      `json:"detail"`
	Token  fence.Token `json:"token,omitempty"`
	Newest fence.Token `json:"newest,omitempty"`
}

func (p *problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // cannot be: tokens are valid, or 0 and left out
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store") // RFC 6585 demands it for 428
	w.WriteHeader(p.Status)
	w.Write(append(body, '\n')) // an error means that the client is gone
}
