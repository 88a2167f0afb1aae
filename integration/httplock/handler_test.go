package httplock_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/groups"
	"github.com/fenlock/fenlock/integration/httplock"
	"github.com/fenlock/fenlock/node/memnode"
)

func locker(t *testing.T, node *memnode.Node, observer fenlock.Observer) *fenlock.Locker {
	t.Helper()
	l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{node.Share()}, Observer: observer})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func byPath(r *http.Request) string { return r.URL.Path }

func locked(t *testing.T, locks httplock.Locks, wait time.Duration, next http.HandlerFunc,
	opts ...fenlock.Option) http.Handler {
	t.Helper()
	h, err := httplock.New(locks, wait, byPath, next, opts...)
	must(t, err)
	return h
}

// call is a request as a server sees it.
func call(ctx context.Context, h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "PUT", path, strings.NewReader("{}")))
	return w
}

// check checks a refusal.
func check(t *testing.T, w *httptest.ResponseRecorder, status int, kind string) {
	t.Helper()
	var p struct {
		Type   string
		Status int
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Errorf("%d, %q: %v", w.Code, w.Body, err)
		return
	}
	if w.Code != status || p.Status != status || p.Type != kind {
		t.Errorf("%d, %s", w.Code, w.Body)
	}
	after, err := strconv.Atoi(w.Header().Get("Retry-After"))
	if (status == 400) != (after == 0) || status != 400 && err != nil || after > int(fenlock.DefaultTTL/time.Second) {
		t.Errorf("Retry-After: %q", w.Header().Get("Retry-After"))
	}
	if w.Header().Get("Content-Type") != "application/problem+json" {
		t.Error(w.Header())
	}
}

// Two servers: requests for one name come one after the other, with growing tokens, and those for
// another one at any time.
func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		var mu sync.Mutex
		inside, most := map[string]int{}, 0
		var tokens []fence.Token
		next := func(w http.ResponseWriter, r *http.Request) {
			token, ok := httplock.FromContext(r.Context())
			mu.Lock()
			if r.URL.Path == "/a" {
				tokens = append(tokens, token)
			}
			inside[r.URL.Path]++
			if n := inside[r.URL.Path]; n != 1 || !ok || !token.Valid() {
				t.Errorf("%d are inside of %s; %v, %t", n, r.URL.Path, token, ok)
			}
			most = max(most, inside["/a"]+inside["/b"])
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			inside[r.URL.Path]--
			mu.Unlock()
		}
		var all sync.WaitGroup
		for range 2 {
			h := locked(t, locker(t, node, fenlock.Observer{}), time.Minute, next)
			for _, path := range []string{"/a", "/a", "/a", "/b"} {
				all.Go(func() {
					if w := call(t.Context(), h, path); w.Code != 200 {
						t.Errorf("%d %s", w.Code, w.Body)
					}
				})
			}
		}
		all.Wait()
		if len(tokens) != 6 || most != 2 {
			t.Errorf("the tokens %v; %d at once", tokens, most)
		}
		for i := range tokens[1:] {
			if tokens[i] >= tokens[i+1] {
				t.Errorf("the tokens %v", tokens)
			}
		}
	})
}

// How long a request waits, and what it is told.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		l := locker(t, node, fenlock.Observer{})
		held, err := l.Acquire(t.Context(), "/a")
		must(t, err)
		never := func(http.ResponseWriter, *http.Request) { t.Error("it was let through") }
		other := locker(t, node, fenlock.Observer{})
		at := func(want time.Duration, f func()) {
			t.Helper()
			began := time.Now()
			if f(); time.Since(began) != want {
				t.Errorf("it took %v, not %v", time.Since(began), want)
			}
		}
		at(0, func() { check(t, call(t.Context(), locked(t, other, 0, never), "/a"), 409, httplock.TypeHeld) })
		at(5*time.Second, func() {
			check(t, call(t.Context(), locked(t, other, 5*time.Second, never), "/a"), 409, httplock.TypeHeld)
		})
		gone, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		at(2*time.Second, func() {
			check(t, call(gone, locked(t, other, time.Minute, never), "/a"), 503, httplock.TypeUnavailable)
		})
		name, err := httplock.New(other, 0, func(*http.Request) string { return "a\n" }, http.HandlerFunc(never))
		must(t, err)
		at(0, func() { check(t, call(t.Context(), name, "/"), 400, httplock.TypeName) })
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
		node.Crash()
		at(0, func() { check(t, call(t.Context(), locked(t, other, 0, never), "/a"), 503, httplock.TypeUnavailable) })
		at(5*time.Second, func() {
			check(t, call(t.Context(), locked(t, other, 5*time.Second, never), "/a"), 503, httplock.TypeUnavailable)
		})
		other.Close()
		at(0, func() {
			check(t, call(t.Context(), locked(t, other, time.Minute, never), "/a"), 503, httplock.TypeUnavailable)
		})
	})
}

func TestLossEndsTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		var cause error
		h := locked(t, locker(t, node, fenlock.Observer{}), 0, func(w http.ResponseWriter, r *http.Request) {
			node.Crash()
			select {
			case <-r.Context().Done():
				cause = context.Cause(r.Context())
			case <-time.After(time.Minute):
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		if w := call(t.Context(), h, "/a"); w.Code != 503 || !errors.Is(cause, fenlock.ErrLost) {
			t.Errorf("%d; the context: %v", w.Code, cause)
		}
	})
}

