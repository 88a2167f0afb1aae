package fenlockterraform_test

import (
	"context"
	"errors"
	"fmt"
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
	fenlockterraform "github.com/fenlock/fenlock/integration/terraform"
	"github.com/fenlock/fenlock/node/memnode"
)

func locker(t *testing.T, node *memnode.Node, observer fenlock.Observer) *fenlock.Locker {
	t.Helper()
	l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{node.Share()}, Observer: observer})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func open(t *testing.T, dir string) *fenlockterraform.Dir {
	t.Helper()
	d, err := fenlockterraform.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func handler(t *testing.T, locks fenlockterraform.Locks, store fenlockterraform.Store) *fenlockterraform.Handler {
	t.Helper()
	h, err := fenlockterraform.New(locks, "terraform", store)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// serve returns the address of a state on a server of its own.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(http.StripPrefix("/states", h))
	t.Cleanup(s.Close)
	return s.URL + "/states/orders/production"
}

func want[T comparable](t *testing.T, what string, got, wanted T) {
	t.Helper()
	if got != wanted {
		t.Errorf("%s: %v, not %v", what, got, wanted)
	}
}

// What Terraform and OpenTofu do, one after the other, each on a server of its own.
func TestInTurns(t *testing.T) {
	for _, opentofu := range []bool{false, true} {
		node, dir := memnode.New("n"), t.TempDir()
		a := client{t: t, url: serve(t, handler(t, locker(t, node, fenlock.Observer{}), open(t, dir))), opentofu: opentofu}
		b := client{t: t, url: serve(t, handler(t, locker(t, node, fenlock.Observer{}), open(t, dir))), opentofu: opentofu}
		status, _ := a.get()
		want(t, "no state", status, 404)
		status, _ = a.lock("a1")
		want(t, "lock", status, 200)
		status, _ = a.lock("a1")
		want(t, "the same, as its answer was lost", status, 200)
		status, holder := b.lock("b1")
		want(t, "lock of another one", status, 423)
		want(t, "the holder", holder, "a1")
		want(t, "write without a lock", b.put("b's"), 423)
		want(t, "write", a.put("{\n1"), 200)
		status, state := b.get()
		want(t, "read", status, 200)
		want(t, "the state", state, "{\n1")
		want(t, "unlock", a.unlock("a1"), 200)
		want(t, "the same, as its answer was lost", a.unlock("a1"), 200)
		want(t, "a write that was long on its way", a.put("late"), 409)
		status, holder = a.lock("a1")
		want(t, "a lock that was long on its way", status, 409)
		want(t, "what it is told of", holder, "a1")
		status, _ = b.lock("b2")
		want(t, "lock", status, 200)
		status, state = b.get()
		want(t, "read", status, 200)
		want(t, "the state", state, "{\n1")
		want(t, "write", b.put("2"), 200)
		want(t, "unlock", b.unlock("b2"), 200)
		unlocked := client{t: t, url: a.url}
		want(t, "apply -lock=false", unlocked.put("3"), 200)
		_, state = a.get()
		want(t, "the state", state, "3")
		status, _ = unlocked.request(http.MethodDelete, a.url, nil)
		want(t, "delete", status, 200)
		status, _ = a.get()
		want(t, "no state any more", status, 404)
	}
}

// Whose lock was broken writes nothing any more, and does not unlock that of the next one.
func TestForceUnlock(t *testing.T) {
	url := serve(t, handler(t, locker(t, memnode.New("n"), fenlock.Observer{}), open(t, t.TempDir())))
	stopped, next := client{t: t, url: url}, client{t: t, url: url}
	status, _ := stopped.lock("a")
	want(t, "lock", status, 200)
	want(t, "write", stopped.put("1"), 200)
	want(t, "OpenTofu's force-unlock of another lock", (&client{t: t, url: url, opentofu: true}).unlock("b"), 423)
	want(t, "OpenTofu's force-unlock", (&client{t: t, url: url, opentofu: true}).unlock("a"), 200)
	want(t, "write after it", stopped.put("2"), 409)
	status, _ = next.lock("b")
	want(t, "lock of the next one", status, 200)
	want(t, "write", stopped.put("3"), 423)
	want(t, "unlock", stopped.unlock("a"), 423)
	status, _ = stopped.request(http.MethodDelete, url+"?ID=a", nil)
	want(t, "delete", status, 423)
	want(t, "Terraform's force-unlock", (&client{t: t, url: url}).unlock("whatever"), 200)
	want(t, "write after it", next.put("4"), 409)
	_, state := next.get()
	want(t, "the state", state, "1")
}

// Requests of a client that has unlocked, and that come when others have had the lock since, lock and write nothing: nobody
// would unlock it again.
func TestLongOnTheWay(t *testing.T) {
	url := serve(t, handler(t, locker(t, memnode.New("n"), fenlock.Observer{}), open(t, t.TempDir())))
	gone, others := client{t: t, url: url}, client{t: t, url: url}
	for _, c := range []struct {
		client *client
		id     string
	}{{&gone, "a"}, {&others, "b"}, {&others, "c"}} {
		status, _ := c.client.lock(c.id)
		want(t, "lock", status, 200)
		want(t, "write", c.client.put(c.id), 200)
		want(t, "unlock", c.client.unlock(c.id), 200)
	}
	want(t, "write", gone.put("late"), 409)
	status, holder := gone.lock("a")
	want(t, "lock", status, 409)
	want(t, "what it is told of", holder, "a")
	want(t, "write", (&client{t: t, url: url}).put("d"), 200)
}

// Clients that all want the lock, on three servers with one directory: none of what they count is lost. On Groups.
func TestServersTakeTurns(t *testing.T) {
	a, b, dir := memnode.New("a"), memnode.New("b"), t.TempDir()
	var urls []string
	for range 3 {
		groups, err := fenlock.NewGroups(fenlock.GroupsConfig{Groups: []fenlock.Group{
			{ID: "a", Locker: locker(t, a, fenlock.Observer{})}, {ID: "b", Locker: locker(t, b, fenlock.Observer{})},
		}})
		if err != nil {
			t.Fatal(err)
		}
		urls = append(urls, serve(t, handler(t, groups, open(t, dir))))
	}
	const clients, each = 6, 3
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for j := range each {
				c := client{t: t, url: urls[(i+j)%len(urls)]}
				id := fmt.Sprint(i, "-", j)
				for status := 0; status != 200; status, _ = c.lock(id) {
					if status != 0 && status != 423 {
						t.Errorf("lock: %d", status)
						return
					}
				}
				_, state := c.get()
				n, _ := strconv.Atoi(state) // none at first
				want(t, "write", c.put(strconv.Itoa(n+1)), 200)
				want(t, "unlock", c.unlock(id), 200)
			}
		})
	}
	all.Wait()
	_, state := (&client{t: t, url: urls[0]}).get()
	want(t, "what was counted", state, strconv.Itoa(clients*each))
}

