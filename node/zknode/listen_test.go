package zknode

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
)

// A listener goes on over another connection. What was written into its mailbox meanwhile is heard.
func TestListenerOverANewConnection(t *testing.T) {
	t.Parallel()
	url, f := freshURL(), new(faulty)
	n, other := voting(t, url, WithDial(f.dial)), voting(t, url)
	client, told := string(request("", "", 0).Holder[:node.IDLength]), make(chan string, 100)
	if err := n.Listen(t.Context(), client, func(notice string) { told <- notice }); err != nil {
		t.Fatal(err)
	}
	held, waits := request("a", "me", 0), request("a", "next", 0)
	want(t, node.Granted)(other.Do(t.Context(), as(node.Acquire, held)))
	waits.Place = node.Place{Waiter: client + ":1", Stamp: 1}
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, waits)))
	f.sever()
	want(t, node.Granted)(other.Do(t.Context(), as(node.Release, held)))
	f.cut.Store(false)
	for {
		select {
		case notice := <-told:
			if notice != "" && notice != waits.Place.Waiter {
				t.Fatalf("told %q", notice)
			}
		case <-time.After(hanging):
			t.Fatal("told nothing")
		}
		if a, err := settle(t, n, as(node.Acquire, waits)); err == nil && a.Status == node.Granted {
			return
		}
	}
}

// After Finish no request waits for servers that do not answer.
func TestFinish(t *testing.T) {
	n := open(t, "zk://127.0.0.1:1")
	ended := make(chan error, 1)
	go func() {
		_, err := n.Do(t.Context(), as(node.Acquire, request("a", "me", 0)))
		ended <- err
	}()
	n.Finish()
	if err := <-ended; !errors.Is(err, node.ErrNotSent) {
		t.Errorf("%v; want an error of a request that was not sent", err)
	}
}

// Two URLs of one root lead to one place, unless the caller dials.
func TestLocation(t *testing.T) {
	url := "zk://b,a/x"
	first, second := open(t, url), open(t, "zk://u:p@A,B/x/")
	if first.Location() != second.Location() || first.Location() == open(t, "zk://a,b/y").Location() ||
		first.Location() == open(t, url, WithDial(dialTCP)).Location() || strings.Contains(first.String(), "p@") {
		t.Errorf("%v, %v", first.Location(), second.Location())
	}
}
