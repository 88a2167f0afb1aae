//go:build linux || darwin || freebsd

package watchdog

import (
	"testing"
	"time"
)

// What was sent before an end is closed still arrives, and nothing after it does.
func TestLocalLinkIsClosed(t *testing.T) {
	ours, theirs := Local()
	if !ours.Tell(Order{Gone: true}) || !theirs.Report(News{Started: 7}) {
		t.Fatal("not sent")
	}
	theirs.Close()
	theirs.Close()
	ours.Close()
	if ours.Tell(Order{}) || theirs.Report(News{}) {
		t.Error("sent after the end")
	}
	if o := <-theirs.Orders(); !o.Gone {
		t.Errorf("order %+v", o)
	}
	if n := <-ours.News(); n.Started != 7 {
		t.Errorf("news %+v", n)
	}
	if _, more := <-theirs.Orders(); more {
		t.Error("orders go on")
	}
	if _, more := <-ours.News(); more {
		t.Error("news goes on")
	}
}

// An end that reads nothing holds the other end up for a moment only. It hears no message after the
// lost message.
func TestLocalLinkIsFull(t *testing.T) {
	ours, theirs := Local()
	sent := 0
	for ours.TellWithin(time.Millisecond, Order{Signal: 1}) {
		sent++
	}
	if sent == 0 || ours.Tell(Order{Gone: true}) {
		t.Errorf("%d orders, and one after the one that was lost", sent)
	}
	for range sent {
		if o, more := <-theirs.Orders(); !more || o.Gone {
			t.Fatalf("order %+v, %v", o, more)
		}
	}
	if _, more := <-theirs.Orders(); more {
		t.Error("orders go on")
	}
	if !theirs.Report(News{Asks: 1}) {
		t.Error("the other direction is closed")
	}
}
