package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/memnode"
)

// A path that is not clean is refused. Where it is redirected, with 301, as by http.ServeMux before Go 1.26, LOCK and POST
// arrive as GET, and their 200 looks like a lock, and a state that is stored.
func TestNoRedirect(t *testing.T) {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}})
	if err != nil {
		t.Fatal(err)
	}
	defer locker.Close()
	h, err := server(locker, t.TempDir(), "secret")
	if err != nil {
		t.Fatal(err)
	}
	for path, status := range map[string]int{"/states//orders": 400, "/states/./orders": 400, "//states/orders": 404, "/states/../orders": 400, "/states": 400, "/": 404} {
		for _, method := range []string{"LOCK", "POST", "GET"} {
			r := httptest.NewRequest(method, path, strings.NewReader(`{"ID":"1"}`))
			r.URL.Path = path // which "//states" is not, as a reference
			r.SetBasicAuth("terraform", "secret")
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != status {
				t.Errorf("%s %s: %d, %s", method, path, w.Code, w.Body)
			}
		}
	}
}

func TestPassword(t *testing.T) {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}})
	if err != nil {
		t.Fatal(err)
	}
	defer locker.Close()
	h, err := server(locker, t.TempDir(), "secret")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, user, password string
		status                 int
	}{
		{"LOCK", "", "", 401},
		{"LOCK", "terraform", "", 401},
		{"LOCK", "terraform", "secret2", 401},
		{"LOCK", "terraform:secret", "", 401},
		{"LOCK", "somebody", "secret", 401},
		{"LOCK", "terraform", "secret", 200},
		{"GET", "", "", 401},
		{"GET", "terraform", "secret", 404},
	} {
		r := httptest.NewRequest(c.method, "/states/orders", strings.NewReader(`{"ID":"1"}`))
		if c.user != "" {
			r.SetBasicAuth(c.user, c.password)
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != c.status {
			t.Errorf("%+v: %d, %s", c, w.Code, w.Body)
		}
	}
}
