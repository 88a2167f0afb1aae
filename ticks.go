package fenlock

import (
	"container/heap"
	"sync"
	"time"
)

// ticks wakes the locks that are held, each when its next extension is due or its
// validity ends. One timer does for all, and locks that are due at nearly the same
// time are woken together: then their requests travel together.
type ticks struct {
	locker *Locker
	// ahead is how much earlier than it would be alone a lock may be extended.
	ahead time.Duration

	mu    sync.Mutex // guards the rest, and Lock.ticked; taken within a Lock's mutex, never the other way
	held  tickHeap
	timer *time.Timer
	at    time.Duration // when the timer goes off, on the locker's clock; 0 if it does not
}

// tick is when a lock is to be woken. Lock.ticked is its place in the heap, from 1
// on, or 0 if it is not in it.
type tick struct {
	at   time.Duration
	lock *Lock
}

// chunk is how many locks are woken one after the other. With more, the last would
// learn late that its validity has ended.
const chunk = 32

// set has a lock woken at a time, instead of the one that was set before.
func (t *ticks) set(k *Lock, now, at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.ticked == 0 {
		t.held = append(t.held, tick{lock: k})
		k.ticked = len(t.held)
	}
	t.held[k.ticked-1].at = at
	heap.Fix(&t.held, k.ticked-1)
	t.rest(now)
}

// remove has a lock not woken any more.
func (t *ticks) remove(k *Lock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.ticked > 0 {
		heap.Remove(&t.held, k.ticked-1)
	}
}

// rest sets the timer, unless it goes off early enough.
func (t *ticks) rest(now time.Duration) {
	if len(t.held) == 0 || t.at != 0 && t.at <= t.held[0].at {
		return
	}
	t.at = t.held[0].at
	d := max(t.at-now, 0)
	if t.timer == nil {
		t.timer = time.AfterFunc(d, t.wake)
	} else {
		t.timer.Reset(d)
	}
}

// wake is the timer's.
func (t *ticks) wake() {
	now := t.locker.now()
	var due []*Lock
	t.mu.Lock()
	for len(t.held) > 0 && t.held[0].at <= now+t.ahead {
		due = append(due, heap.Pop(&t.held).(*Lock))
	}
	t.at = 0
	t.rest(now)
	t.mu.Unlock()
	for len(due) > chunk {
		go t.wakeAll(due[:chunk])
		due = due[chunk:]
	}
	t.wakeAll(due)
}

func (t *ticks) wakeAll(locks []*Lock) {
	now := t.locker.now()
	for _, k := range locks {
		k.tick(now)
	}
}

// tickHeap is a heap of locks by their next ticks.
type tickHeap []tick

func (h tickHeap) Len() int           { return len(h) }
func (h tickHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h tickHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].lock.ticked, h[j].lock.ticked = i+1, j+1
}

// Push is for heap.Interface. Set does without, and so without memory for x.
func (h *tickHeap) Push(x any) { *h = append(*h, x.(tick)) }

func (h *tickHeap) Pop() any {
	last := len(*h) - 1
	k := (*h)[last].lock
	(*h)[last] = tick{}
	*h = (*h)[:last]
	k.ticked = 0
	return k
}
