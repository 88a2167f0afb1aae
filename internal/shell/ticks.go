package shell

import (
	"container/heap"
	"sync"
	"time"
)

// ticks wakes the locks that are held, each when its next extension is due or its
// validity ends. One timer does for all, and locks that are due at nearly the same
// time are woken together: then their requests travel together.
type ticks struct {
	env Env

	mu    sync.Mutex // guards the rest, and tick.place; taken within a lock's mutex, never the other way
	due   tickHeap
	timer Timer
	at    time.Duration // when the timer goes off; 0 if it does not
}

// tick is a lock's place among those to be woken, and a part of the lock.
type tick struct {
	of    ticker
	early time.Duration // how much earlier than it would be alone it may be woken
	place int           // in the heap, from 1 on; 0 if it is not in it
}

// ticker is woken. Now may be a moment ago. It is called without any mutex held.
type ticker interface{ tick(now time.Duration) }

// batch is how many locks are woken one after the other. With more, the last would
// learn late that its validity has ended.
const batch = 32

// set has a lock woken at a time, instead of the one that was set before.
func (t *ticks) set(k *tick, now, at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.place == 0 {
		t.due = append(t.due, dueTick{tick: k})
		k.place = len(t.due)
	}
	t.due[k.place-1].at = at
	heap.Fix(&t.due, k.place-1)
	t.rest(now)
}

// remove has a lock not woken any more.
func (t *ticks) remove(k *tick) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.place > 0 {
		heap.Remove(&t.due, k.place-1)
	}
}

// len returns how many locks are to be woken.
func (t *ticks) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.due)
}

// rest sets the timer, unless it goes off early enough.
func (t *ticks) rest(now time.Duration) {
	if len(t.due) == 0 || t.at != 0 && t.at <= t.due[0].at {
		return
	}
	t.at = t.due[0].at
	if left := max(t.at-now, 0); t.timer == nil {
		t.timer = t.env.AfterFunc(left, t.wake)
	} else {
		t.timer.Reset(left)
	}
}

// wake is the timer's.
func (t *ticks) wake() {
	now := t.env.Now()
	var due []ticker
	t.mu.Lock()
	for len(t.due) > 0 && t.due[0].at <= now+t.due[0].tick.early {
		due = append(due, heap.Pop(&t.due).(ticker))
	}
	t.at = 0
	t.rest(now)
	t.mu.Unlock()
	for len(due) > batch {
		some := due[:batch]
		t.env.Go(func() { t.wakeAll(some) })
		due = due[batch:]
	}
	t.wakeAll(due)
}

func (t *ticks) wakeAll(due []ticker) {
	now := t.env.Now()
	for _, k := range due {
		k.tick(now)
	}
}

// tickHeap is a heap by time.
type tickHeap []dueTick

type dueTick struct {
	at   time.Duration
	tick *tick
}

func (h tickHeap) Len() int           { return len(h) }
func (h tickHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h tickHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].tick.place, h[j].tick.place = i+1, j+1
}

// Push is for heap.Interface. Set does without, and so without memory for x.
func (h *tickHeap) Push(x any) { *h = append(*h, x.(dueTick)) }

func (h *tickHeap) Pop() any {
	last := len(*h) - 1
	k := (*h)[last].tick
	(*h)[last] = dueTick{}
	*h = (*h)[:last]
	k.place = 0
	return k.of
}
