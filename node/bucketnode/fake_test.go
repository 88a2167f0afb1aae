package bucketnode_test

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is a store with a clock of its own, which fails when it is told to. It does not look at
// signatures: the real stores of the module tests do.
type fake struct {
	*httptest.Server

	mu      sync.Mutex
	ahead   time.Duration // of its clock
	objects map[string]object
	counts  map[string]int // requests, by method
	// answer, unless nil, may answer a request in place of the store: it returns true then. Carry has
	// the store carry it out first, and returns what it would answer.
	answer func(w http.ResponseWriter, r *http.Request, carry func() int) bool
	// ignore has the store ignore a condition.
	ignore func(condition string) bool
}

type object struct {
	data     string
	etag     string
	modified time.Time
}

func newFake(t testing.TB) *fake {
	f := &fake{objects: map[string]object{}, counts: map[string]int{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Server.Close)
	return f
}

// url names the node under a prefix.
func (f *fake) url(prefix string) string {
	return "s3://key:secret@" + strings.TrimPrefix(f.URL, "http://") + "/bucket/" + prefix
}

func (f *fake) now() time.Time { return time.Now().Add(f.ahead) }

// pass has time pass on the store's clock.
func (f *fake) pass(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ahead += d
}

// let has so much time pass that a lease of that time is over.
func (f *fake) let(d time.Duration) { f.pass(d + 4*time.Second) }

// set changes what the store does.
func (f *fake) set(answer func(w http.ResponseWriter, r *http.Request, carry func() int) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

// wipe removes all objects.
func (f *fake) wipe() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.objects)
}

// copy returns what puts the objects back as they are now, a minute later.
func (f *fake) copy() (restore func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	saved := maps.Clone(f.objects)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.ahead += time.Minute
		clear(f.objects)
		for key, o := range saved {
			o.modified = f.now()
			f.objects[key] = o
		}
	}
}

// requests returns how many there were since the last call, by method.
func (f *fake) requests() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := f.counts
	f.counts = map[string]int{}
	return counts
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.mu.Lock()
	f.counts[r.Method]++
	answer := f.answer
	f.mu.Unlock()
	carry := func() int {
		recorded := httptest.NewRecorder()
		f.serve(recorded, r, string(body))
		return recorded.Code
	}
	if answer == nil || !answer(w, r, carry) {
		f.serve(w, r, string(body))
	}
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request, body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Date", f.now().UTC().Format(http.TimeFormat))
	key := r.URL.Path
	o, is := f.objects[key]
	if !strings.HasPrefix(key, "/bucket/") {
		fail(w, http.StatusNotFound, "NoSuchBucket")
		return
	}
	switch r.Method {
	case http.MethodGet:
		if !is {
			fail(w, http.StatusNotFound, "NoSuchKey")
			return
		}
		w.Header().Set("ETag", o.etag)
		w.Header().Set("Last-Modified", o.modified.UTC().Format(http.TimeFormat))
		io.WriteString(w, o.data)
	case http.MethodPut:
		none, match := r.Header.Get("If-None-Match"), r.Header.Get("If-Match")
		if none == "*" && is && !f.ignores("If-None-Match") ||
			match != "" && (!is || match != o.etag) && !f.ignores("If-Match") {
			fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
			return
		}
		sum := md5.Sum([]byte(body))
		if r.Header.Get("Content-Md5") != base64.StdEncoding.EncodeToString(sum[:]) { // as of a bucket with Object Lock
			fail(w, http.StatusBadRequest, "InvalidRequest")
			return
		}
		o = object{body, `"` + hex.EncodeToString(sum[:]) + `"`, f.now()}
		f.objects[key] = o
		w.Header().Set("ETag", o.etag)
	case http.MethodDelete:
		delete(f.objects, key)
		w.WriteHeader(http.StatusNoContent)
	default:
		fail(w, http.StatusMethodNotAllowed, "MethodNotAllowed")
	}
}

func (f *fake) ignores(condition string) bool { return f.ignore != nil && f.ignore(condition) }

func fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>as the test wants it</Message></Error>", code)
}

// drop ends a connection without an answer.
func drop(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		conn.Close()
	}
}
