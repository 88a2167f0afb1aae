package cas

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
)

// memory is a store of keys in memory, and as unreliable as its faults say.
type memory struct {
	mu     sync.Mutex
	clock  func() time.Duration
	exact  bool
	born   uint64
	last   uint64 // the last version of all
	values map[string]Value
	puts   int // carried out
	looks  int

	listening map[*Hearing]chan struct{} // those that are to look at the records
	faults    faults
	late      []func() // writes that are on their way
}

// faults are how many of a hundred requests have one.
type faults struct {
	rand    *rand.Rand
	fails   int // nothing is done, and the store says so
	lost    int // a write is carried out, and its answer is lost
	delayed int // a write's answer is lost, and it is carried out later, after what comes in between, or never
	deaf    int // a change that no listener hears of
	repeats int // one that each hears twice
}

func newMemory(clock func() time.Duration, exact bool) *memory {
	m := &memory{clock: clock, exact: exact, listening: map[*Hearing]chan struct{}{}}
	m.wipe()
	return m
}

// wipe makes the store anew.
func (m *memory) wipe() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.born, m.last = m.born+1, rand.Uint64N(1<<40)<<10
	m.values = map[string]Value{}
}

// copied returns what puts the store back as it is now: as another one, with the same memory.
func (m *memory) copied() (restore func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	saved := map[string]Value{}
	for key, v := range m.values {
		saved[key] = v
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.born, m.last, m.values = m.born+1, m.last+1<<20, map[string]Value{}
		for key, v := range saved {
			m.values[key] = v
		}
	}
}

var errFault = errors.New("the store has failed on purpose")

// happens draws whether a fault does. The caller holds the mutex.
func (m *memory) happens(ofHundred int) bool {
	return m.faults.rand != nil && m.faults.rand.IntN(100) < ofHundred
}

// enter begins a request. What was on its way may arrive before it.
func (m *memory) enter(ctx context.Context) error {
	m.mu.Lock()
	for len(m.late) > 0 && m.happens(30) {
		i := m.faults.rand.IntN(len(m.late))
		write := m.late[i]
		m.late = append(m.late[:i:i], m.late[i+1:]...)
		write()
	}
	err := ctx.Err()
	if err == nil && m.happens(m.faults.fails) {
		err = errFault
	}
	if err != nil {
		m.mu.Unlock()
	}
	return err
}

func (m *memory) Look(ctx context.Context) (Now, error) {
	if err := m.enter(ctx); err != nil {
		return Now{}, err
	}
	defer m.mu.Unlock()
	m.looks++
	return Now{Clock: m.clock(), Server: "memory", Memory: strconv.FormatUint(m.born, 10), State: m.last}, nil
}

func (m *memory) Get(ctx context.Context, keys ...string) (values []Value, err error) {
	for _, key := range keys {
		if err := m.enter(ctx); err != nil {
			return nil, err
		}
		values = append(values, m.values[key])
		m.mu.Unlock()
	}
	return values, nil
}

func (m *memory) Put(ctx context.Context, key string, data []byte, over Value, at Now, mark uint64) (uint64, error) {
	if err := m.enter(ctx); err != nil {
		return 0, node.NotSent(err)
	}
	defer m.mu.Unlock()
	born := m.born
	write := func() (uint64, error) {
		is := m.values[key].Version == over.Version && (over.Version != 0 || m.exact || m.last == at.State)
		if m.exact {
			is = is && m.values[MarkKey].Version == mark && at.Memory == strconv.FormatUint(m.born, 10)
		}
		if !is || born != m.born && over.Version == 0 && !m.exact {
			return 0, ErrConflict
		}
		m.last++
		m.puts++
		m.values[key] = Value{append([]byte(nil), data...), m.last, m.clock()}
		m.changed()
		return m.last, nil
	}
	switch {
	case m.happens(m.faults.lost):
		write()
		return 0, errFault
	case m.happens(m.faults.delayed):
		m.late = append(m.late, func() { write() })
		return 0, errFault
	}
	return write()
}

func (m *memory) Stripes(ctx context.Context) (all []int, err error) {
	err = m.Scan(ctx, func(stripe int, _ Value) { all = append(all, stripe) })
	return all, err
}

func (m *memory) Scan(ctx context.Context, yield func(stripe int, v Value)) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	for key, v := range m.values {
		if stripe, is := ParseStripe(key); is {
			yield(stripe, v)
		}
	}
	return nil
}

// changed has those who listen look. The caller holds the mutex.
func (m *memory) changed() {
	if m.happens(m.faults.deaf) {
		return
	}
	for _, look := range m.listening {
		select {
		case look <- struct{}{}:
		default:
		}
	}
}

// teller is a memory whose clients hear of its changes.
type teller struct {
	Store
	memory *memory
}

func (t teller) Attend(ctx context.Context, h *Hearing) error {
	m := t.memory
	look := make(chan struct{}, 1)
	m.mu.Lock()
	m.listening[h] = look
	h.Begun(m.clock())
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.listening, h)
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look:
		}
		m.mu.Lock()
		notices := map[int][]byte{}
		for key, v := range m.values {
			if stripe, is := ParseStripe(key); is {
				r, err := ParseRecord(v.Data)
				if err != nil {
					panic(fmt.Sprint(key, err))
				}
				notices[stripe] = r.Notices
			}
		}
		again := m.happens(m.faults.repeats)
		now := m.clock()
		m.mu.Unlock()
		for stripe, n := range notices {
			h.Heard(stripe, n)
			if again {
				h.Heard(stripe, n)
			}
		}
		h.Looked(now)
	}
}

func (t teller) Reachable(_ context.Context, _ Loaded, client string) (bool, error) {
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	for h := range t.memory.listening {
		if h.Client() == client {
			return true, nil
		}
	}
	return false, nil
}
