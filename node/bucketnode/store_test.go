package bucketnode_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
)

// put reports whether a request writes the object of the node.
func put(r *http.Request) bool {
	return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/locks/node")
}

// A store that ignores a condition is refused, nothing is granted, and the doctor says why.
func TestIgnoredConditionIsRefused(t *testing.T) {
	for _, ignored := range []string{"If-Match", "If-None-Match"} {
		t.Run(ignored, func(t *testing.T) {
			f := newFake(t)
			f.ignore = func(condition string) bool { return condition == ignored }
			n := ready(t, f)
			a, err := n.Do(t.Context(), request(node.Acquire, "name"))
			if !errors.Is(err, node.ErrMisconfigured) || !strings.Contains(err.Error(), "ignores the condition of a write") {
				t.Errorf("%+v, %v", a, err)
			}
			if _, err := n.Examine(t.Context(), node.Look{Thorough: true}); !errors.Is(err, node.ErrMisconfigured) {
				t.Errorf("the doctor finds nothing: %v", err)
			}
		})
	}
}

// A store that keeps each condition when it is alone, and none when writes come at once.
func TestConditionsThatDoNotExcludeAreRefused(t *testing.T) {
	f := newFake(t)
	var mu sync.Mutex
	writes := 0
	f.set(func(_ http.ResponseWriter, r *http.Request, _ func() int) bool {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/proof-") {
			if writes++; writes > 5 { // those at once
				r.Header.Del("If-Match")
			}
		}
		return false
	})
	_, err := ready(t, f).Do(t.Context(), request(node.Acquire, "name"))
	if !errors.Is(err, node.ErrMisconfigured) || !strings.Contains(err.Error(), "at once") {
		t.Errorf("%v", err)
	}
}

// A mark that was proved at one endpoint does not count at another one, which may be a proxy that
// drops conditions.
func TestEachEndpointIsProved(t *testing.T) {
	f := newFake(t)
	first := ready(t, f)
	want(t, node.Granted)(first.Do(t.Context(), request(node.Acquire, "name")))
	f.requests()
	second := open(t, strings.Replace(f.url("locks"), "127.0.0.1", "localhost", 1)+"?name="+first.Member())
	join(t, second, maxTTL, false)
	want(t, node.Granted)(second.Do(t.Context(), request(node.Acquire, "other")))
	if puts := f.requests()[http.MethodPut]; puts < 5 {
		t.Errorf("%d writes: it was not proved", puts)
	}
	third := open(t, strings.Replace(f.url("locks"), "127.0.0.1", "localhost", 1)+"?name="+first.Member())
	join(t, third, maxTTL, false)
	want(t, node.Granted)(third.Do(t.Context(), request(node.Acquire, "third")))
	if puts := f.requests()[http.MethodPut]; puts != 1 {
		t.Errorf("%d writes: it was proved again", puts)
	}
}

// A dead holder's lock is free for a process that lives for a moment, when its lease has ended, and
// not before.
func TestMomentFindsADeadHoldersLockFree(t *testing.T) {
	f := newFake(t)
	dead := ready(t, f)
	r := request(node.Acquire, "name")
	want(t, node.Granted)(dead.Do(t.Context(), r))
	dead.Close()
	moment := func(status node.Status) {
		t.Helper()
		n := open(t, f.url("locks"))
		join(t, n, maxTTL, false)
		want(t, status)(n.Do(t.Context(), request(node.Acquire, "name")))
		n.Close()
	}
	f.pass(r.TTL - time.Second)
	moment(node.Held)
	f.pass(time.Second + 4*time.Second)
	moment(node.Granted)
}

// A lease lasts for its TTL although the store tells whole seconds.
func TestLeaseIsNeverTooShort(t *testing.T) {
	for _, date := range []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 900 * time.Millisecond} {
		f := newFake(t)
		n := ready(t, f)
		want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "other"))) // admits the store
		f.mu.Lock()
		now := f.now()
		f.ahead += now.Truncate(time.Second).Add(time.Second + date).Sub(now)
		f.mu.Unlock()
		r := request(node.Acquire, "name")
		began := time.Now()
		want(t, node.Granted)(n.Do(t.Context(), r))
		f.pass(r.TTL - 500*time.Millisecond)
		a, err := ready(t, f).Do(t.Context(), request(node.Acquire, "name"))
		passed := r.TTL - 500*time.Millisecond + time.Since(began)
		if err == nil && a.Status == node.Granted && passed < r.TTL {
			t.Errorf("%v: it was granted %v after a grant of %v", date, passed, r.TTL)
		}
	}
}

