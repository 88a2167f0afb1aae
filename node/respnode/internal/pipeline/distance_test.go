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
	d.took(1, nearby+1)
	if d.near() {
		t.Error("a server is near whose answers take longer")
	}
	d.took(maxBatch, nearby)
	if !d.near() {
		t.Error("a server that answers many requests in the time is far")
	}
	d.took(1, nearby/2)
	for range 1000 {
		d.took(fewSent+1, time.Second)
		d.took(0, 0)
	}
	if !d.near() {
		t.Error("large batches, or none, make a server far")
	}
	rounds := 0
	for ; d.near(); rounds++ {
		d.took(fewSent, time.Second)
	}
	if rounds < 30 || rounds > 100 {
		t.Errorf("a server is far after %d long round trips", rounds)
	}
	d.took(1, nearby)
	if !d.near() {
		t.Error("a server that answers in the time is far")
	}
}
