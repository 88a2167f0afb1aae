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
		{"zero", []string{"0"}, 400, members{"type": fencehttp.TypeMalformed}},
		{"too large", []string{"9007199254740992"}, 400, members{"type": fencehttp.TypeMalformed}},
		{"words", []string{"thirty-five"}, 400, members{"type": fencehttp.TypeMalformed}},
		{"twice", []string{"35", "35"}, 400, members{"type": fencehttp.TypeMalformed}},
		{"list", []string{"35, 36"}, 400, members{"type": fencehttp.TypeMalformed}},
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

// Two requests for one resource at once, in both orders. The value is what the
// newer one wrote, because the second waits until the first one is through, and is
// checked after that.
func TestConcurrentRequests(t *testing.T) {
	// run starts first, lets it wait in its handler while second comes, and
	// returns what was written in which order, and second's status.
	run := func(t *testing.T, first, second fence.Token) (written []fence.Token, status int) {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			var guard fence.Guard
			handler := fencehttp.Handler(&guard, byPath, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				token, err := fence.Parse(r.Header.Get(fencehttp.Header))
				if err != nil {
					t.Error(err)
				}
				if token == first {
					<-release
				}
				written = append(written, token)
			}))
			go serve(handler, newRequest(t.Context(), "/orders/42", first))
			synctest.Wait()
			go func() { status = serve(handler, newRequest(t.Context(), "/orders/42", second)).Code }()
			synctest.Wait()
			close(release)
			synctest.Wait()
		})
		return written, status
	}
	for _, c := range []struct {
		name          string
		first, second fence.Token
		written       []fence.Token
		status        int
	}{
		{"older first", 33, 34, []fence.Token{33, 34}, http.StatusOK},
		{"newer first", 34, 33, []fence.Token{34}, http.StatusPreconditionFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			if written, status := run(t, c.first, c.second); !slices.Equal(written, c.written) || status != c.status {
				t.Errorf("written %v, status of the second %d; want %v, %d", written, status, c.written, c.status)
			}
		})
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

func TestPanickingHandlerFreesTheResource(t *testing.T) {
	handler := fencehttp.Handler(new(fence.Guard), byPath, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if token, _ := fencehttp.FromContext(r.Context()); token == 34 {
			panic(http.ErrAbortHandler)
		}
	}))
	func() {
		defer func() {
			if got := recover(); got != http.ErrAbortHandler {
				t.Errorf("recovered %v", got)
			}
		}()
		serve(handler, newRequest(t.Context(), "/orders/42", 34))
	}()
	for token, want := range map[fence.Token]int{33: http.StatusPreconditionFailed, 35: http.StatusOK} {
		// Both come out the same in either order: 33 is older than 34 already.
		if got := serve(handler, newRequest(t.Context(), "/orders/42", token)).Code; got != want {
			t.Errorf("token %d: status %d, want %d", token, got, want)
		}
	}
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
