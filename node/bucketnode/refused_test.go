package bucketnode_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/fenlock/fenlock/node"
)

// A proxy that sends a write again, as nginx does, passes on the refusal of the second one. The
// write was carried out all the same.
func TestWriteThatWasSentTwice(t *testing.T) {
	for _, refusal := range []struct {
		status int
		code   string
	}{{412, "PreconditionFailed"}, {409, "ConditionalRequestConflict"}} {
		t.Run(refusal.code, func(t *testing.T) {
			f := newFake(t)
			n := ready(t, f)
			want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "other")))
			r := request(node.Acquire, "name")
			for _, op := range []node.Op{node.Acquire, node.Extend, node.Release} {
				done := false
				f.set(func(w http.ResponseWriter, r *http.Request, carry func() int) bool {
					if done || !put(r) {
						return false
					}
					done = true
					carry()
					fail(w, refusal.status, refusal.code)
					return true
				})
				want(t, node.Granted)(n.Do(t.Context(), as(op, r)))
			}
		})
	}
}

// The same, and what is there then is not told until the caller has given up: the lease may be.
func TestWriteThatWasSentTwiceAndNotRead(t *testing.T) {
	f := newFake(t)
	n := ready(t, f)
	want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "other")))
	var written atomic.Bool
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.set(func(w http.ResponseWriter, r *http.Request, carry func() int) bool {
		if put(r) {
			carry()
			written.Store(true)
			return false // again
		}
		if r.Method == http.MethodGet && written.Load() {
			cancel()
			<-r.Context().Done()
			return true
		}
		return false
	})
	r := request(node.Acquire, "name")
	if a, err := n.Do(ctx, r); err == nil || errors.Is(err, node.ErrNotSent) {
		t.Errorf("%+v, %v; want an unknown outcome", a, err)
	}
	f.set(nil)
	want(t, node.Held)(n.Do(t.Context(), request(node.Acquire, "name")))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
}