// The end of the request is that of next's context, but not of the lock: that is held until next
// returns.
func TestClientHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		other := locker(t, node, fenlock.Observer{})
		ctx, leave := context.WithCancel(t.Context())
		h := locked(t, locker(t, node, fenlock.Observer{}), 0, func(_ http.ResponseWriter, r *http.Request) {
			leave()
			<-r.Context().Done()
			if !errors.Is(context.Cause(r.Context()), context.Canceled) {
				t.Error(context.Cause(r.Context()))
			}
			time.Sleep(time.Minute)
			if _, err := other.TryAcquire(t.Context(), "/a"); !errors.Is(err, fenlock.ErrHeld) {
				t.Errorf("while next runs: %v", err)
			}
		})
		call(ctx, h, "/a")
		if _, err := other.TryAcquire(t.Context(), "/a"); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

func TestPanicReleases(t *testing.T) {
	node := memnode.New("n")
	h := locked(t, locker(t, node, fenlock.Observer{}), 0,
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	func() {
		defer func() {
			if recover() != http.ErrAbortHandler {
				t.Error("the server does not hear of the panic")
			}
		}()
		call(t.Context(), h, "/a")
	}()
	if _, err := locker(t, node, fenlock.Observer{}).TryAcquire(t.Context(), "/a"); err != nil {
		t.Error(err)
	}
}

// A real server. A client leaves while its request waits. Without a body the server notices; with
// one it does not, and the wait ends all the same.
func TestServer(t *testing.T) {
	node := memnode.New("n")
	holder := locker(t, node, fenlock.Observer{})
	held, err := holder.Acquire(t.Context(), "/a")
	must(t, err)
	waits, ends := make(chan struct{}), make(chan fenlock.AcquireEvent, 1)
	serving := locker(t, node, fenlock.Observer{
		Wait:    func(context.Context, string) { waits <- struct{}{} },
		Acquire: func(_ context.Context, e fenlock.AcquireEvent) { ends <- e },
	})
	next := func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }
	for _, c := range []struct {
		request string
		wait    time.Duration
		why     error
	}{
		{"GET /a HTTP/1.1\r\nHost: a\r\n\r\n", time.Hour, context.Canceled},
		{"PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", 300 * time.Millisecond, context.DeadlineExceeded},
	} {
		server := httptest.NewUnstartedServer(locked(t, serving, c.wait, next))
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.Start()
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		must(t, err)
		fmt.Fprint(conn, c.request)
		<-waits
		conn.Close()
		if e := <-ends; !errors.Is(e.Err, c.why) {
			t.Errorf("%q: %v", c.request, e.Err)
		}
		server.Close()
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}

	// And one that stays is let through, with its body.
	server := httptest.NewServer(locked(t, serving, time.Hour, next))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	must(t, err)
	defer conn.Close()
	fmt.Fprint(conn, "PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	if body, err := io.ReadAll(answer.Body); string(body) != "hello" {
		t.Errorf("%d %q %v", answer.StatusCode, body, err)
	}
}

// net/http removes the files of a form when its own request is over. Next has another one, and
// reads the form into that.
func TestFormsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	server := httptest.NewServer(locked(t, locker(t, memnode.New("n"), fenlock.Observer{}), 0,
		func(_ http.ResponseWriter, r *http.Request) {
			if err := r.ParseMultipartForm(1); err != nil {
				t.Error(err)
			}
			if files, err := os.ReadDir(dir); len(files) != 1 {
				t.Errorf("while next runs: %v, %v", files, err)
			}
		}))
	body := "--b\r\nContent-Disposition: form-data; name=f; filename=f\r\n\r\n" + strings.Repeat("x", 1<<20) +
		"\r\n--b--\r\n"
	answer, err := http.Post(server.URL+"/a", "multipart/form-data; boundary=b", strings.NewReader(body))
	must(t, err)
	answer.Body.Close()
	server.Close()
	if files, err := os.ReadDir(dir); len(files) != 0 {
		t.Errorf("afterwards: %v, %v", files, err)
	}
}

func TestInvalid(t *testing.T) {
	l := locker(t, memnode.New("n"), fenlock.Observer{})
	var none *fenlock.Locker
	next := http.NotFoundHandler()
	for what, f := range map[string]func() (http.Handler, error){
		"nil":             func() (http.Handler, error) { return httplock.New(nil, 0, byPath, next) },
		"a nil Locker":    func() (http.Handler, error) { return httplock.New(none, 0, byPath, next) },
		"nil Groups":      func() (http.Handler, error) { return httplock.New((*groups.Groups)(nil), 0, byPath, next) },
		"no names":        func() (http.Handler, error) { return httplock.New(l, 0, nil, next) },
		"no handler":      func() (http.Handler, error) { return httplock.New(l, 0, byPath, nil) },
		"a negative wait": func() (http.Handler, error) { return httplock.New(l, -1, byPath, next) },
		"a nil option":    func() (http.Handler, error) { return httplock.New(l, 0, byPath, next, nil) },
	} {
		if made, err := f(); made != nil || !errors.Is(err, fenlock.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if token, ok := httplock.FromContext(t.Context()); ok || token != 0 {
		t.Errorf("no request: %v, %t", token, ok)
	}
}
