package transport

import (
	"testing"
	"time"
)

// A pipeline that never runs empty keeps no more than what waits in it, in order.
func TestPipelineForgetsWhatWasTaken(t *testing.T) {
	var l pipeline
	l.more.L = &l.mu
	const waiting = 100
	put, taken := 0, 0
	for put < waiting {
		l.waiting = append(l.waiting, started{timeout: time.Duration(put)})
		put++
	}
	for range 10_000 {
		batch, more := l.take(nil)
		if !more || len(batch) != maxBatch {
			t.Fatalf("%d taken, %t", len(batch), more)
		}
		for _, s := range batch {
			if s.timeout != time.Duration(taken) {
				t.Fatalf("request %d comes as number %d", s.timeout, taken)
			}
			taken++
			l.waiting = append(l.waiting, started{timeout: time.Duration(put)})
			put++
		}
	}
	if len(l.waiting)-l.head != waiting || cap(l.waiting) > 10*waiting {
		t.Errorf("%d wait, in memory for %d", len(l.waiting)-l.head, cap(l.waiting))
	}
}
