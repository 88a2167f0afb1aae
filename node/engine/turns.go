package engine

import (
	"context"
	"sync"
)

// Turns has one operation of this process at a time work on a stripe: two would only get
// into each other's way in the store. They go in the order in which they came. The zero
// Turns is ready.
type Turns struct {
	mu  sync.Mutex
	now map[int]*turn // by stripe
}

type turn struct {
	users int
	free  chan struct{} // has a token while no operation has the turn
}

// Take waits for the turn of a stripe. Leave gives it up. The error is that of ctx.
func (t *Turns) Take(ctx context.Context, stripe int) (leave func(), err error) {
	t.mu.Lock()
	if t.now == nil {
		t.now = make(map[int]*turn)
	}
	one := t.now[stripe]
	if one == nil {
		one = &turn{free: make(chan struct{}, 1)}
		one.free <- struct{}{}
		t.now[stripe] = one
	}
	one.users++
	t.mu.Unlock()
	left := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(t.now, stripe)
		}
	}
	select {
	case <-one.free:
		return func() { one.free <- struct{}{}; left() }, nil
	case <-ctx.Done():
		left()
		return nil, ctx.Err()
	}
}
