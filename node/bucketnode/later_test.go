package bucketnode_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
)

// A store that was replaced by one that ignores conditions is not admitted, although this process
// has seen the earlier one keep them.
func TestEachAdmissionIsProved(t *testing.T) {
	f := newFake(t)
	n := member(t, f, true)
	want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "name")))
	f.wipe()
	f.mu.Lock()
	f.ignore = func(string) bool { return true }
	f.mu.Unlock()
	want(t, node.Rejoining)(n.Do(t.Context(), request(node.Acquire, "name")))
	f.pass(2 * time.Minute)
	time.Sleep(1100 * time.Millisecond) // for which a finding is believed
	a, err := n.Do(t.Context(), request(node.Acquire, "name"))
	if !errors.Is(err, node.ErrMisconfigured) {
		t.Errorf("%+v, %v", a, err)
	}
}

// A store that begins to ignore conditions, for example behind a proxy, is found out within a day.
func TestProofIsRepeated(t *testing.T) {
	f := newFake(t)
	want(t, node.Granted)(member(t, f, true).Do(t.Context(), request(node.Acquire, "name")))
	f.mu.Lock()
	f.ignore = func(string) bool { return true }
	f.mu.Unlock()
	want(t, node.Granted)(member(t, f, false).Do(t.Context(), request(node.Acquire, "other")))
	f.pass(25 * time.Hour)
	a, err := member(t, f, false).Do(t.Context(), request(node.Acquire, "third"))
	if !errors.Is(err, node.ErrMisconfigured) {
		t.Errorf("%+v, %v", a, err)
	}
}

// A client that only looks proves nothing: it may have no right to write.
func TestLookNeedsNoRightToWrite(t *testing.T) {
	f := newFake(t)
	want(t, node.Granted)(member(t, f, true).Do(t.Context(), request(node.Acquire, "name")))
	f.pass(25 * time.Hour)
	f.set(func(w http.ResponseWriter, r *http.Request, _ func() int) bool {
		if r.Method == http.MethodPut {
			fail(w, http.StatusForbidden, "AccessDenied")
		}
		return r.Method == http.MethodPut
	})
	if _, err := open(t, f.url("locks")).Inspect(t.Context(), "name"); err != nil {
		t.Error(err)
	}
}

// The time of a modification may be by another machine's clock than a Date. If that is behind, a
// quarantine is no shorter.
func TestQuarantineIsByTheLaterClock(t *testing.T) {
	f := newFake(t)
	n := member(t, f, true)
	want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "name")))
	f.put(f.object(), 40*time.Second, false)
	want(t, node.Rejoining)(n.Do(t.Context(), request(node.Acquire, "name")))
	note := f.object()
	note.modified = note.modified.Add(-time.Hour)
	f.put(note, 0, true)
	time.Sleep(1100 * time.Millisecond) // for which a finding is believed
	want(t, node.Rejoining)(n.Do(t.Context(), request(node.Acquire, "name")))
}

// No request follows a redirect: its signature would go to another host.
func TestRedirectIsNotFollowed(t *testing.T) {
	followed := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed = true }))
	defer other.Close()
	for _, status := range []int{301, 302, 307, 308} {
		f := newFake(t)
		f.set(func(w http.ResponseWriter, r *http.Request, _ func() int) bool {
			http.Redirect(w, r, other.URL+r.URL.Path, status)
			return true
		})
		a, err := ready(t, f).Do(t.Context(), request(node.Acquire, "name"))
		if !errors.Is(err, node.ErrMisconfigured) {
			t.Errorf("%d: %+v, %v", status, a, err)
		}
	}
	if followed {
		t.Error("a redirect was followed")
	}
}

