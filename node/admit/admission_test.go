package admit_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
)

// joined is an admission of a store that has just lost its memory, in a group of three.
type joined struct {
	*admit.Admission
	store  *memory
	self   *peer
	others [2]*peer
	warned []string
}

func join(pause time.Duration) *joined {
	began := time.Now()
	j := &joined{store: &memory{identity: 1, clock: func() time.Duration { return time.Since(began) }},
		self:   &peer{name: "c"},
		others: [2]*peer{{name: "a", answer: voting("a", 33)}, {name: "b", answer: voting("b", 34)}}}
	j.Admission = admit.New(j.self, j.store, pause)
	j.self.admission = j.Admission
	for _, other := range j.others {
		other.admission = admit.New(other, nil, 0)
	}
	return j
}

func (j *joined) group() node.Group {
	return node.Group{Nodes: []node.Node{j.others[0], j.others[1], j.self}, MaxTTL: maxTTL,
		Warn: func(_ node.Node, message string) { j.warned = append(j.warned, message) }}
}

func (j *joined) join(t *testing.T) {
	t.Helper()
	if err := j.Join(j.group()); err != nil {
		t.Fatal(err)
	}
}

// From the first question to the mark, in the time that it takes and not a nanosecond less.
func TestAdmissionTakesTheQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := join(0)
		defer j.Close()
		if why, err := j.Admit(t.Context()); why.Cause != node.NotJoined || err != nil {
			t.Errorf("before Join: %+v, %v", why, err)
		}
		j.join(t)
		quarantine := admit.Quarantine(maxTTL)
		why, err := j.Admit(t.Context())
		if why != (node.Absence{Cause: node.Replaced, Wait: quarantine}) || err != nil {
			t.Fatalf("%+v, %v", why, err)
		}
		time.Sleep(quarantine - 1)
		if why, err = j.Admit(t.Context()); why.Wait != 1 || err != nil || j.store.votes() {
			t.Fatalf("a nanosecond before: %+v, %v", why, err)
		}
		time.Sleep(time.Nanosecond)
		if why, err = j.Admit(t.Context()); why != (node.Absence{}) || err != nil || !j.store.votes() {
			t.Fatalf("after it: %+v, %v", why, err)
		}
		if j.store.tokens[7] != 34 || j.store.terms != j.Terms() || len(j.warned) > 0 {
			t.Errorf("registers %v, terms %+v, warnings %q", j.store.tokens, j.store.terms, j.warned)
		}
	})
}

// However many ask, one try is under way, and what it found is believed for the pause.
func TestAdmissionIsSingleFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := join(admit.Pause)
		defer j.Close()
		j.join(t)
		j.store.before = func(context.Context, string) error { time.Sleep(time.Second); return nil }
		var wait sync.WaitGroup
		var waits atomic.Int64
		for range 50 {
			wait.Go(func() {
				if why, err := j.Admit(t.Context()); err == nil && why.Cause == node.Replaced {
					waits.Add(int64(why.Wait))
				}
			})
		}
		wait.Wait()
		if made := j.store.made(); !alike(made, "facts", "note", "facts") {
			t.Fatalf("50 callers had %q done", made)
		}
		time.Sleep(admit.Pause - 1)
		why, err := j.Admit(t.Context())
		if made := j.store.made(); len(made) > 0 || err != nil || why.Wait != time.Duration(waits.Load()/50)-(admit.Pause-1) {
			t.Errorf("within the pause: %q, %+v, %v", made, why, err)
		}
		time.Sleep(time.Nanosecond)
		j.Admit(t.Context())
		if made := j.store.made(); !alike(made, "facts") {
			t.Errorf("after the pause: %q", made)
		}
	})
}

// A caller that gives up hears that the try goes on, and it does.
func TestAdmissionOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := join(0)
		defer j.Close()
		j.join(t)
		j.store.before = func(context.Context, string) error { time.Sleep(time.Second); return nil }
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if why, err := j.Admit(ctx); why.Cause != node.UnderWay || err != nil {
			t.Errorf("%+v, %v", why, err)
		}
		time.Sleep(10 * time.Second)
		if made := j.store.made(); !alike(made, "facts", "note", "facts") {
			t.Errorf("it went on with %q", made)
		}
	})
}

// A store that does not answer is given up after some seconds.
func TestAdmissionOfAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := join(0)
		defer j.Close()
		j.join(t)
		j.store.before = func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
		began := time.Now()
		why, err := j.Admit(t.Context())
		if why.Cause != node.Failed || err != nil || time.Since(began) > 10*time.Second {
			t.Errorf("%+v, %v after %v", why, err, time.Since(began))
		}
	})
}