// What was written without an answer is unknown. It is not sent again, and does not count as
// refused.
func TestLostAnswerIsUnknown(t *testing.T) {
	f := newFake(t)
	n := ready(t, f)
	want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "other")))
	for _, carried := range []bool{true, false} {
		f.set(func(w http.ResponseWriter, r *http.Request, carry func() int) bool {
			if !put(r) {
				return false
			}
			if carried {
				carry()
			}
			drop(w)
			return true
		})
		r := request(node.Acquire, fmt.Sprint("name", carried))
		f.requests()
		a, err := n.Do(t.Context(), r)
		if err == nil || errors.Is(err, node.ErrNotSent) {
			t.Errorf("carried out %v: %+v, %v; want an unknown outcome", carried, a, err)
		}
		if puts := f.requests()[http.MethodPut]; puts != 1 {
			t.Errorf("it was sent %d times", puts)
		}
		f.set(nil)
		lease, err := n.Inspect(t.Context(), r.Name)
		if err != nil || (lease.Remaining > 0) != carried {
			t.Errorf("%+v, %v; carried out: %v", lease, err, carried)
		}
		n.Do(t.Context(), as(node.Release, r))
		want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, r.Name)))
	}
}

// A write that arrives after the next release of its name fails.
func TestLateWriteFails(t *testing.T) {
	f := newFake(t)
	n := ready(t, f)
	want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "other")))
	late := make(chan func() int, 1)
	f.set(func(w http.ResponseWriter, r *http.Request, carry func() int) bool {
		if !put(r) || len(late) > 0 {
			return false
		}
		late <- carry
		drop(w)
		return true
	})
	r := request(node.Acquire, "name")
	if _, err := n.Do(t.Context(), r); err == nil || errors.Is(err, node.ErrNotSent) {
		t.Fatalf("%v; want an unknown outcome", err)
	}
	n.Do(t.Context(), as(node.Release, r))
	f.set(nil)
	if status := (<-late)(); status != http.StatusPreconditionFailed {
		t.Errorf("the late write was answered with %d", status)
	}
	want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "name")))
}

// A grant fails if the mark of admission changes between its read and its write. The store was
// wiped, put back from a copy or noted to be out.
func TestGrantFailsIfTheMarkChanges(t *testing.T) {
	for name, change := range map[string]func(f *fake, restore func()){
		"wiped":    func(f *fake, _ func()) { f.wipe() },
		"restored": func(f *fake, restore func()) { f.wipe(); restore() },
		"replaced": func(f *fake, _ func()) {
			f.wipe()
			other := open(t, f.url("locks"))
			join(t, other, maxTTL, true)
			other.Do(context.Background(), request(node.Acquire, "name"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			n := open(t, f.url("locks"))
			join(t, n, time.Minute, true)
			want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "first")))
			restore := f.copy()
			want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "second")))
			done := false
			f.set(func(_ http.ResponseWriter, r *http.Request, _ func() int) bool {
				if put(r) && !done {
					done = true
					f.mu.Lock()
					f.answer = nil
					f.mu.Unlock()
					change(f, restore)
				}
				return false
			})
			if a, err := n.Do(t.Context(), request(node.Acquire, "third")); err == nil && a.Status == node.Granted {
				t.Errorf("it was granted by a store that was %s: %+v", name, a)
			}
		})
	}
}

// A save that was decided on an earlier record fails, although this process has read the object
// since and writes over what it is now.
func TestSaveComparesTheRecord(t *testing.T) {
	f := newFake(t)
	n, other := ready(t, f), ready(t, f)
	want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "first")))
	stripe := node.Stripe("name")
	over, err := n.Store().Load(t.Context(), stripe)
	if err != nil {
		t.Fatal(err)
	}
	want(t, node.Granted)(other.Do(t.Context(), request(node.Acquire, "name")))
	if _, err := n.Inspect(t.Context(), "another"); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Store().Save(t.Context(), stripe, over.Record, over); !errors.Is(err, cas.ErrConflict) {
		t.Errorf("%v", err)
	}
}

