//go:build linux

package main

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/tests/history"
)

func testResource(t *testing.T, guarded bool) (*resource, *resourceClient) {
	t.Helper()
	r, err := newResource(guarded)
	if err != nil {
		t.Fatal(err)
	}
	c := &resourceClient{addr: r.addr()}
	t.Cleanup(func() { c.close(); r.close() })
	return r, c
}

func user1(token fence.Token) use { return use{name: "red", client: 1, op: 2, token: token} }

func TestGuardedResource(t *testing.T) {
	r, c := testResource(t, true)
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
			err = c.write(user1(s.token), s.base, s.value)
		} else {
			var value int
			value, err = c.read(user1(s.token))
			got = fmt.Sprint(value)
		}
		if errors.Is(err, errStale) {
			got = "stale"
		} else if err != nil {
			t.Fatal(err)
		}
		if got != s.want {
			t.Errorf("step %d: %s, want %s", i, got, s.want)
		}
	}
	c.close()
	var events []string
	for _, e := range r.close() {
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
	r, _ := testResource(t, false)
	var writing sync.WaitGroup
	for client := range 4 {
		writing.Go(func() {
			c := &resourceClient{addr: r.addr()}
			defer c.close()
			for i := range 50 {
				if err := c.write(use{name: "red", client: client, op: 1}, i, i+1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	events := r.close()
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
	_, c := testResource(t, true)
	if _, err := c.read(user1(1)); err != nil {
		t.Fatal(err)
	}
	c.conn.Close()
	if _, err := c.read(user1(1)); err == nil || errors.Is(err, errStale) {
		t.Errorf("on a closed connection: %v", err)
	}
	if _, err := c.read(user1(1)); err != nil {
		t.Error(err)
	}
	if _, err := c.ask("sing\n"); err != nil {
		t.Error(err)
	}
	if err := c.write(use{name: "two words", token: 1}, 0, 1); err == nil {
		t.Error("a name of two words was written")
	}
}
