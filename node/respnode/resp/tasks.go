package resp

import (
	"context"
	"errors"
	"sync"
)

// ErrClosed is the error of a link that was closed, because its node was.
var ErrClosed = errors.New("the node is closed")

// Tasks are what a Link is made of beside its connections: the goroutines that Close waits
// for. Make it with NewTasks.
type Tasks struct {
	life  context.Context
	end   context.CancelCauseFunc
	mu    sync.Mutex // no task begins once life has ended
	tasks sync.WaitGroup
}

// NewTasks returns Tasks that have not ended.
func NewTasks() *Tasks {
	t := &Tasks{}
	t.life, t.end = context.WithCancelCause(context.Background())
	return t
}

// Life implements Link.
func (t *Tasks) Life() context.Context { return t.life }

// Spawn implements Link.
func (t *Tasks) Spawn(f func()) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.life.Err() != nil {
		return ErrClosed
	}
	t.tasks.Go(f)
	return nil
}

// End ends their life, and reports whether this was the first time.
func (t *Tasks) End() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := t.life.Err() == nil
	t.end(ErrClosed)
	return first
}

// Wait waits for all goroutines of Spawn.
func (t *Tasks) Wait() { t.tasks.Wait() }