// paused is a Store whose server is paused after it has read a record, or before it writes one.
type paused struct {
	fenlockterraform.Store
	loaded, saves func()
}

func (p paused) Load(ctx context.Context, name string) (fenlockterraform.Record, error) {
	r, err := p.Store.Load(ctx, name)
	if p.loaded != nil {
		p.loaded()
	}
	return r, err
}

func (p paused) Save(ctx context.Context, name string, r fenlockterraform.Record) error {
	if p.saves != nil {
		p.saves()
	}
	return p.Store.Save(ctx, name, r)
}

// A client has gone, and will send its write again: this one is not stored later than that and what it writes next.
func TestNotWrittenForNobody(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	store := paused{Store: open(t, t.TempDir()), loaded: leave, saves: func() { t.Error("it is stored") }}
	w := httptest.NewRecorder()
	handler(t, locker(t, memnode.New("n"), fenlock.Observer{}), store).ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", "/a", strings.NewReader("{}")))
	want(t, "write", w.Code, 503)
}

// A server is paused when it has read that nobody has the lock and is about to write, and loses its own. Meanwhile another server gives
// the state to a client. The first does not give it to a second one.
func TestPausedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, dir := memnode.New("n"), t.TempDir()
		other := handler(t, locker(t, node, fenlock.Observer{}), open(t, dir))
		lock := func(h http.Handler, id string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("LOCK", "/orders", strings.NewReader(`{"ID":"`+id+`"}`)))
			return w
		}
		var once sync.Once
		first := handler(t, locker(t, node, fenlock.Observer{}), paused{Store: open(t, dir), saves: func() {
			once.Do(func() {
				node.Crash()
				time.Sleep(time.Minute)
				node.Restart()
				time.Sleep(time.Minute)
				want(t, "on the other server", lock(other, "b").Code, 200)
			})
		}})
		late := lock(first, "a")
		want(t, "on the one that was paused", late.Code, 503)
		want(t, "when to try again", late.Header().Get("Retry-After"), "1")
		want(t, "once more", lock(first, "a").Code, 423)
	})
}

// Who deletes what is not there, or gives back what nobody has, makes no file.
func TestNothingToChange(t *testing.T) {
	dir := t.TempDir()
	url := serve(t, handler(t, locker(t, memnode.New("n"), fenlock.Observer{}), open(t, dir)))
	c := client{t: t, url: url}
	status, _ := c.request(http.MethodDelete, url, nil)
	want(t, "delete", status, 200)
	want(t, "force-unlock", c.unlock("a"), 200)
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 0 {
		t.Errorf("%v, %v", files, err)
	}
}