// Whatever an answer says, an error is a line that can be printed, and has no secret.
func TestErrorsAreBounded(t *testing.T) {
	for _, answer := range []string{
		"<Error><Code>AccessDenied</Code><Message>" + strings.Repeat("long ", 1<<18) + "</Message></Error>",
		"<Error><Code>AccessDenied</Code><Message>two\nlines</Message></Error>",
		"<Error><Code>" + strings.Repeat("long ", 1<<18) + "</Code></Error>",
		"\x1b[31m\n" + strings.Repeat("long ", 1<<18),
	} {
		for _, status := range []int{400, 403, 500} {
			f := newFake(t)
			f.set(func(w http.ResponseWriter, r *http.Request, _ func() int) bool {
				w.WriteHeader(status)
				io.WriteString(w, answer)
				return true
			})
			_, err := ready(t, f).Do(t.Context(), request(node.Acquire, "name"))
			if said := fmt.Sprint(err); err == nil || len(said) > 2000 || strings.ContainsAny(said, "\x1b\n") {
				t.Errorf("%d: an error of %d bytes: %.200q", status, len(said), said)
			}
		}
	}
}

// An answer that never ends holds up nothing for longer than its request, and no goroutine outlives
// the node.
func TestNothingOutlivesTheNode(t *testing.T) {
	before := runtime.NumGoroutine()
	f := newFake(t)
	n := ready(t, f)
	want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "name")))
	for _, method := range []string{http.MethodGet, http.MethodPut} {
		for _, status := range []int{200, 403, 500} {
			f.set(func(w http.ResponseWriter, r *http.Request, carry func() int) bool {
				if r.Method != method {
					return false
				}
				if method == http.MethodPut && status == 200 {
					carry()
				}
				w.Header().Set("Etag", f.object().etag)
				w.WriteHeader(status)
				for r.Context().Err() == nil {
					io.WriteString(w, strings.Repeat("endless ", 100))
					http.NewResponseController(w).Flush()
					time.Sleep(time.Millisecond)
				}
				return true
			})
			ctx, cancel := contextFor(t, 300*time.Millisecond)
			a, err := n.Do(ctx, request(node.Acquire, "other"))
			cancel()
			if err == nil && a.Status == node.Granted {
				t.Errorf("%s %d: %+v", method, status, a)
			}
		}
	}
	f.set(nil)
	want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "another")))
	n.Close()
	f.Server.Close()
	http.DefaultClient.CloseIdleConnections()
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	stacks := make([]byte, 1<<16)
	t.Errorf("%d goroutines, and %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
}

func contextFor(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

// In a group that is in use, the other nodes' registers are larger each time that they are asked. A
// store that has lost its memory is admitted all the same, with what they were.
func TestAdmissionBesideTraffic(t *testing.T) {
	f := newFake(t)
	n := open(t, f.url("locks"))
	group := node.Group{Nodes: []node.Node{n, &busy{name: "a"}, &busy{name: "b"}}, MaxTTL: time.Minute}
	for _, other := range group.Nodes[1:] {
		other.(*busy).terms = admit.TermsOf(group)
	}
	if err := n.Join(group); err != nil {
		t.Fatal(err)
	}
	want(t, node.Rejoining)(n.Do(t.Context(), request(node.Acquire, "name")))
	f.pass(2 * time.Minute)
	time.Sleep(1100 * time.Millisecond) // for which a finding is believed
	a := want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "name")))
	if a.Register <= 1000 {
		t.Errorf("the register is %d, and the others' were larger", a.Register)
	}
}

// busy is a node that votes, and whose registers grow.
type busy struct {
	node.Node
	name  string
	terms admit.Terms
	asked atomic.Uint64
}

func (b *busy) String() string        { return b.name }
func (b *busy) Engine() any           { return b }
func (b *busy) Join(node.Group) error { return nil }

func (b *busy) Registers(context.Context) (node.Registers, error) {
	return node.Registers{Server: b.name, Memory: b.name, Admitted: true, MaxTTL: b.terms.MaxTTL,
		Members: b.terms.Members, Tokens: map[int]fence.Token{node.Stripe("name"): fence.Token(1000 + b.asked.Add(1))}}, nil
}
