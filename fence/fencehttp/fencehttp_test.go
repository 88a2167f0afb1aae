package fencehttp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/fence/fencehttp"
)

func byPath(r *http.Request) string { return r.URL.Path }

// newRequest makes a request as a server sees it; 0 is "no token".
func newRequest(ctx context.Context, path string, token fence.Token) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodPut, path, nil)
	fencehttp.SetToken(r, token)
	return r
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Which headers are malformed is in FuzzHeader.
func TestHandler(t *testing.T) {
	var guard fence.Guard
	var seen []fence.Token
	handler := fencehttp.Handler(&guard, byPath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := fencehttp.FromContext(r.Context())
		if !ok {
			t.Error("no token in the context")
		}
		seen = append(seen, token)
		w.WriteHeader(http.StatusNoContent)
	}))
	type members map[string]any
	for _, c := range []struct {
		name   string
		header []string
		status int
		want   members // of the problem
	}{
		{"first", []string{"33"}, 204, nil},
		{"same holder again", []string{"33"}, 204, nil},
		{"newer", []string{"34"}, 204, nil},
		{"stale", []string{"33"}, 412,
			members{"type": fencehttp.TypeStale, "title": "Stale fencing token", "token": 33.0, "newest": 34.0}},
		{"missing", nil, 428, members{"type": fencehttp.TypeMissing, "title": "Fencing token required"}},
		{"empty", []string{""}, 400, members{"type": fencehttp.TypeMalformed, "title": "Malformed fencing token"}},
		{"twice", []string{"35", "35"}, 400, members{"type": fencehttp.TypeMalformed}},
		{"largest", []string{fence.MaxToken.String()}, 204, nil},
		{"one less than the largest", []string{"9007199254740990"}, 412,
			members{"token": 9007199254740990.0, "newest": 9007199254740991.0}},
	} {
		before := len(seen)
		r := httptest.NewRequest(http.MethodPut, "/orders/42", nil)
		r.Header[fencehttp.Header] = c.header
		w := serve(handler, r)
		if w.Code != c.status {
			t.Errorf("%s: status %d, want %d", c.name, w.Code, c.status)
		}
		if called := len(seen) > before; called != (c.want == nil) {
			t.Errorf("%s: the handler was called: %v", c.name, called)
		}
		if c.want == nil {
			continue
		}
		if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
			t.Errorf("%s: content type %q", c.name, got)
		}
		if got := w.Header().Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s: cache control %q", c.name, got)
		}
		var body members
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		c.want["status"] = float64(c.status)
		for member, want := range c.want {
			if body[member] != want {
				t.Errorf("%s: %s is %v, want %v", c.name, member, body[member], want)
			}
		}
		for _, member := range []string{"token", "newest"} {
			if _, there := body[member]; there && c.want[member] == nil {
				t.Errorf("%s: the problem has %s: %v", c.name, member, body[member])
			}
		}
		if detail, _ := body["detail"].(string); detail == "" {
			t.Errorf("%s: no detail", c.name)
		}
	}
	if want := []fence.Token{33, 33, 34, fence.MaxToken}; !slices.Equal(seen, want) {
		t.Errorf("the handler saw %v, want %v", seen, want)
	}
}

func TestWaitingRequestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var guard fence.Guard
		release := make(chan struct{})
		handler := fencehttp.Handler(&guard, byPath, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
		go serve(handler, newRequest(t.Context(), "/orders/42", 33))
		synctest.Wait()

		ctx, cancel := context.WithCancel(t.Context())
		var answer *httptest.ResponseRecorder
		go func() { answer = serve(handler, newRequest(ctx, "/orders/42", 34)) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if answer == nil {
			t.Fatal("still waiting")
		}
		if answer.Code != http.StatusServiceUnavailable || !strings.Contains(answer.Body.String(), fencehttp.TypeBusy) {
			t.Errorf("status %d, body %s", answer.Code, answer.Body)
		}
		if got := guard.Newest("/orders/42"); got != 33 {
			t.Errorf("newest is %d: a request that never began was recorded", got)
		}
		close(release)
	})
}

func TestSetToken(t *testing.T) {
	r := httptest.NewRequest(http.MethodPut, "/", nil)
	for _, c := range []struct {
		token fence.Token
		want  []string
	}{{33, []string{"33"}}, {34, []string{"34"}}, {0, nil}, {fence.MaxToken, []string{"9007199254740991"}},
		{fence.MaxToken + 1, nil}} {
		fencehttp.SetToken(r, c.token)
		if got := r.Header.Values(fencehttp.Header); !slices.Equal(got, c.want) {
			t.Errorf("token %d: header %q, want %q", uint64(c.token), got, c.want)
		}
	}
}

func TestFromContextWithoutToken(t *testing.T) {
	if token, ok := fencehttp.FromContext(t.Context()); ok || token != 0 {
		t.Errorf("token %d, %v", token, ok)
	}
}
