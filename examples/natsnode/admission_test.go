package natsnode

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/nodetest"
)

// A bucket that was made anew has another time of creation, and one whose server has lost its files
// has not: there it is the mark that is missing.
func TestAdmission(t *testing.T) {
	for what, wipe := range map[string]func(*testing.T, *server, Config){"made anew": remake, "emptied": empty} {
		t.Run(what, func(t *testing.T) {
			s := startServer(t, "always")
			bucket(t, s) // stays, see TestUnfitBucketIsRefused
			nodetest.RunAdmission(t, func(t *testing.T) nodetest.Admission {
				c := bucket(t, s)
				return nodetest.Admission{Open: func() node.Node { return openUnjoined(t, s.addr, c) }, Wipe: func() { wipe(t, s, c) }, Wait: time.Sleep}
			})
		})
	}
}

// remake deletes a bucket and makes it anew.
func remake(t *testing.T, s *server, c Config) {
	t.Helper()
	n := openUnjoined(t, s.addr, c)
	if err := n.js.DeleteStream(t.Context(), c.stream()); err != nil {
		t.Fatal(err)
	}
	if err := Create(t.Context(), connect(t, s.addr), c); err != nil {
		t.Fatal(err)
	}
}

// empty has the server lose what it has written of a bucket, and not what the bucket is.
func empty(t *testing.T, s *server, c Config) {
	t.Helper()
	s.kill()
	files, err := filepath.Glob(filepath.Join(s.folder, "jetstream", "*", "streams", c.stream(), "msgs", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	s.start()
}

// A write that was decided on a bucket fails on the next one, which has the same name: whether there
// was a record or not.
func TestLateWriteFailsOnANewBucket(t *testing.T) {
	s := startServer(t, "always")
	bucket(t, s) // stays, see TestUnfitBucketIsRefused
	c := bucket(t, s)
	n := open(t, s.addr, c)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("written", "", 7))))
	type late struct {
		*record
		now
	}
	var all []late
	for _, name := range []string{"written", "never written"} {
		r, at, _, err := n.load(t.Context(), node.Stripe(name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, late{r, at})
	}
	f, err := store{n}.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	remake(t, s, c)
	// The same writes as the first bucket has had.
	want(t, node.Granted)(open(t, s.addr, c).Do(t.Context(), as(node.Acquire, request("written", "", 7))))
	for _, l := range all {
		if err := n.write(t.Context(), l.record, l.now); !errors.Is(err, errChanged) {
			t.Errorf("revision %d: %v; want %v", l.revision, err, errChanged)
		}
	}
	if done, err := (store{n}).Mark(t.Context(), f, f.Terms, nil); done || err != nil {
		t.Errorf("marked: %v, %v", done, err)
	}
}

// Where the mark alone is lost, registers stay, and leases do not. A client that has read an older
// mark does nothing to a record of a later one.
func TestLeasesOfAnEarlierMarkDoNotCount(t *testing.T) {
	s := startServer(t, "always")
	n := open(t, s.addr, bucket(t, s))
	r := request("a", "me", 70)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	old, err := n.mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	facts := func() admit.Facts {
		f, err := store{n}.Facts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if done, err := (store{n}).Note(t.Context(), facts()); !done || err != nil {
		t.Fatal(done, err)
	}
	if f := facts(); f.Votes || f.Marked || !f.Counted || !f.Recorded || f.Out > time.Minute {
		t.Errorf("after the note: %+v", f)
	}
	if a := want(t, node.Rejoining)(n.Do(t.Context(), as(node.Extend, with(r, 0)))); a.Absence.Wait <= 0 {
		t.Errorf("%+v; want that it waits", a)
	}
	if err := (store{n}).Raise(t.Context(), facts(), map[int]fence.Token{node.Stripe("a"): 60, node.Stripe("b"): 90}); err != nil {
		t.Fatal(err)
	}
	if done, err := (store{n}).Mark(t.Context(), facts(), admit.Terms{}, nil); !done || err != nil {
		t.Fatal(done, err)
	}
	n.admission.Close() // what it believes
	n.admission = admit.New(n, store{n}, 0)
	join(t, n)
	if l, err := n.Inspect(t.Context(), "a"); err != nil || l.Leased {
		t.Errorf("%+v, %v; want that it is free", l, err)
	}
	for name, register := range map[string]fence.Token{"a": 71, "b": 91} {
		if a := want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request(name, "", 0)))); a.Register != register {
			t.Errorf("%s: granted %d; want %d", name, a.Register, register)
		}
	}
	later, err := n.read(t.Context(), node.Stripe("a"))
	if err != nil || later.under(old, now{created: old.Created}) || len(later.Leases) != 1 {
		t.Errorf("under the old mark: %+v, %v", later, err)
	}
	if !later.under(mark{}, now{}) || !later.Out || len(later.Leases) != 0 {
		t.Errorf("without a mark: %+v", later)
	}
}

// A name is not granted by a client that is in no group, nor in a group of one for whose longest lease the
// bucket was not there, unless it is said to be new.
func TestNewBucketWaits(t *testing.T) {
	s := startServer(t, "always")
	c := bucket(t, s)
	n := openUnjoined(t, s.addr, c)
	if a := want(t, node.Rejoining)(n.Do(t.Context(), as(node.Acquire, request("a", "", 0)))); a.Absence.Cause != node.NotJoined {
		t.Errorf("in no group: %+v", a)
	}
	if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if a := want(t, node.Rejoining)(n.Do(t.Context(), as(node.Acquire, request("a", "", 0)))); a.Absence.Cause != node.Unused || a.Absence.Wait < 59*time.Minute {
		t.Errorf("not said to be new: %+v", a)
	}
	fresh := openUnjoined(t, s.addr, c)
	if err := fresh.Join(node.Group{Nodes: []node.Node{fresh}, MaxTTL: time.Hour, New: true}); err != nil {
		t.Fatal(err)
	}
	want(t, node.Granted)(fresh.Do(t.Context(), as(node.Acquire, request("a", "", 0))))
}

// A mark that was copied with all else to a bucket of another time of creation is not that one's.
func TestCopiedMarkDoesNotCount(t *testing.T) {
	s := startServer(t, "always")
	n := open(t, s.addr, bucket(t, s))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "", 0))))
	f, err := store{n}.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	was := f.State.(looked)
	was.at.created = was.at.created.Add(-time.Hour)
	f.State = was
	if done, err := (store{n}).Mark(t.Context(), f, f.Terms, nil); !done || err != nil {
		t.Fatal(done, err)
	}
	if a := want(t, node.Rejoining)(n.Do(t.Context(), as(node.Acquire, request("b", "", 0)))); a.Absence.Cause != node.Replaced || a.Absence.Wait <= 0 {
		t.Errorf("%+v; want that it is another bucket, and waits", a)
	}
}
