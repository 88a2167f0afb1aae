package pipeline

import (
	"testing"
	"time"
)

// The shortest round trip of few requests counts, until it was long ago.
func TestDistance(t *testing.T) {
	var d distance
	if d.near() {
		t.Error("a server is near that nothing is known of")
	}
	d.took(1, 1, nearby+1)
	if d.near() {
		t.Error("a server is near whose answers take longer")
	}
	d.took(1, maxBatch, nearby)
	if !d.near() {
		t.Error("a server that answers many requests in the time is far")
	}
	d.took(1, 1, nearby/2)
	for range 1000 {
		d.took(1, fewSent+1, time.Second)
		d.took(1, 0, 0)
	}
	if !d.near() {
		t.Error("large batches, or none, make a server far")
	}
	rounds := 0
	for ; d.near(); rounds++ {
		d.took(1, fewSent, time.Second)
	}
	if rounds < 30 || rounds > 100 {
		t.Errorf("a server is far after %d long round trips", rounds)
	}
	d.took(1, 1, nearby)
	if !d.near() {
		t.Error("a server that answers in the time is far")
	}
}

// What is known of one connection says nothing of the next. A primary in another place has taken
// over, and all batches are large.
func TestDistanceOfAnotherConnection(t *testing.T) {
	var d distance
	d.took(1, 1, nearby/4)
	d.took(2, fewSent+1, 0) // which has brought no answer
	if !d.near() {
		t.Error("a connection that has brought no answer is another server")
	}
	d.took(2, fewSent+1, 50*time.Millisecond)
	if d.near() {
		t.Error("a server is near since the one before was")
	}
	d.took(2, fewSent+1, nearby)
	if !d.near() {
		t.Error("a server that answers in the time is far")
	}
}