// So does one that was decided on under another mark, although the record is the same.
func TestSaveComparesTheMark(t *testing.T) {
	f := newFake(t)
	n := ready(t, f)
	want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "first")))
	stripe := node.Stripe("name")
	over, err := n.Store().Load(t.Context(), stripe)
	if err != nil {
		t.Fatal(err)
	}
	f.wipe()
	other := open(t, f.url("locks"))
	join(t, other, maxTTL, true)
	want(t, node.Granted)(other.Do(t.Context(), request(node.Acquire, "first")))
	if _, err := n.Inspect(t.Context(), "another"); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Store().Save(t.Context(), stripe, over.Record, over); !errors.Is(err, cas.ErrConflict) {
		t.Errorf("%v", err)
	}
}

// An object that is set back to an earlier state, with its time, is noticed until the store is
// out. The process has seen the later one.
func TestSetBackIsNoticed(t *testing.T) {
	f := newFake(t)
	n := open(t, f.url("locks"))
	join(t, n, time.Minute, true)
	want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "first")))
	f.mu.Lock()
	earlier := f.objects["/bucket/locks/node"]
	f.mu.Unlock()
	want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "second")))
	f.mu.Lock()
	f.objects["/bucket/locks/node"] = earlier
	f.mu.Unlock()
	for range 2 {
		a := want(t, node.Rejoining)(n.Do(t.Context(), request(node.Acquire, "second")))
		if a.Absence.Cause != node.SetBack {
			t.Errorf("%+v", a)
		}
	}
}

// Locks of one process cost as much as one of them, and what a lock costs is what README.md says.
func TestCost(t *testing.T) {
	f := newFake(t)
	n := ready(t, f)
	r := request(node.Acquire, "name")
	counted := func(what string, gets, puts int) {
		t.Helper()
		if c := f.requests(); c[http.MethodGet] != gets || c[http.MethodPut] != puts || c[http.MethodDelete] > 1 {
			t.Errorf("%s: %v; want %d reads and %d writes", what, c, gets, puts)
		}
	}
	want(t, node.Granted)(n.Do(t.Context(), r))
	counted("the first admission", 4, 12)
	want(t, node.Held)(n.Do(t.Context(), request(node.Acquire, "name")))
	counted("a refusal", 1, 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, r)))
	counted("an extension", 1, 1)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
	counted("a release", 0, 1)
	want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "name")))
	counted("an acquisition", 1, 1)

	const locks = 50
	var all sync.WaitGroup
	for i := range locks {
		all.Go(func() {
			a, err := n.Do(t.Context(), request(node.Acquire, fmt.Sprint("name", i)))
			if err != nil || a.Status != node.Granted {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
	all.Wait()
	if c := f.requests(); c[http.MethodPut] > locks/2 {
		t.Errorf("%d locks at once: %v", locks, c)
	} else {
		t.Logf("%d locks at once: %v", locks, c)
	}
}

// Several lockers count up a number: none of the increments is lost, and tokens grow.
func TestCounter(t *testing.T) {
	f := newFake(t)
	const lockers, each = 4, 5
	count, last := 0, fenlock.Token(0)
	var all sync.WaitGroup
	for i := range lockers {
		n := open(t, f.url("locks"))
		locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{n}, NewServers: i == 0, TTL: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { locker.Close() })
		work := func(_ context.Context, token fenlock.Token) error {
			if token <= last {
				t.Errorf("token %d after %d", token, last)
			}
			seen := count
			time.Sleep(time.Millisecond)
			count, last = seen+1, token
			return nil
		}
		if i == 0 { // it has the store admitted
			if err := locker.Do(t.Context(), "counter", work); err != nil {
				t.Fatal(err)
			}
		}
		all.Go(func() {
			for range each {
				if err := locker.Do(t.Context(), "counter", work); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if count != lockers*each+1 {
		t.Errorf("counted to %d; want %d", count, lockers*each+1)
	}
}
