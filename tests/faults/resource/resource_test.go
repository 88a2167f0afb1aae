package resource

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/fenlock/fenlock/tests/history"
)

func start(t *testing.T, guarded bool) (*Server, *Client) {
	t.Helper()
	r := New(guarded)
	c := NewClient(r.URL())
	t.Cleanup(func() { c.Close(); r.Close() })
	return r, c
}

func event(kind history.Kind, token uint64, base, value int) history.Event {
	return history.Event{Kind: kind, Name: "red", Client: 1, Op: 2, Token: token, Base: base, Value: value}
}

func TestGuardedResource(t *testing.T) {
	r, c := start(t, true)
	script := []struct {
		event history.Event
		value int
		err   error
	}{
		{event(history.ReadValue, 5, 0, 0), 0, nil},
		{event(history.Wrote, 5, 0, 1), 1, nil},
		{event(history.ReadValue, 6, 0, 0), 1, nil},
		{event(history.Wrote, 5, 1, 2), 0, ErrStale}, // a newer one has read
		{event(history.ReadValue, 5, 0, 0), 0, ErrStale},
		{event(history.Wrote, 6, 1, 2), 2, nil},
		{event(history.ReadValue, 7, 0, 0), 2, nil},
	}
	for i, s := range script {
		if value, err := c.Do(s.event); value != s.value || err != s.err {
			t.Errorf("step %d: %d, %v; want %d, %v", i, value, err, s.value, s.err)
		}
	}
	c.Close()
	var events []string
	for _, e := range r.Close() {
		if e.Name != "red" || e.Client != 1 || e.Op != 2 || e.At == 0 {
			t.Errorf("event %+v", e)
		}
		events = append(events, fmt.Sprint(e.Kind, e.Token, e.Base, e.Value))
	}
	want := "read5 0 0, wrote5 0 1, read6 0 1, refused5 0 0, refused5 0 0, wrote6 1 2, read7 0 2"
	if got := strings.Join(events, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Clients that share a name read in no order among themselves, but not after a later write. No
// client writes under a later reader.
func TestSharedReads(t *testing.T) {
	r, c := start(t, true)
	shared := func(kind history.Kind, token uint64) history.Event {
		e := event(kind, token, 0, 0)
		e.Shared = true
		return e
	}
	for i, s := range []struct {
		event history.Event
		value int
		err   error
	}{
		{event(history.Wrote, 5, 0, 1), 1, nil},
		{shared(history.ReadValue, 7), 1, nil},
		{shared(history.ReadValue, 6), 1, nil},
		{event(history.Wrote, 6, 1, 2), 0, ErrStale},
		{event(history.Wrote, 8, 1, 2), 2, nil},
		{shared(history.ReadValue, 7), 0, ErrStale},
	} {
		if value, err := c.Do(s.event); value != s.value || err != s.err {
			t.Errorf("step %d: %d, %v; want %d, %v", i, value, err, s.value, s.err)
		}
	}
	if _, err := c.Do(shared(history.Wrote, 9)); err == nil || err == ErrStale {
		t.Errorf("a write beside others': %v", err)
	}
	c.Close()
	events := r.Close()
	if len(events) != 6 || events[3].Shared || !events[5].Shared || events[5].Kind != history.Refused {
		t.Errorf("%+v", events)
	}
}

// Without a guard nothing is refused, and its own times are in order.
func TestUnguardedResource(t *testing.T) {
	r, _ := start(t, false)
	var writing sync.WaitGroup
	for client := range 4 {
		writing.Go(func() {
			c := NewClient(r.URL())
			defer c.Close()
			for i := range 50 {
				e := history.Event{Kind: history.Wrote, Name: "red", Client: client, Base: i, Value: i + 1}
				if _, err := c.Do(e); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	events := r.Close()
	if len(events) != 200 {
		t.Errorf("%d events", len(events))
	}
	for i, e := range events {
		if i > 0 && e.At < events[i-1].At {
			t.Fatal("the times are not in order")
		}
		if e.Kind != history.Wrote {
			t.Fatalf("event %+v", e)
		}
	}
}

// After an answer that did not come the client connects again.
func TestResourceConnectsAgain(t *testing.T) {
	r, c := start(t, true)
	for range 3 {
		if _, err := c.Do(event(history.ReadValue, 1, 0, 0)); err != nil {
			t.Error(err)
		}
		r.http.CloseClientConnections()
		if _, err := c.Do(event(history.ReadValue, 1, 0, 0)); errors.Is(err, ErrStale) { // maybe on a closed connection
			t.Error(err)
		}
	}
	if _, err := c.Do(event("sing", 1, 0, 1)); err == nil || errors.Is(err, ErrStale) {
		t.Errorf("neither a read nor a write: %v", err)
	}
	if _, err := c.Do(event(history.Wrote, 0, 0, 1)); err == nil || errors.Is(err, ErrStale) {
		t.Errorf("without a token: %v", err)
	}
}
