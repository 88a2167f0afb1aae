//go:build linux || darwin || freebsd

package watchdog

import (
	"testing"
	"time"
)

// links returns both ends of a link.
func links(t *testing.T) (ours, theirs Link) {
	t.Helper()
	a, b, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	for end, descriptor := range map[*Link]int{&ours: a, &theirs: b} {
		if *end, err = NewLink(descriptor); err != nil {
			t.Fatal(err)
		}
		t.Cleanup((*end).Close)
	}
	return ours, theirs
}

// A process that was stopped until after the deadline still says what it had to say.
func TestAStoppedProcessLosesNoMessage(t *testing.T) {
	a, b := links(t)
	got := b.News()
	for n := range uint64(3) {
		message := News{Asks: n + 1}
		if !a.(*socket).send(-time.Second, message.fields) {
			t.Fatalf("message %d was not sent", n+1)
		}
		if m := <-got; m.Asks != n+1 {
			t.Fatalf("message %d: %+v", n+1, m)
		}
	}
}

// Where the other end reads nothing, this end does not wait for long. What was begun is not mixed
// with anything.
func TestNobodyReadsTheLink(t *testing.T) {
	a, b := links(t)
	sent := 0
	for a.Report(News{Say: string(make([]byte, 1000))}) {
		sent++
	}
	got := b.News()
	for range sent {
		if m := <-got; len(m.Say) != 1000 {
			t.Fatalf("%+v", m)
		}
	}
	if a.Report(News{Asks: 1}) {
		t.Error("sent behind half a message")
	}
}
