package tests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/fence/fences3"
)

// fakeS3 is a store with a bucket. Around it is what a test does to requests on their way:
// it returns false if it has answered.
type fakeS3 struct {
	*httptest.Server
	mu     sync.Mutex
	around func(w http.ResponseWriter, r *http.Request) bool
}

func startS3(t *testing.T) (*fakeS3, *s3mem.Backend) {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	store := gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	s := &fakeS3{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		around := s.around
		s.mu.Unlock()
		if around == nil || around(w, r) {
			store.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s, backend
}

func (s *fakeS3) onTheWay(f func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.around = f
}

// guard returns a process's guard.
func (s *fakeS3) guard() *fences3.Guard {
	return &fences3.Guard{Bucket: s.URL + "/bucket",
		Client: &http.Client{Transport: fences3.Signer{Region: "us-east-1", AccessKey: "key", SecretKey: "secret"}}}
}

// note is content for an object: the lines that were there, and one more.
func note(line any) func([]byte, string) ([]byte, error) {
	return func(old []byte, stamp string) ([]byte, error) {
		return fmt.Appendf(old, "%v %s\n", line, stamp), nil
	}
}

// lines reads the first words of an object.
func (s *fakeS3) lines(t *testing.T, key string) (first []string) {
	t.Helper()
	answer, err := http.Get(s.URL + "/bucket/" + key)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != 200 {
		t.Fatalf("%s, %s, %v", answer.Status, text, err)
	}
	for line := range strings.Lines(string(text)) {
		first = append(first, strings.Fields(line)[0])
	}
	return first
}

func TestFenceS3(t *testing.T) {
	s, _ := startS3(t)
	ctx, guard := t.Context(), s.guard()
	for _, token := range []fence.Token{33, 33, 34, 34} { // equal: the same holder again
		if err := guard.Write(ctx, "a b/ä+", token, note(token)); err != nil {
			t.Fatalf("token %d: %v", token, err)
		}
	}
	var told *fence.StaleError
	other := s.guard()
	other.Refused = func(_ context.Context, e *fence.StaleError) { told = e }
	err := other.Write(ctx, "a b/ä+", 33, note(33))
	want := fence.StaleError{Resource: "a b/ä+", Token: 33, Newest: 34}
	if stale := (*fence.StaleError)(nil); !errors.As(err, &stale) || *stale != want || told == nil || *told != want {
		t.Errorf("%v, told %v", err, told)
	}
	if got := s.lines(t, "a%20b/%C3%A4%2B"); !slices.Equal(got, []string{"33", "33", "34", "34"}) {
		t.Error(got)
	}
	// What others have put there has no token.
	if put, err := http.NewRequest("PUT", s.URL+"/bucket/plain", strings.NewReader("0 x\n")); err != nil {
		t.Fatal(err)
	} else if answer, err := http.DefaultClient.Do(put); err != nil || answer.StatusCode != 200 {
		t.Fatal(answer, err)
	}
	if err := guard.Write(ctx, "plain", fence.MaxToken, note(1)); err != nil {
		t.Error(err)
	}
	if err := guard.Write(ctx, "plain", fence.MaxToken-1, note(2)); !errors.Is(err, fence.ErrStale) {
		t.Error(err)
	}
	if got := s.lines(t, "plain"); !slices.Equal(got, []string{"0", "1"}) {
		t.Error(got)
	}
	// What cannot be written is not.
	own := errors.New("the user's own")
	for name, c := range map[string]struct {
		key     string
		token   fence.Token
		content func([]byte, string) ([]byte, error)
		guard   *fences3.Guard
		is      error
	}{
		"no token":       {"a", 0, note(1), &fences3.Guard{}, fence.ErrInvalidToken},
		"no content":     {"a", 1, func([]byte, string) ([]byte, error) { return nil, own }, &fences3.Guard{}, own},
		"no stamp":       {"a", 1, func([]byte, string) ([]byte, error) { return []byte("x"), nil }, &fences3.Guard{}, nil},
		"too long":       {"a", 1, note(strings.Repeat("x", 1000)), &fences3.Guard{MaxSize: 500}, nil},
		"no key":         {"", 1, note(1), &fences3.Guard{}, nil},
		"no bucket":      {"a", 1, note(1), &fences3.Guard{Bucket: s.URL + "/missing"}, nil},
		"no URL":         {"a", 1, note(1), &fences3.Guard{Bucket: "bucket"}, nil},
		"nobody answers": {"a", 1, note(1), &fences3.Guard{Bucket: "http://127.0.0.1:1/bucket"}, nil},
	} {
		g := c.guard
		g.Client = guard.Client
		if g.Bucket == "" {
			g.Bucket = guard.Bucket
		}
		if err := g.Write(ctx, c.key, c.token, c.content); err == nil || c.is != nil && !errors.Is(err, c.is) ||
			errors.Is(err, fence.ErrStale) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Many holders write at once: each line was written after those before it, and none of
// what was reported as written is lost.
func TestFenceS3UnderLoad(t *testing.T) {
	s, _ := startS3(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	var written []string
	for i := range 30 {
		token := fence.Token(1000 + i)
		guard := s.guard()
		all.Go(func() {
			err := guard.Write(t.Context(), "load", token, note(token))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				written = append(written, token.String())
			case !errors.Is(err, fence.ErrStale):
				t.Error(err)
			}
		})
	}
	all.Wait()
	slices.Sort(written)
	if got := s.lines(t, "load"); !slices.Equal(got, written) || !slices.Contains(got, "1029") {
		t.Errorf("there is %v; written was %v", got, written)
	}
}

// A write that is held back on its way finds another object, also if that has the old
// content again but for the stamp.
func TestFenceS3LateWrite(t *testing.T) {
	s, _ := startS3(t)
	same := func(old []byte, stamp string) ([]byte, error) { return fmt.Appendf(nil, "same %s\n", stamp), nil }
	slow, quick := s.guard(), s.guard()
	for _, g := range []*fences3.Guard{slow, quick} {
		if err := g.Write(t.Context(), "late", 30, same); err != nil {
			t.Fatal(err)
		}
	}
	held, open := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.onTheWay(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == "PUT" && r.Header.Get("X-Amz-Meta-Fenlock-Token") == "33" {
			once.Do(func() { close(held); <-open })
		}
		return true
	})
	done := make(chan error, 1)
	go func() { done <- slow.Write(t.Context(), "late", 33, same) }()
	<-held
	if err := quick.Write(t.Context(), "late", 34, same); err != nil {
		t.Fatal(err)
	}
	close(open)
	if err := <-done; !errors.Is(err, fence.ErrStale) {
		t.Errorf("token 33 after 34: %v", err)
	}
}

// A store that does not keep conditions, all or some of them, is refused. Before that only the
// guard's own object is written, which is gone afterwards.
func TestFenceS3Unconditional(t *testing.T) {
	for name, change := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"ignores both": func(_ http.ResponseWriter, r *http.Request) bool {
			r.Header.Del("If-Match")
			r.Header.Del("If-None-Match")
			return true
		},
		"ignores If-Match": func(_ http.ResponseWriter, r *http.Request) bool { r.Header.Del("If-Match"); return true },
		"ignores If-None-Match": func(_ http.ResponseWriter,
			r *http.Request) bool {
			r.Header.Del("If-None-Match")
			return true
		},
		"keeps no metadata": func(_ http.ResponseWriter, r *http.Request) bool {
			r.Header.Del("X-Amz-Meta-Fenlock-Token")
			return true
		},
		"carries out what comes at once":  atOnce(),
		"compares with an earlier object": earlier(),
		"knows no conditions": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == "PUT" && r.Header.Get("If-None-Match") != "" {
				http.Error(w, "<Error><Code>NotImplemented</Code></Error>", http.StatusNotImplemented)
				return false
			}
			return true
		},
		"says it kept one, and did not": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == "PUT" && r.Header.Get("If-Match") != "" {
				http.Error(w, "", http.StatusPreconditionFailed)
				return false
			}
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := startS3(t)
			s.onTheWay(change)
			guard := s.guard()
			for range 2 {
				if err := guard.Write(t.Context(), "a", 7, note(7)); !errors.Is(err, fences3.ErrUnconditional) {
					t.Errorf("%v", err)
				}
			}
			s.onTheWay(nil)
			answer, err := http.Get(s.URL + "/bucket?list-type=2")
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if text, _ := io.ReadAll(answer.Body); answer.StatusCode != 200 || strings.Contains(string(text), "<Key>") {
				t.Errorf("left there: %s", text)
			}
			// The same one works once that is mended.
			if err := guard.Write(t.Context(), "a", 7, note(7)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A bucket with Object Lock takes no object without its hash.
func TestFenceS3ObjectLock(t *testing.T) {
	s, _ := startS3(t)
	s.onTheWay(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == "PUT" && r.Header.Get("Content-Md5") == "" {
			http.Error(w, "<Error><Code>InvalidRequest</Code></Error>", http.StatusBadRequest)
			return false
		}
		return true
	})
	for token := range fence.Token(3) {
		if err := s.guard().Write(t.Context(), "a", 1+token, note(token)); err != nil {
			t.Error(err)
		}
	}
}

// atOnce is a store that looks at the condition, and writes a moment later. Of several writes over
// one object all are carried out, if none reads in between.
func atOnce() func(w http.ResponseWriter, r *http.Request) bool {
	var mu sync.Mutex
	over := "" // the ETag that is written over
	return func(_ http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		etag := r.Header.Get("If-Match")
		switch {
		case r.Method != "PUT":
			over = ""
		case etag != "" && etag == over:
			r.Header.Del("If-Match")
		case etag != "":
			over = etag
		}
		return true
	}
}

// earlier is a store that takes the ETag of each object that was ever written there.
func earlier() func(w http.ResponseWriter, r *http.Request) bool {
	var mu sync.Mutex
	known := map[string]bool{}
	return func(_ http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if etag := r.Header.Get("If-Match"); known[etag] {
			r.Header.Del("If-Match")
		} else if etag != "" {
			known[etag] = true
		}
		return true
	}
}

// An answer that was lost is an error, and the write is not repeated.
func TestFenceS3LostAnswer(t *testing.T) {
	s, _ := startS3(t)
	guard := s.guard()
	if err := guard.Write(t.Context(), "a", 1, note(1)); err != nil {
		t.Fatal(err)
	}
	var puts atomic.Int32
	s.onTheWay(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != "PUT" {
			return true
		}
		puts.Add(1)
		panic(http.ErrAbortHandler) // the connection ends
	})
	err := guard.Write(t.Context(), "a", 2, note(2))
	if err == nil || errors.Is(err, fence.ErrStale) || puts.Load() != 1 {
		t.Errorf("%v, sent %d times", err, puts.Load())
	}
}