// Without a quorum states are read, and the rest is told to come again. Nobody waits for ever.
func TestUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, dir := memnode.New("n"), t.TempDir()
		l := locker(t, node, fenlock.Observer{})
		h := handler(t, l, open(t, dir))
		call := func(ctx context.Context, method string) int {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, "/orders", strings.NewReader(`{"ID":"a"}`)))
			return w.Code
		}
		want(t, "write", call(t.Context(), "POST"), 200)
		held, err := l.Acquire(t.Context(), "terraform/orders")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		want(t, "another server's turn", call(t.Context(), "LOCK"), 503)
		want(t, "the wait", time.Since(began), fenlockterraform.DefaultWait)
		gone, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		want(t, "a client that has gone", call(gone, "LOCK"), 503)
		want(t, "the wait", time.Since(began), time.Second)
		want(t, "read", call(t.Context(), "GET"), 200)
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
		node.Crash()
		want(t, "no quorum", call(t.Context(), "LOCK"), 503)
		want(t, "no quorum", call(t.Context(), "POST"), 503)
		want(t, "read", call(t.Context(), "GET"), 200)
	})
}

// broken is a Store that does not work.
type broken struct{ fenlockterraform.Store }

func (broken) Load(context.Context, string) (fenlockterraform.Record, error) {
	return fenlockterraform.Record{}, errors.New("the disk is gone")
}

// What is refused, and what is too large.
func TestRefused(t *testing.T) {
	l := locker(t, memnode.New("n"), fenlock.Observer{})
	h := handler(t, l, open(t, t.TempDir()))
	call := func(h http.Handler, method, path, body string, header ...string) int {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, "http://a/", strings.NewReader(body))
		r.URL.Path = path
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		h.ServeHTTP(w, r)
		return w.Code
	}
	for _, path := range []string{"", "/", "//a", "/a//b", "/a/", "/.", "/..", "/../a", "/a/../b", "/a+b", "/a b", "/ü", "/a\x00", "/" + strings.Repeat("a", 201)} {
		want(t, fmt.Sprintf("the name %q", path), call(h, "POST", path, "state"), 400)
		want(t, fmt.Sprintf("the name %q", path), call(h, "GET", path, ""), 400)
	}
	for _, path := range []string{"/a", "/A-b_c.d/..e/f", "/" + strings.Repeat("a", 200), "/" + strings.Repeat("a/", 99) + "a"} {
		want(t, fmt.Sprintf("the name %q", path), call(h, "POST", path, "state"), 200)
	}
	for _, info := range []string{"", "{}", "[]", "null", `{"ID":1}`, `{"ID":"` + strings.Repeat("a", 257) + `"}`, `{"ID":"a"`} {
		want(t, "LOCK "+info, call(h, "LOCK", "/a", info), 400)
	}
	want(t, "UNLOCK {}", call(h, "UNLOCK", "/a", "{}"), 400)
	want(t, "an empty state", call(h, "POST", "/a", ""), 400)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/a?ID=1;2", strings.NewReader("state")))
	want(t, "a query that cannot be read, which is not one without an ID", w.Code, 400)
	want(t, "another checksum", call(h, "POST", "/a", "state", "Content-MD5", "AAAA"), 400)
	want(t, "a method", call(h, "PATCH", "/a", "state"), 405)
	want(t, "a large LockInfo", call(h, "LOCK", "/a", strings.Repeat(" ", fenlockterraform.MaxLockInfo+1)), 413)
	want(t, "a large state", call(h, "POST", "/a", strings.Repeat(" ", fenlockterraform.MaxState+1)), 413)
	want(t, "a store that is broken", call(handler(t, l, broken{}), "GET", "/a", ""), 500)
	want(t, "a store that is broken", call(handler(t, l, broken{}), "POST", "/a", "state"), 500)
}

func TestInvalid(t *testing.T) {
	l, store := locker(t, memnode.New("n"), fenlock.Observer{}), open(t, t.TempDir())
	var none *fenlock.Locker
	for what, f := range map[string]func() (*fenlockterraform.Handler, error){
		"nil":          func() (*fenlockterraform.Handler, error) { return fenlockterraform.New(nil, "a", store) },
		"no store":     func() (*fenlockterraform.Handler, error) { return fenlockterraform.New(l, "a", nil) },
		"a nil Locker": func() (*fenlockterraform.Handler, error) { return fenlockterraform.New(none, "a", store) },
		"no prefix":    func() (*fenlockterraform.Handler, error) { return fenlockterraform.New(l, "", store) },
		"a nil option": func() (*fenlockterraform.Handler, error) { return fenlockterraform.New(l, "a", store, nil) },
		"a long prefix": func() (*fenlockterraform.Handler, error) {
			return fenlockterraform.New(l, strings.Repeat("a", 312), store)
		},
	} {
		if made, err := f(); made != nil || !errors.Is(err, fenlock.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
