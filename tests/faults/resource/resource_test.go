package resource

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/tests/history"
)

func start(t *testing.T, guarded bool) (*Server, *Client) {
	t.Helper()
	r := New(guarded)
	c := NewClient(r.URL())
	t.Cleanup(func() { c.Close(); r.Close() })
	return r, c
}

func user1(token fence.Token) Use { return Use{Name: "red", Client: 1, Op: 2, Token: token} }

func TestGuardedResource(t *testing.T) {
	r, c := start(t, true)
	script := []struct {
		token       fence.Token
		write       bool
		base, value int
		want        string
	}{
		{token: 5, want: "0"},
		{token: 5, write: true, value: 1, want: "done"},
		{token: 6, want: "1"},
		{token: 5, write: true, base: 1, value: 2, want: "stale"}, // a newer one has read
		{token: 5, want: "stale"},
		{token: 6, write: true, base: 1, value: 2, want: "done"},
		{token: 7, want: "2"},
	}
	for i, s := range script {
		got := "done"
		var err error
		if s.write {
			err = c.Write(user1(s.token), s.base, s.value)
		} else {
			var value int
			value, err = c.Read(user1(s.token))
			got = fmt.Sprint(value)
		}
		if errors.Is(err, ErrStale) {
			got = "stale"
		} else if err != nil {
			t.Fatal(err)
		}
		if got != s.want {
			t.Errorf("step %d: %s, want %s", i, got, s.want)
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

// Without a guard nothing is refused, and its own times are in order.
func TestUnguardedResource(t *testing.T) {
	r, _ := start(t, false)
	var writing sync.WaitGroup
	for client := range 4 {
		writing.Go(func() {
			c := NewClient(r.URL())
			defer c.Close()
			for i := range 50 {
				if err := c.Write(Use{Name: "red", Client: client, Op: 1}, i, i+1); err != nil {
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
		if _, err := c.Read(user1(1)); err != nil {
			t.Error(err)
		}
		r.http.CloseClientConnections()
		if _, err := c.Read(user1(1)); errors.Is(err, ErrStale) { // maybe on a closed connection
			t.Error(err)
		}
	}
	if _, err := c.do("sing", user1(1), 0, 1); err == nil || errors.Is(err, ErrStale) {
		t.Errorf("neither a read nor a write: %v", err)
	}
	if err := c.Write(Use{Name: "red"}, 0, 1); err == nil || errors.Is(err, ErrStale) {
		t.Errorf("without a token: %v", err)
	}
}