// Finish has callers return, and Close waits for what is under way; nothing begins after either.
func TestAdmissionFinishAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := join(0)
		j.join(t)
		var ended atomic.Bool
		j.store.before = func(ctx context.Context, _ string) error {
			<-ctx.Done()
			time.Sleep(time.Second)
			ended.Store(true)
			return ctx.Err()
		}
		told := make(chan error, 1)
		go func() {
			_, err := j.Admit(t.Context())
			told <- err
		}()
		synctest.Wait()
		j.Finish()
		if err := <-told; !errors.Is(err, context.Canceled) || ended.Load() {
			t.Errorf("%v, the try has ended: %t", err, ended.Load())
		}
		if j.Close(); !ended.Load() {
			t.Error("Close does not wait")
		}
		j.store.made()
		if _, err := j.Admit(t.Context()); !errors.Is(err, context.Canceled) || len(j.store.made()) > 0 {
			t.Errorf("%v after Close", err)
		}
	})
}

// What waiting does not mend is an error, which is believed for the pause, as what a person can
// mend.
func TestAdmissionIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := join(admit.Pause)
		defer j.Close()
		j.join(t)
		j.store.terms = admit.Terms{MaxTTL: 1}
		for range 2 {
			if _, err := j.Admit(t.Context()); !errors.Is(err, node.ErrMisconfigured) {
				t.Errorf("%v", err)
			}
		}
		if made := j.store.made(); !alike(made, "facts") {
			t.Errorf("it has done %q", made)
		}
		time.Sleep(admit.Pause)
		j.store.terms = j.Terms()
		if why, err := j.Admit(t.Context()); why.Cause != node.Replaced || err != nil {
			t.Errorf("when the record was set right: %+v, %v", why, err)
		}
	})
}

// A weak admission is told to the group.
func TestAdmissionWarns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := join(0)
		defer j.Close()
		g := j.group()
		g.New = true
		if err := j.Join(g); err != nil {
			t.Fatal(err)
		}
		j.others[0].answer, j.others[1].answer = blank("a"), blank("b")
		if why, err := j.Admit(t.Context()); why != (node.Absence{}) || err != nil || len(j.warned) != 1 {
			t.Errorf("%+v, %v, warnings %q", why, err, j.warned)
		}
	})
}

// A server has one vote, by whatever address it is reached. An admission joins one group.
func TestAdmissionJoinsOnce(t *testing.T) {
	j := join(0)
	defer j.Close()
	j.join(t)
	j.join(t)
	g := j.group()
	g.MaxTTL *= 2
	if err := j.Join(g); err == nil {
		t.Error("it joins another group")
	}
	twin := join(0)
	defer twin.Close()
	if err := twin.Join(node.Group{Nodes: []node.Node{j.self, twin.self}, MaxTTL: maxTTL}); err != nil {
		t.Fatal(err)
	}
	if err := twin.Serves("another"); err != nil {
		t.Error(err)
	}
	j.Serves("self")
	if err := twin.Serves("self"); !errors.Is(err, node.ErrMisconfigured) {
		t.Errorf("the same server twice: %v", err)
	}
	if err := j.Serves("self"); err != nil {
		t.Errorf("the first one: %v", err)
	}
	if err := twin.Check(admit.Terms{MaxTTL: 1}); !errors.Is(err, node.ErrMisconfigured) {
		t.Errorf("other terms: %v", err)
	}
	if err := join(0).Check(admit.Terms{MaxTTL: 1}); err != nil {
		t.Errorf("a client in no group: %v", err)
	}
}

// A loss is noted once, and by a client that is in a group.
func TestAdmissionNotes(t *testing.T) {
	j := join(0)
	defer j.Close()
	if f, err := j.Noted(t.Context()); f.Counted || err != nil || !alike(j.store.made(), "facts") {
		t.Errorf("in no group: %+v, %v", f, err)
	}
	j.join(t)
	if f, err := j.Noted(t.Context()); !f.Counted || err != nil || !alike(j.store.made(), "facts", "note", "facts") {
		t.Errorf("the first: %+v, %v", f, err)
	}
	if f, err := j.Noted(t.Context()); !f.Counted || err != nil || !alike(j.store.made(), "facts") {
		t.Errorf("the second: %+v, %v", f, err)
	}
}

// That all servers are new is believed until the store was seen to be in use. That is by this
// client's own admission or by what was recorded. What has nothing recorded after that has lost it.
func TestAdmissionBelievesInNewOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for what, see := range map[string]func(j *joined) error{
			"own admission": func(j *joined) error {
				why, err := j.Admit(t.Context())
				if why != (node.Absence{}) {
					t.Fatalf("a new store: %+v", why)
				}
				return err
			},
			"recorded terms": func(j *joined) error { return j.Check(j.Terms()) },
			"Used":           func(j *joined) error { j.Used(); return nil },
		} {
			j := join(0)
			defer j.Close()
			g := j.group()
			g.Nodes, g.New = g.Nodes[2:], true
			if err := j.Join(g); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(j.Check(admit.Terms{}), see(j)); err != nil {
				t.Fatal(what, err)
			}
			j.store.become(0, admit.Terms{})
			if why, err := j.Admit(t.Context()); why.Wait != admit.Quarantine(maxTTL) || err != nil {
				t.Errorf("after %s: %+v, %v", what, why, err)
			}
		}
	})
}
