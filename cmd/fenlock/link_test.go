//go:build linux || darwin || freebsd

package main

import (
	"os"
	"testing"
	"time"
)

// links returns both ends of a link.
func links(t *testing.T) (ours, theirs *link) {
	t.Helper()
	a, b, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	for end, f := range map[**link]*os.File{&ours: a, &theirs: b} {
		if *end, err = newLink(f); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*end).conn.Close() })
	}
	return ours, theirs
}

// A process that was stopped until after the deadline still says what it had to say.
func TestAStoppedProcessLosesNoMessage(t *testing.T) {
	a, b := links(t)
	got := receive[news](b)
	for n := range uint64(3) {
		if !a.sendWithin(-time.Second, news{Asks: n + 1}) {
			t.Fatalf("message %d was not sent", n+1)
		}
		if m := <-got; m.Asks != n+1 {
			t.Fatalf("message %d: %+v", n+1, m)
		}
	}
}

// Where the other end reads nothing, nobody waits for it for long. What was begun is
// not mixed with anything.
func TestNobodyReadsTheLink(t *testing.T) {
	a, b := links(t)
	sent := 0
	for a.send(news{Say: string(make([]byte, 1000))}) {
		sent++
	}
	got := receive[news](b)
	for range sent {
		if m := <-got; len(m.Say) != 1000 {
			t.Fatalf("%+v", m)
		}
	}
	if a.send(news{Asks: 1}) {
		t.Error("sent behind half a message")
	}
}
