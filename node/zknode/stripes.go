package zknode

import (
	"context"
	"sync"
)

// stripes has the operations of this client about one stripe go one after the other. They
// would only get into each other's way on the servers.
type stripes struct {
	mu  sync.Mutex
	now map[int]*stripe
}

type stripe struct {
	users int
	turn  chan struct{} // has a token while nobody has the turn
}

// enter waits for the turn. Leave gives it up.
func (s *stripes) enter(ctx context.Context, number int) (leave func(), err error) {
	s.mu.Lock()
	if s.now == nil {
		s.now = make(map[int]*stripe)
	}
	one := s.now[number]
	if one == nil {
		one = &stripe{turn: make(chan struct{}, 1)}
		one.turn <- struct{}{}
		s.now[number] = one
	}
	one.users++
	s.mu.Unlock()
	select {
	case <-one.turn:
		return func() {
			one.turn <- struct{}{}
			s.left(number, one)
		}, nil
	case <-ctx.Done():
		s.left(number, one)
		return nil, ctx.Err()
	}
}

func (s *stripes) left(number int, one *stripe) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.users--; one.users == 0 {
		delete(s.now, number)
	}
}
