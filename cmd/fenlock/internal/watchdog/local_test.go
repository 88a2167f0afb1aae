//go:build linux || darwin || freebsd

package watchdog

import "testing"

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

// An end that reads late hears all, in order, also what was sent before the link was closed.
// The other end is not held up.
func TestLocalLinkOverflows(t *testing.T) {
	for _, early := range []bool{true, false} {
		ours, theirs := Local()
		const sent = 10 * messages
		for n := range sent {
			if !ours.Tell(Order{Answer: &Answer{Asked: uint64(n)}}) {
				t.Fatalf("order %d was not sent", n)
			}
		}
		if early {
			theirs.Close()
		}
		for n := range sent {
			if o, more := <-theirs.Orders(); !more || o.Answer.Asked != uint64(n) {
				t.Fatalf("order %d: %+v, %v", n, o, more)
			}
		}
		if !early {
			if !ours.Tell(Order{Gone: true}) {
				t.Fatal("not sent")
			}
			if o := <-theirs.Orders(); !o.Gone {
				t.Errorf("%+v", o)
			}
			ours.Close()
		}
		if o, more := <-theirs.Orders(); more {
			t.Errorf("%+v after the end", o)
		}
	}
}
