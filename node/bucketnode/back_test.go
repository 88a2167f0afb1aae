package bucketnode_test

import (
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/bucketnode"
)

// What is put back has the bytes, and so the ETag, that it had before. No client may write over it
// as if it were what that client had seen.

const nodeKey = "/bucket/locks/node"

// object returns the object of the node.
func (f *fake) object() object {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.objects[nodeKey]
}

// put makes the object what it was before, after a time. With keep it keeps its time, as if later
// versions had been deleted. Otherwise it is a copy.
func (f *fake) put(was object, after time.Duration, keep bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ahead += after
	if !keep {
		was.modified = f.now()
	}
	f.objects[nodeKey] = was
}

// member opens a node of the same group, in which quarantines take a minute.
func member(t testing.TB, f *fake, isNew bool) *bucketnode.Node {
	t.Helper()
	n := open(t, f.url("locks"))
	join(t, n, time.Minute, isNew)
	return n
}

// A release is written over what this process wrote last, unread. If that was put back meanwhile,
// the release must not make it valid: another client's lock would be forgotten.
func TestReleaseDoesNotRevive(t *testing.T) {
	f := newFake(t)
	first, second := member(t, f, true), member(t, f, false)
	mine, others := request(node.Acquire, "mine"), request(node.Acquire, "others")
	others.TTL = time.Minute
	want(t, node.Granted)(first.Do(t.Context(), mine))
	was := f.object()
	granted := want(t, node.Granted)(second.Do(t.Context(), others))
	bucketnode.Age(first, 40*time.Second)
	f.put(was, 40*time.Second, false)
	first.Do(t.Context(), as(node.Release, mine))
	a, err := member(t, f, false).Do(t.Context(), request(node.Acquire, "others"))
	if err == nil && a.Status == node.Granted {
		t.Errorf("two holders: %+v after %+v", a, granted)
	}
}

// The same for a process that has read what was put back, and could not note it.
func TestCopyIsNotWrittenOver(t *testing.T) {
	f := newFake(t)
	first, second := member(t, f, true), member(t, f, false)
	mine, others := request(node.Acquire, "mine"), request(node.Acquire, "others")
	others.TTL = time.Minute
	want(t, node.Granted)(first.Do(t.Context(), mine))
	was := f.object()
	granted := want(t, node.Granted)(second.Do(t.Context(), others))
	f.put(was, 40*time.Second, false)
	f.set(func(w http.ResponseWriter, r *http.Request, _ func() int) bool {
		if put(r) {
			fail(w, http.StatusInternalServerError, "InternalError")
		}
		return put(r)
	})
	first.Do(t.Context(), request(node.Acquire, "third")) // it reads, and cannot note
	f.set(nil)
	first.Do(t.Context(), as(node.Release, mine))
	a, err := member(t, f, false).Do(t.Context(), request(node.Acquire, "others"))
	if err == nil && a.Status == node.Granted {
		t.Errorf("two holders: %+v after %+v", a, granted)
	}
}

// The note that the store is out is put back with its time, which is long ago: its quarantine is
// over. A process that has seen later states notices.
func TestNoteThatIsSetBackIsNoticed(t *testing.T) {
	f := newFake(t)
	first := member(t, f, false)
	want(t, node.Rejoining)(first.Do(t.Context(), request(node.Acquire, "mine")))
	note := f.object()
	f.pass(2 * time.Minute)
	time.Sleep(1100 * time.Millisecond) // for which a finding is believed
	mine := request(node.Acquire, "mine")
	mine.TTL = time.Minute
	want(t, node.Granted)(first.Do(t.Context(), mine))
	f.put(note, 0, true)
	f.requests()
	a := want(t, node.Rejoining)(first.Do(t.Context(), request(node.Acquire, "mine")))
	if puts := f.requests()[http.MethodPut]; puts != 1 || a.Absence.Cause != node.SetBack {
		t.Errorf("%d writes, %+v; want one, the note", puts, a)
	}
}

// A store that begins to ignore conditions has two clients write over one state. Each of them that
// reads the other's write notices.
func TestOverwrittenStateIsNoticed(t *testing.T) {
	f := newFake(t)
	first, second := member(t, f, true), member(t, f, false)
	want(t, node.Granted)(first.Do(t.Context(), request(node.Acquire, "before")))
	was := f.object()
	want(t, node.Granted)(first.Do(t.Context(), request(node.Acquire, "name")))
	f.put(was, 0, true)
	want(t, node.Granted)(second.Do(t.Context(), request(node.Acquire, "name")))
	a := want(t, node.Rejoining)(first.Do(t.Context(), request(node.Acquire, "other")))
	if a.Absence.Cause != node.SetBack {
		t.Errorf("%+v", a)
	}
}

// A cache may answer without saying so. The time that it tells is then an old one, and a lease that
// begins there is too short.
func TestCacheDoesNotShortenLeases(t *testing.T) {
	f := newFake(t)
	n := member(t, f, true)
	want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "first")))
	type answer struct {
		header http.Header
		data   string
	}
	cache := map[string]answer{}
	fresh := false
	f.set(func(w http.ResponseWriter, r *http.Request, _ func() int) bool {
		if r.Method != http.MethodGet || fresh {
			return false
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		a, is := cache[r.URL.String()]
		if o := f.objects[nodeKey]; !is {
			a = answer{http.Header{"Date": {f.now().UTC().Format(http.TimeFormat)}, "Etag": {o.etag},
				"Last-Modified": {o.modified.UTC().Format(http.TimeFormat)}}, o.data}
			cache[r.URL.String()] = a
		}
		maps.Copy(w.Header(), a.header)
		w.Write([]byte(a.data))
		return true
	})
	want(t, node.Held)(n.Do(t.Context(), request(node.Acquire, "first"))) // now it is in the cache
	f.pass(20 * time.Second)
	want(t, node.Granted)(member(t, f, false).Do(t.Context(), request(node.Acquire, "name")))
	fresh = true
	want(t, node.Held)(member(t, f, false).Do(t.Context(), request(node.Acquire, "name")))
}
