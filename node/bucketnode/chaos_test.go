package bucketnode_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
)

// Writes that are lost, late, executed twice or answered wrongly, and old reads: no name has two
// holders, and no token comes twice.
func TestFaultyStore(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			n := member(t, f, true)
			want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "first")))
			faults := &faults{rng: rand.New(rand.NewPCG(seed, 1)), f: f}
			f.set(faults.answer)
			var w watched
			var all sync.WaitGroup
			for client := range uint64(4) {
				n, rng := member(t, f, false), rand.New(rand.NewPCG(seed, 2+client))
				all.Go(func() {
					for range 40 {
						w.use(t, n, fmt.Sprint("name", rng.IntN(2)))
					}
				})
			}
			all.Wait()
			if len(w.tokens) == 0 { // one of them may be left with a lease that no client knows of
				t.Error("nothing was granted")
			}
		})
	}
}

// watched knows who holds which name.
type watched struct {
	mu     sync.Mutex
	held   map[string]bool
	tokens map[string]uint64
}

// use acquires a name, and releases it if it was granted, or may have been.
func (w *watched) use(t *testing.T, n node.Node, name string) {
	r := request(node.Acquire, name)
	r.TTL = time.Minute
	a, err := n.Do(t.Context(), r)
	if err == nil && a.Status != node.Granted {
		return
	}
	if err == nil {
		w.mu.Lock()
		if w.held == nil {
			w.held, w.tokens = map[string]bool{}, map[string]uint64{}
		}
		if token := uint64(a.Register); w.held[name] || token <= w.tokens[name] {
			t.Errorf("%s: held is %v, token %d after %d", name, w.held[name], token, w.tokens[name])
		}
		w.held[name], w.tokens[name] = true, uint64(a.Register)
		w.mu.Unlock()
		time.Sleep(time.Millisecond)
		w.mu.Lock()
		w.held[name] = false
		w.mu.Unlock()
	}
	for range 20 {
		if _, err := n.Do(t.Context(), as(node.Release, r)); err == nil {
			return
		}
	}
}

// faults are what a bad network, a bad proxy and a bad store do.
type faults struct {
	f    *fake
	mu   sync.Mutex
	rng  *rand.Rand
	late []func() int
	old  []object
}

func (x *faults) answer(w http.ResponseWriter, r *http.Request, carry func() int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case r.Method == http.MethodGet:
		return x.read(w)
	case !put(r):
		return false
	}
	if len(x.late) > 0 && x.rng.IntN(3) == 0 {
		x.late[0]()
		x.late = x.late[1:]
	}
	switch x.rng.IntN(12) {
	case 0:
		x.late = append(x.late, carry)
		drop(w)
	case 1:
		carry()
		drop(w)
	case 2:
		carry()
		fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
	case 3:
		fail(w, http.StatusServiceUnavailable, "SlowDown")
	case 4:
		carry()
		fail(w, http.StatusInternalServerError, "InternalError")
	case 5:
		x.late = append(x.late, carry)
		fail(w, http.StatusInternalServerError, "InternalError")
	case 6:
		carry()
		return false // once more
	default:
		return false
	}
	return true
}

// read answers a read with what was there before, sometimes, or with nothing.
func (x *faults) read(w http.ResponseWriter) bool {
	now := x.f.object()
	if len(x.old) == 0 || x.old[len(x.old)-1] != now {
		x.old = append(x.old, now)
	}
	switch x.rng.IntN(20) {
	case 0:
		fail(w, http.StatusNotFound, "NoSuchKey")
	case 1, 2, 3:
		old := x.old[max(0, len(x.old)-1-x.rng.IntN(4))]
		w.Header().Set("ETag", old.etag)
		w.Header().Set("Last-Modified", old.modified.UTC().Format(http.TimeFormat))
		w.Write([]byte(old.data))
	default:
		return false
	}
	return true
}
