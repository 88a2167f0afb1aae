package fencehttp_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/fence/fencehttp"
)

// FuzzHeader sends one resource a request for each line of the input. The line's parts between tabs
// are the values of the header. It keeps the largest token itself. The handler behind is called for
// requests that are not older, and all others get the problem that they are.
func FuzzHeader(f *testing.F) {
	for _, s := range []string{
		"", "1", "5\n4\n5\n6", "5\nx\n4", "9007199254740991\n9007199254740992\n1", "1\t1", "7\t", "\t7", "2\n\n3", " 1", "1 ",
		"+1", "0", "-1", "01", "1,2", "\xff", "1\r", "\x00",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, input string) {
		var guard fence.Guard
		called := fence.Token(0)
		handler := fencehttp.Handler(&guard, func(*http.Request) string { return "r" },
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				called, _ = fencehttp.FromContext(r.Context())
			}))
		newest := uint64(0)
		for i, line := range strings.Split(input, "\n") {
			if i == 20 {
				break
			}
			r := httptest.NewRequest("PUT", "/", nil)
			values := strings.Split(line, "\t")
			if line != "" {
				r.Header[fencehttp.Header] = values
			}
			n, err := strconv.ParseUint(line, 10, 53)
			single := err == nil && n > 0 && strconv.FormatUint(n, 10) == line
			status, kind := http.StatusOK, ""
			switch {
			case line == "":
				status, kind = http.StatusPreconditionRequired, fencehttp.TypeMissing
			case !single:
				status, kind = http.StatusBadRequest, fencehttp.TypeMalformed
			case n < newest:
				status, kind = http.StatusPreconditionFailed, fencehttp.TypeStale
			default:
				newest = n
			}
			called = 0
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != status || (called != 0) != (status == http.StatusOK) || called != 0 && uint64(called) != n ||
				uint64(guard.Newest("r")) != newest {
				t.Fatalf("request %d of %q: status %d, the handler got %d, the newest is %d; want status %d, the newest %d",
					i, input, w.Code, called, guard.Newest("r"), status, newest)
			}
			if kind == "" {
				continue
			}
			var problem struct {
				Type   string
				Status int
				Token  uint64
				Newest uint64
			}
			err = json.Unmarshal(w.Body.Bytes(), &problem)
			if err != nil || problem.Type != kind || problem.Status != status ||
				w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("request %d of %q: %v, the problem %s", i, input, err, w.Body)
			}
			if status == http.StatusPreconditionFailed && (problem.Token != n || problem.Newest != newest) {
				t.Errorf("request %d of %q: %s; the token is %d, the newest %d", i, input, w.Body, n, newest)
			}
		}
	})
}
