//go:build linux || darwin || freebsd

package command

import (
	"sync"
	"time"
)

// spare is a watchdog that is started while the lock is being taken, so that the command begins
// sooner where it is free. A command that has to wait for the lock waits without: sparePatience
// bounds its time. It is safe for concurrent use, and a nil one has none.
type spare struct {
	mu    sync.Mutex
	w     *watched // nil: there is none, or none any more
	timer *time.Timer
}

// A watchdog counts the first validity from when it has asked for it, which a spare one does at
// once. The validity is this much shorter at the most, and is asked for again soon.
const (
	sparePatience = 50 * time.Millisecond
	spareShare    = 10 // of the TTL
)

// newSpare starts one, for a lock with a TTL. If that fails, there is none: a command that needs a
// watchdog starts one, and is told. Its time begins when it has become this program, which on a
// busy machine is not soon. To end a start ends whatever was started meanwhile, also by others that
// this process had before it became fenlock.
func newSpare(environment []string, ttl time.Duration) *spare {
	s := &spare{}
	w, err := watch(startPatience, environment)
	if err != nil {
		return s
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.w = w
	s.timer = time.AfterFunc(min(sparePatience, ttl/spareShare), s.drop)
	return s
}

// take returns the watchdog, which is the caller's from now on, or nil.
func (s *spare) take() *watched {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.w
	if s.w = nil; w == nil {
		return nil
	}
	s.timer.Stop()
	select {
	case <-w.gone:
		w.link.Close()
		return nil
	default:
		return w
	}
}

// drop ends the watchdog, unless it was taken. It has no command, and so nothing to do first: one
// that was stopped, or has not begun, ends as well. It is waited for: it has the folder and the
// files of the user that started fenlock. That user may want to unmount them then.
func (s *spare) drop() {
	if w := s.take(); w != nil {
		w.process.Kill()
		w.close()
	}
}
